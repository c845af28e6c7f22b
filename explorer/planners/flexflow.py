"""FlexFlow's search: a Markov chain over strategies, by Metropolis, whose proposals are simulated.

A proposal S* changes one thing of the strategy S at random, and is accepted with

    min(1, exp(beta (cost(S) - cost(S*))))

(Jia, Zaharia and Aiken, MLSys 2019, equation 1 of section 6), cost being the logarithm of the objective here,
so that beta has no unit. Chains begin at what experts use and at a random strategy. A chain ends when no
better strategy was found in the last half of it. Proposals are symmetric up to what is not legal.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator, Iterator

from explorer.base.registry import Option
from explorer.planners._pieces.moves import Meter, moved
from explorer.planners._pieces.stage_plans import Plan, plan_space
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem


@SEARCHERS.add(
    Searcher(
        name="flexflow",
        title="A Markov chain of random changes, accepted by Metropolis",
        paper="Jia, Zaharia and Aiken, Beyond Data and Model Parallelism for Deep Neural Networks,"
        " MLSys 2019",
        options=(
            Option(name="beta", default=30.0, help="how much a worse proposal has against it", minimum=0.0),
            Option(name="patience", default=40, help="proposals without a better one at least", minimum=1),
        ),
        space=Space(words="stages x devices x degrees x memory, one change at a time"),
        stochastic=True,
        loses="it begins with an even pipeline or one stage, and 25 proposals are few for one change each",
        alone=True,
    )
)
def flexflow(
    problem: Problem, evaluator: Evaluator, *, beta: float, patience: int
) -> Iterator[Candidate | None]:
    """Cost what chains may begin with, then follow a chain from the best of these, and one from a draw.

    Raises:
        InputError: there is no cluster, or too few samples for the devices.
    """
    space, luck = plan_space(problem), random.Random(problem.seed)
    meter = Meter(space=space, evaluator=evaluator)
    firsts = space.first_plans()
    for first in firsts:
        yield from meter.cost(first)
    for first in (*sorted(firsts, key=meter.known.__getitem__)[:1], space.drawn(luck)):
        yield from chain(meter, first, luck, beta=beta, patience=patience)


def chain(
    meter: Meter, plan: Plan, luck: random.Random, *, beta: float, patience: int
) -> Generator[Candidate | None, None, list[float]]:
    """Follow a chain until its last half has brought nothing better; return the cost of all its states.

    Args:
        meter: judges.
        plan: where it begins.
        luck: draws.
        beta: by how much a worse proposal is less probable.
        patience: proposals without a gain that are allowed in any case.
    """
    costs = [(yield from meter.cost(plan))]
    best, gained, count = costs[0], 0, 0
    while count - gained < max(patience, gained):
        count += 1
        proposal = moved(meter.space, plan, luck)
        cost = yield from meter.cost(proposal)
        if accepted(costs[-1], cost, beta, luck):
            plan = proposal
            costs.append(cost)
        if cost < best:
            best, gained = cost, count
    return costs


def accepted(old: float, new: float, beta: float, luck: random.Random) -> bool:
    """Decide by Metropolis' rule; a plan that can be run is always taken for one that cannot."""
    if new <= old:
        return True
    return math.isfinite(new) and luck.random() < math.exp(beta * (old - new))
