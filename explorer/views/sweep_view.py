"""Views of "what if": the plan next to a variation of it, and the curves of a sweep with their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from explorer.cluster.memory_room import MAY_FIT
from explorer.simulation.report import Report
from explorer.sweep import SweepRow
from explorer.views.tiles import TIGHT, figures

NAMES = {
    "devices": "Devices, replicas follow",
    "stages": "Stages, cut anew",
    "global_batch": "Global batch",
    "sequence_length": "Sequence length",
    "bandwidth": "Bandwidth factor",
    "microbatch_samples": "Microbatch, samples of all replicas",
}
"""Numbers that can be swept, in words."""
SCALING = ("devices", "stages")
"""Keys that change how many devices work: they have an efficiency, and may scale weakly."""

_FIGURES = {
    "step_time": ("Step time", "seconds", "percent"),
    "throughput": ("Throughput", "per_second", "percent"),
    "memory": ("Worst memory", "fraction", "points"),
    "bubble": ("Bubble", "fraction", "points"),
    "mfu": ("MFU", "fraction", "points"),
    "exposed_communication": ("Exposed communication", "seconds", "difference"),
}


def what_if_rows(
    now: Report, then: Report | None, *, tokens: tuple[int, int] = (0, 0)
) -> list[dict[str, Any]]:
    """Return the figures of a plan and of a variation of it.

    Args:
        now: the plan.
        then: the variation; None if it is impossible.
        tokens: tokens of one sample, now and then; 0 if samples are no sequences.
    """
    one = figures(now, tokens[0])
    other = figures(then, tokens[1]) if then else {}
    unit = "tokens/s" if tokens[0] else "samples/s"
    rows = []
    for key, (name, quantity, compare) in _FIGURES.items():
        if key not in one:  # the MFU of a model without known FLOPs
            continue
        row: dict[str, Any] = {
            "key": key, "name": name, "quantity": quantity, "compare": compare, "now": one[key],
            "then": other.get(key), "level": None,
        }  # fmt: skip
        if quantity == "per_second":
            row["unit"] = unit
        if key == "memory" and then:
            row["level"] = _memory_level(then, other[key])
        rows.append(row)
    return rows


def _memory_level(report: Report, share: float) -> str | None:
    if not report.feasible:
        return "bad"
    return "warn" if share >= TIGHT or report.memory_verdict == MAY_FIT else None


def curve_points(
    key: str, rows: Sequence[SweepRow], *, now: Report, now_value: float, tokens: int = 0
) -> list[dict[str, Any]]:
    """Return the points of a sweep, ascending, each with its row of the table behind the chart.

    `efficiency` is the throughput of one device over that of the plan shown: 1 means that devices are used as
    well as now. `throughput` is in tokens if samples are sequences (`tokens` of one sample).
    """
    base = now.throughput_samples_per_s / len(now.devices)
    return [_point(key, row, base, now_value, tokens) for row in sorted(rows, key=lambda item: item.value)]


def _point(key: str, row: SweepRow, base: float, now_value: float, tokens: int) -> dict[str, Any]:
    report = row.report
    point: dict[str, Any] = {
        "value": row.value, "now": row.value == now_value, "problem": row.problem or None,
        "feasible": bool(report and report.feasible), "devices": None, "global_batch": None,
        "step_time_s": None, "throughput": None, "efficiency": None, "memory": None,
    }  # fmt: skip
    if report is None:
        return point
    length = round(row.value) if key == "sequence_length" else tokens
    own = figures(report, length)
    devices = len(report.devices)
    rate = report.throughput_samples_per_s / devices / base if base else None
    return point | {
        "devices": devices, "global_batch": report.global_batch, "step_time_s": own["step_time"],
        "throughput": own["throughput"], "memory": own["memory"],
        "efficiency": rate if key in SCALING else None,
    }  # fmt: skip
