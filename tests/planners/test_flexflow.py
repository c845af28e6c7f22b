"""FlexFlow's chain: Metropolis' rule, downhill only as beta grows, an end once half of it brought nothing."""

from __future__ import annotations

import math
import random

import pytest

from explorer.planners._pieces.moves import Meter
from explorer.planners._pieces.stage_plans import plan_space
from explorer.planners.flexflow import accepted, chain
from explorer.search.evaluator import Evaluator
from tests.planners.test_moves import small


def states(beta: float, *, patience: int = 20, seed: int = 0) -> tuple[Meter, list[float]]:
    """What a chain on a small problem passes through."""
    problem = small()
    space = plan_space(problem)
    meter = Meter(space=space, evaluator=Evaluator(problem=problem))
    steps = chain(meter, space.first_plans()[0], random.Random(seed), beta=beta, patience=patience)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return meter, stop.value


@pytest.mark.parametrize(("worse", "beta"), [(0.1, 10.0), (0.02, 30.0), (1.0, 3.0)])
def test_a_worse_proposal_is_accepted_as_often_as_metropolis_has_it(worse: float, beta: float) -> None:
    luck, draws = random.Random(7), 4000
    share = sum(accepted(1.0, 1.0 + worse, beta, luck) for _ in range(draws)) / draws
    wanted = math.exp(-beta * worse)
    assert share == pytest.approx(wanted, abs=4 * math.sqrt(wanted * (1 - wanted) / draws))


def test_a_better_or_equal_proposal_is_always_accepted_and_one_that_cannot_be_never() -> None:
    luck = random.Random(0)
    assert all(accepted(1.0, new, 1e9, luck) for new in (0.5, 1.0))
    assert not any(accepted(1.0, math.inf, 0.0, luck) for _ in range(50))
    assert accepted(math.inf, 1.0, 1.0, luck)


def test_with_a_large_beta_no_state_is_worse_than_the_one_before() -> None:
    _, costs = states(1e12)
    assert len(costs) > 3
    assert costs == sorted(costs, reverse=True)


def test_a_chain_of_small_beta_goes_uphill_too() -> None:
    _, costs = states(0.5)
    assert costs != sorted(costs, reverse=True)


def test_a_chain_ends_once_its_last_half_or_the_patience_brought_nothing() -> None:
    """Proposals since the last gain are as many as those before it, or the patience."""
    problem = small()
    space = plan_space(problem)
    meter = Meter(space=space, evaluator=Evaluator(problem=problem))
    best, gained = math.inf, 0
    for _ in chain(meter, space.first_plans()[0], random.Random(0), beta=1e12, patience=10):
        if min(meter.known.values(), default=math.inf) < best:
            best, gained = min(meter.known.values()), meter.asked - 1
    assert meter.asked - 1 - gained == max(10, gained)
