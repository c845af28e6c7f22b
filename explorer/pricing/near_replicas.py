"""Replicas near a replica: only those can use the same shared links, however many there are."""

from __future__ import annotations

import numpy as np

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.cluster import Cluster
from explorer.costs.group_tiers import level_groups
from explorer.tasks.skeleton import IntArray

Rows = tuple[tuple[int, ...], ...]
"""Devices by replica."""


@remembered(STAGES_KEPT)
def near_replicas(cluster: Cluster, sides: tuple[Rows, ...], replica: int) -> frozenset[int]:
    """Return the replicas that may share a link with one, itself included.

    Args:
        cluster: the links between the devices.
        sides: devices by replica of everything that takes part: the senders, and the receivers.
        replica: the one.
    """
    if cluster.shared:  # named buses join whatever they like
        return frozenset(range(len(sides[0])))
    devices = np.concatenate([_table(rows) for rows in sides], axis=1)
    near = np.zeros(len(devices), dtype=bool)
    uplinks = [
        level_groups(cluster, depth - 1)
        for depth, level in enumerate(cluster.levels)
        if depth and level.uplink_bytes_per_s
    ]
    for unit in (np.arange(cluster.device_count), *uplinks):
        used = np.zeros(int(unit[-1]) + 1, dtype=bool)
        used[unit[devices[replica]]] = True
        near |= used[unit[devices]].any(axis=1)
    return frozenset(np.flatnonzero(near).tolist())


@remembered(64)
def _table(rows: Rows) -> IntArray:
    return np.array(rows, dtype=np.int64)
