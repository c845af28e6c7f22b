"""Scores of kernels for people and programs: a table of devices and operations, JSON, and a CSV of rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from explorer.score.kernels import KERNEL_SETS, ScoredKernels, errors_of
from explorer.score.tables import EACH

HEADS = (
    "set", "device", "operation", "rows", "median", "mean", "worst", "bias",
    "all rows", "median of all", "mean of all", "worst of all", "bias of all",
)  # fmt: skip


def kernel_cells(scored: ScoredKernels) -> list[tuple[str, ...]]:
    """Return one line for each device and operation, and one of all, below `HEADS`."""
    found = []
    for (device, operation), rows in scored.by_group().items():
        counted, every = errors_of([row for row in rows if row.counted]), errors_of(rows)
        cells = [scored.name, device, operation]
        for count, *sizes, bias in (counted, every):
            cells += [str(count), *map(_percent, sizes), _percent(bias, signed=True)]
        found.append(tuple(cells))
    return found


def kernel_markdown(scores: Sequence[ScoredKernels]) -> str:
    """Return a Markdown table of some sets."""
    lines = [HEADS, ("---", "---", "---", *["---:"] * (len(HEADS) - 3))]
    lines += [cells for scored in scores for cells in kernel_cells(scored)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def kernel_notes(scores: Sequence[ScoredKernels]) -> list[str]:
    """Say of each set which rows the first figures are of, and how many lines were skipped."""
    return [
        f"{scored.name}: first figures of {KERNEL_SETS.get(scored.name).counted}; {scored.skipped} skipped"
        for scored in scores
    ]


def kernel_json(scored: ScoredKernels) -> dict[str, Any]:
    """Return the object of `--json` for a set."""
    groups = [
        {
            "device": device,
            "operation": operation,
            "counted": errors_of([row for row in rows if row.counted])._asdict(),
            "every": errors_of(rows)._asdict(),
        }
        for (device, operation), rows in scored.by_group().items()
    ]
    return {
        "rows": len(scored.rows), "counted": KERNEL_SETS.get(scored.name).counted, "groups": groups,
        "problems": [problem._asdict() for problem in scored.problems], "skipped": scored.skipped,
        "seconds": round(scored.seconds, 3),
    }  # fmt: skip


def kernel_each(scores: Sequence[ScoredKernels]) -> list[list[object]]:
    """Return one line a row, with the columns that sets of training runs have (`tables.EACH`)."""
    return [
        [
            scored.name, scored.file, row.line, row.name, f"{row.device} {row.operation}", "s",
            f"{row.predicted_s:.9g}", f"{row.measured_s:.9g}",
            f"{(row.predicted_s / row.measured_s - 1) * 100:.3f}", *[""] * (len(EACH) - 9),
        ]
        for scored in scores
        for row in scored.rows
    ]  # fmt: skip


def _percent(value: float, *, signed: bool = False) -> str:
    return "" if math.isnan(value) else f"{value:+.2f} %" if signed else f"{value:.2f} %"
