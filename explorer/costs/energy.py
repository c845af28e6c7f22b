"""Joules and dollars of a step, by how long each device is busy and how long the step takes.

There is nothing between idle and busy power: a device that computes or communicates draws its busy watts,
else its idle watts. It is paid for as long as the step takes, busy or not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from explorer.base.errors import InputError
from explorer.cluster import Cluster

SECONDS_PER_HOUR = 3600.0


def energy_joules(
    cluster: Cluster, devices: Sequence[int], busy_s: Sequence[float] | NDArray[np.float64], step_s: float
) -> float:
    """Return the joules of one step: sum over devices of busy x busy watts + (step - busy) x idle watts.

    Args:
        cluster: for the watts of each device's kind; 0 if unknown.
        devices: the devices that take part.
        busy_s: seconds for which each of them is busy in the step.
        step_s: seconds of the step; a device that is busy for longer is never idle.

    Raises:
        InputError: there is not one number per device, or one is below 0.
    """
    busy = np.asarray(busy_s, dtype=float)
    if busy.shape != (len(devices),) or (busy < 0).any() or step_s < 0:
        raise InputError(
            f"{busy.size} busy times for {len(devices)} devices over {step_s} s",
            key="busy_s",
            found=busy.size,
            allowed="one number of 0 or more per device",
        )
    watts = np.asarray([_watts(cluster, device) for device in devices]).reshape(-1, 2)
    idle = np.maximum(step_s - busy, 0.0)
    return float(busy @ watts[:, 1] + idle @ watts[:, 0])


def dollars_per_hour(cluster: Cluster, devices: Sequence[int]) -> float:
    """Return the price of the devices for an hour; 0 if unknown.

    Raises:
        InputError: a device does not exist.
    """
    return sum(cluster.kind_of(device).price_per_hour for device in devices)


def dollars(cluster: Cluster, devices: Sequence[int], step_s: float) -> float:
    """Return the dollars of one step on the devices.

    Raises:
        InputError: a device does not exist.
    """
    return dollars_per_hour(cluster, devices) * step_s / SECONDS_PER_HOUR


def _watts(cluster: Cluster, device: int) -> tuple[float, float]:
    kind = cluster.kind_of(device)
    return kind.idle_watts, kind.busy_watts
