"""Order of unit transfers: beside every order by brute force, its bounds, and as a way between stages."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.pricing.routes import WHOLE
from explorer.pricing.stage_transfers import broadcast_route, crossing_route, ordered_route
from explorer.pricing.unit_transfers import MOST_SEARCHED, Load, UnitOrder, balanced, in_turn, least_s
from tests.pricing.test_stage_transfers import ALPHA, FAST, SLOW, rows, seconds, two_nodes


def every_order(units: Sequence[Sequence[Load]]) -> float:
    """The shortest of all orders and senders."""
    return min(
        listed(units, list(zip(order, senders, strict=True)))
        for order in itertools.permutations(range(len(units)))
        for senders in itertools.product(*(range(len(units[unit])) for unit in order))
    )


def listed(units: Sequence[Sequence[Load]], choice: list[tuple[int, int]]) -> float:
    free: dict[str, float] = defaultdict(float)
    for unit, sender in choice:
        load = units[unit][sender]
        end = max(free[port] for port in load) + max(load.values())
        free.update(dict.fromkeys(load, end))
    return max(free.values())


def held_up(units: Sequence[Sequence[Load]], order: UnitOrder) -> None:
    """Every unit is sent once, and no port by two at once."""
    assert sorted(item.unit for item in order.sent) == list(range(len(units)))
    spans: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for item in order.sent:
        assert item.end_s - item.start_s == pytest.approx(max(units[item.unit][item.sender].values()))
        for port in units[item.unit][item.sender]:
            spans[port].append((item.start_s, item.end_s))
    for found in spans.values():
        found.sort()
        assert all(one[1] <= other[0] + 1e-12 for one, other in itertools.pairwise(found))


@st.composite
def some_units(draw: st.DrawFn, most: int = 4) -> list[list[Load]]:
    """Slices of whole sizes, each held by some hosts, for others."""
    units: list[list[Load]] = []
    for _ in range(draw(st.integers(1, most))):
        size = float(draw(st.integers(1, 5)))
        target = draw(st.sampled_from(["x", "y", "z"]))
        owners = draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=2, unique=True))
        units.append([{f"{owner} out": size, f"{target} in": size} for owner in owners])
    return units


@settings(max_examples=150, deadline=None)
@given(units=some_units())
def test_it_is_the_shortest_order(units: list[list[Load]]) -> None:
    order = balanced(units)
    held_up(units, order)
    assert order.makespan_s == pytest.approx(every_order(units))
    assert order.makespan_s == pytest.approx(listed(units, [(s.unit, s.sender) for s in order.sent]))


@settings(max_examples=60, deadline=None)
@given(units=some_units(most=3 * MOST_SEARCHED))
def test_it_is_never_longer_than_in_turn_nor_shorter_than_any(units: list[list[Load]]) -> None:
    order = balanced(units)
    held_up(units, order)
    assert least_s(units) * (1 - 1e-12) <= order.makespan_s <= in_turn(units).makespan_s * (1 + 1e-12)
    assert balanced(units) == order


def test_two_slices_of_two_hosts_are_sent_by_one_each() -> None:
    units: list[list[Load]] = [
        [{"a": 1.0, "x": 1.0}, {"b": 1.0, "x": 1.0}],
        [{"a": 1.0, "y": 1.0}, {"b": 1.0, "y": 1.0}],
    ]
    assert (in_turn(units).makespan_s, balanced(units).makespan_s) == (2.0, 1.0)


def test_receivers_that_wait_are_given_another_slice_first() -> None:
    """a has slices for x and y, b one for x: a begins with y, so that nobody waits."""
    units: list[list[Load]] = [[{"a": 1.0, "x": 1.0}], [{"b": 1.0, "x": 1.0}], [{"a": 1.0, "y": 1.0}]]
    assert in_turn(units).makespan_s == 2.0
    late: list[list[Load]] = [[{"b": 1.0, "x": 1.0}], [{"a": 1.0, "x": 1.0}], [{"a": 1.0, "y": 1.0}]]
    assert in_turn(late).makespan_s == 3.0
    assert balanced(late).makespan_s == least_s(late) == 2.0


@pytest.mark.parametrize("receivers", [1, 2, 4])
def test_one_slice_is_broadcast(receivers: int) -> None:
    """One device has all: a chain, as long as a broadcast's."""
    cluster, (source, target) = two_nodes(), rows(1, receivers)
    route = ordered_route(cluster, source, target, WHOLE)
    assert seconds(route, 1e9) == pytest.approx(seconds(broadcast_route(cluster, source, target, WHOLE), 1e9))


@given(first=st.sampled_from([1, 2, 4]), second=st.sampled_from([1, 2, 4]), split=st.booleans())
def test_slices_bring_what_everybody_needs(first: int, second: int, split: bool) -> None:
    """No slower than whole slices one after the other, no faster than parts of slices without loss."""
    cluster, (source, target) = two_nodes(), rows(first, second)
    pattern = ((1 / first, 1 / second if split else 1.0, 1.0),)
    route, parts = (
        ordered_route(cluster, source, target, pattern),
        broadcast_route(cluster, source, target, pattern),
    )
    assert route.share == pytest.approx(parts.share)
    assert route.seconds_per_byte >= parts.seconds_per_byte * (1 - 1e-9)
    assert route.seconds_per_byte <= (1 / SLOW + 1 / FAST) * (second if not split else 1) * (1 + 1e-9)
    assert all(demand <= capacity * (1 + 1e-9) for _, capacity, demand in route.resources)
    assert route.latency_s >= ALPHA * (1 - 1e-9)
    best = crossing_route(cluster, source, target, pattern, 1e9)
    assert seconds(best, 1e9) <= seconds(route, 1e9) * (1 + 1e-9)
