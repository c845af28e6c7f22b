"""Names in the search chart: none on another or outside, the first one always; far points squeeze nothing."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from widgets.search.labels import (
    CHARACTER_PX,
    LINE_PX,
    MOST_COVERED_PX2,
    SPARE_PX2,
    _area,
    _box,
    _outside,
    _overlap,
    box_of,
    place,
)
from widgets.search.points import FAR, Frame, ends_of, highest, name_of, room_ends

SIZE = (388.0, 207.0)
FRAME = Frame(0.0, 100.0, 0.0, 20.0)
POINTS = st.lists(
    st.tuples(st.floats(0.0, 100.0), st.floats(0.0, 20.0), st.text("abcdefgh_", min_size=2, max_size=16)),
    min_size=1, max_size=30,
)  # fmt: skip


@given(POINTS)
def test_no_name_stands_on_another(drawn: list[tuple[float, float, str]]) -> None:
    sides = place([(x, y) for x, y, _ in drawn], [name for _, _, name in drawn], FRAME, SIZE)
    assert len(sides) == len(drawn)
    assert sides[0], "the first name always has a place"
    boxes = [
        _box(*FRAME.pixels((x, y), SIZE), name, side)
        for (x, y, name), side in zip(drawn, sides, strict=True)
        if side
    ]
    assert all(_overlap(a, b) <= SPARE_PX2 for a, b in combinations(boxes, 2))
    at = [FRAME.pixels((x, y), SIZE) for x, y, _ in drawn]
    marks = [(x - 6, y - 6, x + 6, y + 6) for x, y in at]
    assert all(sum(_overlap(box, mark) for mark in marks) <= MOST_COVERED_PX2 for box in boxes[1:])
    frame = (0.0, 0.0, *SIZE)
    assert all(_outside(box, frame) <= 0.04 * _area(box) + 1e-9 for box in boxes[1:])


@given(POINTS, st.floats(30.0, 360.0), st.sampled_from(["may<br>fit", "does not fit"]))
def test_no_name_stands_on_that_of_an_area(
    drawn: list[tuple[float, float, str]], x: float, words: str
) -> None:
    taken = box_of(words, (x, 20.0), "middle center")
    at, names = [(x, y) for x, y, _ in drawn], [name for _, _, name in drawn]
    for (px, py), name, side in list(
        zip(at, names, place(at, names, FRAME, SIZE, taken=[taken]), strict=True)
    )[1:]:
        assert not side or _overlap(_box(*FRAME.pixels((px, py), SIZE), name, side), taken) <= SPARE_PX2


def test_the_box_of_an_areas_name() -> None:
    wide, tall = CHARACTER_PX * len("may"), LINE_PX
    assert box_of("may<br>fit", (100.0, 50.0), "middle center") == (
        100 - wide / 2, 50 - tall, 100 + wide / 2, 50 + tall,
    )  # fmt: skip
    assert box_of("may fit", (100.0, 50.0), "middle left")[2] == 100.0


def test_names_at_one_place_are_left_out_but_one() -> None:
    sides = place([(50.0, 10.0)] * 30, ["searcher"] * 30, FRAME, SIZE)
    assert sides[0]
    assert sides.count("") > 20


def test_a_far_point_does_not_squeeze_the_others() -> None:
    assert highest([7.4, 9.4, 19.3, 76.9]) == 19.3
    assert highest([7.4, 8.0]) == 8.0
    assert highest([7.4, 100.0], at_least=100.0) == 100.0
    low, high = ends_of([8.55, 7.4, 76.9], 5.1)
    assert high < FAR * 7.4
    assert low <= 5.1
    assert ends_of([76.9, 8.55, 7.4])[1] > 76.9, "the first one is always within"
    assert room_ends([57.5, 86.0, 85.0], 80.0) == (0.0, 100.0)
    assert room_ends([57.5, 186.0], 80.0) == (0.0, 1.08 * 186.0)


def test_many_names_at_one_point_are_counted() -> None:
    assert name_of(["auto"]) == "auto"
    assert name_of(["auto", "local"]) == "auto, local"
    assert name_of(["dapple", "spp", "pase", "even"]) == "dapple and 3 more"
