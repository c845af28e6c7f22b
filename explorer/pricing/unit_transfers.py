"""Order of unit transfers: slices of tensors that whole senders pass on one after the other, ports balanced.

Between two meshes every slice is one unit: one of the devices that hold it sends it, as a whole, down a chain
of those that need it. Units that share a port (of a sender, of a receiver, of a network card) follow each
other, others go at the same time. Who sends and in what order is chosen for all to be done soonest: by depth
first search with pruning while units are few, else by the best of random greedy orders, as in section 3.2 of
Zhuang et al., On Optimizing the Communication of Model Parallelism, MLSys 2023.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MOST_SEARCHED = 8
"""Units up to which all orders are searched."""
MOST_LOOKS = 20_000
"""Partial orders after which that search keeps the best it has."""
GREEDY_ORDERS = 64
"""Random orders that are tried of more units."""

Load = Mapping[str, float]
"""Seconds for which a unit occupies each port."""


class Sent(NamedTuple):
    """A unit in an order."""

    unit: int
    sender: int
    """Which of those that hold it."""
    start_s: float
    end_s: float


class UnitOrder(NamedTuple):
    """An order of units."""

    sent: tuple[Sent, ...]
    makespan_s: float
    least_s: float
    """Seconds that no order takes less, even of parts of units: the fullest port, its units by the senders
    that would load it least; and the longest unit."""


def in_turn(units: Sequence[Sequence[Load]]) -> UnitOrder:
    """Return the order of units as they come, each by the first that holds it."""
    return _listed(units, [(unit, 0) for unit in range(len(units))])


def balanced(units: Sequence[Sequence[Load]]) -> UnitOrder:
    """Return the order in which all units are done soonest, as far as it is found.

    Args:
        units: per unit, per device that may send it, the seconds for which it occupies each port.
    """
    best = min((_listed(units, choice) for choice in _greedy(units)), key=lambda order: order.makespan_s)
    if len(units) > MOST_SEARCHED or best.makespan_s <= best.least_s * (1 + 1e-9):
        return best
    return _Search(units, best).found()


def least_s(units: Sequence[Sequence[Load]]) -> float:
    """Return seconds that no order takes less."""
    ports: dict[str, float] = defaultdict(float)
    for senders in units:
        for port in set.intersection(*(set(load) for load in senders)):
            ports[port] += min(load[port] for load in senders)
    longest = max((min(max(load.values()) for load in senders) for senders in units), default=0.0)
    return max([longest, *ports.values()])


def _listed(units: Sequence[Sequence[Load]], choice: Sequence[tuple[int, int]]) -> UnitOrder:
    """Return the order in which each unit starts as soon as its ports are free of those before it."""
    free: dict[str, float] = defaultdict(float)
    sent = []
    for unit, sender in choice:
        load = units[unit][sender]
        start = max(free[port] for port in load)
        end = start + max(load.values())
        free.update(dict.fromkeys(load, end))
        sent.append(Sent(unit, sender, start, end))
    return UnitOrder(tuple(sent), max((item.end_s for item in sent), default=0.0), least_s(units))


def _greedy(units: Sequence[Sequence[Load]]) -> list[list[tuple[int, int]]]:
    """Return orders: as they come, the longest first, and random ones; whoever can begin first sends."""
    numbers = list(range(len(units)))
    by_length = sorted(numbers, key=lambda unit: -max(units[unit][0].values()))
    draws = random.Random(0)  # the same orders every time
    orders = [numbers, by_length, *(draws.sample(numbers, len(numbers)) for _ in range(GREEDY_ORDERS))]
    return [[(unit, 0) for unit in numbers], *(_soonest(units, order) for order in orders)]


def _soonest(units: Sequence[Sequence[Load]], order: Sequence[int]) -> list[tuple[int, int]]:
    """Let each unit be sent by whoever is done soonest; of equal ones by the port that is least busy then."""
    free: dict[str, float] = defaultdict(float)
    busy: dict[str, float] = defaultdict(float)
    choice = []
    for unit in order:
        ends = [
            (max(free[port] for port in load) + max(load.values()), sum(busy[port] for port in load), sender)
            for sender, load in enumerate(units[unit])
        ]
        end, _, sender = min(ends)
        load = units[unit][sender]
        free.update(dict.fromkeys(load, end))
        for port, seconds in load.items():
            busy[port] += seconds
        choice.append((unit, sender))
    return choice


class _Search:
    """Depth-first search over who is sent next, and by whom."""

    def __init__(self, units: Sequence[Sequence[Load]], best: UnitOrder) -> None:
        self.units, self.best, self.looks = units, best, 0

    def found(self) -> UnitOrder:
        """Return the best order."""
        self._extend([], set(range(len(self.units))), {}, 0.0)
        return self.best

    def _extend(
        self, choice: list[tuple[int, int]], left: set[int], free: dict[str, float], since: float
    ) -> None:
        """Try what comes next; units start in the sequence in which they are listed."""
        self.looks += 1
        if not left:
            order = _listed(self.units, choice)
            self.best = min(self.best, order, key=lambda item: item.makespan_s)
        for unit in sorted(left):
            for sender, load in enumerate(self.units[unit]):
                start = max(free.get(port, 0.0) for port in load)
                end = start + max(load.values())
                if start < since or self.looks > MOST_LOOKS:
                    continue
                after = {**free, **dict.fromkeys(load, end)}
                if self._bound(left - {unit}, after, end) < self.best.makespan_s * (1 - 1e-9):
                    self._extend([*choice, (unit, sender)], left - {unit}, after, start)

    def _bound(self, left: set[int], free: dict[str, float], end: float) -> float:
        """Return the seconds that the rest takes at least: ports that every sender of a unit occupies."""
        needed: dict[str, float] = defaultdict(float)
        found = max([end, *free.values()])
        for unit in left:
            senders = self.units[unit]
            for port in set.intersection(*(set(load) for load in senders)):
                needed[port] += min(max(load.values()) for load in senders)
        return max([found, *(free.get(port, 0.0) + seconds for port, seconds in needed.items())])
