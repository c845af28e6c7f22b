"""When workers of several devices converge sooner than as many workers of one device.

A run to convergence takes C = T S / (n b) E(n b): T seconds of a step, S samples in an epoch, n workers of b
samples, E epochs at their global batch. With SE_n the scaling efficiency of n workers, T_1 / T_n, and SU the
speed-up of a step by M devices, N workers of M devices are sooner than N M single ones if

    SU  >  M  (SE_NM / SE_N)  (E_N / E_NM)

(Pal et al., IEEE Micro 2019): the more workers, the larger the batch, and the more epochs it takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Convergence(NamedTuple):
    """So many devices, with one device a worker and with several."""

    devices: int
    data_s: float
    """Seconds to convergence, every device a worker."""
    hybrid_s: float
    """Seconds to convergence, several devices a worker."""

    @property
    def gain(self) -> float:
        """Share by which the hybrid is faster; negative if it is slower."""
        return self.data_s / self.hybrid_s - 1.0


def convergence_s(step_s: float, samples: float, batch: float, epochs: float) -> float:
    """Return the seconds to convergence.

    Args:
        step_s: seconds of a step T.
        samples: samples of an epoch S.
        batch: global batch n b.
        epochs: epochs E at that batch.
    """
    return step_s * samples / batch * epochs


def needed_speedup(members: int, efficiency_ratio: float, epochs_ratio: float) -> float:
    """Return the speed-up of a step above which workers of several devices pay.

    Args:
        members: devices of a worker M.
        efficiency_ratio: SE_NM / SE_N.
        epochs_ratio: E_N / E_NM.

    >>> needed_speedup(2, 0.9, 0.7)
    1.26
    """
    return members * efficiency_ratio * epochs_ratio


def overtakes_at(points: Sequence[Convergence]) -> int | None:
    """Return from how many devices on the hybrid is faster; None if it is not, at the largest number.

    >>> overtakes_at([Convergence(2, 8.0, 9.0), Convergence(4, 5.0, 5.0), Convergence(8, 4.0, 3.0)])
    8
    """
    found = None
    for point in sorted(points, reverse=True):
        if point.gain <= 0:
            break
        found = point.devices
    return found


def best_gain(points: Sequence[Convergence]) -> float:
    """Return by what share the best hybrid is faster than the best use of single devices."""
    return min(point.data_s for point in points) / min(point.hybrid_s for point in points) - 1.0
