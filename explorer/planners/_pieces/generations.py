"""A genetic algorithm over any chromosomes: roulette selection, crossover, mutation, the best kept.

Written apart from what a chromosome is, so that it can be held to brute force on small cases.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")
Y = TypeVar("Y")


@dataclass(frozen=True, slots=True, kw_only=True)
class Breeding(Generic[T]):
    """How chromosomes are made from others."""

    cross: Callable[[T, T, random.Random], T | None]
    """Returns a child of two; None if they have none."""
    mutate: Callable[[T, random.Random], T]
    """Returns a chromosome with one gene changed."""
    mutation: float
    """Probability that a child mutates."""
    patience: int
    """Generations without a better one after which it ends."""


def generations(
    first: Sequence[T],
    cost: Callable[[T], Generator[Y, None, float]],
    breeding: Breeding[T],
    luck: random.Random,
) -> Generator[Y, None, tuple[T, float]]:
    """Yield what costing yields, and return the best chromosome with its cost.

    A generation keeps its best chromosome; the others are children of two that are drawn with probabilities
    in proportion to their fitness exp(-cost): with logarithms as costs, one over the value. A child mutates
    in any case if it has a twin, so that a generation does not become all alike.

    Args:
        first: chromosomes of the first generation, two at least.
        cost: yields while working, and returns the cost; infinite for what cannot be.
        breeding: how chromosomes are made.
        luck: draws.
    """
    people, costs = list(first), list[float]()
    for one in people:
        costs += [(yield from cost(one))]
    idle = 0
    while idle < breeding.patience:
        leader = min(range(len(people)), key=costs.__getitem__)
        best = costs[leader]
        weights = fitness(costs)
        children, found = [people[leader]], [best]
        while len(children) < len(people):
            one, two = luck.choices(people, weights, k=2)
            child = breeding.cross(one, two, luck) or one
            if luck.random() < breeding.mutation or child in children:
                child = breeding.mutate(child, luck)
            children.append(child)
            found.append((yield from cost(child)))
        people, costs = children, found
        idle = 0 if min(costs) < best else idle + 1
    leader = min(range(len(people)), key=costs.__getitem__)
    return people[leader], costs[leader]


def fitness(costs: Sequence[float]) -> list[float]:
    """Return exp(-cost) of each, over that of the best; all equal if none can be.

    >>> fitness([0.0, math.log(2), math.inf])
    [1.0, 0.5, 0.0]
    """
    best = min(costs)
    if math.isinf(best):
        return [1.0] * len(costs)
    return [math.exp(best - cost) for cost in costs]
