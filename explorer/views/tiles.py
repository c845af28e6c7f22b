"""KPI tiles: the figures of a strategy beside those of a baseline and, after a run, what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.report import Report
from explorer.units import GIB
from explorer.views.scene import Scene

TIGHT = 0.9
"""Share of a device's memory from which it counts as tight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A strategy to compare with."""

    name: str
    """In a few words ("even 4 × 2")."""
    report: Report
    """What is predicted of it."""


def tiles_view(
    scene: Scene,
    *,
    baseline: Baseline | None = None,
    single: Baseline | None = None,
    verdict: Mapping[str, Any] | None = None,
    pending: bool = False,
) -> dict[str, Any]:
    """`Tiles.view`.

    Args:
        scene: the strategy.
        baseline: what the deltas are against.
        single: what the speedup is over (one device).
        verdict: the sentence.
        pending: whether numbers are still being computed.
    """
    report = scene.report
    own = figures(report, scene.job.sequence_length)
    base = figures(baseline.report, scene.job.sequence_length) if baseline else {}
    tiles = []
    for key, (name, quantity, compare) in _TILES.items():
        tile: dict[str, Any] = {"key": key, "name": name, "quantity": quantity, "value": own[key]}
        if baseline:
            tile |= {"baseline": base[key], "baseline_name": baseline.name}
        if compare:
            tile["compare"] = compare
        tiles.append(tile)
    _finish(scene, {tile["key"]: tile for tile in tiles}, single)
    return {"tiles": tiles, "verdict": dict(verdict) if verdict else None, "pending": pending}


_TILES: dict[str, tuple[str, str, str]] = {
    "step_time": ("Step time", "seconds", ""),
    "throughput": ("Throughput", "per_second", ""),
    "memory": ("Worst memory", "fraction", "points"),
    "bubble": ("Bubble", "fraction", "points"),
    "mfu": ("MFU", "fraction", "points"),
    "exposed_communication": ("Exposed communication", "seconds", "difference"),
}
"""Key: name, quantity, how the difference is told."""


def figures(report: Report, sequence_length: int = 0) -> dict[str, float]:
    """Numbers of the tiles by key; throughput in tokens where samples are sequences."""
    return {
        "step_time": report.step_time_s,
        "throughput": report.throughput_samples_per_s * max(1, sequence_length),
        "memory": max(
            used / room for used, room in zip(report.peak_memory_bytes, report.capacity_bytes, strict=True)
        ),
        "bubble": report.bubble_fraction,
        "mfu": report.mfu,
        "exposed_communication": sum(report.exposed_communication_s.values()),
    }


def _finish(scene: Scene, tiles: dict[str, dict[str, Any]], single: Baseline | None) -> None:
    report = scene.report
    throughput, memory = tiles["throughput"], tiles["memory"]
    throughput["unit"] = "tokens/s" if scene.job.sequence_length else "samples/s"
    if single is not None:
        ratio = single.report.step_time_s / report.step_time_s
        fitted = "" if single.report.feasible else ", if it fitted"
        throughput["note"] = f"{ratio:.3g} × {single.name}{fitted}"
    memory["context"] = f"of {min(report.capacity_bytes) / GIB:.1f} GiB"
    if not report.feasible:
        memory["level"] = "bad"
    elif memory["value"] >= TIGHT:
        memory["level"] = "warn"
    waits = tiles["exposed_communication"]
    waits["note"] = f"{waits['value'] / report.step_time_s:.1%} of the step" if report.step_time_s else None


def with_band(
    tiles: Sequence[Mapping[str, Any]], one: Mapping[str, float], other: Mapping[str, float]
) -> list[dict[str, Any]]:
    """Tiles with the predicted error band between two sets of `figures` of the same plan."""
    return [
        {**tile, "low": min(one[key], other[key]), "high": max(one[key], other[key])}
        if (key := str(tile["key"])) in one
        else dict(tile)
        for tile in tiles
    ]


def with_measured(
    tiles: Sequence[Mapping[str, Any]], measured: Mapping[str, float], *, old: bool
) -> list[dict[str, Any]]:
    """Tiles with what a run measured, by tile key; `old`: of another strategy."""
    return [
        {**tile, "measured": measured[tile["key"]], "old": old} if tile["key"] in measured else dict(tile)
        for tile in tiles
    ]
