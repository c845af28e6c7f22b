"""State of the workbench without any widget: points of a history, and how each edit makes the next one.

A `Point` is a whole state: inputs, strategy, device groups and their prediction. Nothing is changed in
place, so undo and redo are steps along a list. An edit that is wrong raises and leaves the history as it was.

A prediction holds arrays of every task; hundreds of them would fill the kernel's memory. So only states near
the present one keep theirs; the others make it again when they are shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from explorer.plan import Plan, Provenance, Resolved, make_plan
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.moves import DeviceGroup, groups_of
from explorer.strategy import Strategy
from explorer.views import Scene, make_scene

from .holds import NOTHING, Holds, kept
from .inputs import Inputs
from .phases import SIMULATING, phase

MOST_POINTS = 500
"""Most states that undo can go back to."""

NEAR = 2
"""States before and after the present one that keep their prediction, so that one step of undo stays
instant.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The few numbers that a list of states shows for each, kept even if the whole report is not."""

    step_time_s: float
    """Predicted step time."""
    peak_fraction: float
    """Fullest device: bytes at its peak over its memory."""
    over_bytes: float
    """Most bytes that a device lacks; 0 if everything fits."""


class Outcome:
    """The prediction for a strategy: figures always, the scene only as long as it is wanted."""

    __slots__ = ("_figures", "_scene", "groups", "inputs", "kept", "strategy")

    def __init__(
        self,
        inputs: Inputs,
        strategy: Strategy,
        groups: Sequence[DeviceGroup] = (),
        *,
        figures: Figures | None = None,
    ) -> None:
        # the order of `make_scene`: lanes as they were, their templates as the strategy has them now
        known = {group.meshes: group for group in (*groups, *groups_of(strategy.job))}
        self.inputs, self.strategy = inputs, strategy
        self.groups = tuple(known.values())
        self._scene: Scene | None = None
        self._figures = figures
        self.kept: dict[str, Any] = {}
        """Values derived from it once for the page."""

    @property
    def scene(self) -> Scene:
        """The prediction, made again if it was dropped.

        Raises:
            ExplorerError: the strategy cannot be lowered.
        """
        if self._scene is None:
            own, strategy = self.inputs, self.strategy
            report = simulate(own.graph, own.cluster, own.workload, strategy)
            self._scene = make_scene(own.graph, own.cluster, own.workload, strategy, report, self.groups)
            self._figures = _figures(report)
        return self._scene

    @property
    def figures(self) -> Figures:
        """The few numbers, without making the scene if they are known."""
        return self._figures if self._figures is not None else _figures(self.scene.report)

    @property
    def whole(self) -> bool:
        """Whether the scene is present."""
        return self._scene is not None

    def forget(self) -> None:
        """Keep only the figures."""
        self._scene = None


def _figures(report: Report) -> Figures:
    pairs = zip(report.peak_memory_bytes, report.capacity_bytes, strict=True)
    return Figures(
        step_time_s=report.step_time_s,
        peak_fraction=max(used / room for used, room in pairs),
        over_bytes=max((item.over_bytes for item in report.overflows), default=0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One state of the workbench."""

    inputs: Inputs
    """The model, cluster and workload it is for."""
    strategy: Strategy
    """The strategy chosen."""
    outcome: Outcome
    """The prediction; states that differ only in pins, locks or plan B share it."""
    note: str = ""
    """What was done to get here, in a few words."""
    maker: str = "board"
    """Its maker: `board`, `start`, or the name of a searcher."""
    holds: Holds = NOTHING
    """Pins and locks."""
    other: Point | None = None
    """Plan B, with which all views compare; None for no comparison."""

    @property
    def scene(self) -> Scene:
        """The scene that the views show; simulated again if it was dropped."""
        return self.outcome.scene

    @property
    def report(self) -> Report:
        """The predicted report."""
        return self.scene.report

    @property
    def figures(self) -> Figures:
        """The few numbers of it that are always present."""
        return self.outcome.figures

    @property
    def groups(self) -> tuple[DeviceGroup, ...]:
        """Device groups: board lanes, those without layers included."""
        return self.outcome.groups

    def plan(self) -> Plan:
        """Return the plan of this state, with fingerprints."""
        from explorer import __version__

        made = Provenance(
            searcher=self.maker, version=__version__, step_time_s=self.figures.step_time_s, note=self.note
        )
        own = self.inputs
        return make_plan(
            own.model, own.graph, own.cluster_name, own.cluster, own.workload, self.strategy, made
        )

    def resolved(self) -> Resolved:
        """Return the plan with its inputs, for export and runs."""
        return Resolved(plan=self.plan(), graphs={"model": self.inputs.graph}, cluster=self.inputs.cluster)


def make_point(
    inputs: Inputs,
    strategy: Strategy,
    groups: Sequence[DeviceGroup] = (),
    *,
    note: str = "",
    maker: str = "board",
) -> Point:
    """Simulate a strategy.

    Raises:
        ExplorerError: the strategy cannot be lowered.
    """
    phase(SIMULATING)
    point = lazy_point(inputs, strategy, groups, note=note, maker=maker)
    point.outcome.scene  # noqa: B018 - what is wrong is said now, not when it is looked at
    return point


def lazy_point(
    inputs: Inputs,
    strategy: Strategy,
    groups: Sequence[DeviceGroup] = (),
    *,
    figures: Figures | None = None,
    note: str = "",
    maker: str = "board",
) -> Point:
    """Make a state that is simulated when it is first looked at; `figures` are what was predicted before."""
    outcome = Outcome(inputs, strategy, groups, figures=figures)
    return Point(inputs=inputs, strategy=strategy, outcome=outcome, note=note, maker=maker)


def after(point: Point, before: Point | None) -> Point:
    """Return a new state with what stays from the one before: pins and locks that still apply, and plan B.

    Layers of another model are others even if they have the same names, so both end with their model.
    """
    if before is None or before.inputs.model.reference != point.inputs.model.reference:
        return point
    holds = kept(before.holds, before.strategy.job, point.strategy.job)
    return replace(point, holds=holds, other=before.other)


@dataclass(slots=True, kw_only=True)
class History:
    """Points in the order they were made, and which one is shown."""

    points: list[Point] = field(default_factory=list)
    """All states that can be reached."""
    times_s: list[float] = field(default_factory=list)
    """When each was made, in seconds since 1970, UTC."""
    at: int = -1
    """Position of the one shown; -1 while there is none."""
    dropped: int = 0
    """Number of states dropped at the beginning, so that `dropped + position` numbers a state for good."""
    clock: Callable[[], float] = time.time
    """Function that returns the time."""

    @property
    def now(self) -> Point | None:
        """The state shown."""
        return self.points[self.at] if self.points else None

    @property
    def can_undo(self) -> bool:
        """Whether there is an earlier state."""
        return self.at > 0

    @property
    def can_redo(self) -> bool:
        """Whether there is a later one."""
        return self.at < len(self.points) - 1

    def push(self, point: Point) -> None:
        """Show a new state; drop those that were undone."""
        undone = self.points[self.at + 1 :]
        del self.points[self.at + 1 :], self.times_s[self.at + 1 :]
        self.points.append(point)
        self.times_s.append(self.clock())
        over = max(0, len(self.points) - MOST_POINTS)
        del self.points[:over], self.times_s[:over]
        self.dropped += over
        self.at = len(self.points) - 1
        self._lighten(undone)

    def step(self, by: int) -> bool:
        """Go back (-1) or forward (1), or further; return whether there was a state to go to.

        Raises:
            ExplorerError: that state can no longer be simulated; the present one stays.
        """
        if by == 0 or not 0 <= self.at + by < len(self.points):
            return False
        self.points[self.at + by].scene  # noqa: B018 - may fail, and then nothing has moved
        self.at += by
        self._lighten()
        return True

    def restore(self, points: Sequence[Point], times_s: Sequence[float], at: int) -> None:
        """Take over the states of a saved session.

        Raises:
            ExplorerError: the state to be shown cannot be simulated; nothing is changed then.
        """
        points[at].scene  # noqa: B018 - as above
        self.points, self.times_s, self.at, self.dropped = list(points), list(times_s), at, 0
        self._lighten()

    def _lighten(self, gone: Sequence[Point] = ()) -> None:
        """Drop predictions far from the present state, and those of dropped states that may still be in
        use.
        """
        near = self.points[max(0, self.at - NEAR) : self.at + NEAR + 1]
        wanted = {id(outcome) for point in near for outcome in _outcomes(point)}
        for point in (*self.points, *gone):
            for outcome in _outcomes(point):
                if id(outcome) not in wanted:
                    outcome.forget()


def _outcomes(point: Point) -> Iterator[Outcome]:
    """Yield the predictions of a state and of its plan B."""
    yield point.outcome
    if point.other is not None:
        yield point.other.outcome
