"""KPI tiles: the figures of a strategy beside those of a baseline and, after a run, what was measured."""

from __future__ import annotations

from collections.abc import Mapping
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
    measured: Mapping[str, float] | None = None,
    old: bool = False,
    verdict: Mapping[str, Any] | None = None,
    pending: bool = False,
) -> dict[str, Any]:
    """`Tiles.view`.

    Args:
        scene: the strategy.
        baseline: what the deltas are against.
        single: what the speedup is over (one device).
        measured: by tile key, from the last run.
        old: whether that run was of another strategy.
        verdict: the sentence.
        pending: whether numbers are still being computed.
    """
    report = scene.report
    own = figures(report, scene.job.sequence_length)
    base = figures(baseline.report, scene.job.sequence_length) if baseline else {}
    found = dict(measured or {})
    tiles = []
    for key, (name, quantity, compare) in _TILES.items():
        value = own.get(key)
        tile: dict[str, Any] = {"key": key, "name": name, "quantity": quantity, "value": value}
        if key == "speedup":
            tile["value"] = single.report.step_time_s / report.step_time_s if single else None
            tile["name"] = f"Speedup over {single.name}" if single else name
            tile["context"] = None if single is None or single.report.feasible else "if it fitted"
        elif baseline:
            tile |= {"baseline": base.get(key), "baseline_name": baseline.name}
        if compare:
            tile["compare"] = compare
        if key in found:
            tile |= {"measured": found[key], "old": old}
        tiles.append(tile)
    _finish(scene, {tile["key"]: tile for tile in tiles})
    return {"tiles": tiles, "verdict": dict(verdict) if verdict else None, "pending": pending}


_TILES: dict[str, tuple[str, str, str]] = {
    "step_time": ("Step time", "seconds", ""),
    "throughput": ("Throughput", "per_second", ""),
    "speedup": ("Speedup", "ratio", ""),
    "memory": ("Worst memory", "fraction", "points"),
    "bubble": ("Bubble", "fraction", "points"),
    "mfu": ("MFU", "fraction", "points"),
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
    }


def _finish(scene: Scene, tiles: dict[str, dict[str, Any]]) -> None:
    tiles["throughput"]["unit"] = "tokens/s" if scene.job.sequence_length else "samples/s"
    memory = tiles["memory"]
    memory["context"] = f"of {min(scene.report.capacity_bytes) / GIB:.1f} GiB"
    if not scene.report.feasible:
        memory["level"] = "bad"
    elif memory["value"] >= TIGHT:
        memory["level"] = "warn"
