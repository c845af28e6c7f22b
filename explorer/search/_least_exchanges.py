"""Exchanges of weights and gradients that no strategy of a group avoids, since only so its states fit.

Without ZeRO 2 a device keeps the gradients of all its stages, without ZeRO 3 their weights too. Where these
do not fit, every microbatch is reduced by itself, and gathered before each forward and backward, over the
same links: the first position takes no less than that for all of its microbatches, and its work takes longer
beside gathers (`explorer.pricing.exchanges_beside`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import Schedule
from explorer.search._frames import BoolArray, Frame
from explorer.search._layout_costs import LayoutCosts

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
FORCING = (2, 3)
"""ZeRO levels at which every microbatch is exchanged by itself."""


def least_exchanged(costs: LayoutCosts, schedule: Schedule, frame: Frame, there: BoolArray) -> FloatArray:
    """Return the (2, rows) seconds of a step in which the first position exchanges, at ZeRO 2 and at ZeRO 3.

    Args:
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        there: rows that are asked.
    """
    found = np.zeros((2, len(frame)))
    copies = schedule.placement.copies or 1
    if not schedule.flush or (copies > 1 and not costs.table.period):
        return found
    rows = np.flatnonzero(there)
    replicas = frame.replicas[frame.grid[rows]]
    for count in np.unique(replicas).tolist():
        mine = rows[replicas == count]
        grid, m, stays = frame.grid[mine], frame.count[mine], frame.stays[mine]
        reduced, gathered = frame.leading[0].of(costs.exchanged(count * copies))[grid].T
        found[0, mine] = np.where(stays, 1.0, m) * reduced
        found[1, mine] = np.maximum(found[0, mine], np.where(stays, 0.0, 2 * m / copies) * gathered)
    return found


def slowed_by_gathers(
    costs: LayoutCosts, schedule: Schedule, frame: Frame, rows: IntArray, again: IntArray, samples: int
) -> FloatArray:
    """Return the (rows,) seconds of the first position, whose every action gathers its weights; 0 where that
    is not known. A forward and the gradient behind it are slowed by as much as both together at least.

    Args:
        costs: costs of the layout.
        schedule: the schedule.
        frame: its pipelines.
        rows: rows that only ZeRO 3 lets fit, of one size of a microbatch.
        again: recomputation of each.
        samples: that size.
    """
    copies, found = schedule.placement.copies, np.zeros(len(rows))
    alike = len(costs.cluster.device_kinds) == 1 and (copies == 1 or bool(copies and costs.table.period))
    if schedule.hides or not alike:
        return found
    once, passed, *_ = costs.least_s(samples)
    grid, slowdown = frame.grid[rows], costs.slowdown
    replicas = np.where(frame.stays[rows], 0, frame.replicas[grid])
    for count in np.unique(replicas[replicas > 1]).tolist():
        mine = np.flatnonzero(replicas == count)
        fetch = costs.exchanged(count * copies)[:, 1:]
        longer = frame.leading[0].of(once + slowdown * np.minimum(fetch, passed))
        found[mine] = frame.count[rows[mine]] / copies * longer[grid[mine], again[mine]]
    return found
