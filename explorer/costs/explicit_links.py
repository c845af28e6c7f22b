"""Tiers and ports, also of explicit links: how fast a mesh such as a DGX-1's carries a collective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.base.errors import InputError
from explorer.cluster import Cluster, Link

_CUT_SEARCHED = 128  # devices up to which the narrowest cut is sought; beyond, that of one device counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """How the units of one shape send over a tier."""

    members: int
    """Devices of the group in one unit."""
    peers: int
    """Devices of the group that one device reaches over this tier."""
    size: int
    """Devices that the unit holds on the cluster, in this group or not."""
    device_bytes_per_s: float
    """Bytes/s that one device sends in a ring, over all its links of this tier."""
    exchange_bytes_per_s: float
    """Bytes/s that one device sends when it has something for every peer."""
    uplink_bytes_per_s: float = math.inf
    """Bytes/s that the unit can send, shared with other groups; inf if unlimited."""
    slowdown: float = 1.0
    """Factor by which a ring's bytes take longer since it leaves the unit elsewhere than it came in."""

    def rate(self, concurrent: int = 1, *, exchange: bool = False) -> float:
        """Return the bytes/s that one unit sends for this group while `concurrent` groups like it run.

        No more groups can share an uplink than its unit has devices.
        """
        each = self.exchange_bytes_per_s if exchange else self.device_bytes_per_s
        slowdown = 1.0 if exchange else self.slowdown
        if self.uplink_bytes_per_s == math.inf:
            return self.members * each / slowdown
        groups = max(1, min(concurrent, self.size // self.members))
        return min(self.members * each, self.uplink_bytes_per_s / groups) / slowdown


class Pace(NamedTuple):
    """What one protocol makes of a level: how steps start, and what of the bandwidth is reached."""

    name: str = ""
    """The protocol's; empty where a level has none."""
    step_s: float = 0.0
    """Seconds until the first byte is a step further."""
    overhead_s: float = 0.0
    """Seconds of every collective besides."""
    slice_s: float = 0.0
    """Seconds to start one slice of a step."""
    shares: tuple[tuple[str, float], ...] = ()
    """As `Protocol.shares`."""
    own_copy: tuple[tuple[str, float], ...] = ()
    """As `Protocol.own_copy`."""
    in_switch: bool = False
    """As `Protocol.in_switch`."""

    def share_of(self, op: str) -> float:
        """Return the share of the bandwidth that an operation reaches; 0 if it is not done so."""
        return dict(self.shares).get(op, 0.0) if self.shares else 1.0

    def copy_of(self, op: str) -> float:
        """Return the seconds of a byte of the own part over those of one that is sent."""
        return dict(self.own_copy).get(op, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One level of interconnect, as a group uses it."""

    name: str
    """Name of the level; `links` for explicit links."""
    latency_s: float
    """Start-up time of one message in seconds."""
    units: int
    """Most units that it joins into one."""
    hops: int
    """Hops of a ring over the whole group that cross it."""
    ports: tuple[Port, ...]
    """The different ways in which units are attached."""
    even: bool
    """Whether it joins equally many equal units everywhere."""
    overhead_s: float = 0.0
    """Seconds of every collective over it besides its messages."""
    speed: tuple[tuple[str, float], ...] = ()
    """Operation -> share of the ports' bandwidth that it reaches."""
    paces: tuple[Pace, ...] = ()
    """What its protocols make of it; () if it has none."""

    def pace(self, name: str) -> Pace:
        """Return what a protocol makes of it: the first, if it has none of that name."""
        if not self.paces:
            return Pace(step_s=self.latency_s, overhead_s=self.overhead_s)
        return next((pace for pace in self.paces if pace.name == name), self.paces[0])

    def rate(self, concurrent: int = 1, op: str = "") -> float:
        """Return the bytes/s that every unit can send at once in a ring of an operation."""
        return min(port.rate(concurrent) for port in self.ports) * self.speed_of(op)

    def speed_of(self, op: str) -> float:
        """Return the share of the ports' bandwidth that an operation reaches; 1 if not stated."""
        return dict(self.speed).get(op, 1.0)


def joined_by_links(cluster: Cluster, members: NDArray[np.int64]) -> tuple[NDArray[np.int64], Tier | None]:
    """Return the units after explicit links have joined what they can: the connected components."""
    inside = set(members.tolist())
    links = [link for link in cluster.links if link.source in inside and link.target in inside]
    root = {device: device for device in inside}
    for link in links:
        low, high = sorted((_root(root, link.source), _root(root, link.target)))
        root[high] = low
    names, units = np.unique([_root(root, int(device)) for device in members], return_inverse=True)
    counts = np.bincount(units)
    if counts.max() == 1:
        return units, None
    ports = [
        _link_port(cluster, [link for link in links if _root(root, link.source) == name])
        for name in names[counts > 1].tolist()
    ]
    return units, Tier(
        name="links",
        latency_s=max(link.latency_s for link in links),
        units=int(counts.max()),
        hops=int((counts - 1).sum()),
        ports=tuple(dict.fromkeys(ports)),
        even=len(set(counts.tolist())) == 1,
        # explicit links join the devices of an innermost group: its collectives start alike
        overhead_s=cluster.levels[0].collective_overhead_s if cluster.levels else 0.0,
    )


def _root(root: dict[int, int], device: int) -> int:
    while root[device] != device:
        root[device] = device = root[root[device]]
    return device


def _link_port(cluster: Cluster, links: list[Link]) -> Port:
    """Return the port of one device of a linked component.

    Rings and trees over disjoint links run at once, so together they are as fast as the narrowest cut
    through the component (a DGX-1's six links a device carry six rings). Wang et al., Blink, MLSys 2020.
    """
    devices = sorted({link.source for link in links} | {link.target for link in links})
    fraction = min(link.collective_efficiency for link in links)
    demand: dict[str, int] = {}
    for link in links:
        if link.shared:
            demand[link.shared] = demand.get(link.shared, 0) + 1
    shared = [  # a ring's hops meet a shared resource as often as the links do
        capacity * len(links) / (demand[name] * len(devices))
        for name, capacity in cluster.shared
        if name in demand
    ]
    slowest = max(
        spread_s_per_byte(cluster, device, [peer for peer in devices if peer != device]) for device in devices
    )
    return Port(
        members=1,
        peers=len(devices) - 1,
        size=len(devices),
        device_bytes_per_s=_narrowest_cut(links, devices) * fraction,
        exchange_bytes_per_s=(len(devices) - 1) / slowest * fraction,
        uplink_bytes_per_s=min(shared, default=math.inf) * fraction,
    )


def _narrowest_cut(links: list[Link], devices: list[int]) -> float:
    """Return the bytes/s each way over the narrowest cut: Stoer and Wagner, A Simple Min-Cut Algorithm, 1997.

    A link's capacity counts half for each way, so one-way rings count as what they carry.
    """
    place = {device: i for i, device in enumerate(devices)}
    weight = np.zeros((len(devices), len(devices)))
    for link in links:
        half = link.bandwidth_bytes_per_s / 2
        weight[place[link.source], place[link.target]] += half
        weight[place[link.target], place[link.source]] += half
    best = float(weight.sum(axis=0).min())
    alive = list(range(len(devices))) if len(devices) <= _CUT_SEARCHED else []
    while len(alive) > 1:
        key, order = weight[0, :] * 0.0, list(alive)
        last = before = order[0]
        while order:  # the vertex most tightly connected to those taken comes next
            before, last = last, max(order, key=key.__getitem__)
            order.remove(last)
            key = key + weight[last]
        best = min(best, float(weight[last, alive].sum()))
        weight[before] += weight[last]
        weight[:, before] += weight[:, last]
        weight[before, before] = 0.0
        alive.remove(last)
    return best


def spread_s_per_byte(cluster: Cluster, device: int, peers: list[int]) -> float:
    """Return the seconds for a device to send one byte to each peer: links at once, other paths in turn.

    A peer without a direct link is reached through others, at half the speed of its own links.
    """
    links = cluster.memo("link bandwidths", lambda: _bandwidths(cluster))
    linked = [links[device, peer] for peer in peers if (device, peer) in links]
    slowest = max((1 / bandwidth for bandwidth in linked), default=0.0)
    others = 0.0
    for peer in peers:
        if (device, peer) not in links:
            try:
                others += 1 / cluster.path(device, peer).bandwidth_bytes_per_s
            except InputError:
                own = [rate for (source, _), rate in links.items() if source == device]
                others += 2 / sum(own) if own else 0.0
    return max(slowest, others)


def _bandwidths(cluster: Cluster) -> dict[tuple[int, int], float]:
    return {(link.source, link.target): link.bandwidth_bytes_per_s for link in cluster.links}
