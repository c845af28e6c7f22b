"""Groups in which people look for a schedule, told from what a schedule says of itself and from its order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from explorer.actions import INPUT_GRAD, WEIGHT_GRAD, Shape
from explorer.schedules import SCHEDULES, Schedule, make_order


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Schedules of one kind."""

    name: str
    """Short name, as a heading."""
    title: str
    """What they have in common, in one line."""


FLUSH = Group(name="flush", title="Every step ends with its updates")
ZERO_BUBBLE = Group(name="zero bubble", title="Backwards in two parts: one of them fills the bubble")
BIDIRECTIONAL = Group(name="bidirectional", title="Copies of the stages, in opposite directions")
STAGE_DAG = Group(name="stage DAG", title="Made for stages that branch and join")
ASYNCHRONOUS = Group(name="asynchronous", title="Steps overlap: some gradients are of older weights")
LITERAL = Group(name="literal", title="Written out, action by action")
GROUPS = (FLUSH, ZERO_BUBBLE, BIDIRECTIONAL, STAGE_DAG, ASYNCHRONOUS, LITERAL)
"""All groups, in the order in which they are shown."""


def group_of(schedule: Schedule) -> Group:
    """Return the group of a schedule; the last of them that fits, as `GROUPS` lists them.

    >>> group_of(SCHEDULES.get("gpipe")).name, group_of(SCHEDULES.get("zb_h1")).name
    ('flush', 'zero bubble')
    """
    if schedule.literal:
        return LITERAL
    if schedule.dispatch or not schedule.flush:
        return ASYNCHRONOUS
    if schedule.for_dags:
        return STAGE_DAG
    if schedule.placement.copies > 1:
        return BIDIRECTIONAL
    return ZERO_BUBBLE if _splits_backwards(schedule.name) else FLUSH


def grouped() -> list[tuple[Group, list[Schedule]]]:
    """Return every registered schedule under its group, without groups that have none."""
    found: dict[str, list[Schedule]] = {group.name: [] for group in GROUPS}
    for schedule in SCHEDULES:
        found[group_of(schedule).name].append(schedule)
    return [(group, found[group.name]) for group in GROUPS if found[group.name]]


_MOST_POSITIONS = 8


@cache
def _splits_backwards(name: str) -> bool:
    """Tell whether the order of a small pipeline runs input and weight gradients apart."""
    order = make_order(name, small_shape(SCHEDULES.get(name)))
    return any(action.op in (INPUT_GRAD, WEIGHT_GRAD) for lane in order.lanes for action in lane)


def small_shape(schedule: Schedule, positions: int = 2, microbatches: int = 0) -> Shape:
    """Return an even pipeline that a schedule can order, of stages of one second for F, I and W each.

    It has so many positions and microbatches (0: twice as many as positions), or the next larger numbers that
    meet the schedule's needs.

    Raises:
        InputError: no small pipeline meets them.
    """
    for p in range(positions, max(positions, _MOST_POSITIONS) + 1):
        for m in range(microbatches or 2 * p, 4 * p + 1):
            if not schedule.unmet_even(p, m):
                return _timed(schedule.placement.shape(schedule.placement.grid(p), m))
    raise schedule.unmet_even(positions, 2 * positions)[0].error()


def _timed(shape: Shape) -> Shape:
    each = (1.0,) * shape.stages
    return replace(
        shape, forward_s=each, input_grad_s=each, weight_grad_s=each, transfer_s=(0.0,) * len(shape.edges),
        activation_bytes=each, waiting_bytes=(0.5,) * shape.stages,
        memory_cap_bytes=(1e9,) * len(shape.lanes),
    )  # fmt: skip
