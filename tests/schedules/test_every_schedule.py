"""What holds for every registered schedule; a new file is covered without a new test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES, Pipeline, Schedule, make_dispatch, make_order
from explorer.schedules.check import coverage
from explorer.schedules.custom import lanes_text
from explorer.schedules.placements import PLACEMENTS
from tests.schedules.shapes import dags, line, placed, shapes_for
from tests.schedules.slots import simulate

every = pytest.mark.parametrize("schedule", list(SCHEDULES), ids=lambda schedule: schedule.name)
every_order = pytest.mark.parametrize(
    "schedule", [item for item in SCHEDULES if not item.dispatch], ids=lambda schedule: schedule.name
)
with_closed_form = pytest.mark.parametrize(
    "schedule", [item for item in SCHEDULES if item.closed_form], ids=lambda schedule: schedule.name
)


def ordered(schedule: Schedule, shape: Shape, steps: int) -> Order:
    """The order under default options; a literal schedule is given 1F1B's."""
    options = {}
    if schedule.literal:
        options = {"lanes": lanes_text(make_order("1f1b", shape, steps=steps).lanes), "covers": steps}
    return make_order(schedule.name, shape, steps=steps, options=options)


@every
def test_says_what_it_is(schedule: Schedule) -> None:
    assert schedule.title
    assert schedule.paper or schedule.literal
    assert schedule.placement in PLACEMENTS
    assert set(schedule.reads) <= {"seconds", "transfers", "memory"}
    assert not (schedule.torch_name and schedule.dispatch)


@every_order
@settings(max_examples=40, deadline=None)
@given(data=st.data(), steps=st.integers(1, 3))
def test_covers_its_shape_without_deadlock(schedule: Schedule, data: st.DataObject, steps: int) -> None:
    shape = data.draw(shapes_for(schedule))
    order = ordered(schedule, shape, steps)
    assert coverage(order, shape) == []
    assert simulate(order, shape).blocked == ()
    assert order == ordered(schedule, shape, steps)
    assert (order.flush, order.steps) == (schedule.flush, steps)


@every_order
@settings(max_examples=20, deadline=None)
@given(data=st.data())
def test_steps_chain_on(schedule: Schedule, data: st.DataObject) -> None:
    """More steps go on where fewer end: a flush repeats itself, all others keep each stage's forwards."""
    shape = data.draw(shapes_for(schedule))
    one, two = ordered(schedule, shape, 1), ordered(schedule, shape, 2)
    for places, before, after in zip(shape.lanes, one.lanes, two.lanes, strict=True):
        if schedule.flush:
            assert after[: len(before)] == before
        for stage in {place.stage for place in places}:
            short, long = (
                [a for a in lane if a.op == "F" and a.stage == stage and a.sweep == 0]
                for lane in (before, after)
            )
            assert long[: len(short)] == short
            assert all(a.first_microbatch >= shape.microbatches[stage] for a in long[len(short) :])


@every
@settings(max_examples=60, deadline=None)
@given(shape=placed() | dags())
def test_orders_what_meets_its_needs_and_nothing_else(schedule: Schedule, shape: Shape) -> None:
    """Of shapes in every placement; numbers of microbatches that a refusal names are taken."""
    unmet = schedule.unmet(shape)
    if unmet:
        with pytest.raises(InputError) as caught:
            (make_dispatch if schedule.dispatch else make_order)(schedule.name, shape)
        assert (caught.value.key, caught.value.found) == (unmet[0].key, unmet[0].found)
        assert schedule.name in str(caught.value)
        assert caught.value.allowed
    elif schedule.dispatch:
        assert make_dispatch(schedule.name, shape).in_flight > 0
    else:
        assert coverage(ordered(schedule, shape, 1), shape) == []
    if unmet and unmet[0].key == "microbatches" and len(set(shape.microbatches)) == 1:
        for number in map(int, re.findall(r"\d+", unmet[0].allowed)):
            changed = replace(shape, microbatches=(number,) * shape.stages)
            assert not {item.text for item in schedule.unmet(changed) if item.key == "microbatches"}


@every
def test_refuses_bad_options(schedule: Schedule) -> None:
    with pytest.raises(InputError, match="has no option 'no_such'"):
        schedule.read_options({"no_such": 1})
    for option in schedule.options:
        bad = ["some text"] if option.choices or not isinstance(option.default, str) else []
        bad += [option.minimum - 1] if option.minimum is not None else []  # type: ignore[list-item]
        for value in bad:
            with pytest.raises(InputError) as caught:
                schedule.read_options({option.name: value})
            assert (caught.value.key, caught.value.found) == (option.name, value)
            assert caught.value.allowed


SECONDS = [(1, 1, 0), (1, 2, 0), (1, 1, 1), (2, 2, 1), (3, 4, 1), (5, 3, 3)]
"""F, I and W of closed forms; a whole backward is both."""


def evens() -> Iterator[Pipeline]:
    for forward, first, second in SECONDS:
        for p, m, chunks in product((1, 2, 4, 6), (1, 2, 4, 6, 8, 12, 24), (1, 2, 3, 4)):
            for transfer_s in (0.0, 0.5):
                yield Pipeline(
                    p=p, m=m, chunks=chunks, forward_s=forward, input_grad_s=first,
                    weight_grad_s=second, transfer_s=transfer_s,
                )  # fmt: skip


def priced(schedule: Schedule, of: Pipeline) -> Shape:
    """The shape of an even pipeline, with its seconds where the schedule reads them."""
    shape = schedule.placement.shape(schedule.placement.grid(of.p, of.chunks), of.m)
    if not schedule.reads:
        return shape
    seconds = {"forward_s": of.forward_s, "input_grad_s": of.input_grad_s, "weight_grad_s": of.weight_grad_s}
    return replace(shape, **{key: (value,) * shape.stages for key, value in seconds.items()})


@with_closed_form
def test_closed_form(schedule: Schedule) -> None:
    assert schedule.closed_form
    tried = 0
    for even in evens():
        expected = schedule.closed_form.of(even)
        shape = priced(schedule, even)
        if expected is None or schedule.unmet(shape):
            continue
        tried += 1
        costs = {"F": even.forward_s, "B": even.backward_s, "I": even.input_grad_s, "W": even.weight_grad_s}
        order = make_order(schedule.name, shape)
        found = simulate(order, shape, costs, transfer_s=even.transfer_s).makespan
        if schedule.closed_form.kind == "exact":
            assert found == pytest.approx(expected, rel=1e-12), even
        else:
            assert found >= expected - 1e-9, even
    assert tried >= 8


@pytest.mark.parametrize("steps", [0, -1])
def test_needs_a_step(steps: int) -> None:
    with pytest.raises(InputError, match="1 or more"):
        make_order("gpipe", line(2, 2), steps=steps)


def test_unknown_schedule_names_the_known() -> None:
    with pytest.raises(InputError, match="interleaved_1f1b"):
        make_order("zero", line(2, 2))
