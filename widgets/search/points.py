"""Plain numbers that the chart of the Search tab draws: points, their names, ends of axes. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from explorer.base.units import GIB
from explorer.search import Candidate
from explorer.strategy import Strategy

from .labels import place
from .task import Entrant, Spot

HEIGHT_PX = 460
WIDTH_PX = 460
"""Width in pixels until the page reports how wide its place is."""
LEFT_PX, RIGHT_PX = 60, 12
"""Margins in pixels."""
NEAR_PX = 9
"""Pixels around a point with a name in which nothing else is drawn."""
SECONDS, EVALUATIONS = "seconds", "evaluations"
"""What the curves of the best so far are drawn over."""
FAR = 4.0
"""Times the least value beyond which a point no longer stretches its axis, so that the others stay apart."""
MOST_NAMES = 2
"""Most names at one point that are spelt out."""
Pick = tuple[str, Strategy, str]
"""(searcher, strategy, label) that a point of the chart stands for."""


def spot_at(spot: Spot) -> tuple[float, float]:
    """Return (GiB of the worst device, seconds of a step)."""
    return spot.peak_bytes / GIB, spot.step_s


def clear(
    at: tuple[float, float],
    named: Sequence[tuple[float, float]],
    ends: tuple[float, float, float],
    size_px: tuple[float, float],
) -> bool:
    """Tell whether a spot is in the picture, and not under a named point, to which a click there belongs."""
    x_end, low, high = ends
    per_x, per_y = size_px[0] / x_end, size_px[1] / (high - low)
    return (
        at[0] <= x_end
        and at[1] <= high
        and all(math.hypot((at[0] - x) * per_x, (at[1] - y) * per_y) > NEAR_PX for x, y in named)
    )


def spot_pick(spot: Spot) -> Pick:
    """Return what a click on a spot loads."""
    return spot.searcher, spot.strategy, spot.label


def candidate_at(found: Candidate) -> tuple[float, float]:
    """Return (GiB of the worst device, seconds of a step)."""
    return found.outcome.peak_memory_bytes / GIB, found.outcome.step_time_s


def bests_of(entrants: Sequence[Entrant]) -> dict[tuple[float, float], list[Pick]]:
    """Return the best of every searcher; those at one point together."""
    found: dict[tuple[float, float], list[Pick]] = {}
    for entrant in entrants:
        best = entrant.run.best if entrant.run else None
        if best is not None:
            found.setdefault(candidate_at(best), []).append((entrant.name, best.strategy, best.label))
    return found


def frontier_of(entrants: Sequence[Entrant]) -> dict[tuple[float, float], Pick]:
    """Return the strategies such that no other is both faster and smaller, from the smallest to the
    fastest.
    """
    every = {
        candidate_at(item): (entrant.name, item.strategy, item.label)
        for entrant in entrants
        for item in (entrant.run.frontier if entrant.run else ())
    }
    found: dict[tuple[float, float], Pick] = {}
    fastest = math.inf
    for at in sorted(every):
        if at[1] < fastest:
            found[at] = every[at]
            fastest = at[1]
    return found


def staircase(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """Return the edge of what is reached: down at every point, level between them."""
    steps: list[tuple[float, float]] = []
    for x, y in points:
        if steps:
            steps.append((x, steps[-1][1]))
        steps.append((x, y))
    return [*steps, (end, steps[-1][1])] if steps else []


def ranges(
    points: Sequence[tuple[float, float]], capacity: float, bound_s: float
) -> tuple[float, tuple[float, float]]:
    """Return the end of the memory axis, and both ends of the time axis: around all named points, with some
    margin. The first point is always within; others only up to `FAR` times the least step time.
    """
    x_end = max(1.25 * capacity, 1.08 * max(x for x, _ in points))
    high = highest([y for _, y in points], at_least=points[0][1])
    low = min(bound_s, *(y for _, y in points))
    air = 0.1 * (high - low) or 0.1 * high
    return x_end, (max(0.0, low - air), high + 1.6 * air)


def highest(values: Sequence[float], *, at_least: float = 0.0) -> float:
    """Return the greatest value within `FAR` times the least one, or `at_least`."""
    most = FAR * min(values)
    return max(at_least, *(value for value in values if value <= most))


def name_of(names: Sequence[str]) -> str:
    """Return the text for the searchers of one point.

    >>> name_of(["auto", "local"]), name_of(["dapple", "spp", "pase"])
    ('auto, local', 'dapple and 2 more')
    """
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{names[0]} and {len(names) - 1} more"


def curve_range(entrants: Sequence[Entrant]) -> tuple[float, float]:
    """Return both ends of the axis of the best so far; (0, 1) without any curve."""
    values = [mark.value for entrant in entrants for mark in entrant.curve]
    if not values:
        return 0.0, 1.0
    low, high = min(values), highest(values)
    air = 0.1 * (high - low) or 0.1 * high or 1.0
    return low - air, high + air


def end_s(entrant: Entrant, over: str = SECONDS) -> float:
    """Return the seconds after which an entrant's present search ended, or those it has run so far; over
    evaluations how many strategies it has costed.
    """
    if not entrant.own or entrant.run is None:
        return 0.0
    return entrant.run.wall_s if over == SECONDS else float(entrant.run.evaluations)


def curve_of(entrant: Entrant, over: str) -> list[tuple[float, float]]:
    """Return what an entrant's curve draws: (seconds or evaluations, best so far), to where it is now."""
    marks = entrant.curve
    curve = [(mark.seconds if over == SECONDS else float(mark.evaluations), mark.value) for mark in marks]
    return [*curve, (max(end_s(entrant, over), curve[-1][0]), curve[-1][1])] if curve else []


def end_sides(
    entrants: Sequence[Entrant], x_end: float, width_px: float, over: str = SECONDS
) -> dict[str, str]:
    """Return on which side each curve's name stands at its end, "" where it has no room; the best first."""
    entrants = sorted(entrants, key=lambda entrant: entrant.curve[-1].value)
    ends = [(end_s(entrant, over), entrant.curve[-1].value) for entrant in entrants]
    names = [entrant.name for entrant in entrants]
    size = (width_px - LEFT_PX - RIGHT_PX, 0.23 * HEIGHT_PX)
    return dict(zip(names, place(ends, names, (x_end, *curve_range(entrants)), size), strict=True))
