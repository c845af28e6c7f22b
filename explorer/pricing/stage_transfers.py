"""Transfers between meshes: ways to bring tensors from one row of devices to another, and the fastest.

    direct      every receiver gets what it needs from a device that has it
    gather      receivers that need the same are sent a part each, and gather the rest among themselves
    broadcast   the devices that hold a slice each send a part of it down a chain of all that need it, in
                chunks: S / B + hops alpha; all hops but the first are between receivers
    ordered     the same with whole slices: one device that holds a slice sends it all, and slices that share
                a port follow each other, in the order of `unit_transfers`

Zhuang et al., On Optimizing the Communication of Model Parallelism, MLSys 2023, section 3. As in their
limit of many chunks, no chunk waits for more than one message a hop, and all chains run at the same time:
parts of slices share ports without loss, which whole slices in an order come close to at best.
All ways bring the same: |T| for each device that needs the whole.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TypeAlias

from explorer.base.caching import remembered
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds
from explorer.pricing.routes import Pattern, Route, common_parts, lane_route, route_of
from explorer.pricing.unit_transfers import balanced
from explorer.strategy import TRANSFERS

ROUNDING = 1 + 1e-12
"""Factor by which an order must be faster than parts of slices, which it comes close to by sums."""
Chain: TypeAlias = tuple[tuple[tuple[int, int], float], ...]
"""Hops (sender, receiver) and the share of the tensors that goes over each."""


@remembered(16384)
def crossing_route(
    cluster: Cluster,
    source: tuple[int, ...],
    target: tuple[int, ...],
    pattern: Pattern,
    size: float,
    way: str = "best",
) -> Route:
    """Return the way to bring tensors of `size` bytes in all from one row to another; `best` is the fastest.

    Args:
        cluster: the links.
        source: devices that hold the tensors, in mesh order.
        target: devices that need them.
        pattern: who holds and needs which share of them.
        size: bytes of the whole tensors.
        way: a name in `explorer.strategy.TRANSFERS`.
    """
    if way == "direct":
        return lane_route(cluster, source, target, pattern)
    if way == "gather":
        return gather_route(cluster, source, target, pattern, size)
    if way == "broadcast":
        return broadcast_route(cluster, source, target, pattern)
    if way == "ordered":
        return ordered_route(cluster, source, target, pattern)
    routes = {
        name: crossing_route(cluster, source, target, pattern, size, name)
        for name in TRANSFERS
        if name != "best"
    }

    def seconds(name: str) -> float:
        found = routes[name].latency_s + size * routes[name].seconds_per_byte
        return found * ROUNDING if name == "ordered" else found

    return routes[min(routes, key=seconds)]


def gather_route(
    cluster: Cluster, source: tuple[int, ...], target: tuple[int, ...], pattern: Pattern, size: float
) -> Route:
    """Send parts, which those that need the whole gather; the gather counts as latency."""
    route = lane_route(cluster, source, target, scattered(pattern, len(target)))
    whole, n = sum(weight for _, needed, weight in pattern if needed == 1.0), len(target)
    ring = zip(target, (*target[1:], target[0]), strict=True) if whole and n > 1 else ()
    around = tuple((a, b, whole * (n - 1) / n) for a, b in ring)
    seconds = collective_seconds(cluster, "all_gather", target, whole * size) if around else 0.0
    return route._replace(latency_s=route.latency_s + seconds, pairs=(*route.pairs, *around))


def scattered(pattern: Pattern, devices: int) -> Pattern:
    """Return the pattern in which each of some receivers is sent only its part of what all need whole.

    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021,
    section 4.1 (scatter/gather): they gather the parts among themselves.
    """
    return tuple(
        (held, needed / devices if needed == 1.0 else needed, part) for held, needed, part in pattern
    )


@remembered(16384)
def broadcast_route(
    cluster: Cluster, source: tuple[int, ...], target: tuple[int, ...], pattern: Pattern
) -> Route:
    """Route each holder's part of a slice down a chain through all devices that need the slice."""
    amounts: dict[tuple[int, int], float] = defaultdict(float)
    latency = 0.0
    for held, needed, weight in pattern:
        for owners, receivers, share in _units(source, held, target, needed):
            for k, owner in enumerate(owners):
                others = [device for device in _turned(receivers, k, len(owners)) if device != owner]
                chain = [owner, *others]
                hops = list(zip(chain, others, strict=False))
                for hop in hops:
                    amounts[hop] += weight * share / len(owners)
                latency = max(latency, sum(cluster.path(*hop).latency_s for hop in hops))
    return route_of(cluster, amounts or {(source[0], source[0]): 1.0}, latency)


@remembered(16384)
def ordered_route(
    cluster: Cluster, source: tuple[int, ...], target: tuple[int, ...], pattern: Pattern
) -> Route:
    """Route each slice down a chain from one of its holders, one slice after the other at every port."""
    chains = unit_chains(source, target, pattern)
    if not chains:
        return route_of(cluster, {(source[0], source[0]): 1.0})
    order = balanced([[_seconds(cluster, chain) for chain in senders] for senders in chains])
    amounts: dict[tuple[int, int], float] = defaultdict(float)
    begun: dict[str, float] = defaultdict(float)
    for sent in order.sent:
        chain = chains[sent.unit][sent.sender]
        ports = _seconds(cluster, chain)
        latency = sum(cluster.path(*hop).latency_s for hop, _ in chain)
        begun.update(dict.fromkeys(ports, max(begun[port] for port in ports) + latency))
        for hop, share in chain:
            amounts[hop] += share
    route = route_of(cluster, amounts, max(begun.values()))
    longer = order.makespan_s / route.seconds_per_byte if route.seconds_per_byte else 1.0
    return route._replace(
        seconds_per_byte=order.makespan_s,
        resources=tuple((name, capacity, demand / longer) for name, capacity, demand in route.resources),
    )


def unit_chains(source: tuple[int, ...], target: tuple[int, ...], pattern: Pattern) -> list[list[Chain]]:
    """Return per slice that crosses, per device that holds it, the chain through all that need it."""
    found = []
    for held, needed, weight in pattern:
        for owners, receivers, share in _units(source, held, target, needed):
            if set(receivers) <= set(owners):
                continue  # all have it
            chains = []
            for k, owner in enumerate(owners):
                others = [device for device in _turned(receivers, k, len(owners)) if device not in owners]
                hops = zip((owner, *others), others, strict=False)
                chains.append(tuple((hop, weight * share) for hop in hops))
            found.append(chains)
    return found


def _seconds(cluster: Cluster, chain: Chain) -> dict[str, float]:
    """Return the seconds for which each port on a chain is occupied: those of its slowest hop."""
    through: dict[str, float] = defaultdict(float)
    longest = 0.0
    for hop, share in chain:
        path = cluster.path(*hop)
        longest = max(longest, share / path.bandwidth_bytes_per_s)
        for name, room in path.resources or ((f"{hop[0]}>{hop[1]}", path.bandwidth_bytes_per_s),):
            through[name] += share / room
    longest = max(longest, *through.values())
    return dict.fromkeys(through, longest)


def _units(
    source: tuple[int, ...], held: float, target: tuple[int, ...], needed: float
) -> list[tuple[tuple[int, ...], tuple[int, ...], float]]:
    """Return (devices that have a slice, devices that need it, share of the tensor)."""
    found: dict[tuple[tuple[int, ...], float, float], list[int]] = {}
    for part in common_parts(source, held, target, needed):
        found.setdefault((part.owners, part.start, part.stop), []).append(part.receiver)
    return [(owners, tuple(devices), high - low) for (owners, low, high), devices in found.items()]


def _turned(devices: tuple[int, ...], turn: int, turns: int) -> tuple[int, ...]:
    """Rotate devices to another start, so that chains enter by different devices."""
    start = turn * len(devices) // turns
    return (*devices[start:], *devices[:start])
