"""What an objective charges for seconds and bytes, so that bounds of many strategies are one product."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.cluster import DeviceKind
from explorer.cluster.memory_room import memory_room
from explorer.search._devices import DeviceOrder
from explorer.search.objectives import Objective
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


class Rates:
    """Bounds of an objective on the first devices of an order; it is linear in seconds and bytes.

    Args:
        problem: the search problem.
        order: device of every rank.
        objective: the objective; by default the one that ranks candidates.
    """

    def __init__(self, problem: Problem, order: DeviceOrder, objective: Objective | None = None) -> None:
        self._problem, self._order = problem, order
        self._objective = objective or problem.ranks
        self._known: dict[int, tuple[float, float, float]] = {}

    def of(self, used: int) -> tuple[float, float, float]:
        """Return what so many devices, a second of the step and a byte of the peak cost at least."""
        if used not in self._known:
            cluster, job = self._problem.needed_cluster, self._problem.job
            devices = self._order[:used] if self._objective.per_device else self._order[:1]
            bound = self._objective.strategy_bound
            alone = bound(cluster, job, 0.0, 0.0, devices)
            self._known[used] = (
                alone, bound(cluster, job, 1.0, 0.0, devices) - alone,
                bound(cluster, job, 0.0, 1.0, devices) - alone,
            )  # fmt: skip
        return self._known[used]

    def least(self, step_s: FloatArray, peak_bytes: FloatArray, used: IntArray) -> FloatArray:
        """Return bounds of the objective, given bounds of step times, peaks, and devices used."""
        counts, at = np.unique(used, return_inverse=True) if self._objective.per_device else ([1], 0)
        alone, second, byte = np.array([self.of(int(count)) for count in counts]).reshape(-1, 3).T
        found: FloatArray = alone[at] + second[at] * step_s + byte[at] * peak_bytes
        return found


def room_of(problem: Problem, kind: DeviceKind) -> float:
    """Return the bytes that a device of a kind may be predicted to hold."""
    most = memory_room(kind).limit_bytes
    return min(most, problem.memory_limit_bytes or most)
