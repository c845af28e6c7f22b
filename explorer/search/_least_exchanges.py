"""Exchanges of weights and gradients that no strategy of a group avoids, since only so its states fit.

Without ZeRO 2 a device keeps the gradients of all its stages, without ZeRO 3 their weights too. Where these
do not fit, every microbatch is reduced by itself, and gathered before each forward and backward, over the
same links: the first position takes no less than that for all of its microbatches.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.schedules.spec import Schedule
from explorer.search._even_stages import LEADING
from explorer.search._frames import BoolArray, Frame
from explorer.search._layout_costs import LayoutCosts

FloatArray = npt.NDArray[np.float64]
FORCING = (2, 3)
"""ZeRO levels at which every microbatch is exchanged by itself."""


def leading(costs: LayoutCosts) -> int:
    """Return how many positions of `LEADING` count: of mixed devices the second may have more room."""
    return 1 if len(costs.cluster.device_kinds) > 1 else len(LEADING)


def states_of(costs: LayoutCosts, frame: Frame, zero: int) -> FloatArray:
    """Return the (leading positions, grids, recomputations) bytes of weights, gradients and optimizer states
    that a device holds at least: what a ZeRO level shares, it shares with all devices at most.

    Args:
        costs: costs of the layout.
        frame: the pipelines.
        zero: the level.
    """
    held = costs.bytes()
    parts = (held.weights, held.gradients, held.optimizer)
    shared = {0: (), 1: (2,), 2: (1, 2), 3: (0, 1, 2)}[zero]
    spread = np.reshape(frame.replicas * costs.row * frame.positions, (-1, 1))
    return np.array(
        [
            sum(at.of(part) / (spread if k in shared else 1.0) for k, part in enumerate(parts))
            for at in frame.leading[: leading(costs)]
        ]
    )


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
