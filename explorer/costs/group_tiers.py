r"""Span of a group of devices: tier by tier, from the links inside a node to the network over all.

A collective's time depends on its devices only through a few numbers per tier: how many *units* (devices,
then nodes) a tier joins, how many ring hops cross it, and how fast one unit can send. They are worked out
once per group, by counting devices per unit and never by looking at pairs, so 16,384 devices are cheap.

                tier 1: infiniband    units: 2 nodes     2 hops of a ring (one is the way back)
               /                  \
        [0 1 2 3]              [4 5 6 7]    tier 0: nvswitch    units: 4 devices, twice; 3 + 3 hops
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.base.errors import InputError
from explorer.cluster import Cluster, Level
from explorer.costs.explicit_links import Pace, Port, Tier, joined_by_links

_MAX_SPANS = 8192  # groups remembered per cluster; a search over a large cluster makes thousands
_HASHED = 64  # groups up to this size are found by value, larger ones by identity: hashing them takes longer


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A group of devices seen through the cluster's links."""

    size: int
    """Devices in the group."""
    tiers: tuple[Tier, ...]
    """Tiers that the group needs, innermost first."""
    lines: dict[object, tuple[tuple[float, float, float], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Results of `collectives`: lines per operation, algorithm and sharing."""

    def rate(self, concurrent: int = 1, op: str = "") -> float:
        """Return the bytes/s of an operation's ring over the group: its slowest tier."""
        return min(tier.rate(concurrent, op) for tier in self.tiers)

    @property
    def overhead_s(self) -> float:
        """Seconds of a collective besides its messages: it is launched once, whatever it spans."""
        return max((tier.overhead_s for tier in self.tiers), default=0.0)

    @property
    def ring_latency_s(self) -> float:
        """Start-up in seconds of a message to every device: all hops of the ring but the cheapest."""
        return sum(t.hops * t.latency_s for t in self.tiers) - min(t.latency_s for t in self.tiers)

    @property
    def tree_latency_s(self) -> float:
        """Start-up of a message down a balanced binary tree of every tier, in seconds."""
        return sum(math.ceil(math.log2(tier.units)) * tier.latency_s for tier in self.tiers)

    @property
    def paces(self) -> tuple[tuple[Pace, ...], ...]:
        """Ways to run a collective, each with what every tier makes of it: tiers use protocols of one name.

        A switch adds up what is below it: no such way serves several tiers.
        """
        names = dict.fromkeys(pace.name for tier in self.tiers for pace in tier.paces) or {"": None}
        found = dict.fromkeys(tuple([tier.pace(name) for tier in self.tiers]) for name in names)
        alone = len(self.tiers) == 1
        return tuple(paces for paces in found if alone or not any(pace.in_switch for pace in paces))

    @property
    def even(self) -> bool:
        """Whether every unit of a tier holds equally many devices: hierarchical algorithms need it."""
        return all(tier.even for tier in self.tiers)


def span_of(cluster: Cluster, devices: tuple[int, ...]) -> Span:
    """Return the span of a group, made once.

    Raises:
        InputError: the group is empty, names a device twice or one that does not exist, or two that nothing
            joins.
    """
    known: dict[object, tuple[tuple[int, ...], Span]] = cluster.memo("collective spans", dict)
    key = devices if len(devices) <= _HASHED else id(devices)
    found = known.get(key)
    if found is not None and (found[0] is devices or found[0] == devices):
        return found[1]
    if len(known) >= _MAX_SPANS:
        known.clear()
    span = _span(cluster, devices)
    known[key] = (devices, span)
    return span


def alike_groups(cluster: Cluster, groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each group of devices, shape (groups, devices), equal for those with equal tiers.

    Of clusters that levels alone describe, what joins a group are the levels in which its devices share a
    unit, and the sizes of these units: groups with the same of them are alike. Some that are alike may have
    different numbers.
    """
    flat = np.sort(groups, axis=1)
    columns = []
    for depth in range(len(cluster.levels)):
        unit = level_groups(cluster, depth)
        own = unit[flat]
        columns += [own[:, 1:] != own[:, :-1], np.bincount(unit)[own]]
    return numbered_rows(np.concatenate(columns, axis=1))


def numbered_rows(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Return for each row of numbers a number, equal for equal rows."""
    whole = np.ascontiguousarray(rows, dtype=np.int64)
    as_one = whole.view(np.dtype((np.void, whole.dtype.itemsize * whole.shape[1]))).ravel()
    return np.unique(as_one, return_inverse=True)[1].astype(np.int64)


def level_groups(cluster: Cluster, depth: int) -> NDArray[np.int64]:
    """Return the group of level `depth` that each device of the cluster is in, shape (devices,)."""
    return cluster.memo(("level groups", depth), lambda: _level_groups(cluster, cluster.levels[depth]))


def _level_groups(cluster: Cluster, level: Level) -> NDArray[np.int64]:
    if level.scope == "all":
        return np.zeros(cluster.device_count, dtype=np.int64)
    if level.scope == "node":
        sizes = np.repeat(
            [group.devices_per_node for group in cluster.nodes], [group.most for group in cluster.nodes]
        )
        return np.repeat(np.arange(len(sizes)), sizes)
    return np.arange(cluster.device_count) // int(level.scope)


def _span(cluster: Cluster, devices: tuple[int, ...]) -> Span:
    members = np.unique(np.asarray(devices, dtype=np.int64))
    if not len(members) or len(members) != len(devices):
        raise InputError(
            f"a group of {len(devices)} devices, {len(members)} of them different",
            key="devices",
            found=len(devices),
            allowed="one device or more, each once",
        )
    if members[0] < 0 or members[-1] >= cluster.device_count:
        found = int(members[0] if members[0] < 0 else members[-1])
        raise InputError(
            f"no device {found} in cluster {cluster.name!r}",
            key="devices",
            found=found,
            allowed=f"0 to {cluster.device_count - 1}",
        )
    tiers: list[Tier] = []
    units = np.arange(len(members))
    if cluster.links and len(members) > 1:
        units, linked = joined_by_links(cluster, members)
        tiers += [linked] if linked else []
    for depth, level in enumerate(cluster.levels):
        if units.max() == 0:
            break
        units, tier = _joined(cluster, depth, level, members, units)
        tiers += [tier] if tier else []
    if units.max() > 0:
        cluster.path(int(members[0]), int(members[np.argmax(units != units[0])]))  # raises: there is no path
    return Span(size=len(members), tiers=_closed(tiers))


def _closed(tiers: list[Tier]) -> tuple[Tier, ...]:
    """Return the tiers with the ring's way back, which crosses the outermost tier once more."""
    if not tiers:
        return ()
    return (*tiers[:-1], replace(tiers[-1], hops=tiers[-1].hops + 1))


def _joined(
    cluster: Cluster, depth: int, level: Level, members: NDArray[np.int64], units: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Tier | None]:
    """Return the units after `level` has joined what it can, and its tier; None if it joined nothing."""
    inside, first = np.bincount(units), np.unique(units, return_index=True)[1]
    _, group = np.unique(level_groups(cluster, depth)[members[first]], return_inverse=True)
    joined, total = np.bincount(group), np.bincount(group, weights=inside).astype(np.int64)
    crossing = joined[group] > 1
    if not crossing.any():
        return units, None
    sizes = inside
    if depth:
        inner = level_groups(cluster, depth - 1)
        sizes = np.bincount(inner)[inner[members[first]]]
    shapes = np.stack([inside, total[group] - inside, sizes], axis=1)[crossing]
    distinct = np.unique(shapes, axis=0)
    tier = Tier(
        name=level.name,
        latency_s=level.latency_s,
        units=int(joined.max()),
        hops=int((joined - 1).sum()),
        ports=tuple(_port(level, depth, int(joined.max()), *map(int, shape)) for shape in distinct),
        even=bool(crossing.all() and len(set(inside.tolist())) == 1 and len(set(joined.tolist())) == 1),
        overhead_s=level.collective_overhead_s,
        speed=tuple((op, share / level.collective_efficiency) for op, share in level.operation_efficiency),
        paces=cluster.memo(("paces", depth), lambda: _paces(level)),
    )
    return group[units], tier


def _paces(level: Level) -> tuple[Pace, ...]:
    """Return what the protocols of a level make of it."""
    return tuple(
        Pace(
            name=item.name,
            step_s=item.step_s,
            overhead_s=level.collective_overhead_s + item.overhead_s,
            slice_s=item.slice_s,
            shares=item.shares,
            own_copy=item.own_copy,
            in_switch=item.in_switch,
        )
        for item in level.protocols
    )


def _port(level: Level, depth: int, units: int, members: int, peers: int, size: int) -> Port:
    """Return a level's port: links to different peers run at once only if the device has a total."""
    pair, total = level.bandwidth_bytes_per_s, level.device_bytes_per_s
    device = (min(total, peers * pair) if total else pair) * level.collective_efficiency
    uplink = level.uplink_bytes_per_s if depth and level.uplink_bytes_per_s else math.inf
    return Port(
        members=members,
        peers=peers,
        size=size,
        device_bytes_per_s=device,
        exchange_bytes_per_s=device,
        uplink_bytes_per_s=uplink * level.collective_efficiency,
        slowdown=1 + level.crossing_slowdown * math.log2(units) if depth and 1 < members < size else 1.0,
    )
