"""Proposals of the devices to use and their order, from which searchers choose.

An order is a tuple of devices, rank by rank. A proposer is one function with `@proposer`; each yields orders
of at most a given number of the devices that may be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.base.units import format_devices
from explorer.cluster import Cluster

DeviceOrder = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Devices to choose from."""

    cluster: Cluster
    """The cluster of the devices."""
    devices: DeviceOrder
    """Devices that may be used, in the order they were given."""
    count: int
    """Most devices that may be used together."""
    precision: str
    """Data type of the work, which decides how fast the devices are."""

    def speed(self, device: int) -> float:
        """Return the peak FLOP/s of a device; 0 if unknown in this precision."""
        kind = self.cluster.kind_of(device)
        return self.cluster.memo(("speed", kind.name, self.precision), lambda: self._peak(device))

    def _peak(self, device: int) -> float:
        try:
            return self.cluster.kind_of(device).peak(self.precision)
        except InputError:
            return 0.0

    @property
    def by_kind(self) -> list[list[int]]:
        """Devices of each kind in the given order, the fastest kind first."""
        kinds: dict[str, list[int]] = {}
        for device in self.devices:
            kinds.setdefault(self.cluster.kind_of(device).name, []).append(device)
        return sorted(kinds.values(), key=lambda own: -self.speed(own[0]))

    @property
    def by_node(self) -> list[list[int]]:
        """Devices of each node in the given order, nodes as they first occur."""
        nodes: dict[int, list[int]] = {}
        for device in self.devices:
            nodes.setdefault(self.cluster.node_of(device), []).append(device)
        return list(nodes.values())


Proposer = Callable[[Pool], Iterator[Sequence[int]]]
PROPOSERS: dict[str, Proposer] = {}
"""Proposers by name, in the order in which they are asked."""


def proposer(function: Proposer) -> Proposer:
    """Register a proposer under its name."""
    PROPOSERS[function.__name__] = function
    return function


@proposer
def in_order(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose the first devices as they were given."""
    yield pool.devices


@proposer
def fastest_first(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose the fastest devices, the fastest kind first."""
    yield [device for own in pool.by_kind for device in own]


@proposer
def by_kind(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose the devices of each kind alone."""
    yield from pool.by_kind


@proposer
def drop_slowest(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose all but the slowest kinds, dropping one more kind each time."""
    kinds = pool.by_kind
    for most in range(len(kinds) - 1, 0, -1):
        kept = {device for own in kinds[:most] for device in own}
        yield [device for device in pool.devices if device in kept]


@proposer
def whole_nodes(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose as few nodes as hold the devices, the largest first."""
    nodes = sorted(pool.by_node, key=lambda own: -min(len(own), pool.count))
    yield [device for own in nodes for device in own]


@proposer
def scatter(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose one device of every node in turn."""
    nodes = pool.by_node
    yield [own[i] for i in range(max(map(len, nodes))) for own in nodes if i < len(own)]


@proposer
def fewer(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose half of the fastest devices, a quarter, and so on."""
    chosen = next(fastest_first(pool))[: pool.count]
    size = len(chosen) // 2
    while size:
        yield chosen[:size]
        size //= 2


def on_devices(devices: Sequence[int]) -> str:
    """Return `, on 8-15` for a label; empty for the first devices in order.

    >>> on_devices((8, 9, 10)), on_devices((0, 1))
    (', on 8-10', '')
    """
    return "" if list(devices) == list(range(len(devices))) else f", on {format_devices(devices)}"


@proposer
def present(pool: Pool) -> Iterator[Sequence[int]]:
    """Propose the devices that are taken if nobody chooses from the pools of the cluster."""
    own = set(pool.cluster.present)
    yield [device for device in pool.devices if device in own] or pool.devices


PAID = ("present", "fewer")
"""Proposers that are asked in addition if more devices cost more."""
USUAL = ("in_order", "fastest_first", "by_kind", "drop_slowest", "whole_nodes")
"""Proposers that are asked if none are named: on equal devices they all agree."""


def orders_of(pool: Pool, names: Sequence[str] = USUAL) -> tuple[DeviceOrder, ...]:
    """Return all proposals, each once; if not all devices may be used, the fastest come first.

    Raises:
        InputError: a proposer is unknown.
    """
    for name in names:
        if name not in PROPOSERS:
            raise InputError(
                f"no proposer of devices {name!r}", key="orders", found=name, allowed=", ".join(PROPOSERS)
            )
    asked = list(names)
    if pool.count < len(pool.devices) and "fastest_first" in asked:
        asked.sort(key=lambda name: name != "fastest_first")
    found = (tuple(order[: pool.count]) for name in asked for order in PROPOSERS[name](pool))
    return tuple(dict.fromkeys(found))
