"""Plain numbers that the upper chart of the Search tab draws: points, their names, ends of axes. Pure.

A point is (across, up): the second and the first axis of a frontier, in the units of their scales.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from explorer.search import Candidate, Progress
from explorer.strategy import Strategy
from explorer.views.frontier import nondominated

from .task import Entrant, Spot

NEAR_PX = 9
"""Pixels around a point with a name in which nothing else is drawn."""
SECONDS, EVALUATIONS = "seconds", "evaluations"
"""What the curves of the best so far are drawn over."""
FAR = 4.0
"""Times the least value beyond which a point no longer stretches its axis, so that the others stay apart."""
MOST_NAMES = 2
"""Most names at one point that are spelt out."""
At = tuple[float, float]
"""(across, up) in units of the axes."""
Values = tuple[float, ...]
"""Values along the axes of a frontier, in units of the objectives."""


class Pick(NamedTuple):
    """What a point of the chart stands for."""

    searcher: str
    strategy: Strategy
    label: str
    values: Values
    step_s: float
    peak_bytes: float


class Frame(NamedTuple):
    """Ends of both axes."""

    left: float
    right: float
    low: float
    high: float

    def holds(self, at: At) -> bool:
        """Tell whether a point is in the picture."""
        return self.left <= at[0] <= self.right and self.low <= at[1] <= self.high

    def pixels(self, at: At, size_px: tuple[float, float]) -> tuple[float, float]:
        """Return the place of a point in pixels from the upper left corner of a drawing of that size."""
        return (
            (at[0] - self.left) / (self.right - self.left) * size_px[0],
            (self.high - at[1]) / (self.high - self.low) * size_px[1],
        )


def clear(at: At, named: Sequence[At], frame: Frame, size_px: tuple[float, float]) -> bool:
    """Tell whether a spot is in the picture, and not under a named point, to which a click there belongs."""
    x, y = frame.pixels(at, size_px)
    return frame.holds(at) and all(
        math.hypot(x - px, y - py) > NEAR_PX for px, py in (frame.pixels(other, size_px) for other in named)
    )


def spot_pick(spot: Spot) -> Pick:
    """Return what a click on a spot loads."""
    return Pick(spot.searcher, spot.strategy, spot.label, spot.point, spot.step_s, spot.peak_bytes)


def found_pick(searcher: str, found: Candidate, values: Values) -> Pick:
    """Return what a click on a result loads."""
    outcome = found.outcome
    return Pick(searcher, found.strategy, found.label, values, outcome.step_time_s, outcome.peak_memory_bytes)


def bests_of(entrants: Sequence[Entrant], values_of: Callable[[Candidate], Values]) -> list[list[Pick]]:
    """Return the best of every searcher; those at one point together.

    Args:
        entrants: searchers with their results.
        values_of: function that returns the values of a candidate along the axes.
    """
    found: dict[Values, list[Pick]] = {}
    for entrant in entrants:
        best = entrant.run.best if entrant.run else None
        if best is not None:
            values = values_of(best)
            found.setdefault(values, []).append(found_pick(entrant.name, best, values))
    return list(found.values())


def frontier_of(runs: Sequence[Progress]) -> list[Pick]:
    """Return the strategies such that no other is as good along all axes, by the first axis.

    Args:
        runs: searches along the same axes.
    """
    every = {
        item.outcome.point: found_pick(run.searcher, item, item.outcome.point)
        for run in runs
        for item in run.frontier
    }
    return [every[values] for values in nondominated(every)]


def staircase(points: Sequence[At], end: float) -> list[At]:
    """Return the edge of what is reached by points from left to right: down at every point, level between."""
    steps: list[At] = []
    for x, y in points:
        if steps:
            steps.append((x, steps[-1][1]))
        steps.append((x, y))
    return [*steps, (end, steps[-1][1])] if steps else []


def room_ends(values: Sequence[float], capacity: float) -> tuple[float, float]:
    """Return both ends of an axis of memory: from nothing to beyond what there is and what is named."""
    return 0.0, max(1.25 * capacity, 1.08 * max(values))


def ends_of(values: Sequence[float], bound: float = math.inf) -> tuple[float, float]:
    """Return both ends of an axis around values, with some margin, and around a lower bound of them. The
    first value is always within; others only up to `FAR` times the least.
    """
    high = highest(values, at_least=values[0])
    low = min(bound, *values)
    air = 0.1 * (high - low) or 0.1 * high or 1.0
    return max(0.0, low - air), high + 1.6 * air


def highest(values: Sequence[float], *, at_least: float = 0.0) -> float:
    """Return the greatest value within `FAR` times the least one, or `at_least`."""
    most = FAR * min(values)
    return max(at_least, *(value for value in values if value <= most))


def outside(frame: Frame, points: Sequence[At]) -> Mapping[str, int]:
    """Count the points that are beyond each end: `above` and `right`."""
    return {
        "above": sum(y > frame.high for _, y in points),
        "right": sum(x > frame.right for x, _ in points),
    }


def name_of(names: Sequence[str]) -> str:
    """Return the text for the searchers of one point.

    >>> name_of(["auto", "local"]), name_of(["dapple", "spp", "pase"])
    ('auto, local', 'dapple and 2 more')
    """
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} and {len(names) - 1} more"
