"""KPI tiles: the figures of a strategy next to those of a baseline and, after a run, the measured ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.base.units import GIB
from explorer.cluster.memory_room import MAY_FIT
from explorer.simulation.report import NO_FLOPS, Report
from explorer.sweep.bands import HISTORY, SOURCES, STEPS, Band
from explorer.views.scene import Scene

TIGHT = 0.9
"""Share of a device's memory above which it counts as tight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A strategy to compare with."""

    name: str
    """Name in a few words ("even 4 × 2")."""
    report: Report
    """Prediction for it."""


def tiles_view(
    scene: Scene,
    *,
    baseline: Baseline | None = None,
    single: Baseline | None = None,
    verdict: Mapping[str, Any] | None = None,
    pending: bool = False,
) -> dict[str, Any]:
    """Return `Tiles.view`.

    Args:
        scene: the strategy.
        baseline: the strategy that deltas are taken against.
        single: the strategy that the speedup is over (one device).
        verdict: the sentence that judges the strategy.
        pending: whether numbers are still being computed.
    """
    report = scene.report
    own = figures(report, scene.job.sequence_length)
    base = figures(baseline.report, scene.job.sequence_length) if baseline else {}
    tiles = []
    for key, (name, quantity, compare) in _TILES.items():
        tile: dict[str, Any] = {"key": key, "name": name, "quantity": quantity, "value": own.get(key)}
        if baseline:
            tile |= {"baseline": base.get(key), "baseline_name": baseline.name}
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
"""Name, quantity and way to tell a difference, by key."""


def figures(report: Report, sequence_length: int = 0) -> dict[str, float]:
    """Return the numbers of the tiles by key, with throughput in tokens if samples are sequences.

    There is no `mfu` if the model does not state its FLOPs.
    """
    share = {} if report.mfu is None else {"mfu": report.mfu}
    return {
        "step_time": report.step_time_s,
        "throughput": report.throughput_samples_per_s * max(1, sequence_length),
        "memory": max(
            used / room for used, room in zip(report.peak_memory_bytes, report.capacity_bytes, strict=True)
        ),
        "bubble": report.bubble_fraction,
        **share,
        "exposed_communication": sum(report.exposed_communication_s.values()),
    }


def _finish(scene: Scene, tiles: dict[str, dict[str, Any]], single: Baseline | None) -> None:
    report = scene.report
    throughput, memory = tiles["throughput"], tiles["memory"]
    throughput["unit"] = "tokens/s" if scene.job.sequence_length else "samples/s"
    if single is not None:
        ratio = single.report.step_time_s / report.step_time_s
        fitted = "" if single.report.feasible else ", if it fitted"
        times = f"{ratio:.3g}" if ratio < 1000 else f"{float(f'{ratio:.3g}') / 1000:.3g}k"
        throughput["note"] = f"{times} × {single.name}{fitted}"
    if tiles["mfu"]["value"] is None:
        tiles["mfu"]["note"] = NO_FLOPS
    memory["context"] = f"of {min(report.capacity_bytes) / GIB:.1f} GiB"
    if not report.feasible:
        memory["level"] = "bad"
    elif report.memory_verdict == MAY_FIT or memory["value"] >= TIGHT:
        memory["level"] = "warn"
    if report.memory_verdict == MAY_FIT:
        memory["note"] = "may fit"
    waits = tiles["exposed_communication"]
    waits["note"] = f"{waits['value'] / report.step_time_s:.1%} of the step" if report.step_time_s else None


ADDITIVE = frozenset({"memory", "bubble", "exposed_communication"})
"""Figures whose errors add up as differences: they may be 0, or have a part that is known exactly."""

RUN_FIGURE = {
    "step_time": "step_time_s", "throughput": "step_time_s", "mfu": "step_time_s",
    "memory": "peak_memory_bytes",
}  # fmt: skip
"""Figure of a history of runs whose relative errors are those of a tile."""


def with_bands(
    tiles: Sequence[Mapping[str, Any]], bands: Mapping[str, Band], *, remark: str = ""
) -> list[dict[str, Any]]:
    """Add 80 % bands to tiles, by key, with where the bands come from and a remark."""
    return [
        {
            **tile, "low": bands[key].low, "high": bands[key].high,
            "band_from": band_words(bands[key]) + remark, "narrow": narrowing_words(key, bands[key]),
        }
        if (key := str(tile["key"])) in bands
        else dict(tile)
        for tile in tiles
    ]  # fmt: skip


def narrowing_words(key: str, band: Band) -> str:
    """Say which run would narrow the band of a tile.

    Args:
        key: the tile.
        band: its band now.
    """
    if key == "memory":
        return "The peak of memory of one measured step narrows it: type it at I measured …, beside its time."
    if key not in RUN_FIGURE:
        causes = ", ".join(number.title for number in band.causes[:2])
        about = f", above all of {causes}" if causes else ""
        return f"A run on the machine itself (Run, then Calibrate) narrows it{about}."
    if band.basis == HISTORY:
        return "Every further run of the history on this kind of machine narrows it."
    if band.basis == STEPS:
        return "A measured step of a neighbouring plan narrows it further; I measured … names the best one."
    return (
        "One measured step of this plan narrows it: type it at I measured …, or drop the trainer's log there."
    )


def band_words(band: Band) -> str:
    """Say where a band comes from: runs, or the numbers of the profile that widen it most, with sources."""
    if band.basis == HISTORY:
        return f"80 % band from {band.runs} runs of the history on this kind of machine"
    causes = "; ".join(
        f"{number.title} \N{PLUS-MINUS SIGN}{number.band:.0%}"
        f" ({number.source.how if number.source else 'assumed'})"
        for number in band.causes
    )
    if band.basis == SOURCES:
        width = math.sqrt(band.high / band.low) - 1
        said = f"\N{PLUS-MINUS SIGN}{width:.0%} until calibrated: 80 % band by published runs; {band.about}"
        return said + (f"; the profile is least sure of {causes}" if causes else "")
    if band.basis == STEPS:
        steps = f"{band.runs} measured step{'s' * (band.runs > 1)} of this machine"
        return f"80 % band from {steps}" + (f", most of it from {causes}" if causes else "")
    return "80 % band from the profile's sources" + (f", most of it from {causes}" if causes else "")


def with_measured(
    tiles: Sequence[Mapping[str, Any]], measured: Mapping[str, float], *, old: bool
) -> list[dict[str, Any]]:
    """Add a run's measurements to tiles, by tile key; `old`: the run was of another strategy."""
    return [
        {**tile, "measured": measured[tile["key"]], "old": old} if tile["key"] in measured else dict(tile)
        for tile in tiles
    ]
