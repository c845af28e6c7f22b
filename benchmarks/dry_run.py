"""Dry-time runs of every schedule of a chain: how far the makespan of real ranks is from the simulated one.

python benchmarks/dry_run.py [ranks] [seconds of a forward]
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace

from explorer.models.synthetic import chain
from explorer.profiles import load_cluster
from explorer.run.build import prepare
from explorer.run.compare import measure
from explorer.run.launch import run
from explorer.run.spec import RunSpec
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.workload import Job

SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "pipedream", "pipedream_2bw")
MICROBATCHES = 8


def prepared(schedule: str, ranks: int, seconds: float):
    chunks = 2 if schedule.startswith("interleaved") else 1
    count = ranks * chunks
    graph = chain([seconds] * count, backward_s=2 * seconds, activation_bytes=3e10 * seconds)
    stages = tuple(
        Stage(layers=(layer.name,), meshes=(Mesh(devices=(i % ranks,)),))
        for i, layer in enumerate(graph.layers)
    )
    job = Job(global_batch=max(MICROBATCHES, ranks), precision="fp32", optimizer="none")
    strategy = JobStrategy(stages=stages, schedule=schedule)
    cluster = replace(load_cluster("dgx-a100-4"), name="dry")
    return prepare(schedule, graph, cluster, job, strategy, steps=2)


def main() -> None:
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.03
    cases = [prepared(name, ranks, seconds) for name in SCHEDULES]
    result = run(RunSpec(ranks=ranks, cases=tuple(item.case for item in cases), rounds=3, group_timeout_s=60))
    table = {}
    for item in cases:
        seen = measure(item, [rank["cases"][item.case.name] for rank in result.ranks])
        simulated = float(item.timing.end_s.max())
        table[item.case.name] = {
            "simulated_s": simulated,
            "measured_s": seen.makespan_s,
            "error_pct": 100 * (seen.makespan_s / simulated - 1),
        }
    urgent = all(rank["urgent"] for rank in result.ranks)
    print(json.dumps({"ranks": ranks, "urgent": urgent, "schedules": table}, indent=1))


if __name__ == "__main__":
    main()
