"""Stragglers: devices that meet wait for the slowest, and the more of them meet the slower it is.

Devices of one kind are not equally fast: under a power limit each clocks as high as its silicon and its
cooling allow (Sinha et al., Not All GPUs Are Created Equal, SC 2022: within a cluster of equal GPUs the same
work takes 8 % longer on the slow than on the fast ones). With a relative spread s around the mean, n devices
that share a step take as long as the slowest of n draws:

    1 + s E(n)        E(n) = expected maximum of n standard normals: 0, .56, 1.03, 1.42 for 1, 2, 4, 8

Two things are drawn. What stays with a card for a whole run is waited for once, by all that reduce gradients
together. What comes and goes from one kernel to the next averages out over a step, but not between two
collectives inside a lane: a lane waits for it as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from explorer.cluster import DeviceKind

_REACH, _STEPS = 12.0, 24_001


@lru_cache(maxsize=4096)
def slowest_of(devices: int) -> float:
    """Return the expected maximum of so many independent standard normals: the order statistic, by
    integrating x d(F(x)^n).

    >>> [round(slowest_of(n), 3) for n in (1, 2, 3, 8, 512)]
    [0.0, 0.564, 0.846, 1.424, 3.044]
    """
    if devices <= 1:
        return 0.0
    x, step = np.linspace(-_REACH, _REACH, _STEPS, retstep=True)
    density = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
    below = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2 * step)])
    within = np.minimum(1.0, below) ** devices
    # E = integral of 1 - F^n above 0 less integral of F^n below 0, whose jump of 1 at 0 counts half a step
    return float((np.where(x > 0, 1.0 - within, -within).sum() + 0.5) * step)


def lane_factor(kinds: Iterable[DeviceKind], devices: int) -> float:
    """Return how many times as long the work of a lane takes as that of one device alone.

    Args:
        kinds: kinds of its devices.
        devices: how many meet at its collectives.
    """
    slowest = slowest_of(devices)
    return 1.0 + max(kind.lockstep_wait + kind.device_spread * slowest for kind in kinds)


def stage_factor(kinds: Iterable[DeviceKind], devices: int) -> float:
    """Return how many times as long all work of a stage takes in training.

    Args:
        kinds: kinds of the devices of a lane.
        devices: devices of all of its replicas and copies, which meet at every update.
    """
    return 1.0 + max(kind.device_spread for kind in kinds) * slowest_of(devices)
