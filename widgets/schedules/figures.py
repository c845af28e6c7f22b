"""What a schedule comes to on the plan shown: counted by simulating it, never declared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.simulation.lane_memory import MEMORY_PARTS
from widgets.schedule_choice import with_schedule
from widgets.session import Point

ACTIVATIONS = MEMORY_PARTS.index("activations")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFigures:
    """One schedule on one plan."""

    step_s: float
    """Seconds of a step."""
    bubble: float
    """Share of a step in which devices do not compute, on average."""
    activation_bytes: tuple[float, ...]
    """Per board lane: most bytes of activations on one of its devices."""
    versions: int
    """Most weight versions that a stage keeps."""
    peak_bytes: float
    """Bytes of the fullest device."""
    over_bytes: float
    """Most bytes that a device lacks; 0 if it fits."""

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as plain data for a view."""
        return {
            "step_s": self.step_s,
            "bubble": self.bubble,
            "activation_bytes": list(self.activation_bytes),
            "versions": self.versions,
            "peak_bytes": self.peak_bytes,
            "over_bytes": self.over_bytes,
        }


def figures_of(point: Point) -> ScheduleFigures:
    """Return the figures of a state under its own schedule."""
    scene = point.scene
    report = scene.report
    parts = report.memory_parts_bytes
    return ScheduleFigures(
        step_s=report.step_time_s,
        bubble=report.bubble_fraction,
        activation_bytes=tuple(
            max((parts[lane][ACTIVATIONS] for lane in lanes), default=0.0) for lanes in scene.report_lanes
        ),
        versions=max(report.versions),
        peak_bytes=max(report.peak_memory_bytes),
        over_bytes=point.figures.over_bytes,
    )


def known_figures(point: Point) -> dict[str, ScheduleFigures | str]:
    """Return what was counted for a state so far, by schedule; text is why it cannot be had after all."""
    found: dict[str, ScheduleFigures | str] = point.outcome.kept.setdefault("schedule figures", {})
    if point.strategy.job.schedule not in found:
        found[point.strategy.job.schedule] = figures_of(point)
    return found


def count(point: Point, name: str) -> None:
    """Simulate a state under a schedule, and keep its figures with the state.

    Raises:
        ExplorerError: the schedule cannot order it.
    """
    known_figures(point)[name] = figures_of(with_schedule(point, name))
