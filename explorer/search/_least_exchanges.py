"""Exchanges of weights and gradients that no strategy of a group avoids, since only so its states fit.

Without ZeRO 2 a device keeps the gradients of all its stages, without ZeRO 3 their weights too. Where these
do not fit, every microbatch is reduced by itself, and gathered before each forward and backward, over the
same links: the first position takes no less than that for all of its microbatches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import Schedule
from explorer.search._frames import BoolArray, Frame
from explorer.search._layout_costs import LayoutCosts

FloatArray = npt.NDArray[np.float64]
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
