"""How far predictions are from real runs: what others published, and short runs made here, in one table.

python benchmarks/accuracy.py [--history FILE] [--processes N]

Published sets are scored as `explorer score --leave-one-source-out` does it: numbers that were fitted on a
set's source are back at what was believed before, or fitted on rows of other sources. The last columns have
the mean error with the profiles as bundled, and what the numbers behind the others still follow. The runs
here are validations on two ranks over gloo, made again once where the machine was too busy for a verdict.
They are added to the history file, where one is named, and all of its runs are scored.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import explorer
from explorer.base.errors import InputError, RunError
from explorer.calibrate.conformal import split_coverage
from explorer.calibrate.history import TOO_NOISY
from explorer.calibrate.records import add, run_record
from explorer.plan import Reference, Resolved, make_plan
from explorer.run import validate
from explorer.run.cases.likeness import UnitSize
from explorer.run.judging.compare import CONFIRMED, OFF
from explorer.score.heldout import held_out
from explorer.score.reading import reference_folder
from explorer.score.rows import SETS, published
from explorer.score.running import Scored, paths_of, score
from explorer.score.runs import score_runs
from explorer.score.tables import HEADS, cells

CLUSTER = "cpu-2"
RANKS, MICROBATCHES, SAMPLES, SEQUENCE, ROUNDS = 2, 4, 2, 64, 5
JUDGED = (CONFIRMED, OFF, TOO_NOISY)
"""Verdicts that are in the table, one way or the other."""
RETRIES_UNTIL_S = 120.0
"""No run is made again after so many seconds: the machine stays busy."""


class Plan(NamedTuple):
    """What is run."""

    schedule: str
    stages: int
    replicas: int
    width: int
    layers: int
    step_s: float
    """Wanted seconds of a step in one process."""


SIZES = ((128, 4, 0.1), (256, 8, 0.3))
PLANS = tuple(
    Plan(schedule, stages, RANKS // stages, *size)
    for size in SIZES
    for schedule, stages in (("gpipe", 2), ("1f1b", 2), ("gpipe", 1))
)


def resolved_of(plan: Plan) -> Resolved:
    """A GPT of the plan's size on two processes of this machine."""
    settings = {
        "layers": str(plan.layers), "embed": str(plan.width), "heads": "4", "vocab": "512",
        "positions": str(SEQUENCE),
    }  # fmt: skip
    graph = explorer.load_model("gpt", settings=settings, sequence_length=SEQUENCE)
    cluster = explorer.load_cluster(CLUSTER)
    workload = explorer.default_workload(graph).with_job(
        global_batch=SAMPLES * MICROBATCHES, precision="fp32", optimizer="adam"
    )
    strategy = explorer.uniform(
        graph, cluster, workload.job, stages=plan.stages, replicas=plan.replicas, schedule=plan.schedule,
        microbatches=MICROBATCHES,
    )  # fmt: skip
    reference = Reference(reference="gpt", settings=tuple(settings.items()))
    made = make_plan(reference, graph, CLUSTER, cluster, workload, strategy)
    return Resolved(plan=made, graphs={"model": graph}, cluster=cluster)


def make_runs(history: Path) -> list[str]:
    """Run every plan and add it to the history; what went wrong, in words."""
    start, failed = time.monotonic(), []
    for plan in PLANS:
        try:
            verdict = run_once(plan, history)
            if verdict == TOO_NOISY and time.monotonic() - start < RETRIES_UNTIL_S:
                verdict = run_once(plan, history)
        except RunError as error:
            verdict = " ".join(str(error).split())[:200]
        if verdict not in JUDGED:
            failed.append(f"{plan.schedule} of width {plan.width}: {verdict}")
    return failed


def run_once(plan: Plan, history: Path) -> str:
    """The verdict of one run, which is added to the history where it has figures.

    Raises:
        RunError: the run broke off.
    """
    resolved = resolved_of(plan)
    seen = validate(resolved, steps=ROUNDS, size=UnitSize(d_model=plan.width, step_s=plan.step_s))
    entry = run_record(asdict(seen), resolved, date=f"{datetime.now(UTC):%Y-%m-%d}", noisy=True)
    if entry is not None:
        add(history, entry)
    return seen.verdict


def line_of(scored: Scored, bundled: Scored | None = None, fitted_on: Sequence[str] = ()) -> tuple[str, ...]:
    """One set in the table; `bundled` is what the profiles make of it as they are."""
    found = cells(scored)
    if bundled is None:
        return ("runs on this machine", *beside(found, "")[1:], "")
    known = bundled.statistics
    mean = f"{known.mean_abs_error_pct:.2f} %" if known else ""
    return SETS.get(found[0]).title, *beside(found, mean)[1:], ", ".join(fitted_on) or "nothing"


def beside(line: Sequence[str], cell: str) -> tuple[str, ...]:
    """A line of the table with one more cell behind its mean error."""
    at = HEADS.index("mean error") + 1
    return (*line[:at], cell, *line[at:])


def together(scores: Sequence[Scored]) -> str:
    """How bands cover rows of all published sets: each set its own, small ones that of all."""
    rows = [(scored.name, row) for scored in scores for row in scored.outcomes]
    if not rows:
        return ""
    found = split_coverage(
        [math.log(row.measured) - math.log(row.predicted) for _, row in rows],
        [name for name, _ in rows],
        [(name, row.group) for name, row in rows],
    )
    return (
        f"All {len(rows)} published rows together, sets of too few rows with the band of all: 80 % bands"
        f" cover {found.covered:.0%} of held-out rows."
    )


def said_of(runs: Scored, failed: Sequence[str]) -> str:
    """How the runs here went."""
    noisy = runs.too_noisy or ()
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    text = (
        f"Runs on this machine ({os.cpu_count()} cores of {platform.machine()}{load}): {RANKS} ranks over"
        f" gloo, GPipe, 1F1B and data parallel of {len(SIZES)} sizes, predicted from what the same run timed"
        f" of its machine; {len(runs.outcomes)} with a verdict"
    )
    if noisy:
        mean = sum(abs(row.predicted / row.measured - 1) for row in noisy) / len(noisy)
        text += f", {len(noisy)} too noisy (less than 80 % of a core a rank; off by {mean:.0%} in the mean)"
    return f"{text}.{''.join(f' Failed: {words}.' for words in failed)}"


def published_paths() -> dict[str, Path]:
    """The place of the rows of every published set.

    Raises:
        InputError: there is no folder of measurements.
    """
    return paths_of(published(), {})


def main() -> None:
    """Print the table and what belongs to it."""
    parser = argparse.ArgumentParser(description="predictions beside real runs, as a Markdown table")
    parser.add_argument("--history", metavar="FILE", help="add the runs here, and score all of its runs")
    parser.add_argument("--processes", type=int, help="at most so many for the published sets")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        history = Path(options.history) if options.history else Path(folder) / "runs.jsonl"
        failed = make_runs(history)
        runs = score_runs(history)
    notes = [said_of(runs, failed)]
    lines: list[tuple[str, ...]] = []
    try:
        paths = published_paths()
    except InputError:  # its words name a folder of this machine, which is nobody else's
        notes.append("Published sets are left out: their measurements are not on this machine.")
    else:
        count = options.processes or os.cpu_count() or 1
        apart = held_out(paths, reference_folder(), processes=count)
        scores = score(paths, processes=count, values={name: item.values for name, item in apart.items()})
        bundled = score(paths, processes=count)
        lines = [
            line_of(scored, other, apart[scored.name].fitted_on)
            for scored, other in zip(scores, bundled, strict=True)
        ]
        notes.insert(0, together(scores))
    heads = (*beside(HEADS, "mean error, profiles as bundled"), "numbers fitted on")
    rule = ("---", *["---:"] * (len(heads) - 2), "---")
    print("\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines, line_of(runs))))
    for note in notes:
        print(f"\n{note}")


if __name__ == "__main__":
    main()
