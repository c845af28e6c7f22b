"""Our engine and torch's, seconds a step and greatest difference of gradients, on every order that both run.

python benchmarks/engines.py [ranks ...] [--named] [--rounds 5]

A small transformer in fp32 on gloo, one launch for each number of ranks. In every round each order runs on
our interpreter and then on `torch.distributed.pipelining`, from the same weights on the same microbatches;
the table has the median over the rounds of the slowest rank's seconds, and the greatest relative difference
of a gradient from one process. Ends with 1 if a gradient differs by more than 1e-5.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from statistics import median

import torch

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.run.cases.build import Prepared, prepare, unsupported_by_torch
from explorer.run.judging.compare import GRADIENT_TOLERANCE, numerics_of
from explorer.run.launching.launch import RunResult, run
from explorer.run.model import model_graph, transformer
from explorer.run.spec import RunCase, RunSpec
from explorer.schedules import SCHEDULES, Schedule
from explorer.schedules.placements import ANY
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.workload import Job

MODEL = transformer(14, d_model=64, heads=4, ffn=256, seq=32, vocab=64, dtype="fp32")
STEPS, SAMPLES = 3, 1


def prepared(schedule: Schedule, ranks: int) -> Prepared:
    """Deal the model out in the schedule's own placement: two chunks a rank where it knows chunks."""
    placement = schedule.placement
    several = placement.several and not placement.whole and placement is not ANY
    grid = placement.grid(ranks, max(2, placement.chunks) if several else None)
    count, microbatches = placement.stages(grid), 2 * ranks
    graph = model_graph(MODEL)
    names = [layer.name for layer in graph.layers]
    cuts = [round(i * len(names) / count) for i in range(count + 1)]
    stages = tuple(
        Stage(
            layers=tuple(names[cuts[i] : cuts[i + 1]]),
            meshes=tuple(Mesh(devices=(placement.position(i, copy, grid),)) for copy in range(grid.copies)),
            microbatch_samples=SAMPLES,
        )
        for i in range(count)
    )
    job = Job(global_batch=SAMPLES * microbatches, precision="fp32", optimizer="sgd")
    return prepare(
        schedule.name, graph, load_cluster("dgx-a100"), job,
        JobStrategy(stages=stages, schedule=schedule.name), steps=STEPS, model=MODEL,
    )  # fmt: skip


def shared_orders(ranks: int, *, named: bool) -> Iterator[Prepared]:
    """Yield the cases of all schedules that torch's runtime can run as well, or of those that it names."""
    for schedule in sorted(SCHEDULES, key=lambda item: (not item.torch_name, item.name)):
        if schedule.literal or schedule.dispatch or not schedule.flush or schedule.placement.whole:
            continue
        if named and not schedule.torch_name:
            continue
        try:
            item = prepared(schedule, ranks)
        except InputError:  # no rank computes its numbers, such as sweeps
            continue
        if not unsupported_by_torch(item.case):
            yield item


def own_seconds(result: RunResult, name: str) -> list[float]:
    """Return the seconds of all steps on our engine, by round: to the last end of any rank."""
    rows = [rank["cases"][name] for rank in result.ranks]
    return [max(stamp[3] for rank in rows for stamp in rank[n]["stamps"]) for n in range(len(rows[0]))]


def torch_seconds(result: RunResult, name: str) -> list[float]:
    """Return the same on torch's engine."""
    rows = [rank["cases"][name] for rank in result.ranks]
    return [max(rank[n]["seconds"] for rank in rows) for n in range(len(rows[0]))]


def cases_of(item: Prepared) -> list[RunCase]:
    """Return the cases of one order: timed on both engines, and checked once on both."""
    name = item.case.name
    timed = [item.case, replace(item.case, name=f"{name} on torch", engine="torch")]
    checked = [replace(case, name=f"{case.name}, checked", check=True, once=True) for case in timed]
    return [*timed, *checked]


def row_of(item: Prepared, result: RunResult, ranks: int) -> tuple[str, float]:
    """Return a row of the table and its greatest difference."""
    name = item.case.name
    other_name = f"{name} on torch"
    own = median(own_seconds(result, name)) / STEPS
    other = median(torch_seconds(result, other_name)) / STEPS
    errors = [
        numerics_of([rank["cases"][f"{case}, checked"] for rank in result.ranks])["gradient"]
        for case in (name, other_name)
    ]
    named = SCHEDULES.get(name).torch_name
    text = (
        f"| {name} | {f'Schedule{named}' if named else 'by CSV'} | {ranks} | {1e3 * own:.1f} |"
        f" {1e3 * other:.1f} | {other / own:.2f} | {errors[0]:.0e} | {errors[1]:.0e} |"
    )
    return text, max(errors)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("ranks", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--named", action="store_true", help="only schedules that torch has a name for")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print(
        "| schedule | torch's name | ranks | ours, ms a step | torch's, ms | torch's / ours |"
        " gradients, ours | torch's |\n|---|---|---|---|---|---|---|---|"
    )
    worst = 0.0
    for ranks in options.ranks:
        items = list(shared_orders(ranks, named=options.named))
        cases = tuple(case for item in items for case in cases_of(item))
        result = run(RunSpec(ranks=ranks, cases=cases, rounds=options.rounds, warmup_rounds=1))
        for item in items:
            text, found = row_of(item, result, ranks)
            print(text)
            worst = max(worst, found)
    print(f"\nOne thread a rank on {os.cpu_count()} cores, torch {torch.__version__}, gloo.")
    return int(worst > GRADIENT_TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
