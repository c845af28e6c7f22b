"""Editing of an order by hand: an action goes to another place in its lane, and the order is spelt out from
then on. An order that cannot run is refused with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from explorer.actions import UPDATE, Action, Order
from explorer.base.errors import DeadlockError, InputError, PlanError
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules.custom import lanes_text
from explorer.strategies.bare_shape import bare_shape

from .schedule_choice import literal_schedule, refuse_spelling
from .session import Point, make_point

MOST_TOLD = 2
"""Reasons why an order cannot run that are told; the rest is counted."""
_MOST_NAMED = 12
"""Most actions of a deadlock that are named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """An action as the timeline shows it."""

    op: str
    """F, B, I, W or U."""
    stage: int
    """Its stage."""
    microbatch: int
    """Its first microbatch; -1 for an update."""
    copy: int = 0
    """Copy of the stage."""

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Bar:
        """Read one from a gesture."""
        return Bar(
            op=str(fields["op"]), stage=int(fields["stage"]), microbatch=int(fields["microbatch"]),
            copy=int(fields.get("copy", 0)),
        )  # fmt: skip

    def is_of(self, action: Action) -> bool:
        """Tell whether this bar shows an action."""
        same = (action.op, action.stage, action.copy) == (self.op, self.stage, self.copy)
        return same and (self.op == UPDATE or action.first_microbatch == self.microbatch)


def with_action_moved(point: Point, moved: Bar, beside: Bar, *, before: bool) -> Point:
    """Return the state whose order has an action right before or after another one of its lane.

    Raises:
        InputError: no such action, one that stands there already, an order that decides while time runs, is
            too long to be spelt out, or cannot run (with the reason).
    """
    own, job = point.inputs, point.strategy.job
    schedule, shape = SCHEDULES.get(job.schedule), bare_shape(own.graph, own.job, job)
    options = schedule.read_options(dict(job.options))
    literal = literal_schedule()
    if not schedule.literal:
        refuse_spelling(point, literal, shape)
    steps = int(options["covers"]) if schedule.literal else 1
    order = make_order(job.schedule, shape, steps=steps, options=dict(job.options))
    action, lanes = _moved(order, moved, beside, before=before)
    kept = dict(job.options) if schedule.literal else {}
    kept["lanes"] = lanes_text(lanes).replace("\n", "; ")
    changed = replace(job, schedule=literal.name, options=tuple(kept.items()))
    where = f"{'before' if before else 'after'} {_found(order, beside)}"
    try:
        make_order(literal.name, shape, steps=steps, options=kept)  # says more of what is wrong than lowering
        return make_point(
            own, point.strategy.with_job(changed), point.groups, note=f"order: {action} {where}"
        )
    except PlanError as error:
        said = _circle(error.cycle, action) if isinstance(error, DeadlockError) else _told(error.problems)
        raise InputError(
            f"{action} cannot stand {where}: {said}",
            key="order", found=str(action), allowed="a place where all it waits for can run first",
        ) from None  # fmt: skip


def why_fixed(point: Point) -> str | None:
    """Return why the order of a state cannot be edited; None if it can."""
    own, job = point.inputs, point.strategy.job
    if SCHEDULES.get(job.schedule).literal:
        return None
    try:
        refuse_spelling(point, literal_schedule(), bare_shape(own.graph, own.job, job))
    except InputError as error:
        return error.message
    return None


def _moved(order: Order, moved: Bar, beside: Bar, *, before: bool) -> tuple[Action, list[list[Action]]]:
    """Return the action and all lanes after the move; lanes in lockstep move alike.

    Raises:
        InputError: there is no such pair on a lane, or it stands there already.
    """
    action, other = _found(order, moved), _found(order, beside)
    lanes = [list(lane) for lane in order.lanes]
    changed = False
    for lane in lanes:
        if action in lane and other in lane and action != other:
            was = list(lane)
            lane.remove(action)
            lane.insert(lane.index(other) + (0 if before else 1), action)
            changed = changed or was != lane
    if not changed:
        raise InputError(
            f"{action} stands there already, or on another lane than {other}",
            key="order", found=str(action), allowed="another place in its own lane",
        )  # fmt: skip
    return action, lanes


def _found(order: Order, bar: Bar) -> Action:
    """Return the action that a bar shows.

    Raises:
        InputError: there is none, or several (sweeps).
    """
    found = dict.fromkeys(action for lane in order.lanes for action in lane if bar.is_of(action))
    if len(found) != 1:
        what = f"{bar.op} of stage {bar.stage}" + (
            "" if bar.microbatch < 0 else f", microbatch {bar.microbatch}"
        )
        raise InputError(
            f"{len(found) or 'no'} actions are {what}", key="order", found=len(found),
            allowed="an action of one step that occurs once",
        )  # fmt: skip
    return next(iter(found))


def _circle(cycle: Sequence[str], action: Action) -> str:
    """Write a deadlock as actions of which each has to run before the next, from one that was moved."""
    names = list(dict.fromkeys(name.split(" on ")[0] for name in cycle if not name.startswith("transfer")))
    if str(action) in names:
        at = names.index(str(action))
        names = [*names[at:], *names[:at]]
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], "…", names[-1]]
    return f"it would wait for itself: each runs before the next: {', '.join([*shown, names[0]])}"


def _told(problems: Sequence[str]) -> str:
    more = len(problems) - MOST_TOLD
    return "; ".join(problems[:MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")
