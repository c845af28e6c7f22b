"""How true predictions of short real runs are: their order given their parts, and their parts by a profile.

python benchmarks/two_questions.py [--profile FILE] [--rounds 3] [--runs N]

Plans of GPT-2 and ResNet-50 on 2 ranks, as likenesses. (a) is the error of the step, given times of its
parts from the same run; (b) that of the seconds of compute by a profile of this machine, made first unless a
file is given; memory is the largest error of a rank's peak tensor bytes. The share of a core that ranks got,
and the load, stand beside. Ends with 1 if a run computes wrong numbers.
"""

from __future__ import annotations

import argparse
import os
import sys
from statistics import median
from typing import Any

from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Resolved, make_plan, resolve
from explorer.profiling import profile_machine
from explorer.run import validate
from explorer.run.cases.likeness import UnitSize
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

RUNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("gpt2-small", {"stages": 2, "microbatches": 8}),
    ("gpt2-small", {"replicas": 2, "microbatches": 4}),
    ("gpt2-small", {"stages": 2, "microbatches": 8, "schedule": "gpipe"}),
    ("resnet50", {"stages": 2, "microbatches": 8}),
    ("gpt2-small", {"stages": 2, "microbatches": 8, "schedule": "zb_h1"}),
    ("gpt2-small", {"stages": 2, "microbatches": 8, "schedule": "pipedream_2bw"}),
)


def plan(model: str, shape: dict[str, Any]) -> Resolved:
    """A plan of a zoo model on two devices."""
    graph, cluster = load_model(model), load_cluster("dgx-a100")
    workload = default_workload(graph).with_job(global_batch=64)
    strategy = uniform(graph, cluster, workload.job, **shape)
    return resolve(make_plan(model, graph, "dgx-a100", cluster, workload, strategy))


def main(arguments: list[str]) -> int:
    """Print a table of the runs."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--profile")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=len(RUNS))
    options = parser.parse_args(arguments)
    profile: Cluster = (
        load_cluster(options.profile) if options.profile else profile_machine("here", devices="cpu", ranks=2)
    )
    print("| plan | (a) step | (b) compute | memory | cores got | load | verdicts |")
    print("|---|---|---|---|---|---|---|")
    first, second, bytes_off, wrong = [], [], [], False
    for model, shape in RUNS[: options.runs]:
        found = validate(
            plan(model, shape), steps=options.rounds, ranks=2, size=UnitSize(step_s=1.0), profile=profile
        )
        costs = found.costs
        if costs is None:
            print(found.costs_missing, file=sys.stderr)
            return 1
        memory = max((100 * (m.predicted_bytes / m.measured_bytes - 1) for m in found.memory), key=abs)
        first.append(abs(found.error_pct))
        second.append(abs(costs.error_pct))
        bytes_off.append(abs(memory))
        wrong = wrong or not found.numerics_ok
        name = f"{model} {', '.join(f'{key} {value}' for key, value in shape.items())}"
        print(
            f"| {name} | {found.error_pct:+.1f} % | {costs.error_pct:+.1f} % | {memory:+.1f} % |"
            f" {found.contention:.2f} | {os.getloadavg()[0]:.1f} | {found.verdict}, {costs.verdict} |",
            flush=True,
        )
    print(
        f"\nMedian (a) {median(first):.1f} %, worst {max(first):.1f} %; (b) {median(second):.1f} %, worst"
        f" {max(second):.1f} %; memory {median(bytes_off):.1f} %, worst {max(bytes_off):.1f} %."
    )
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
