"""TensorOpt's elimination: the frontier of every combination of small graphs, and points that are true."""

from __future__ import annotations

import random

import pytest

from explorer.planners._pieces.choice_graph import ChoiceGraph
from explorer.planners.tensoropt import TradeOff, frontier
from tests.planners.random_choices import all_choices, random_choices


def found_for(costs: ChoiceGraph, points: int) -> tuple[TradeOff, ...]:
    last = list(frontier(costs, points))[-1]
    assert last is not None
    return last


def brute_force(costs: ChoiceGraph) -> list[tuple[float, float]]:
    """(bytes, seconds) of every combination that no other one dominates, by bytes."""
    best: list[tuple[float, float]] = []
    for held, seconds in sorted({(costs.total_bytes(c), costs.total_s(c)) for c in all_choices(costs)}):
        if not best or seconds < best[-1][1]:
            best.append((held, seconds))
    return best


@pytest.mark.parametrize("seed", range(4))
def test_the_frontier_is_that_of_all_combinations(seed: int) -> None:
    draw = random.Random(seed)
    longest = 0
    for _ in range(40):
        costs = random_choices(draw, near=draw.choice([0.2, 0.5, 1.0]))
        found = found_for(costs, 1000)
        assert [(point.held_bytes, point.seconds) for point in found] == brute_force(costs)
        longest = max(longest, len(found))
        for point in found:
            assert costs.total_s(point.chosen) == point.seconds
            assert costs.total_bytes(point.chosen) == point.held_bytes
    assert longest > 5  # frontiers of one or two points would not tell much


def test_thinned_frontiers_keep_their_ends_true_points_and_the_limit() -> None:
    draw = random.Random(9)
    thinned = 0
    for _ in range(40):
        costs = random_choices(draw, most=6, options=4)
        exact = brute_force(costs)
        found = [(point.held_bytes, point.seconds) for point in found_for(costs, 4)]
        assert len(found) <= 4
        thinned += len(exact) > 4
        assert found[0][0] == exact[0][0]
        assert found[-1][1] == exact[-1][1]
        assert all(any(h <= held and s <= seconds for h, s in exact) for held, seconds in found)
        assert found == sorted(found)
        for point in found_for(costs, 4):
            assert costs.total_s(point.chosen) == point.seconds
            assert costs.total_bytes(point.chosen) == point.held_bytes
    assert thinned > 5


def test_equal_parts_are_eliminated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of equal layers: as the frontier grows only a few steps are alike, pairs aside they all are."""
    import explorer.planners.tensoropt as planner

    one = random_choices(random.Random(2), most=1, options=3)
    seconds, held = one.seconds[0], one.held_bytes[0]
    calls: list[int] = []
    made = planner._worked
    monkeypatch.setattr(planner, "_worked", lambda *given: calls.append(1) or made(*given))
    alone = ChoiceGraph(seconds=(seconds,) * 12, held_bytes=(held,) * 12, edges={})
    found_for(alone, 1000)
    assert len(calls) == 1
