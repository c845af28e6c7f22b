"""Demand of a collective on shared ports and uplinks while it runs at full speed.

A collective passes bytes on at the rate of its slowest tier; a resource carries the part of them that
crosses it. In a ring of n devices every unit of a tier (a device, a node) sends (n-1)/n S a pass, in a
hierarchy over k units (k-1)/k S; a unit's devices share this, each over a port of its own. Divided by the
seconds of a pass this is the rate demanded. Start-up times are left out, as for transfers. A collective that
has the cluster for itself never demands more than there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.base.caching import remembered
from explorer.cluster import Cluster, Level
from explorer.costs.collectives import server_line
from explorer.costs.explicit_links import joined_by_links
from explorer.costs.group_tiers import level_groups, span_of

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class ResourceUse(NamedTuple):
    """One shared resource that a device's part of a collective uses."""

    resource: str
    """Its name, as in `Cluster.path`."""
    capacity: float
    """Bytes/s."""
    own: float
    """Bytes/s that this device sends through it."""
    group: float
    """Bytes/s that all devices of the collective send through it."""


class _Crossing(NamedTuple):
    """How a group crosses one level; arrays are per device of the group."""

    level: Level
    unit: IntArray
    """Per device its unit: the number of a device or inner group that the level joins."""
    joined: IntArray
    """Per device how many units the level joins around it."""
    members: IntArray
    """Per device how many devices of the group its unit has."""
    everything: NDArray[np.bool_]
    """Per device whether the level joins the whole group there."""
    port: IntArray
    """Per device the number of the group that the uplink belongs to; -1 if there is none."""


class PortUse:
    """The shared resources of a collective, by device."""

    def __init__(
        self,
        devices: tuple[int, ...],
        rates: list[tuple[_Crossing, FloatArray]],
        linked: dict[int, tuple[ResourceUse, ...]] | None = None,
    ) -> None:
        self._linked = linked or {}
        self._place = {device: i for i, device in enumerate(devices)}
        self._levels = [(crossing, rate, _summed(crossing.port, rate)) for crossing, rate in rates]

    def of(self, device: int) -> tuple[ResourceUse, ...]:
        """Return the resources that the part of one device uses; () if it is not in the group."""
        i = self._place.get(device)
        found: list[ResourceUse] = list(self._linked.get(device, ()))
        for crossing, rate, total in self._levels if i is not None else ():
            level, own = crossing.level, float(rate[i])
            if not own:
                continue
            if level.device_bytes_per_s:
                room = level.device_bytes_per_s
                sent = min(own, room)
                found += [
                    ResourceUse(f"{level.name}:{way}:{device}", room, sent, sent) for way in ("out", "in")
                ]
            if level.uplink_bytes_per_s and crossing.port[i] >= 0:
                room, together = level.uplink_bytes_per_s, min(float(total[i]), level.uplink_bytes_per_s)
                names = [f"{level.name}:{way}:group{crossing.port[i]}" for way in ("out", "in")]
                found += [ResourceUse(name, room, min(own, room), together) for name in names]
        return tuple(found)


@remembered(4096)
def ring_use(cluster: Cluster, devices: tuple[int, ...], concurrent: int) -> PortUse:
    """Return the resources of an all-reduce, reduce-scatter or all-gather over a group.

    Args:
        cluster: the links between the devices.
        devices: the group.
        concurrent: groups of the same shape that run at once, this one included.
    """
    span = span_of(cluster, devices)
    if span.size == 1:
        return PortUse(devices, [])
    ring = (span.size - 1) / span.size
    seconds, by_tier = ring / span.rate(concurrent), False
    if span.even and len(span.tiers) > 1:
        tiered = sum((t.units - 1) / t.units / t.rate(concurrent) for t in span.tiers)
        seconds, by_tier = min(seconds, tiered), tiered < seconds
    rates = []
    for crossing in _crossings(cluster, devices):
        inside = (crossing.joined - 1) / np.maximum(crossing.joined, 1)
        sent = inside if by_tier else ring * np.where(crossing.everything, 1.0, inside)
        sent = np.where(crossing.joined > 1, sent / crossing.members, 0.0)
        rates.append((crossing, sent / (seconds * crossing.level.collective_efficiency)))
    return PortUse(devices, rates, _linked_use(cluster, devices, ring / seconds))


def _linked_use(
    cluster: Cluster, devices: tuple[int, ...], rate: float
) -> dict[int, tuple[ResourceUse, ...]]:
    """Return the demand on explicit links: every device sends evenly over the links of its component."""
    if not cluster.shared:
        return {}
    members = np.asarray(sorted(devices), dtype=np.int64)
    units, _ = joined_by_links(cluster, members)
    component = dict(zip(members.tolist(), units.tolist(), strict=True))
    found: dict[int, tuple[ResourceUse, ...]] = {}
    for unit in set(component.values()):
        own = [device for device, other in component.items() if other == unit]
        links = [link for link in cluster.links if link.source in own and link.target in own]
        uses = []
        for name, room in cluster.shared:
            through = [link for link in links if link.shared == name]
            if through:
                sent = rate * len(own) * len(through) / len(links) / through[0].collective_efficiency
                uses.append(ResourceUse(name, room, min(sent / len(own), room), min(sent, room)))
        found.update(dict.fromkeys(own, tuple(uses)))
    return found


@remembered(1024)
def server_use(
    cluster: Cluster, workers: tuple[int, ...], servers: tuple[int, ...], concurrent: int
) -> PortUse:
    """Return the resources of a push to and a pull from parameter servers with equal shards."""
    _, seconds = server_line(cluster, workers, servers, concurrent)
    devices = tuple(sorted({*workers, *servers}))
    if not seconds:
        return PortUse(devices, [])
    sends = np.isin(devices, workers).astype(float)
    holds = np.isin(devices, servers) / len(servers)
    rates = []
    for crossing in _crossings(cluster, devices):
        around = level_groups(cluster, cluster.levels.index(crossing.level))[list(devices)]
        away = _summed(around, holds) - _summed(crossing.unit, holds)
        others = _summed(around, sends) - _summed(crossing.unit, sends)
        sent = sends * away + holds * others
        rates.append((crossing, sent / (2 * seconds * crossing.level.efficiency_of("parameter_server"))))
    return PortUse(devices, rates)


def _crossings(cluster: Cluster, devices: tuple[int, ...]) -> Iterator[_Crossing]:
    """Yield level by level, innermost first, how a group is joined (as `spans` joins it)."""
    members = np.asarray(devices, dtype=np.int64)
    units = np.arange(len(members))
    if cluster.links and len(members) > 1:
        order = np.argsort(members)
        linked, _ = joined_by_links(cluster, members[order])
        units[order] = linked
    for depth, level in enumerate(cluster.levels):
        group = level_groups(cluster, depth)[members]
        pairs = np.unique(np.stack([group, units]), axis=1)
        joined = np.bincount(pairs[0], minlength=int(group.max()) + 1)[group]
        port = level_groups(cluster, depth - 1)[members] if depth else np.full(len(members), -1)
        yield _Crossing(
            level=level,
            unit=units.copy(),
            joined=joined,
            members=np.bincount(units)[units],
            everything=np.bincount(group)[group] == len(members),
            port=port,
        )
        _, units = np.unique(group, return_inverse=True)
        if units.max() == 0:
            return


def _summed(labels: IntArray, values: FloatArray) -> FloatArray:
    """Sum the values of each label, and give every item the sum of its label."""
    if labels.min(initial=0) < 0:
        return values
    totals: FloatArray = np.bincount(labels, weights=values).astype(np.float64)
    return totals[labels]


__all__ = ["PortUse", "ResourceUse", "ring_use", "server_use"]
