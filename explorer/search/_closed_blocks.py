"""Blocks of the space that are not yet made, the most promising first."""

from __future__ import annotations

from typing import NamedTuple

from explorer.base.errors import ExplorerError
from explorer.schedules.spec import Schedule
from explorer.search._blocks import Before, layouts_of, schedules_of
from explorer.search._devices import DeviceOrder
from explorer.search.problem import Problem
from explorer.strategies.degrees import Degrees


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


def closed_blocks(problem: Problem) -> list[Closed]:
    """Return every block of the space, the most promising first."""
    orders = problem.orders()
    schedules = schedules_of(problem)
    found = []
    for number, order in enumerate(orders):
        before = tuple((len(other), _common(order, other)) for other in orders[:number])
        for rank, layout in enumerate(layouts_of(problem, order)):
            for place, schedule in enumerate(schedules):
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
