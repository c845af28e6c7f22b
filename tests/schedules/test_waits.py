"""`check_order`: what an edited order is refused for, in one line that names the actions."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order
from explorer.base.errors import PlanError
from explorer.schedules import SCHEDULES, Schedule, make_order
from explorer.schedules.check import coverage
from explorer.schedules.custom import parse_lanes
from explorer.schedules.waits import check_order
from tests.schedules.shapes import line, shapes_for
from tests.schedules.slots import simulate

CIRCLE = (
    "deadlock: 0B0 on lane 0 waits for 1B0 on lane 1 behind 1F1; 1F1 on lane 1 waits for 0F1 on lane 0 behind"
    " 0B0"
)


def checked(text: str) -> list[str]:
    return check_order(Order(lanes=parse_lanes(text), steps=1), line(2, 2))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "0F0 0B0 0F1 0B1 0U0-1; 1F1 1B1 1F0 1B0 1U0-1",
            CIRCLE,
        ),
        (
            "0F0 0B0 0F1 0B1 0U0-1; 1F0 1F1 1B0 1B1 1U0-1",
            CIRCLE,
        ),
        (
            "0F0 0F1 0B0 0B1 0U0-1; 1F0 1B0 1B1 1F1 1U0-1",
            "lane 1: stage 1: microbatches 1 backward before forward",
        ),
        ("0F0 0F1 0B0 0B1 0U0-1; 1F0 1B0 1U0-1", "stage 1: microbatches 1 never run forward"),
    ],
)
def test_says_what_waits_for_what(text: str, said: str) -> None:
    assert checked(text)[0] == said
    with pytest.raises(PlanError, match=said.split(";", maxsplit=1)[0][:40]):
        make_order("custom", line(2, 2), options={"lanes": text})


def test_a_good_order_passes() -> None:
    assert checked("0F0 0F1 0B0 0B1 0U0-1; 1F0 1B0 1F1 1B1 1U0-1") == []


def test_memory_names_the_first_action_too_many() -> None:
    shape = replace(line(2, 3), activation_bytes=(2.0, 1.0), memory_cap_bytes=(4.0, 9.0))
    assert check_order(make_order("gpipe", shape), shape) == [
        "lane 0: 0F2 needs 6 bytes of activations, its devices have room for 4"
    ]
    assert check_order(make_order("1f1b", shape), shape) == []


def test_a_split_backward_frees_in_two_parts() -> None:
    shape = replace(line(1, 2), activation_bytes=(2.0,), waiting_bytes=(1.0,), memory_cap_bytes=(3.0,))
    early, late = "0F0 0I0 0F1 0I1 0W0-1 0U0-1", "0F0 0F1 0I0 0W0 0I1 0W1 0U0-1"
    assert check_order(Order(lanes=parse_lanes(early), steps=1), shape) == []
    (said,) = check_order(Order(lanes=parse_lanes(late), steps=1), shape)
    assert "0F1 needs 4" in said


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_it_agrees_with_a_simulation_on_shuffled_lanes(data: st.DataObject) -> None:
    """Two neighbouring actions exchanged, some times: it deadlocks here where it does there."""
    name = data.draw(st.sampled_from(["gpipe", "1f1b", "chimera", "zb_h1", "layer_parallel", "cyclic"]))
    shape = data.draw(shapes_for(SCHEDULES.get(name)))
    order = make_order(name, shape)
    turns = any(shape.round_robin) or max(Counter(shape.lanes).values(), default=0) > 1 or shape.replicas
    lanes = [list(lane) for lane in order.lanes]
    for _ in range(0 if turns else data.draw(st.integers(0, 6))):
        lane = lanes[data.draw(st.integers(0, len(lanes) - 1))]
        if len(lane) > 1:
            at = data.draw(st.integers(0, len(lane) - 2))
            lane[at], lane[at + 1] = lane[at + 1], lane[at]
    changed = replace(order, lanes=tuple(map(tuple, lanes)))
    found = check_order(changed, shape)
    if coverage(changed, shape):
        assert found == coverage(changed, shape)
        return
    assert bool(found) is bool(simulate(changed, shape).blocked)
    assert all(text.startswith("deadlock: ") and "waits for" in text for text in found)


@pytest.mark.parametrize(
    "schedule",
    [item for item in SCHEDULES if not (item.literal or item.dispatch)],
    ids=lambda schedule: schedule.name,
)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_orders_of_schedules_pass(schedule: Schedule, data: st.DataObject) -> None:
    shape = data.draw(shapes_for(schedule))
    order = make_order(schedule.name, shape, steps=2)
    assert check_order(order, shape) == []
