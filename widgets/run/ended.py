"""Runs that ended successfully: what was run, and what it showed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from widgets.inputs import Inputs
from widgets.session import Point

if TYPE_CHECKING:
    from explorer.run import Comparison
    from explorer.run.judging.calibrate import Calibrated
    from explorer.run.judging.timelines import RunTimeline
    from explorer.run.one_rank.findings import SliceCheck
    from explorer.strategy import Strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A run that ended successfully."""

    inputs: Inputs
    """Inputs and strategy of the run."""
    strategy: Strategy
    """The strategy."""
    device: str
    """Device that it ran on."""
    wall_s: float
    """Seconds that it took."""
    at: str
    """When it ended, hours and minutes."""

    def is_of(self, now: Point) -> bool:
        """Tell whether this state is what was run."""
        own, other = self.inputs, now.inputs
        same = own is other or (
            own.model == other.model and own.workload == other.workload and own.cluster == other.cluster
        )
        return same and self.strategy == now.strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Done(Ended):
    """A run of several ranks."""

    comparison: Comparison
    """Its result."""
    known: Calibrated | None
    """What it measured of its machine; None if compute was slept."""
    ranks: int
    """Number of ranks."""
    timeline: RunTimeline | None = None
    """When its ranks did what, beside the prediction; None if they were not timed."""
    stand_ins: str = ""
    """Why stand-ins ran though nobody chose them; empty if they did not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceDone(Ended):
    """A run of one rank alone."""

    check: SliceCheck
    """Its result."""
