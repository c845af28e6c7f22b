"""Cold evaluation: seconds of a strategy whose structure is new. `python benchmarks/lowering.py`

Everything `simulate` does, with the cache of lowered programs cleared before each of the rounds (medians of
the process's own seconds, so that other processes count little). *Lowering* is the part from the schedule to
the program: what the schedule takes for its order, and what `lower` takes for the tasks. The last column is
in units of an empty Python loop of a million rounds, so that machines of different speed compare.
Asynchronous schedules are lowered for as many steps as settle their period.

The second table is the growth: by which power of stages, microbatches and layers the seconds of lowering
rise (slope of the logarithms over the range).
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from evaluate import empty_loop

import explorer
from explorer.base import compiling
from explorer.simulation import one_job
from explorer.simulation.report import Report
from explorer.tasks.sequence import find_levels

WARM, ROUNDS = 3, 5


class Case(NamedTuple):
    """GPT-3 175B in a uniform pipeline."""

    schedule: str
    stages: int
    microbatches: int
    replicas: int = 1
    chunks: int = 1
    zero: int = 0
    layers: int = 0
    """Layers of the model; 0 is its own number."""

    def __str__(self) -> str:
        more = f" d={self.replicas} ZeRO-{self.zero}" if self.zero else ""
        chunks = f" v={self.chunks}" if self.chunks > 1 else ""
        return f"{self.schedule} p={self.stages} m={self.microbatches}{chunks}{more}"


CASES = (
    Case("1f1b", 8, 256),
    Case("1f1b", 8, 64),
    Case("1f1b", 64, 64),
    Case("zb_h1", 64, 512),
    Case("1f1b", 8, 64, replicas=4, zero=3),
    Case("interleaved_1f1b", 8, 64, chunks=4),
    Case("pipedream", 8, 256),
    Case("pipedream_2bw", 8, 256),
)

GROWTH = (
    ("microbatches", (32, 128, 512), [Case("1f1b", 8, m) for m in (32, 128, 512)]),
    ("stages", (4, 16, 64), [Case("1f1b", p, 64) for p in (4, 16, 64)]),
    ("layers", (24, 96, 384), [Case("1f1b", 8, 64, layers=n) for n in (24, 96, 384)]),
)


def evaluation(case: Case) -> Callable[[], Report]:
    """One cold evaluation of a case."""
    settings = {"layers": str(case.layers), "embed": "12288", "heads": "96"} if case.layers else {}
    graph = explorer.load_model("gpt" if settings else "gpt3-175b", settings=settings)
    cluster = explorer.load_cluster("dgx-a100-128")
    workload = explorer.default_workload(graph).with_job(global_batch=case.microbatches * case.replicas)
    named = {key: value for key, value in case._asdict().items() if key != "layers"}
    strategy = explorer.uniform(graph, cluster, workload.job, **named)

    def run() -> Report:
        one_job.clear_programs()
        return explorer.simulate(graph, cluster, workload, strategy)

    return run


class Spent(NamedTuple):
    """Milliseconds of one cold evaluation."""

    order: float
    lower: float
    whole: float


def cold(run: Callable[[], Report]) -> Spent:
    """Medians of what a case takes, once everything is compiled that will be."""
    compiling.expect(compiling.IMPORT_ROUNDS)
    while find_levels.rounds < compiling.KERNEL_ROUNDS:
        run()
    parts: dict[str, list[float]] = {"make_order": [], "lower": []}

    def timed(name: str) -> Callable[..., object]:
        function = getattr(one_job, name)

        def call(*arguments: object, **named: object) -> object:
            start = time.process_time()
            found = function(*arguments, **named)
            parts[name].append(1e3 * (time.process_time() - start))
            return found

        return call

    functions = {name: getattr(one_job, name) for name in parts}
    try:
        for name in parts:
            setattr(one_job, name, timed(name))
        whole = [cpu_milliseconds(run) for _ in range(WARM + ROUNDS)]
    finally:
        for name, function in functions.items():
            setattr(one_job, name, function)
    calls = len(parts["lower"]) // len(whole)
    order, lower = (
        statistics.median(sum(found[i * calls : (i + 1) * calls]) for i in range(WARM, len(whole)))
        for found in parts.values()
    )
    return Spent(order, lower, statistics.median(whole[WARM:]))


def cpu_milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of this process for one call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def row(case: Case) -> str:
    """A line of the table."""
    run = evaluation(case)
    program = run().timeline.program
    spent = cold(run)
    loop_ms = statistics.median(cpu_milliseconds(empty_loop) for _ in range(ROUNDS))
    each_ns = 1e6 * (spent.order + spent.lower) / program.size
    return (
        f"| {case} | {program.order.steps} | {program.size} | {spent.order:.1f} | {spent.lower:.1f} |"
        f" {spent.whole:.0f} | {each_ns:.0f} | {loop_ms:.1f} | {spent.whole / loop_ms:.2f} |"
    )


def slope(cases: Sequence[Case], sizes: Sequence[int]) -> float:
    """Power by which lowering grows with a size."""
    spent = [cold(evaluation(case)) for case in cases]
    seconds = [math.log(item.order + item.lower) for item in spent]
    return statistics.linear_regression([math.log(size) for size in sizes], seconds).slope


def main() -> None:
    """Print two tables."""
    print(
        "| case | steps | tasks | order, ms | lower, ms | cold, ms | lowering, ns a task | empty loop, ms"
        " | cold in loops |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for case in CASES:
        print(row(case), flush=True)
    print("\n| growth with | range | power |\n|---|---|---|")
    for name, sizes, cases in GROWTH:
        print(f"| {name} | {sizes[0]} to {sizes[-1]} | {slope(cases, sizes):.2f} |", flush=True)


if __name__ == "__main__":
    main()
