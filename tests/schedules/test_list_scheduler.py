"""The list scheduler: whole orders without deadlock, at the times that the mini-simulator finds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.schedules import make_order
from explorer.schedules._assumed_costs import Caps, Costs, costs_of
from explorer.schedules._list_scheduler import list_schedule
from explorer.schedules.check import coverage
from explorer.schedules.custom import lanes_text
from tests.schedules.shapes import dags, line, looped, placed
from tests.schedules.slots import simulate

even = placed().filter(lambda shape: shape.microbatches[0] % shape.copies == 0)


def ordered(shape: Shape, text: str) -> Order:
    """The order with its updates."""
    return make_order("custom", shape, options={"lanes": text})


@settings(max_examples=150, deadline=None)
@given(
    shape=dags() | even,
    split=st.booleans(),
    room=st.none() | st.floats(0.5, 8),
    ahead=st.none() | st.integers(1, 6),
    patience=st.floats(0, 2),
)
def test_orders_are_whole_and_run_through(
    shape: Shape, split: bool, room: float | None, ahead: int | None, patience: float
) -> None:
    """Whatever is capped: too little room delays, and never stops."""
    caps = Caps(
        ahead=[ahead] * shape.stages if ahead else (),
        held=[1.0] * shape.stages,
        waiting=[0.5] * shape.stages,
        room=[room] * len(shape.lanes) if room else (),
    )
    made = list_schedule(shape, costs_of(shape, split=split), caps=caps, patience=patience)
    order = ordered(shape, lanes_text(made.lanes))
    assert coverage(order, shape) == []
    assert simulate(order, shape).blocked == ()


@settings(max_examples=100, deadline=None)
@given(shape=even, split=st.booleans(), data=st.data())
def test_its_clock_is_the_simulators(shape: Shape, split: bool, data: st.DataObject) -> None:
    """Each action starts as soon as its lane and all that it waits for allow."""
    weights = [data.draw(st.sampled_from([0.5, 1.0, 2.0])) for _ in range(shape.stages)]
    costs = Costs(
        forward_s=weights,
        input_grad_s=[2 * value for value in weights],
        weight_grad_s=weights,
        split=split,
    )
    made = list_schedule(shape, costs)
    seconds = {"F": 1, "B": 3, "I": 2, "W": 1}
    found = simulate(ordered(shape, lanes_text(made.lanes)), shape, seconds, weight=weights)
    spans = [
        actions[-1][1] - actions[0][0]
        for actions in ([span for span in lane if span[2].op != "U"] for lane in found.spans)
        if actions
    ]
    assert max(spans) == pytest.approx(made.span_s, rel=1e-9)


def test_backward_first_is_1f1b_without_gaps() -> None:
    shape = line(4, 8)
    costs = costs_of(shape, split=False, otherwise=(1.0, 1.0, 0.0))
    made = list_schedule(shape, costs, caps=Caps(ahead=(4, 3, 2, 1)))
    plain = make_order("1f1b", shape)
    assert made.lanes == tuple(tuple(a for a in lane if a.op != "U") for lane in plain.lanes)


def test_weight_gradients_wait_for_gaps() -> None:
    """With no patience W goes before all that is not ready; with much it is left to the end."""
    shape = line(2, 2)
    costs = costs_of(shape, split=True)
    soon, late = (list_schedule(shape, costs, patience=value).lanes[1] for value in (0.0, 100.0))
    assert " ".join(map(str, soon)) == "1F0 1I0 1W0 1F1 1I1 1W1"
    assert " ".join(map(str, late)) == "1F0 1I0 1F1 1I1 1W0 1W1"


@pytest.mark.parametrize("room", [1.0, 2.0])
def test_a_cap_that_allows_nothing_lets_the_earliest_go(room: float) -> None:
    """Two chunks of one microbatch need two places on a lane before anything can come back."""
    shape = looped(1, 3, 2)
    made = list_schedule(
        shape, costs_of(shape, split=False), caps=Caps(held=[1.0, 1.0], waiting=[0.0] * 2, room=[room])
    )
    assert " ".join(map(str, made.lanes[0])) == "0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1 0F2 1F2 1B2 0B2"
