"""Routes: what one row of devices sends to another, pair by pair, and the links that the pairs share.

A row may hold a tensor whole on every device or split into shards, and the other row may need it whole or
split into other shards. Every receiving device gets the part it needs, once: from itself if it has it,
else from a device that holds it, the copies taking turns.

    8 whole -> 8 whole   8 pairs of 1        8 whole -> 1 whole   1 pair of 1
    8 split -> 1 whole   8 pairs of 1/8      1 whole -> 8 split   8 pairs of 1/8
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from explorer.base.caching import remembered
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.sharding import ShardedLayers

Pattern: TypeAlias = tuple[tuple[float, float, float], ...]
"""(share of a tensor that a sender holds, share that a receiver needs, weight of such tensors)."""
WHOLE: Pattern = ((1.0, 1.0, 1.0),)


class Route(NamedTuple):
    """Path on which two lanes exchange one byte of a tensor (of all tensors of a flow together)."""

    kind: str
    """Kind of the slowest link."""
    latency_s: float
    """Start-up time in seconds."""
    seconds_per_byte: float
    """Seconds per byte of the whole tensor, after the pairs' own contention."""
    pairs: tuple[tuple[int, int, float], ...]
    """(sender, receiver, share of the tensor); a device's own part is not sent."""
    resources: tuple[tuple[str, float, float], ...]
    """(name, capacity, demand) of the shared resources on the way; no demand exceeds its capacity."""

    @property
    def share(self) -> float:
        """Bytes sent for each byte of the tensor."""
        return sum(share for _, _, share in self.pairs)


@remembered(16384)
def lane_route(
    cluster: Cluster, source: tuple[int, ...], target: tuple[int, ...], pattern: Pattern = WHOLE
) -> Route:
    """Return the route between two lanes (devices in mesh order) for tensors held and needed by `pattern`."""
    amounts: dict[tuple[int, int], float] = defaultdict(float)
    for held, needed, weight in pattern:
        for sender, receiver, share in _pairs(source, held, target, needed):
            amounts[sender, receiver] += weight * share
    return route_of(cluster, amounts)


def route_of(
    cluster: Cluster, amounts: Mapping[tuple[int, int], float], latency_s: float | None = None
) -> Route:
    """Return the route of pairs that each send a share of a tensor, all at the same time.

    Args:
        cluster: the links.
        amounts: share by (sender, receiver).
        latency_s: start-up; None for the longest of the pairs'.
    """
    paths = {pair: cluster.path(*pair) for pair in amounts}
    slowest = min(paths.values(), key=lambda path: path.bandwidth_bytes_per_s)
    through: dict[str, float] = defaultdict(float)
    capacity: dict[str, float] = {}
    seconds = 0.0
    for pair, share in amounts.items():
        seconds = max(seconds, share / paths[pair].bandwidth_bytes_per_s)
        for name, room in paths[pair].resources:
            through[name] += share
            capacity[name] = room
    seconds = max([seconds, *(share / capacity[name] for name, share in through.items())])
    return Route(
        kind=slowest.kind,
        latency_s=max(path.latency_s for path in paths.values()) if latency_s is None else latency_s,
        seconds_per_byte=seconds,
        pairs=tuple((a, b, share) for (a, b), share in amounts.items() if a != b),
        resources=tuple(
            (name, capacity[name], min(share / seconds, capacity[name])) for name, share in through.items()
        )
        if seconds
        else (),
    )


def _pairs(
    source: tuple[int, ...], held: float, target: tuple[int, ...], needed: float
) -> list[tuple[int, int, float]]:
    """Return (sender, receiver, share): a receiver's own part from itself, else from the copies in turn."""
    found = []
    for part in common_parts(source, held, target, needed):
        own = part.receiver in part.owners
        sender = part.receiver if own else part.owners[part.turn % len(part.owners)]
        found.append((sender, part.receiver, part.stop - part.start))
    return found


class RoutePart(NamedTuple):
    """One part of a tensor that a device needs and some others hold."""

    owners: tuple[int, ...]
    """Devices that hold it."""
    receiver: int
    """The device that needs it."""
    turn: int
    """How many devices before it need the same part."""
    start: float
    """Where the part begins in the tensor, from 0 to 1."""
    stop: float
    """Where it ends."""


def common_parts(
    source: tuple[int, ...], held: float, target: tuple[int, ...], needed: float
) -> list[RoutePart]:
    """Return the parts of a tensor that one row holds and another needs.

    Shards lie in mesh order, devices with equal shards next to each other.
    """
    parts, wanted = _parts(len(source), held), _parts(len(target), needed)
    holders: list[list[int]] = [[] for _ in range(parts)]
    for i, device in enumerate(source):
        holders[i * parts // len(source)].append(device)
    owners = [tuple(devices) for devices in holders]
    found = []
    turn = 0
    for j, device in enumerate(target):
        block = j * wanted // len(target)
        turn = turn + 1 if j and block == (j - 1) * wanted // len(target) else 0
        start, stop = min(1.0, block * needed), min(1.0, (block + 1) * needed) if wanted > 1 else 1.0
        first_part = max(0, int(start / held) - 1) if parts > 1 else 0  # one more, for rounding
        last_part = min(parts, int(stop / held) + 2) if parts > 1 else 1
        for part in range(first_part, last_part):
            low, high = part * held, (part + 1) * held if parts > 1 else 1.0
            first, last = max(start, low), min(stop, high, 1.0)
            if last - first > 1e-12:
                found.append(RoutePart(owners[part], device, turn, first, last))
    return found


def _parts(devices: int, share: float) -> int:
    """Count the shards of a tensor of which each of some devices has this share."""
    return max(1, min(devices, math.ceil(1 / share - 1e-9))) if 0 < share < 1 else 1


@remembered(8192)
def flow_pattern(
    graph: LayerGraph,
    precision: str,
    tensors: tuple[tuple[int, float], ...],
    source: ShardedLayers,
    *targets: ShardedLayers,
) -> tuple[float, Pattern]:
    """Return the bytes of one sample of a flow's whole tensors, and who holds and needs which share."""
    sizes: dict[tuple[float, float], float] = defaultdict(float)
    for tensor, share in tensors:
        needed = max(float(target.tensor_share[tensor]) for target in targets)
        size = graph.tensors[tensor].bytes_per_sample(precision) * share
        sizes[float(source.tensor_share[tensor]), needed] += size
    total = sum(sizes.values())
    if len(sizes) == 1 or not total:
        return total, tuple((held, needed, 1.0) for held, needed in list(sizes)[:1])
    return total, tuple((held, needed, size / total) for (held, needed), size in sorted(sizes.items()))


def reversed_pattern(pattern: Pattern) -> Pattern:
    """Return the pattern of the gradients: they come back in the state in which the tensors went."""
    return tuple((needed, held, weight) for held, needed, weight in pattern)
