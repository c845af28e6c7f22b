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

from explorer.base.extremes import slowest_of
from explorer.cluster import DeviceKind


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
