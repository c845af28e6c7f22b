"""Devices as planners see them: interchangeable groups by kind, and the links between them.

A planner takes single devices as long as they are at most `MOST_GROUPS`. More are taken node by node: the
devices of a node are then replicas of each other, and if nodes are too many too, so are those of 2, 4, ...
nodes next to each other in the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from explorer.cluster import Cluster, DeviceKind, Path
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.models.partitioning import CPU
from explorer.search._rates import room_of
from explorer.search.problem import Problem

MOST_GROUPS = 64
"""Most groups of devices that a planner tells apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Groups of equally many devices, by kind in the order of the problem."""

    cluster: Cluster
    """The cluster under the software of the job."""
    kinds: tuple[DeviceKind, ...]
    """Kinds of devices in use."""
    groups: tuple[tuple[tuple[int, ...], ...], ...]
    """Per kind: its groups of devices."""
    size: int
    """Devices of a group: replicas of each other."""

    @property
    def count(self) -> int:
        """Number of groups."""
        return sum(map(len, self.groups))

    @property
    def order(self) -> tuple[tuple[int, ...], ...]:
        """All groups, kind by kind."""
        return tuple(group for own in self.groups for group in own)

    @property
    def host(self) -> bool:
        """Whether tensors go through the memory of a host, whose processors take part."""
        return any(kind.name == CPU for kind in self.kinds)

    @property
    def bytes_per_s(self) -> float:
        """Rate of a device's transfers: to the host if it takes part, else to the slowest neighbour."""
        if self.host:
            return min(kind.host_bandwidth_bytes_per_s for kind in self.kinds)
        return min((path.bandwidth_bytes_per_s for path in self._paths), default=float("inf"))

    @property
    def latency_s(self) -> float:
        """Seconds that a transfer takes at least."""
        return 0.0 if self.host else max((path.latency_s for path in self._paths), default=0.0)

    @property
    def _paths(self) -> list[Path]:
        ends = [(a[-1], b[0]) for a, b in pairwise(self.order)]
        return [self.cluster.path(*pair) for pair in ends]

    def joined(self, most: int) -> tuple[tuple[int, ...], ...]:
        """Return all groups, kind by kind, neighbours joined in pairs until there are so many at most."""
        groups = self.order
        while len(groups) > most:
            groups = tuple(a + b for a, b in zip(groups[::2], groups[1::2], strict=False))
        return groups

    def fewer(self, count: int) -> Fleet:
        """Return the fleet with so many groups at most of every kind."""
        return Fleet(
            cluster=self.cluster, kinds=self.kinds, size=self.size,
            groups=tuple(own[:count] for own in self.groups),
        )  # fmt: skip


def fleet_of(problem: Problem, *, most: int = MOST_GROUPS) -> Fleet:
    """Return the devices of a problem.

    Args:
        problem: the search problem.
        most: most groups.

    Raises:
        InputError: there is no cluster.
    """
    cluster = cluster_under(problem.needed_cluster, load_framework(problem.job.framework))
    by_kind: dict[str, list[int]] = {}
    for device in problem.order:
        by_kind.setdefault(cluster.kind_of(device).name, []).append(device)
    size = 1
    if len(problem.order) > most:
        size = min(cluster.node_size(device) for device in problem.order)
        while len(problem.order) // size > most:
            size *= 2
    groups = tuple(_groups(own, size) for own in by_kind.values())
    kinds = tuple(cluster.kind_of(own[0]) for own in by_kind.values())
    return Fleet(cluster=cluster, kinds=kinds, groups=groups, size=size)


def _groups(devices: Sequence[int], size: int) -> tuple[tuple[int, ...], ...]:
    whole = len(devices) // size * size
    return tuple(tuple(devices[i : i + size]) for i in range(0, whole, size))


def room_bytes(problem: Problem, kind: DeviceKind) -> float:
    """Return the bytes of a device that a plan may fill."""
    return room_of(problem, kind) - kind.reserved_bytes
