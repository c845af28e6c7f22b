"""Lanes made all at once are those made one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from explorer.actions import Actions, Place, Shape
from explorer.schedules._clock import clock_of, one_step
from explorer.schedules._clocked_lanes import clocked_lanes
from explorer.schedules._common import each_step, updates
from explorer.schedules._split_backward import level_lag, levelled, rejoined, split_backward
from tests.schedules.shapes import bidirectional, dags, looped

shapes = dags() | st.builds(
    lambda make, p, m: make(2 * p, 2 * m), st.sampled_from([bidirectional, lambda p, m: looped(p, m, 3)]),
    st.integers(1, 3), st.integers(1, 5),
)  # fmt: skip


@given(shape=shapes, steps=st.integers(1, 3))
def test_forwards_and_backwards_by_the_clock(shape: Shape, steps: int) -> None:
    clock = clock_of(shape)

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        return Actions.joined([one_step(shape, clock, places, step), updates(shape, places, step)])

    assert clocked_lanes(shape, clock, steps) == each_step(shape, steps, lane)


@given(shape=shapes, steps=st.integers(1, 3))
def test_split_backwards(shape: Shape, steps: int) -> None:
    clock = clock_of(shape)
    lag = level_lag(shape, clock)

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        split = split_backward(one_step(shape, clock, places, step), lag)
        return Actions.joined([rejoined(split, shape), updates(shape, places, step)])

    assert levelled(shape, clock, steps=steps).lanes == each_step(shape, steps, lane)
