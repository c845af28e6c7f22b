"""The resharding table against OneFlow's boxing costs, and conversions over two axes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.sharding.reshard import conversion, moved, reshard, wire_factor
from explorer.sharding.states import BROADCAST, PARTIAL, Axis
from explorer.sharding.traffic import backward_steps, forward_steps

SIZES = (16.0, 16.0)


@pytest.mark.parametrize("p", [2, 4, 8])
@pytest.mark.parametrize(
    ("source", "target", "tensors", "pth"),
    [  # OneFlow (2021), table 2: what all p devices send, in (p - 1) tensors, or in the p-th part of one
        (0, 0, 0, False),
        (0, 1, 1, True),
        (0, BROADCAST, 1, False),
        (0, PARTIAL, 0, False),
        (BROADCAST, 0, 0, False),
        (BROADCAST, BROADCAST, 0, False),
        (BROADCAST, PARTIAL, 0, False),
        (PARTIAL, 0, 1, False),
        (PARTIAL, BROADCAST, 2, False),
        (PARTIAL, PARTIAL, 0, False),
    ],
)
def test_boxing_costs(p: int, source: int, target: int, tensors: int, pth: bool) -> None:
    axes = (Axis(name="a", size=p),)
    sent = p * moved(reshard((source,), (target,), SIZES, axes), axes)
    assert sent == pytest.approx(tensors * (p - 1) / (p if pth else 1))


STATES = st.sampled_from([0, 1, BROADCAST, PARTIAL])
AXES = (Axis(name="a", size=2), Axis(name="b", size=4))


@given(st.tuples(STATES, STATES), st.tuples(STATES, STATES))
def test_two_axes_end_where_asked(source: tuple[int, int], target: tuple[int, int]) -> None:
    steps = reshard(source, target, SIZES, AXES)
    now = list(source)
    for step in steps:
        assert now[step.axis] == step.source
        now[step.axis] = step.target
        assert step.op == conversion(step.source, step.target) != ""
    assert tuple(now) == target


@given(st.tuples(STATES, STATES), st.tuples(STATES, STATES))
def test_the_order_moves_least(source: tuple[int, int], target: tuple[int, int]) -> None:
    """One axis after the other, in either order, is never cheaper than the order taken."""
    taken = moved(reshard(source, target, SIZES, AXES), AXES)
    for first in (0, 1):
        middle = tuple(target[a] if a == first else source[a] for a in range(2))
        parts = (*reshard(source, middle, SIZES, AXES), *reshard(middle, target, SIZES, AXES))
        assert taken <= moved(parts, AXES) + 1e-12


def test_a_reduction_shrinks_what_the_other_axis_gathers() -> None:
    steps = reshard((0, PARTIAL), (BROADCAST, 1), SIZES, AXES)
    assert [(step.op, step.buffer) for step in steps] == [("reduce_scatter", 0.5), ("all_gather", 0.25)]


def test_parts_of_what_is_already_there_are_free() -> None:
    one = AXES[:1]
    found = forward_steps((PARTIAL,), ((0,), (BROADCAST,)), SIZES, one)
    assert [(k, [step.op for step in steps]) for k, steps in found] == [(1, ["all_reduce"]), (0, ["slice"])]


def test_gradients_are_added_before_they_are_reduced() -> None:
    one = AXES[:1]
    steps = backward_steps(((PARTIAL,), (0,), (BROADCAST,)), (BROADCAST,), SIZES, one)
    assert [step.op for step in steps] == ["all_reduce"]
    steps = backward_steps(((BROADCAST,), (0,)), (BROADCAST,), SIZES, one)
    assert [step.op for step in steps] == ["all_gather"]


def test_wire_factors_of_closed_forms() -> None:
    for n, op in itertools.product((1, 2, 8), ("all_gather", "reduce_scatter", "all_to_all")):
        assert wire_factor(op, n) == (n - 1) / n
    assert wire_factor("all_reduce", 8) == wire_factor("all_gather", 8) + wire_factor("reduce_scatter", 8)
    assert wire_factor("halo", 4) * 4 == 6  # two sides of three borders
