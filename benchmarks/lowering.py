"""Cold evaluation: seconds of a strategy whose structure is new. `python benchmarks/lowering.py`

Everything `simulate` does, with the cache of lowered programs cleared before each of three rounds (median).
The last column is in units of an empty Python loop of a million rounds, so that machines of different
speed compare. Asynchronous schedules are lowered for as many steps as settle their period.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import NamedTuple

from evaluate import empty_loop, milliseconds

import explorer
from explorer.simulation import one_job
from explorer.simulation.report import Report

ROUNDS = 3


class Case(NamedTuple):
    """GPT-3 175B in a uniform pipeline."""

    schedule: str
    stages: int
    microbatches: int
    replicas: int = 1
    chunks: int = 1
    zero: int = 0

    def __str__(self) -> str:
        more = f" d={self.replicas} ZeRO-{self.zero}" if self.zero else ""
        chunks = f" v={self.chunks}" if self.chunks > 1 else ""
        return f"{self.schedule} p={self.stages} m={self.microbatches}{chunks}{more}"


CASES = (
    Case("1f1b", 8, 256),
    Case("1f1b", 64, 64),
    Case("1f1b", 8, 64, replicas=4, zero=3),
    Case("interleaved_1f1b", 8, 64, chunks=4),
    Case("pipedream", 8, 256),
    Case("pipedream_2bw", 8, 256),
)


def evaluation(case: Case) -> Callable[[], Report]:
    """One cold evaluation of a case."""
    graph = explorer.load_model("gpt3-175b")
    cluster = explorer.load_cluster("dgx-a100-128")
    workload = explorer.default_workload(graph).with_job(global_batch=case.microbatches * case.replicas)
    strategy = explorer.uniform(graph, cluster, workload.job, **case._asdict())

    def run() -> Report:
        one_job.clear_programs()
        return explorer.simulate(graph, cluster, workload, strategy)

    return run


def row(case: Case) -> str:
    """A line of the table."""
    run = evaluation(case)
    program = run().timeline.program
    cold_ms = statistics.median(milliseconds(run) for _ in range(ROUNDS))
    loop_ms = statistics.median(milliseconds(empty_loop) for _ in range(ROUNDS))
    each_us = 1e3 * cold_ms / program.size
    return (
        f"| {case} | {program.order.steps} | {program.size} | {cold_ms:.0f} | {each_us:.1f} |"
        f" {loop_ms:.1f} | {cold_ms / loop_ms:.2f} |"
    )


def main() -> None:
    """Print a table."""
    print("| case | steps | tasks | cold, ms | us per task | empty loop, ms | cold in loops |")
    print("|---|---|---|---|---|---|---|")
    for case in CASES:
        print(row(case), flush=True)


if __name__ == "__main__":
    main()
