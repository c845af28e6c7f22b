"""`explorer score --calibrated`: what rows are off by once one or three of them were one's own."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from explorer.base.errors import InputError
from explorer.cli.output import emit_json, say, table
from explorer.score.calibrated import CalibratedScore, calibrated_scores
from explorer.score.rows import SETS
from explorer.score.running import paths_of

HEADS = (
    "set", "rows", "models", "own runs", "before", "after", "by ratio", "by median", "in band",
    "whole before", "whole after",
)  # fmt: skip


def run_calibrated(
    options: argparse.Namespace, names: list[str], given: dict[str, Path],
    values: Mapping[str, Mapping[str, float]] | None,
) -> int:  # fmt: skip
    """Print how far rows are off before and after calibrations on one and three rows of their model.

    Raises:
        InputError: none of the sets has rows that can be calibrated.
    """
    asked = [name for name in names if name in SETS.names()]
    found = calibrated_scores(paths_of(asked, given), processes=options.processes, values=values)
    usable = [item for item in found if item.by_count]
    if not usable:
        raise InputError(
            "no set has three rows of one model on one kind of device", key="SET", found=", ".join(names),
            allowed="sets of step times",
        )  # fmt: skip
    if options.json:
        emit_json("score", {"calibrated": {item.name: _json(item) for item in usable}})
        return 0
    rows: list[tuple[str, ...]] = [HEADS]
    rows += [cells for item in usable for cells in _cells(item)]
    print(table(rows))
    say("explorer: medians over the choice of one's own runs, of mean errors of the other rows")
    return 0


def _json(item: CalibratedScore) -> dict[str, object]:
    return {
        "rows": item.rows, "families": item.families,
        "by_count": {str(count): asdict(judged) for count, judged in item.by_count},
    }  # fmt: skip


def _cells(item: CalibratedScore) -> list[tuple[str, ...]]:
    return [
        (
            item.name, str(item.rows), str(item.families), str(count), f"{judged.before_pct:.2f} %",
            f"{judged.after_pct:.2f} %", f"{judged.ratio_pct:.2f} %", f"{judged.median_pct:.2f} %",
            f"{judged.coverage_pct:.0f} %", f"{judged.whole_before_pct:.2f} %",
            f"{judged.whole_after_pct:.2f} %",
        )
        for count, judged in item.by_count
    ]  # fmt: skip
