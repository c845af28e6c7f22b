"""Dry-time runs of every schedule of a chain: how far the makespan of real ranks is from the simulated one.

python benchmarks/dry_run.py [ranks] [seconds of a forward]
"""

from __future__ import annotations

import sys
from dataclasses import replace

from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import chain
from explorer.run.build import Prepared, prepare
from explorer.run.compare import measure
from explorer.run.launch import run
from explorer.run.spec import RunSpec
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.workload import Job

SCHEDULES = ("gpipe", "1f1b", "interleaved_1f1b", "pipedream", "pipedream_2bw")
MICROBATCHES = 8


def prepared(schedule: str, ranks: int, seconds: float) -> Prepared:
    """One schedule on equal stages, each forward `seconds` long."""
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
    """Run all schedules in one launch; print a table."""
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.03
    cases = [prepared(name, ranks, seconds) for name in SCHEDULES]
    result = run(RunSpec(ranks=ranks, cases=tuple(item.case for item in cases), rounds=3, group_timeout_s=60))
    print(f"| schedule, {ranks} ranks | simulated, s | measured, s | error |\n|---|---|---|---|")
    for item in cases:
        seen = measure(item, [rank["cases"][item.case.name] for rank in result.ranks])
        simulated = float(item.timing.end_s.max())
        error = seen.makespan_s / simulated - 1
        print(f"| {item.case.name} | {simulated:.3f} | {seen.makespan_s:.3f} | {error:+.2%} |")
    if not all(rank["urgent"] for rank in result.ranks):
        print("\nRanks had no real-time priority here: expect some noise.")


if __name__ == "__main__":
    main()
