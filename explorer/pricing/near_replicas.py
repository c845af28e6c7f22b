"""Replicas near a replica: only those can use the same shared links, however many there are."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from explorer.cluster import Cluster
from explorer.costs.group_tiers import level_groups
from explorer.tasks.skeleton import IntArray

Rows = tuple[tuple[int, ...], ...]
"""Devices by replica."""


class NearReplicas:
    """Replicas by the devices and uplinks that they have in common.

    Args:
        cluster: the links between the devices.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._units = [
            level_groups(cluster, depth - 1)
            for depth, level in enumerate(cluster.levels)
            if depth and level.uplink_bytes_per_s
        ]
        self._tables: dict[Rows, IntArray] = {}
        self._known: dict[tuple[tuple[Rows, ...], int], frozenset[int]] = {}

    def of(self, sides: tuple[Rows, ...], replica: int) -> frozenset[int]:
        """Return the replicas that may share a link with one, itself included.

        Args:
            sides: devices by replica of everything that takes part: the senders, and the receivers.
            replica: the one.
        """
        found = self._known.get((sides, replica))
        if found is None:
            found = self._known[sides, replica] = frozenset(self._find(sides, replica))
        return found

    def _find(self, sides: tuple[Rows, ...], replica: int) -> Iterable[int]:
        if self._cluster.shared:  # named buses join whatever they like
            return range(len(sides[0]))
        devices = np.concatenate([self._table(rows) for rows in sides], axis=1)
        near = np.zeros(len(devices), dtype=bool)
        for unit in (np.arange(self._cluster.device_count), *self._units):
            used = np.zeros(int(unit[-1]) + 1, dtype=bool)
            used[unit[devices[replica]]] = True
            near |= used[unit[devices]].any(axis=1)
        return np.flatnonzero(near).tolist()

    def _table(self, rows: Rows) -> IntArray:
        if rows not in self._tables:
            self._tables[rows] = np.array(rows, dtype=np.int64)
        return self._tables[rows]
