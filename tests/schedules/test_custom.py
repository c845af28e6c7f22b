"""Literal orders: what is read, repeated, completed and refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import ReadRule
from explorer.base.errors import InputError, PlanError
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules.custom import lanes_text, parse_lanes
from tests.schedules.shapes import line, replicated, shapes_for

TEXT = "0F0 0F1 0B0 0B1; 1F0, 1B0, 1F1, 1B1"


def test_updates_are_added_and_steps_repeated() -> None:
    order = make_order("custom", line(2, 2), steps=2, options={"lanes": TEXT})
    first = "0F0 0F1 0B0 0B1 0U0-1 0F2 0F3 0B2 0B3 0U2-3"
    assert " ".join(map(str, order.lanes[0])) == first
    assert order == make_order(
        "custom", line(2, 2), steps=2, options={"lanes": lanes_text(order.lanes), "covers": 2}
    )


def test_one_line_serves_equal_lanes() -> None:
    shape = replicated([(0, 1)], [2, 2], [3, 1], [False, False])
    order = make_order("custom", shape, options={"lanes": TEXT})
    assert order.lanes[0] == order.lanes[1] == order.lanes[2] != order.lanes[3]
    with pytest.raises(InputError, match="2 or 4"):
        make_order("custom", shape, options={"lanes": "0F0 0B0; 0F0 0B0; 1F0 1B0"})


def test_read_rule_flush_and_lag() -> None:
    options = {"lanes": "0F0 0B0 0U0", "read_rule": "buffered(1)", "flush": "false"}
    order = make_order("custom", line(1, 1), options=options)
    assert (order.read_rule, order.flush) == (ReadRule(name="buffered", parameter=1), False)
    sweeps = {"lanes": "0F0 0B0 0U0 0F0^1 0B0^1 0U0^1", "lag": "1, 0"}
    assert make_order("custom", line(1, 1), options=sweeps).lag == (1, 0)


@pytest.mark.parametrize(
    "options",
    [
        {"lanes": "0F0 0B0"},
        {"lanes": "0F0 0B0; 1F0 1X0"},
        {"lanes": "0F0 0B0; 1F0"},
        {"lanes": "0F0 0B0; 1F0 1B0", "read_rule": "newest"},
        {"lanes": "0F0 0B0; 1F0 1B0", "covers": 2},
        {"lanes": "0F0 0B0; 1F0 1B0", "lag": "one"},
    ],
)
def test_refuses_bad_texts(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        make_order("custom", line(2, 1), options=options)
    assert caught.value.allowed or isinstance(caught.value, PlanError)


def test_every_problem_is_listed() -> None:
    with pytest.raises(PlanError) as caught:
        make_order("custom", line(2, 2), options={"lanes": "0F0 0B0; 1F0 1B0"})
    assert len(caught.value.problems) >= 2


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_text_round_trip(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["gpipe", "1f1b", "layer_parallel", "chimera"]))
    shape = data.draw(shapes_for(SCHEDULES.get(name)))
    lanes = make_order(name, shape, steps=2).lanes
    assert parse_lanes(lanes_text(lanes)) == lanes
