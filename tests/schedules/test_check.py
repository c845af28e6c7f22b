"""`coverage` finds everything that is wrong, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Action, Order, Place, Shape, parse_action
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules.check import coverage
from explorer.schedules.custom import parse_lanes
from tests.schedules.shapes import bidirectional, line, replicated, shapes_for

GOOD = "0F0 0F1 0B0 0B1 0U0-1; 1F0 1B0 1F1 1B1 1U0-1"


def problems(text: str, shape: Shape, lag: tuple[int, ...] = ()) -> list[str]:
    return coverage(Order(lanes=parse_lanes(text), steps=1, lag=lag), shape)


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("0F1 ", "", "stage 0: microbatches 1 never run forward"),
        ("1F0 ", "1F0 1F0 ", "lane 1: stage 1: microbatches 0 forward more than once"),
        ("0B1 ", "", "lane 0: stage 0: microbatches 1 not run backward"),
        ("0B1", "0I1", "lane 0: stage 0: microbatches 1 not run backward"),
        ("0B1", "0W1 0I1", "lane 0: stage 0: microbatches 1 weight gradient before input gradient"),
        ("0B1", "0B1 0W1", "lane 0: stage 0: microbatches 1 with a backward and also a split gradient"),
        ("1F0 1B0", "1B0 1F0", "lane 1: stage 1: microbatches 0 backward before forward"),
        ("0U0-1", "0U0", "lane 0: stage 0: microbatches 1 not applied by an update"),
        ("0U0-1", "0U0-1 0U1", "lane 0: stage 0: microbatches 1 update more than once"),
        ("0U0-1", "0U0-2", "lane 0: stage 0: update of microbatches 2 that no step has"),
        ("0B1 0U0-1", "0U0-1 0B1", "lane 0: stage 0: microbatches 1 update before backward"),
        ("0B1", "0B1 1F1", "lane 0: 1F1 is of a place that the lane does not hold"),
        ("0F1", "0F1^1", "lane 0: 0F1^1 is in a sweep beyond the 1 of the order"),
        ("1U0-1", "1U0-1; 2F0", "the order has 3 lanes, the shape 2"),
    ],
)
def test_each_fault_is_said(right: str, wrong: str, said: str) -> None:
    shape = line(2, 2)
    assert problems(GOOD, shape) == []
    assert said in problems(GOOD.replace(right, wrong), shape)


def test_lists_everything_at_once() -> None:
    found = problems("0F0 0B0; 1F1 1B1", line(2, 2))
    assert len(found) == 4  # stage 0 never 1, stage 1 never 0, and no update on either
    assert sum("never" in text for text in found) == 2


def test_turns_of_replicas() -> None:
    shape = replicated([], [4], [2], [True])
    assert problems("0F0 0B0 0F2 0B2 0U0-3; 0F1 0B1 0F3 0B3 0U0-3", shape) == []
    wrong = problems("0F0 0B0 0F1 0B1 0U0-3; 0F2 0B2 0F3 0B3 0U0-3", shape)
    assert "lane 0: stage 0: forward of microbatches 1 that are another place's" in wrong
    assert "lane 1: stage 0: microbatches 1 not run forward" in wrong


def test_samples_stay_in_their_copy() -> None:
    shape = bidirectional(2, 2)
    good = make_order("chimera", shape)
    swapped = replace(
        good,
        lanes=tuple(
            tuple(
                action._replace(first_microbatch=1 - action.first_microbatch)
                if action.stage == 1 and action.op != "U"
                else action
                for action in lane
            )
            for lane in good.lanes
        ),
    )
    assert coverage(good, shape) == []
    found = coverage(swapped, shape)
    assert found == ["stage 1: microbatches 0-1 run in another copy than the same samples on stage 0"]


def test_lanes_that_run_a_place_together_agree() -> None:
    place = Place(0, 0, 0)
    shape = Shape(stages=1, edges=(), lanes=((place,), (place,)), microbatches=(2,))
    alike = "0F0 0B0 0F1 0B1 0U0-1"
    assert problems(f"{alike}; {alike}", shape) == []
    found = problems(f"{alike}; 0F0 0F1 0B0 0B1 0U0-1", shape)
    assert found == ["lanes 0 and 1 run stage 0 together, but not in one order"]


def test_no_backward_where_nothing_is_trained() -> None:
    shape = line(1, 1, training=False)
    assert problems("0F0", shape) == []
    assert problems("0F0 0B0", shape) == ["lane 0: 0B0 where nothing is trained"]


def mutated(lane: list[Action], kind: str, at: int) -> list[Action]:
    """A lane with one action dropped, doubled or given to another microbatch."""
    if kind == "drop":
        return lane[:at] + lane[at + 1 :]
    if kind == "double":
        return lane[: at + 1] + lane[at:]
    return [*lane[:at], lane[at]._replace(first_microbatch=lane[at].first_microbatch + 1), *lane[at + 1 :]]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_single_change_is_found(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["gpipe", "1f1b", "pipedream", "layer_parallel", "chimera", "cyclic"]))
    shape = data.draw(shapes_for(SCHEDULES.get(name)))
    order = make_order(name, shape, steps=2)
    busy = [lane for lane, actions in enumerate(order.lanes) if actions]
    lane = data.draw(st.sampled_from(busy))
    actions = list(order.lanes[lane])
    at = data.draw(st.integers(0, len(actions) - 1))
    changed = tuple(mutated(actions, data.draw(st.sampled_from(["drop", "double", "move"])), at))
    lanes = (*order.lanes[:lane], changed, *order.lanes[lane + 1 :])
    assert coverage(replace(order, lanes=lanes), shape) != []


def test_action_text_in_problems_reads_back() -> None:
    text = problems("0F0 0B0 0U0-1; 1F0 1B0 1U0 3F7-9~1", line(2, 1))[-1]
    word = next(word for word in text.split() if "F7" in word)
    assert parse_action(word) == Action("F", 3, 7, 3, 1)
