"""Curves of the best so far: who leads, in which colour, and that names never touch."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.search.comparison import Mark
from widgets.search.curves import (
    LEAD_PX,
    MOST_LEADERS,
    SEEN,
    curve_range,
    leaders_of,
    margin_px,
    slots_of,
    spread,
)
from widgets.search.labels import CHARACTER_PX, GAP_PX
from widgets.search.task import Entrant

ROOM, GAP = 160.0, 14.0
HEIGHTS = st.lists(st.floats(-50.0, 250.0), max_size=11).map(sorted)


def entrants(**values: float) -> list[Entrant]:
    return [Entrant(name=name, curve=(Mark(1, 0.1, value),)) for name, value in values.items()]


@given(HEIGHTS)
def test_names_are_a_line_apart_and_inside(wanted: list[float]) -> None:
    found = spread(wanted, GAP, ROOM)
    assert len(found) == len(wanted)
    assert all(b - a >= GAP - 1e-9 for a, b in pairwise(found))
    assert all(GAP / 2 - 1e-9 <= at <= ROOM - GAP / 2 + 1e-9 for at in found)


@given(st.lists(st.integers(0, 10), min_size=1, max_size=4, unique=True).map(sorted))
def test_names_that_have_room_stand_at_their_curves(places: list[int]) -> None:
    wanted = [GAP / 2 + GAP * place for place in places]
    assert spread(wanted, GAP, ROOM) == pytest.approx(wanted)


def test_names_that_touch_move_apart_evenly() -> None:
    assert spread([80.0, 80.0], GAP, ROOM) == pytest.approx([73.0, 87.0])
    assert spread([20.0, 80.0, 81.0, 82.0, 140.0], GAP, ROOM) == pytest.approx(
        [20.0, 67.0, 81.0, 95.0, 140.0]
    )
    assert spread([0.0, 0.0], GAP, ROOM) == pytest.approx([7.0, 21.0])
    assert spread([ROOM, ROOM], GAP, ROOM) == pytest.approx([139.0, 153.0])


def test_more_names_than_have_room_share_it() -> None:
    found = spread([50.0] * 20, GAP, ROOM)
    assert found == pytest.approx([4.0 + 8.0 * i for i in range(20)])


def test_the_best_lead_and_equal_ones_share_a_name() -> None:
    found = leaders_of(entrants(even=9.0, auto=7.4, dapple=8.0, spp=8.0, pase=8.0))
    assert [(leader.text, leader.value) for leader in found] == [
        ("auto", 7.4),
        ("dapple + 2", 8.0),
        ("even", 9.0),
    ]
    many = leaders_of(entrants(**{f"s{i}": 1.0 + i / 100 for i in range(31)}))
    assert [leader.text for leader in many] == [f"s{i}" for i in range(MOST_LEADERS)]
    far = leaders_of(entrants(auto=1.0, slow=1.01 * SEEN))
    assert [leader.text for leader in far] == ["auto"], "who is beyond the picture has no name in it"
    assert leaders_of([Entrant(name="auto")]) == ()


def test_the_axis_is_around_where_curves_end() -> None:
    low, high = curve_range(entrants(auto=7.4, even=9.4, min_cut=11.1, tensoropt=19.3, greedy=76.9))
    assert 7.0 < low < 7.4
    assert 11.1 < high < 13.0
    fallen = Entrant(name="local", curve=(Mark(1, 0.1, 80.0), Mark(2, 0.2, 8.0)))
    assert curve_range([fallen]) == curve_range(entrants(local=8.0)), "it comes down from above"
    assert curve_range([Entrant(name="auto")]) == (0.0, 1.0)


@given(st.lists(st.permutations(range(9)).map(lambda order: [f"s{i}" for i in order[:5]]), max_size=6))
def test_every_leader_has_a_colour_of_its_own_and_keeps_it(rounds: list[list[str]]) -> None:
    slots: dict[str, int] = {}
    for leaders in rounds:
        before, slots = slots, slots_of(slots, leaders, 7)
        assert list(slots) == leaders
        assert len(set(slots.values())) == len(leaders)
        assert set(slots.values()) <= set(range(7))
        assert all(slots[name] == before[name] for name in leaders if name in before)


def test_names_take_at_most_half_of_the_width() -> None:
    assert margin_px([], 388.0) == 0.0
    assert margin_px(["auto", "exhaustive"], 388.0) == LEAD_PX + GAP_PX + 10 * CHARACTER_PX
    assert margin_px(["x" * 99], 388.0) == 194.0
