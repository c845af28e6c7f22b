"""Every schedule with an order of one step can be edited on the timeline, and becomes `custom`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest

from explorer.actions import NAMED, UPDATE, Action
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules.check import coverage
from explorer.strategies.bare_shape import bare_shape
from widgets import Explorer
from widgets.order_edit import Bar, with_action_moved
from widgets.schedule_choice import with_schedule
from widgets.session import Point

EDITABLE = [item.name for item in SCHEDULES if item.flush and not (item.dispatch or item.literal)]


@pytest.fixture(scope="module")
def start() -> Iterator[Point]:
    explorer = Explorer("gpt2-small", "dgx-a100", session=None, global_batch=16)
    explorer.set(stages=4)
    explorer.set(microbatch_size=1)
    yield explorer.now()
    explorer.close()


def lanes(point: Point) -> list[list[str]]:
    job = point.strategy.job
    shape = bare_shape(point.inputs.graph, point.inputs.job, job)
    order = make_order(job.schedule, shape, options=dict(job.options))
    assert not coverage(order, shape)
    return [list(map(str, lane)) for lane in order.lanes]


def bar(action: Action) -> Bar:
    return Bar(op=action.op, stage=action.stage, microbatch=action.first_microbatch, copy=action.copy)


@pytest.mark.parametrize("name", EDITABLE)
def test_two_neighbours_change_places_or_it_is_said_why_not(start: Point, name: str) -> None:
    point = with_schedule(start, name)
    job = point.strategy.job
    shape = bare_shape(point.inputs.graph, point.inputs.job, job)
    order = make_order(job.schedule, shape, options=dict(job.options))
    if order.lag:  # a bar of the timeline does not say of which sweep it is
        first, *_, last = (action for action in order.lanes[0] if action.op == "F")
        with pytest.raises(InputError, match="3 actions are F of stage 0"):
            with_action_moved(point, bar(last), bar(first), before=True)
        return
    was, moved, reasons = lanes(point), 0, []
    for at, (one, other) in enumerate(pairwise(order.lanes[0])):
        if moved == 2 or {one.op, other.op} & {UPDATE, *NAMED}:
            continue
        try:
            found = with_action_moved(point, bar(other), bar(one), before=True)
        except InputError as error:
            reasons.append((str(other) in error.message, error.allowed))
            continue
        now = lanes(found)
        assert SCHEDULES.get(found.strategy.job.schedule).literal
        assert now[0][at : at + 2] == [was[0][at + 1], was[0][at]]
        assert (now[0][:at], now[0][at + 2 :]) == (was[0][:at], was[0][at + 2 :])
        assert now[1:] == was[1:]
        assert found.report.busy_s == pytest.approx(point.report.busy_s)
        moved += 1
    assert moved
    assert all(said and allowed for said, allowed in reasons)
