"""Seconds of positions where devices differ: whoever lies on slow ones has to do his part there.

Where replicas of a stage lie on equal kinds of devices, all take as many samples of a microbatch. So some
position works on every place that is used, on the smallest part that any position has at least.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import Schedule
from explorer.search._frames import BoolArray, Frame
from explorer.search._layout_costs import LayoutCosts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


def replicas_differ(
    costs: LayoutCosts, schedule: Schedule, positions: int, replicas: int, chunks: int
) -> bool:
    """Tell whether the replicas of some stage, all of its copies together, lie on different kinds."""
    row = costs.row
    kinds = costs.kinds[: positions * replicas * row].reshape(positions, replicas, row)
    masks = np.bitwise_or.reduce(kinds, axis=2)
    if (masks == masks[0, 0]).all():
        return False
    placement = schedule.placement
    grid = placement.grid(positions, chunks)
    for stage in range(placement.stages(grid)):
        at = [placement.position(stage, copy, grid) for copy in range(grid.copies)]
        of_replica = np.bitwise_or.reduce(masks[at], axis=0)
        if (of_replica != of_replica[0]).any():
            return True
    return False


def places_used(costs: LayoutCosts, schedule: Schedule, frame: Frame) -> BoolArray:
    """Return the (grids, places) that some position has; none where replicas may share unevenly."""
    found = np.zeros((len(frame.positions), len(costs.places)), dtype=bool)
    sizes = zip(frame.positions.tolist(), frame.replicas.tolist(), frame.chunks.tolist(), strict=True)
    for grid, (p, d, v) in enumerate(sizes):
        if not replicas_differ(costs, schedule, p, d, v):
            found[grid, costs.row_places[: p * d]] = True
    return found


def least_at_places(
    costs: LayoutCosts,
    schedule: Schedule,
    frame: Frame,
    used: BoolArray,
    rows: IntArray,
    again: IntArray,
    samples: int,
) -> FloatArray:
    """Return the (rows,) seconds that a step takes at least, as positions work on all places that are used.

    Args:
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        used: (grids, places) of `places_used`.
        rows: rows of the frame, of one size of a microbatch.
        again: recomputation of each.
        samples: that size.
    """
    at, _, starts, _ = frame.paths
    grid, count = frame.grid[rows], frame.count[rows] / (schedule.placement.copies or 1)
    found = np.zeros(len(rows))
    for place in range(len(costs.places)):
        seconds = costs.seconds(samples, place)
        work = at.of(seconds.once)
        if schedule.hides:
            work = np.maximum(at.of(seconds.bare), at.of(seconds.comm))
        least = np.minimum.reduceat(work, starts, axis=0)
        np.maximum(found, np.where(used[grid, place], count * least[grid, again], 0.0), out=found)
    return found
