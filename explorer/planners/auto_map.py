"""Auto-MAP: plans built decision by decision by a deep Q-network, units that follow others left out.

A state is the plan so far, an action what the next key unit does: go on with the stage, or begin one on so
many devices with a tensor degree. Other units propagate what the unit before them does. The end of an episode
is rewarded by the simulated cost (Wang et al., 2020). With probability epsilon, which falls by a twentieth an
episode, an action is drawn instead of the best one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterator

from explorer.base.registry import Option
from explorer.planners._pieces.moves import UNFIT, Meter
from explorer.planners._pieces.plan_building import Building, again, building
from explorer.planners._pieces.q_network import QNetwork, Transition
from explorer.planners._pieces.stage_plans import plan_space
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

DECAY, LEAST = 0.95, 0.05
"""What epsilon is multiplied with after an episode, and its least value."""
WORST = 3.0
"""Farthest reward from the first plan that fits; what does not fit is worse still."""


@SEARCHERS.add(
    Searcher(
        name="auto_map",
        title="Plans built decision by decision by a deep Q-network",
        paper="Wang et al., Auto-MAP: A DQN Framework for Exploring Distributed Execution Plans for DNN"
        " Workloads, 2020",
        options=(Option(name="patience", default=40, help="episodes without a better plan", minimum=1),),
        space=Space(words="stage cuts at key units x devices x tensor degrees"),
        stochastic=True,
        loses="its first episodes are draws, which 25 evaluations hardly leave",
        rigid=True,
        alone=True,
    )
)
def auto_map(problem: Problem, evaluator: Evaluator, *, patience: int) -> Iterator[Candidate | None]:
    """Play episodes and learn from them until some have brought nothing better.

    Raises:
        InputError: there is no cluster.
    """
    space, luck = plan_space(problem), random.Random(problem.seed)
    meter, empty = Meter(space=space, evaluator=evaluator), building(space)
    yield None
    network = QNetwork(len(empty.state()), empty.actions, problem.seed)
    best, first, idle, epsilon = math.inf, math.inf, 0, 1.0
    while idle < patience:
        built, taken = played(network, empty, luck, epsilon)
        cost = yield from _cost(meter, built)
        first = cost if math.isinf(first) and cost < UNFIT else first
        network.learn(rewarded(taken, reward(cost, first)))
        epsilon = max(epsilon * DECAY, LEAST)
        best, idle = (cost, 0) if cost < best else (best, idle + 1)
        yield None


def _cost(meter: Meter, built: Building) -> Generator[Candidate | None, None, float]:
    plan = built.plan()
    if plan is None:
        yield None
        return math.inf
    return (yield from meter.cost(plan))


def played(
    network: QNetwork, empty: Building, luck: random.Random, epsilon: float
) -> tuple[Building, list[Transition]]:
    """Return a plan built by the network or by luck, and the steps to it, not yet rewarded."""
    built, taken = again(empty), []
    while not built.done:
        state, allowed = built.state(), built.allowed()
        if luck.random() < epsilon:
            action = luck.choice([a for a, may in enumerate(allowed) if may])
        else:
            action = network.best(state, allowed)
        built.take(action)
        taken.append(Transition(state, action, 0.0, built.state(), built.allowed()))
    return built, taken


def rewarded(taken: list[Transition], value: float) -> list[Transition]:
    """Return the steps of an episode whose last one is rewarded."""
    return [*taken[:-1], taken[-1]._replace(reward=value)]


def reward(cost: float, first: float) -> float:
    """Return how much better a cost is than that of the first plan that fits.

    >>> reward(1.0, 1.5), reward(9.0, 1.5)
    (0.5, -3.0)
    """
    if cost >= UNFIT:
        return -WORST - min(1.0, (min(cost, UNFIT + 100.0) - UNFIT) / 100.0)
    return min(max(first - cost, -WORST), WORST)
