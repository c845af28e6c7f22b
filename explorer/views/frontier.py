"""Frontiers of searches: the strategies that nothing found beats on all axes, as plain data. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from explorer.search import Objective, Progress
from explorer.search.objectives import frontier_axes
from explorer.strategy import JobStrategy, Strategy

from .strategy_words import strategy_words, told_apart

Point = tuple[float, ...]
"""Values of a strategy, one for each axis of a frontier, in units of the objectives."""


def axis_names(objective: str) -> tuple[str, ...]:
    """Return the names of the axes of the frontier that a search for an objective keeps.

    >>> axis_names("cost"), axis_names("frontier:cost,devices")
    (('time', 'memory'), ('cost', 'devices'))

    Raises:
        InputError: as `axes_of`.
    """
    return tuple(axis.name for axis in frontier_axes(objective))


def runs_along(runs: Iterable[Progress], axes: Sequence[Objective]) -> list[Progress]:
    """Return the runs whose frontier has these very axes; what others kept is no frontier of them."""
    names = tuple(axis.name for axis in axes)
    return [run for run in runs if axis_names(run.objective) == names]


def nondominated(points: Iterable[Point]) -> list[Point]:
    """Return the points such that no other is as small on every axis, by the first axis; equal ones once.

    Along two axes this takes n log n, along three up to n times what is kept.

    >>> nondominated([(3.0, 1.0), (1.0, 2.0), (2.0, 2.0), (1.0, 2.0)])
    [(1.0, 2.0), (3.0, 1.0)]
    """
    kept: list[Point] = []
    for point in sorted(set(points)):  # in this order none is dominated by a later one
        rivals = kept[-1:] if len(point) == 2 else kept  # of two axes the last has the least second one
        if not any(all(a <= b for a, b in zip(rival, point, strict=True)) for rival in rivals):
            kept.append(point)
    return kept


def frontier_points(runs: Iterable[Progress], axes: Sequence[Objective]) -> list[dict[str, Any]]:
    """Return the strategies of searches along these axes that no other beats on all of them, by the first.

    Keys are id (the same as long as the point is), searchers, label, detail, values (one for each axis, in
    the unit of the objective), step_s, peak_bytes, may_fit.
    """
    found: dict[Point, dict[str, Any]] = {}
    jobs: dict[str, JobStrategy] = {}
    for run in runs_along(runs, axes):
        for item in run.frontier:
            at = item.outcome.point
            point = found.setdefault(
                at,
                {
                    "id": _id(at),
                    "searchers": [],
                    "label": strategy_words(item.strategy.job),
                    "detail": item.label,
                    "values": [float(value) for value in at],
                    "step_s": item.outcome.step_time_s,
                    "peak_bytes": float(item.outcome.peak_memory_bytes),
                    "may_fit": item.outcome.may_fit,
                },
            )
            point["searchers"].append(run.searcher)
            jobs.setdefault(point["id"], item.strategy.job)
    points = [found[at] for at in nondominated(found)]
    told_apart(points, [jobs[point["id"]] for point in points])
    return points


def frontier_strategies(
    runs: Iterable[Progress], axes: Sequence[Objective]
) -> dict[str, tuple[str, Strategy, str]]:
    """Map the id of each frontier point to (searcher, strategy, label)."""
    return {
        _id(item.outcome.point): (run.searcher, item.strategy, item.label)
        for run in reversed(runs_along(runs, axes))
        for item in run.frontier
    }


def _id(point: Point) -> str:
    return "/".join(repr(float(value)) for value in point)
