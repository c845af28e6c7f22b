"""Machines whose devices stages take one after the other, and DAPPLE's three policies for the next stage.

An allocation says how many devices of each machine are taken, always the first ones. Of equal machines the
first ones are taken first, so that no two allocations differ by names alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from explorer.cluster import Cluster
from explorer.costs.collectives import passes_lines

Allocation = tuple[int, ...]
"""Devices taken, per machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Machines:
    """Groups of devices by machine; devices of a group are replicas of each other."""

    cluster: Cluster
    """Their cluster."""
    groups: tuple[tuple[tuple[int, ...], ...], ...]
    """Per machine: its groups."""

    @property
    def sizes(self) -> Allocation:
        """Groups of each machine: the allocation that takes all."""
        return tuple(map(len, self.groups))

    def between(self, before: Allocation, after: Allocation) -> tuple[int, ...]:
        """Return the devices that one allocation takes more than another, machine by machine."""
        taken = zip(self.groups, before, after, strict=True)
        return tuple(device for own, i, j in taken for group in own[i:j] for device in group)


def machines_of(cluster: Cluster, groups: Sequence[tuple[int, ...]]) -> Machines:
    """Return groups by the machine of their first device, in the order in which they come."""
    order = sorted(groups, key=lambda group: cluster.node_of(group[0]))
    by_node = groupby(order, key=lambda group: cluster.node_of(group[0]))
    return Machines(cluster=cluster, groups=tuple(tuple(own) for _, own in by_node))


def next_allocations(sizes: Allocation, used: Allocation, count: int) -> tuple[Allocation, ...]:
    """Return where a stage of so many devices may go: fresh first, append first, scatter first.

    Fresh first fills machines of which nothing is taken, append first those of which a part is; scatter first
    takes one device after the other from each machine with some taken (if there are none, from each). What
    is missing comes from the other machines.

    >>> next_allocations((4, 4), (2, 0), 3)
    ((2, 3), (4, 1), (4, 1))
    >>> next_allocations((4, 4), (0, 0), 2)
    ((2, 0), (2, 0), (1, 1))
    """
    fresh = [m for m, (size, taken) in enumerate(zip(sizes, used, strict=True)) if size and not taken]
    begun = [m for m, (size, taken) in enumerate(zip(sizes, used, strict=True)) if 0 < taken < size]
    filled = (_filled(sizes, used, count, order) for order in ([*fresh, *begun], [*begun, *fresh]))
    return (*filled, _scattered(sizes, used, count, [part for part in (begun, fresh) if part]))


def _filled(sizes: Allocation, used: Allocation, count: int, order: Sequence[int]) -> Allocation:
    found = list(used)
    for machine in order:
        taken = min(count, sizes[machine] - found[machine])
        found[machine] += taken
        count -= taken
    return tuple(found)


def _scattered(sizes: Allocation, used: Allocation, count: int, parts: Sequence[Sequence[int]]) -> Allocation:
    found = list(used)
    for machine in _in_turn(sizes, found, parts):
        if not count:
            break
        found[machine] += 1
        count -= 1
    return tuple(found)


def _in_turn(sizes: Allocation, found: list[int], parts: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield machines of each part in turn as long as they have room."""
    for part in parts:
        while open_ones := [machine for machine in part if found[machine] < sizes[machine]]:
            yield from open_ones


def sent_lines(
    cluster: Cluster, senders: Sequence[int], receivers: Sequence[int]
) -> tuple[tuple[float, float], ...]:
    """Return (seconds, seconds per byte) of all that goes from one set of devices to another at once.

    The larger set sends or receives a part each, to or from the smaller one in turn; parts share the links
    that they pass. All of S bytes have arrived after the largest alpha + S beta.
    """
    count = max(len(senders), len(receivers))
    hops = tuple((senders[i % len(senders)], receivers[i % len(receivers)]) for i in range(count))
    return tuple((alpha, beta / count) for alpha, beta in passes_lines(cluster, hops))
