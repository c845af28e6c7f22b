"""CPU seconds of one evaluation: strategy in, Report with full timeline out. `python benchmarks/evaluate.py`

    first   the first of its case in this process: costs of layers, links and structure, all of them new
    cold    the structure forgotten: orders and tasks are made again, costs are known
    warm    the structure known; every round moves one block over the last boundary and back
    moved   the structure known; every round moves a block over a boundary for the first time

Beside it the same in units of an empty Python loop of a million rounds in the same run, so that machines
of different speed compare. Loops over tasks are compiled, as in any session that has done some work. Then
how the seconds grow: slopes of a straight line through the logarithms; 1 is proportional, 0 constant.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from evaluate_plot import draw

import explorer
from explorer.base.compiling import expect
from explorer.base.errors import InputError
from explorer.simulation.one_job import clear_programs
from explorer.strategies.moves import move_boundary
from explorer.strategy import Strategy

ROUNDS, COLD_ROUNDS = 21, 5
COMPILED_AFTER = 100
"""Evaluations after which every loop of the first case is compiled."""


class Case(NamedTuple):
    """A uniform strategy of a model on a cluster."""

    name: str
    model: str
    cluster: str
    microbatches: int
    choices: dict[str, Any]
    settings: dict[str, str]


def gpt(name: str, microbatches: int = 64, **choices: Any) -> Case:
    """Return GPT-3 175B on A100s."""
    return Case(name, "gpt3-175b", "dgx-a100-128", microbatches, choices, {})


def blocks(count: int) -> Case:
    """Return a model of the size of GPT-3 175B with another number of blocks."""
    settings = {"layers": str(count), "embed": "12288", "heads": "96"}
    return Case("", "gpt", "dgx-a100-128", 64, {"stages": 8, "tensor": 8}, settings)


def llama(name: str, replicas: int, **more: Any) -> Case:
    """Return Llama 3 405B on H100s, 128 devices for each replica."""
    choices = {"stages": 16, "tensor": 8, "replicas": replicas, **more}
    return Case(name, "llama3-405b", "hgx-h100-2048", 16, choices, {})


PUBLISHED = {"chunks": 4, "recompute": "selective", "zero": 1, "sequence_parallel": True}
"""Choices of the published configuration of Llama 3 405B beside its degrees."""
CASES = (
    gpt("175B p=8 t=8 m=64", stages=8, tensor=8),
    gpt("175B p=64 m=64", stages=64),
    gpt("175B p=64 t=8 d=2 m=64", stages=64, tensor=8, replicas=2),
    llama("405B p=16 t=8 d=128 m=16", 128),
    llama("the same as published: v=4, ZeRO-1, ...", 128, **PUBLISHED),
)
GROWTH: dict[str, list[tuple[int, Case]]] = {
    "stages (175B, m=64)": [(p, gpt("", stages=p)) for p in (4, 8, 16, 32, 64)],
    "microbatches (175B, p=8 t=8)": [
        (m, gpt("", microbatches=m, stages=8, tensor=8)) for m in (32, 64, 128, 256, 512)
    ],
    "blocks (p=8 t=8 m=64)": [(n, blocks(n)) for n in (24, 48, 96, 192, 384)],
    "devices (405B, p=16 t=8 m=16)": [(128 * d, llama("", d)) for d in (8, 16, 32, 64, 128)],
    "devices (the same as published)": [(128 * d, llama("", d, **PUBLISHED)) for d in (8, 32, 128)],
}
"""What grows, and the cases by its size."""


class Times(NamedTuple):
    """Milliseconds of CPU of one case."""

    tasks: int
    decided_by: str
    first: float
    cold: float
    warm: float
    least: float
    moved: float


def milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of one call on the clock."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def cpu_milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of CPU of one call."""
    start = time.process_time()
    work()
    return (time.process_time() - start) * 1e3


def empty_loop() -> None:
    """A million rounds of nothing: the yardstick."""
    for _ in range(1_000_000):
        pass


def evaluate(case: Case) -> Times:
    """Time one case."""
    graph, cluster = (
        explorer.load_model(case.model, settings=case.settings),
        explorer.load_cluster(case.cluster),
    )
    batch = case.microbatches * case.choices.get("replicas", 1)
    workload = explorer.default_workload(graph).with_job(global_batch=batch)
    strategy = explorer.uniform(graph, cluster, workload.job, microbatches=case.microbatches, **case.choices)

    def run(chosen: Strategy) -> Callable[[], explorer.Report]:
        return lambda: explorer.simulate(graph, cluster, workload, chosen)

    def moved(boundary: int, units: int) -> Strategy:
        return strategy.with_job(move_boundary(graph, strategy.job, boundary, boundary + 1, units))

    last = len(strategy.job.stages) - 2
    both = [strategy, moved(last, 1)]
    first = cpu_milliseconds(run(strategy))
    report = run(both[1])()
    warm = [cpu_milliseconds(run(both[i % 2])) for i in range(ROUNDS)]
    anew = []
    for boundary in range(min(last, ROUNDS)):
        try:
            anew.append(cpu_milliseconds(run(moved(boundary, 1))))
        except InputError:  # the only block of a stage
            continue
    tasks, name = report.timeline.program.size, report.pass_name
    del report  # a program lives as long as a report shows it
    cold = []
    for i in range(COLD_ROUNDS):
        clear_programs()
        cold.append(cpu_milliseconds(run(both[i % 2])))
    return Times(
        tasks, name, first, statistics.median(cold), statistics.median(warm), min(warm),
        statistics.median(anew) if anew else float("nan"),
    )  # fmt: skip


def slope(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of a straight line through the logarithms of both."""
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])


def import_seconds() -> float:
    """Median seconds of `import explorer` in fresh processes, the interpreter's own start subtracted."""

    def run(code: str) -> float:
        return milliseconds(lambda: subprocess.run([sys.executable, "-c", code], check=True)) / 1e3

    pairs = [(run("import explorer"), run("pass")) for _ in range(5)]
    return statistics.median(a - b for a, b in pairs)


def compile_loops() -> None:
    """Let every loop over tasks be compiled, as after some work."""
    expect(10**9)
    quick = gpt("", microbatches=256, stages=8, tensor=8)
    for case in (quick, llama("", 8)):
        for _ in range(COMPILED_AFTER // ROUNDS):
            evaluate(case)


def main() -> None:
    """Print the tables, and draw the second if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--plot", type=Path, help="file for the drawing of what grows")
    options = parser.parse_args()
    compile_loops()
    print("| CPU, ms | tasks | first | cold | warm (min) | moved | empty loop | warm in loops |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        found = evaluate(case)
        loop = statistics.median(cpu_milliseconds(empty_loop) for _ in range(ROUNDS))
        print(
            f"| {case.name} | {found.tasks:,} ({found.decided_by}) | {found.first:.0f} | {found.cold:.0f} |"
            f" {found.warm:.2f} ({found.least:.2f}) | {found.moved:.1f} | {loop:.1f} |"
            f" {found.warm / loop:.3f} |",
            flush=True,
        )
    print("\n| growth with | sizes | cold: slope, ms | warm: slope, ms |")
    print("|---|---|---|---|")
    curves: dict[str, list[tuple[int, Times]]] = {}
    for name, cases in GROWTH.items():
        curve = curves[name] = [(size, evaluate(case)) for size, case in cases]
        sizes = [size for size, _ in curve]
        parts = []
        for field in ("cold", "warm"):
            values = [getattr(times, field) for _, times in curve]
            shown = ", ".join(f"{value:.{0 if field == 'cold' else 2}f}" for value in values)
            parts.append(f"**{slope(sizes, values):.2f}**: {shown}")
        print(f"| {name} | {', '.join(f'{size:,}' for size in sizes)} | {' | '.join(parts)} |", flush=True)
    print(f"\nimport explorer: {import_seconds():.2f} s")
    if options.plot:
        lines = {name: [(size, t.cold, t.warm) for size, t in curve] for name, curve in curves.items()}
        draw(lines, options.plot)


if __name__ == "__main__":
    main()
