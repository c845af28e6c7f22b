"""GABRA: a genetic algorithm that allots partitions of a model, replicated, to devices.

A chromosome is a plan: which partition of the model is on which devices. Fitness is one over the objective;
what does not fit a device's memory is as good as never selected. Parents are drawn by roulette, their plans
crossed at one unit of the model, children mutate by one move (Akintoye et al., 2021).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial

from explorer.base.registry import Option
from explorer.planners._pieces.generations import Breeding, generations
from explorer.planners._pieces.moves import Meter, crossed, moved
from explorer.planners._pieces.stage_plans import plan_space
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem


@SEARCHERS.add(
    Searcher(
        name="gabra",
        title="A genetic algorithm over partitions, their devices and replicas",
        paper="Akintoye et al., A Hybrid Parallelization Approach for Distributed and Scalable Deep"
        " Learning, 2021",
        options=(
            Option(name="population", default=12, help="plans of a generation", minimum=2),
            Option(name="mutation", default=0.6, help="probability that a child mutates", minimum=0.0),
            Option(name="patience", default=4, help="generations without a better plan", minimum=1),
        ),
        space=Space(words="stages x devices x degrees x memory, by crossing and mutation"),
        stochastic=True,
        loses="its first generation is drawn from all plans, of which uniform ones are the better part",
        alone=True,
    )
)
def gabra(
    problem: Problem, evaluator: Evaluator, *, population: int, mutation: float, patience: int
) -> Iterator[Candidate | None]:
    """Draw a generation, and breed until some have brought nothing better.

    Raises:
        InputError: there is no cluster, or too few samples for the devices.
    """
    space, luck = plan_space(problem), random.Random(problem.seed)
    meter = Meter(space=space, evaluator=evaluator)
    breeding = Breeding(
        cross=partial(crossed, space), mutate=partial(moved, space), mutation=mutation, patience=patience
    )
    yield from generations([space.drawn(luck) for _ in range(population)], meter.cost, breeding, luck)
