"""Seconds of one evaluation: strategy in, Report with full timeline out. `python benchmarks/evaluate.py`

Structure warm means: tasks of this shape are known; costs are priced anew, since every round moves one
block over a boundary and back. Printed beside it: the same evaluations in units of an empty Python loop
of a million rounds in the same run, so that machines of different speed compare.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import explorer
from explorer.strategies.moves import move_boundary

ROUNDS = 21


def milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def empty_loop() -> None:
    """A million rounds of nothing: the yardstick."""
    for _ in range(1_000_000):
        pass


def evaluate(stages: int, tensor: int, microbatches: int) -> dict[str, float]:
    """Cold and warm milliseconds of GPT-3 175B on `stages` x `tensor` devices."""
    graph = explorer.load_model("gpt3-175b")
    cluster = explorer.load_cluster("dgx-a100-128")
    workload = explorer.default_workload(graph).with_job(global_batch=microbatches)
    strategy = explorer.uniform(
        graph, cluster, workload.job, stages=stages, tensor=tensor, microbatches=microbatches
    )
    cold = milliseconds(lambda: explorer.simulate(graph, cluster, workload, strategy))
    moved = strategy.with_job(move_boundary(graph, strategy.job, stages - 2, stages - 1, 1))
    both = [strategy, moved]
    explorer.simulate(graph, cluster, workload, moved)
    warm, loops = [], []
    for i in range(ROUNDS):
        warm.append(milliseconds(lambda i=i: explorer.simulate(graph, cluster, workload, both[i % 2])))
        loops.append(milliseconds(empty_loop))
    report = explorer.simulate(graph, cluster, workload, strategy)
    loop = statistics.median(loops)
    return {
        "tasks": report.timeline.program.size,
        "cold_ms": cold,
        "warm_ms": statistics.median(warm),
        "warm_min_ms": min(warm),
        "empty_loop_ms": loop,
        "warm_in_loops": statistics.median(warm) / loop,
    }


def import_seconds() -> float:
    """Median seconds of `import explorer` in fresh processes, the interpreter's own start subtracted."""

    def run(code: str) -> float:
        return milliseconds(lambda: subprocess.run([sys.executable, "-c", code], check=True)) / 1e3

    pairs = [(run("import explorer"), run("pass")) for _ in range(5)]
    return statistics.median(a - b for a, b in pairs)


def main() -> None:
    """Print a table."""
    print("| GPT-3 175B | tasks | cold, ms | warm, ms (min) | empty loop, ms | warm in loops |")
    print("|---|---|---|---|---|---|")
    for stages, tensor, microbatches in ((8, 8, 64), (64, 1, 64)):
        row = evaluate(stages, tensor, microbatches)
        print(
            f"| p={stages} t={tensor} m={microbatches} | {row['tasks']:.0f} | {row['cold_ms']:.0f} |"
            f" {row['warm_ms']:.2f} ({row['warm_min_ms']:.2f}) | {row['empty_loop_ms']:.1f} |"
            f" {row['warm_in_loops']:.3f} |"
        )
    print(f"\nimport explorer: {import_seconds():.2f} s")


if __name__ == "__main__":
    main()
