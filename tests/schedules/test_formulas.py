"""Idle time and activations of every synchronous schedule as the table of its papers says, over many sizes.

A row is a schedule; its formulas are in the letters of the papers: p positions, m microbatches, v chunks, F,
B, I and W seconds of a stage (of all its chunks together), and r the position. Orders run through the small
simulator of these tests, not through the product's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import product
from types import MappingProxyType
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, Schedule, make_order
from tests.schedules.shapes import line, looped
from tests.schedules.slots import peak_in_flight, simulate
from tests.schedules.uneven import Costs, spans_of


class Even(NamedTuple):
    """Equal stages."""

    p: int
    m: int
    v: int
    f: float
    i: float
    w: float

    @property
    def b(self) -> float:
        """Seconds of a whole backward."""
        return self.i + self.w

    def shape(self, schedule: Schedule) -> Shape:
        """Lay the schedule's own placement over the positions."""
        chunks = self.v if schedule.placement.several else None
        shape = schedule.placement.shape(schedule.placement.grid(self.p, chunks), self.m)
        if not schedule.reads:
            return shape
        forward, first, second = ((seconds / self.v,) * shape.stages for seconds in (self.f, self.i, self.w))
        return replace(shape, forward_s=forward, input_grad_s=first, weight_grad_s=second)

    def seconds(self) -> Mapping[str, float]:
        """Return the seconds of a chunk."""
        return {"F": self.f / self.v, "B": self.b / self.v, "I": self.i / self.v, "W": self.w / self.v}


class Row(NamedTuple):
    """What a table says of a schedule."""

    name: str
    idle: Callable[[Even], float]
    peak: Callable[[Even, int], float] | None
    """Microbatches of whole stages that position r holds."""
    where: Callable[[Even], bool]
    chunks: tuple[int, ...] = (1,)
    options: Mapping[str, object] = MappingProxyType({})
    span: bool = False
    """Whether the idle time is a device's own, from its first start to its last end."""

    @property
    def schedule(self) -> Schedule:
        """The schedule under the row's options."""
        return SCHEDULES.get(self.name).with_options(self.options)


def one_by_one(even: Even) -> bool:
    """As many microbatches as positions or more."""
    return even.m >= even.p


def in_rounds(even: Even) -> bool:
    """A whole number of rounds of p microbatches."""
    return even.m % even.p == 0


def shorter_weights(even: Even) -> bool:
    """W no longer than F and I."""
    return even.m >= even.p and even.w <= min(even.f, even.i)


def fill_and_drain(even: Even) -> float:
    """(p - 1)(F + B)/v."""
    return (even.p - 1) * (even.f + even.b) / even.v


def of_interleaving(even: Even, r: int) -> float:
    """min(2 (p - r - 1) + (v - 1) p + 1, m v) chunks."""
    return min(2 * (even.p - r - 1) + (even.v - 1) * even.p + 1, even.m * even.v) / even.v


ROWS = (
    Row("gpipe", fill_and_drain, lambda e, _: e.m, lambda _: True),
    Row("1f1b", fill_and_drain, lambda e, r: min(e.p - r, e.m), lambda _: True),
    Row("eager_1f1b", fill_and_drain, lambda e, r: min(2 * (e.p - r) - 1, e.m), lambda _: True),
    Row("interleaved_1f1b", fill_and_drain, of_interleaving, in_rounds, (2, 4)),
    Row("breadth_first", fill_and_drain, lambda e, _: e.m, one_by_one, (2, 4)),
    Row("hanayo", fill_and_drain, None, lambda e: in_rounds(e) and e.f == e.b, (2, 4)),
    Row("chimera", lambda e: (e.p - 2) * max(e.f, e.b), None, lambda e: e.m == e.p and e.b in (e.f, 2 * e.f)),
    Row("gpipe_2bp", lambda e: (e.p - 1) * (e.f + e.i), lambda e, _: e.m, lambda _: True),
    Row(
        "split_backward",
        lambda e: (e.p - 1) * e.f,
        None,
        lambda e: e.m >= e.p and e.f == e.i == e.w,
        options={"of": "1f1b", "fill": True},
    ),
    Row("zb_h1", lambda e: (e.p - 1) * (e.f + e.i - e.w), lambda e, _: e.p, shorter_weights),
    Row(
        "zb_h2",
        lambda e: (e.p - 1) * (e.f + e.i - 2 * e.w),
        lambda e, _: 2 * e.p - 1,
        lambda e: shorter_weights(e) and e.m >= 2 * e.p - 1,
        span=True,
    ),
)
SECONDS = ((1, 1, 0), (1, 2, 0), (1, 1, 1), (2, 2, 1), (3, 4, 1), (5, 3, 3), (1, 0.5, 0.5))


def cases(row: Row) -> list[Even]:
    """Sizes and times within the table's conditions: p to 8, m to 24."""
    sizes = [(p, m) for p in range(2, 9) for m in sorted({1, p - 1, p, p + 1, 2 * p - 1, 2 * p, 3 * p})]
    evens = (Even(*size, v, *seconds) for size, v, seconds in product(sizes, row.chunks, SECONDS))
    found = [even for even in evens if row.where(even) and (even.w > 0 or not row.schedule.split)]
    return [even for even in found if not row.schedule.unmet(even.shape(row.schedule))]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_idle_time_and_activations(row: Row) -> None:
    orders: dict[Shape, Order] = {}
    tried = cases(row)
    assert len(tried) >= 14
    for even in tried:
        shape = even.shape(row.schedule)
        if shape not in orders:
            orders[shape] = make_order(row.name, shape, options=row.options)
        order = orders[shape]
        timeline = simulate(order, shape, even.seconds())
        longest = max(lane[-1][1] - lane[0][0] * row.span for lane in timeline.spans)
        assert longest - even.m * (even.f + even.b) == pytest.approx(row.idle(even), abs=1e-9), even
        if row.peak is None:
            continue
        for r, lane in enumerate(order.lanes):
            assert peak_in_flight(tuple(lane)) / even.v == row.peak(even, r), even


@pytest.mark.parametrize(("p", "v"), [(2, 2), (4, 2), (4, 3), (8, 4)])
def test_interleaving_sends_v_times_as_much(p: int, v: int) -> None:
    """Boundaries between lanes that a microbatch crosses: p - 1 of whole stages, v p - 1 of chunks."""
    for shape, crossings in ((line(p, p), p - 1), (looped(p, p, v), v * p - 1)):
        lane_of = {place.stage: lane for lane, places in enumerate(shape.lanes) for place in places}
        assert sum(lane_of[a] != lane_of[b] for a, b in shape.edges) == crossings


seconds_of_stages = st.lists(st.tuples(st.floats(0.1, 5), st.floats(0.1, 5)), min_size=1, max_size=8)


@settings(max_examples=300, deadline=None)
@given(stages=seconds_of_stages, m=st.integers(1, 16))
def test_uneven_stages(stages: list[tuple[float, float]], m: int) -> None:
    """GPipe takes sum (F + B) + (m - 1)(max F + max B); neither less than a stage and the way to it."""
    forward, backward = (list(of) for of in zip(*stages, strict=True))
    p, shape = len(stages), line(len(stages), m)
    costs = Costs(
        forward=forward, input_grad=backward, weight_grad=[0.0] * p, backward=backward,
        transfer=[0.0] * (p - 1), after=[0.0] * p,
    )  # fmt: skip
    exact = sum(forward) + sum(backward) + (m - 1) * (max(forward) + max(backward))
    least = max(m * (f + b) + sum(forward[:s]) + sum(backward[:s]) for s, (f, b) in enumerate(stages))
    took = {name: spans_of(make_order(name, shape), shape, costs)[0] for name in ("gpipe", "1f1b")}
    assert took["gpipe"] == pytest.approx(exact)
    assert min(took.values()) >= least * (1 - 1e-12)
