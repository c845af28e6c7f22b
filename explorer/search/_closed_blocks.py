"""Blocks of the space that are not yet made, the most promising first."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from explorer.base.errors import ExplorerError
from explorer.schedules.spec import Schedule
from explorer.search._blocks import layouts_of, schedules_of
from explorer.search._devices import DeviceOrder
from explorer.search._quick_bounds import Before
from explorer.search._shares import WHOLE, Share
from explorer.search.problem import Problem
from explorer.strategies.degrees import Degrees

Key = tuple[DeviceOrder, Degrees]
"""Order of devices and layout."""


class Closed(NamedTuple):
    """A block that is not yet made; the smallest is the most promising."""

    late: int
    """Number of unusual choices: a schedule besides 1F1B, context or expert parallelism."""
    number: int
    """Position of its order among those proposed."""
    place: int
    """Position of its schedule."""
    rank: int
    """Position of its layout."""
    order: DeviceOrder
    layout: Degrees
    schedule: Schedule
    before: Before
    """Orders before its own, whose strategies it must not repeat."""

    @property
    def key(self) -> Key:
        """Its order of devices and layout."""
        return self.order, self.layout


class ClosedBlocks:
    """Blocks that are not yet made, by layout.

    Args:
        blocks: the blocks, the most promising first.
    """

    def __init__(self, blocks: list[Closed]) -> None:
        self._along = blocks[::-1]
        self._left: dict[Key, deque[Closed]] = {}
        for block in blocks:
            self._left.setdefault(block.key, deque()).append(block)
        self._unseen = list(self._left)[::-1]
        self._seen: set[Key] = set()

    def __len__(self) -> int:
        return len(self._left)

    @property
    def unseen(self) -> Closed | None:
        """A block of the most promising layout that was not yet looked at; None if there is none."""
        while self._unseen and (self._unseen[-1] in self._seen or self._unseen[-1] not in self._left):
            self._unseen.pop()
        return self._left[self._unseen[-1]][0] if self._unseen else None

    @property
    def usual(self) -> Closed | None:
        """The most promising block without unusual choices; None if there is none."""
        while self._along and self._gone(self._along[-1]):
            self._along.pop()
        return self._along[-1] if self._along and not self._along[-1].late else None

    def _gone(self, block: Closed) -> bool:
        left = self._left.get(block.key)
        return left is None or left[0] is not block

    def first_of(self, key: Key) -> Closed | None:
        """Return the next block of a layout; None if it has none."""
        return self._left[key][0] if key in self._left else None

    def of(self, key: Key) -> list[Closed]:
        """Return what is left of a layout, its next block first."""
        return list(self._left.get(key, ()))

    def keep(self, key: Key, blocks: list[Closed]) -> None:
        """Keep only some blocks of a layout, in this order."""
        self._left[key] = deque(blocks)
        if not blocks:
            self.drop(key)

    def see(self, key: Key) -> None:
        """Note that a layout was looked at."""
        self._seen.add(key)

    def drop(self, key: Key) -> None:
        """Forget a layout with all its blocks."""
        self._left.pop(key, None)

    def take(self, block: Closed) -> bool:
        """Take out the next block of its layout; tell whether others are left."""
        left = self._left[block.key]
        left.popleft()
        if not left:
            del self._left[block.key]
        return bool(left)


def closed_blocks(problem: Problem, share: Share = WHOLE) -> list[Closed]:
    """Return every block of a share of the space, the most promising first."""
    orders = problem.orders()
    schedules = schedules_of(problem)
    found = []
    for number, order in enumerate(orders):
        before = tuple((len(other), _common(order, other)) for other in orders[:number])
        for rank, layout in enumerate(layouts_of(problem, order)):
            plain, name = layout.context == layout.expert == 1, repr(layout)
            for place, schedule in enumerate(schedules):
                if not share.holds(name + schedule.name * plain):
                    continue
                late = (place > 1) + (layout.context > 1) + (layout.expert > 1)
                found.append(Closed(late, number, place, rank, order, layout, schedule, before))
    return sorted(found, key=lambda item: item[:4])


def _common(one: DeviceOrder, other: DeviceOrder) -> int:
    """Count the devices with which two orders begin alike."""
    for i, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return i
    return min(len(one), len(other))


def can_be_built(problem: Problem, closed: Closed) -> bool:
    """Tell whether the devices and the model allow a layout, whatever the tables say."""
    try:
        closed.layout.check(problem.graph, problem.needed_cluster, problem.job, closed.order)
    except ExplorerError:
        return False
    return True
