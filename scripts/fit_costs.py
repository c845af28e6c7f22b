"""Make all fitted numbers of the bundled profiles again, from the shared measurements and the priors.

    python scripts/fit_costs.py [kernels] [training] [errors] [spreads] [--dry]

Four stages, in this order; all without any:

kernels   numbers of the hardware on an idle device, from single operations: products, attention, collectives
training  the few numbers of hardware under load and of software, from training steps of all sources together
          (`explorer.score.fit_rows`): from their priors, n rows of a source weighing as the square root of n
errors    what is left if a source is left out: `sample_profiles/errors/between_sources.yaml`
spreads   how far apart numbers that a step can tell lie between sources, beside what `explorer calibrate`
          assumes (`explorer.score.spreads`); only printed and logged

Numbers are written into the profiles, and what was done into `docs/fit.md`; errors of kernels stand in
`docs/kernels.md` too.
"""

from __future__ import annotations

import argparse
import csv
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import fit_attention
import fit_collectives
import fit_products
import judge_measured
import judge_sheets
import numpy as np
from fit_blocks import Block, with_table, write_profiles
from fit_training import Say, training

from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.score.between import (
    HARDWARE_FACTORS,
    SOFTWARE_FACTORS,
    coverage_by_source,
    learn,
    left_out_rows,
)
from explorer.score.between_file import errors_text
from explorer.score.calibrated import slopes_of_sets
from explorer.score.heldout import held_out
from explorer.score.kernel_devices import known_kinds
from explorer.score.kernels import kernel_paths
from explorer.score.reading import reference_folder, use_reference
from explorer.score.rows import SETS, published
from explorer.score.running import PredictedRow, paths_of, score
from explorer.score.spreads import ASSUMED, learn_spreads
from explorer.score.tables import markdown

ROOT = Path(__file__).parents[1]
LOG = ROOT / "docs" / "fit.md"
PAGE = ROOT / "docs" / "kernels.md"
ERRORS = ROOT / "sample_profiles" / "errors" / "between_sources.yaml"
KERNELS = (fit_products, judge_measured, judge_sheets, fit_attention, fit_collectives)
"""Parts of the fit of kernels."""


def kernels(say: Say, processes: int, *, dry: bool) -> None:
    """Fit single operations, part by part, and write numbers and tables of errors."""
    blocks: list[Block] = []
    say("Errors (median, mean) are those of docs/kernels.md; numbers are those of bundled profiles.\n")
    with ProcessPoolExecutor(processes) as executor:
        for part in KERNELS:
            found = part.made(kernel_paths([part.SET], {}), executor)
            say(f"### {found.name}\n\n{found.table}")
            blocks += found.blocks
            if not dry:
                text = with_table(PAGE.read_text(encoding="utf-8"), found)
                PAGE.write_text(text, encoding="utf-8")
                write_profiles(found.blocks)
                known_kinds.cache_clear()  # later parts see what earlier ones wrote
    say("### numbers\n")
    for block in blocks:
        say(f"{block.said()}\n")


def errors(say: Say, processes: int, *, dry: bool, each: Path | None = None) -> None:
    """Leave every source out, and write what is left."""
    names = [name for name in published() if SETS.get(name).unit != "ratio"]
    places = paths_of(names, {})
    found = predictions_in(each) if each else _left_out(places, say, processes)
    rows = []
    for name, outcomes in found.items():
        if name in places:
            entry = SETS.get(name)
            read = entry.read(places[name]).rows
            rows += left_out_rows(read, outcomes, entry.source, speed=entry.unit.endswith("per_s"))
    known = learn(rows, kernel_kinds())
    say(f"Factors of distance: {HARDWARE_FACTORS}, {SOFTWARE_FACTORS}.\n")
    say("| figure | log error | share of a source's rows inside the band of the others |\n|---|---:|---|")
    for figure, limit in known.log_errors:
        inside = coverage_by_source(rows, known, figure)
        shares = ", ".join(f"{source} {share:.0%}" for source, share in inside.items())
        say(f"| {figure} | {limit:.4f} | {shares}; mean {np.mean(list(inside.values())):.0%} |")
    if not dry:
        ERRORS.write_text(errors_text(known), encoding="utf-8")


def spreads(say: Say, processes: int, *, dry: bool) -> None:  # noqa: ARG001 - it writes no profile
    """Learn how far machines, models and rows are apart, from all sources and without each in turn."""
    places = paths_of([name for name in published() if SETS.get(name).unit != "ratio"], {})
    without = held_out(places, reference_folder(), processes=processes)
    values = {name: item.values for name, item in without.items()}
    rows = slopes_of_sets(places, processes=processes, values=values)
    sets = {name: (SETS.get(name).source, found) for name, found in rows.items()}
    say("Deviations of logarithms; numbers of steps are those of `explorer calibrate`.\n")
    say(f"| without | {' | '.join(ASSUMED)} |\n|---|{'---:|' * len(ASSUMED)}")
    for source in ("", *sorted({source for source, found in sets.values() if found})):
        learned = learn_spreads(sets, without=source)
        say(f"| {source or 'none'} | {' | '.join(f'{sd:.3f}' for sd in learned.values())} |")


def _left_out(places: Mapping[str, Path], say: Say, processes: int) -> dict[str, Sequence[PredictedRow]]:
    without = held_out(places, reference_folder(), processes=processes)
    scores = score(places, processes=processes, values={name: item.values for name, item in without.items()})
    say(f"\nLeave one source out:\n\n{markdown(scores)}")
    return {scored.name: scored.outcomes for scored in scores}


def predictions_in(path: Path) -> dict[str, list[PredictedRow]]:
    """Predictions that `explorer score --leave-one-source-out --each` wrote."""
    found: dict[str, list[PredictedRow]] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            held = [float(row[f"{who}_memory_bytes"] or 0) or None for who in ("predicted", "measured")]
            times = float(row["predicted"]), float(row["measured"])
            made = PredictedRow(row["name"], int(row["line"]), row["group"], *times, *held, row["note"])
            found.setdefault(row["set"], []).append(made)
    return found


def kernel_kinds() -> set[str]:
    """Device kinds of which single operators were measured: those with a number fitted on kernels."""
    kinds = {kind.name: kind for name in cluster_names() for kind in load_cluster(name).device_kinds}
    return {
        kind.name for kind in kinds.values()
        if any("kernels" in source.fitted_on for source in kind.sources) and not kind.like
    }  # fmt: skip


STAGES = {"kernels": kernels, "training": training, "errors": errors, "spreads": spreads}


def main() -> None:
    """Run the stages, and write the log."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    which = f"some of {', '.join(STAGES)}; default all"
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=which)
    parser.add_argument("--dry", action="store_true", help="write nothing")
    parser.add_argument("--reference", type=Path, help="folder of the published measurements")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--each",
        type=Path,
        help="rows left out, as `explorer score --leave-one-source-out --each` wrote them",
    )
    given = parser.parse_args()
    if unknown := [name for name in given.stages if name not in STAGES]:
        parser.error(f"unknown stage {unknown[0]!r} (allowed: {', '.join(STAGES)})")
    use_reference(given.reference)
    parts: dict[str, list[str]] = {}
    for name in given.stages or STAGES:
        start, before, lines = time.perf_counter(), sum(os.times()[:4]), parts.setdefault(name, [])
        lines.append(f"## {name}\n")

        def say(line: str, lines: list[str] = lines) -> None:
            lines.append(line)
            print(line, flush=True)

        more = {"each": given.each} if name == "errors" else {}
        STAGES[name](say, given.processes, dry=given.dry, **more)
        seconds, worked = time.perf_counter() - start, sum(os.times()[:4]) - before
        say(f"\n{seconds:.0f} s with {given.processes} processes, {worked:.0f} s of processor time.\n")
    if not given.dry:
        head = "# Fitted numbers\n\nWritten by `python scripts/fit_costs.py`; see score.md.\n"
        body = ["\n".join(lines) for lines in _kept(parts).values()]
        LOG.write_text("\n".join([head, *body]), encoding="utf-8")


def _kept(parts: dict[str, list[str]]) -> dict[str, list[str]]:
    """Stages that were not run again keep their part of the log."""
    found: dict[str, list[str]] = {}
    if LOG.exists():
        for part in LOG.read_text(encoding="utf-8").split("\n## ")[1:]:
            found[part.split("\n", 1)[0]] = [f"## {part.rstrip()}\n"]
    return {name: (found | parts)[name] for name in STAGES if name in found | parts}


if __name__ == "__main__":
    main()
