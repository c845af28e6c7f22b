"""Dry-time runs: how far the makespan of real ranks is from the simulated one.

python benchmarks/dry_run.py [--ranks 4 8 16] [--microbatches 8 64 512] [--forward 0.04] [--schedules ...]

Every rank sleeps in place of computing, a forward so many seconds and a backward twice that on each device
(chunks share them); messages are real. One launch for each number of ranks, one step, the shorter of
`--rounds` runs. A task's own overhead is what it takes longer than asked, on average. Ends with 1 if a
makespan is off by more than 3 %. Where ranks get no real-time priority, a busy machine makes them late.

An action costs half a millisecond to a whole one beyond its sleep, whatever that lasts, for messages and for
ranks that share cores: with 16 ranks on two cores and 512 microbatches (2026-11-22) 1f1b was .92 % late,
chimera 1.44, zb_h1 1.57 and interleaved_1f1b, whose chunks last half as long, 3.04 %.
"""

from __future__ import annotations

import argparse
import os
import sys

from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import chain
from explorer.run.cases.build import Prepared, prepare
from explorer.run.judging.compare import DRY_TOLERANCE_PCT, measure
from explorer.run.launching.launch import RunResult, run
from explorer.run.spec import RunSpec
from explorer.schedules import SCHEDULES
from explorer.strategy import JobStrategy, Mesh, Stage
from explorer.workload import Job

ASKED = ("1f1b", "interleaved_1f1b", "zb_h1", "chimera")


def prepared(schedule: str, ranks: int, microbatches: int, seconds: float) -> Prepared:
    """One schedule in its own placement, two chunks a rank where it knows chunks."""
    placement = SCHEDULES.get(schedule).placement
    several = placement.several and not placement.whole and schedule.startswith("interleaved")
    grid = placement.grid(ranks, max(2, placement.chunks) if several else None)
    count = placement.stages(grid)
    each = seconds * ranks / count
    graph = chain([each] * count, backward_s=2 * each, activation_bytes=3e9 * seconds, parameter_bytes=1.0)
    stages = tuple(
        Stage(
            layers=(layer.name,),
            meshes=tuple(Mesh(devices=(placement.position(i, copy, grid),)) for copy in range(grid.copies)),
        )
        for i, layer in enumerate(graph.layers)
    )
    job = Job(global_batch=microbatches, precision="fp32", optimizer="none")
    strategy = JobStrategy(stages=stages, schedule=schedule)
    cluster = load_cluster("dgx-a100-4" if ranks <= 4 else "hgx-h100-2048")
    return prepare(f"{schedule}-{microbatches}", graph, cluster, job, strategy, steps=1)


def overhead_pct(item: Prepared, result: RunResult) -> float:
    """Return by how many per cent tasks took longer than asked, on average over the last round."""
    asked = taken = 0.0
    for rank in result.ranks:
        for task, _, start, end, _ in rank["cases"][item.case.name][-1]["stamps"]:
            asked += item.case.seconds[int(item.program.slot[int(task)])]
            taken += end - start
    return 100 * (taken / asked - 1)


def table(ranks: int, options: argparse.Namespace) -> float:
    """Run all cases on so many ranks; print their rows; return the largest error in per cent."""
    cases, worst = [], 0.0
    for microbatches in options.microbatches:
        for name in options.schedules:
            try:
                cases.append(prepared(name, ranks, microbatches, options.forward))
            except ExplorerError as error:
                print(f"| {name} | {ranks} | {microbatches} | refused: {str(error).splitlines()[0]} | | | |")
    spec = RunSpec(ranks=ranks, cases=tuple(item.case for item in cases), rounds=options.rounds)
    result = run(spec)
    urgent = all(rank["urgent"] for rank in result.ranks)
    for item in cases:
        name, microbatches = item.case.name.rsplit("-", 1)
        seen = measure(item, [rank["cases"][item.case.name] for rank in result.ranks])
        simulated = float(item.timing.end_s.max())
        error = 100 * (seen.makespan_s / simulated - 1)
        worst = max(worst, abs(error))
        late = f"{overhead_pct(item, result):.2f} %{'' if urgent else ', no priority'}"
        row = (
            name,
            ranks,
            microbatches,
            f"{simulated:.3f}",
            f"{seen.makespan_s:.3f}",
            f"{error:+.2f} %",
            late,
        )
        print(f"| {' | '.join(map(str, row))} |", flush=True)
    return worst


def main() -> int:
    """Print one table over all numbers of ranks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--microbatches", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--forward", type=float, default=0.04)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--schedules", nargs="+", default=list(ASKED))
    options = parser.parse_args()
    print("| schedule | ranks | microbatches | simulated, s | measured, s | error | a task's overhead |")
    print("|---|---|---|---|---|---|---|")
    worst = max(table(ranks, options) for ranks in options.ranks)
    print(f"\nLoad at the end {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")
    return 1 if worst > DRY_TOLERANCE_PCT else 0


if __name__ == "__main__":
    sys.exit(main())
