"""The genetic algorithm beside brute force on small allocations, and its selection."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Generator

import pytest

from explorer.planners._pieces.generations import Breeding, fitness, generations

Genes = tuple[int, ...]
DEVICES = 4


def load(work: Genes, rooms: Genes, genes: Genes) -> float:
    """Logarithm of the longest device's work; infinite where more is held than it has room for."""
    loads = [sum(w for w, g in zip(work, genes, strict=True) if g == d) for d in range(DEVICES)]
    over = any(genes.count(d) > rooms[d] for d in range(DEVICES))
    return math.inf if over else math.log(max(loads))


def best_of(work: Genes, rooms: Genes, seed: int) -> tuple[Genes, float]:
    """What the genetic algorithm ends with; partitions on devices are its genes."""
    luck = random.Random(seed)

    def cost(genes: Genes) -> Generator[None, None, float]:
        yield None
        return load(work, rooms, genes)

    def cross(one: Genes, two: Genes, luck: random.Random) -> Genes:
        cut = luck.randrange(1, len(work))
        return one[:cut] + two[cut:]

    def mutate(genes: Genes, luck: random.Random) -> Genes:
        found = list(genes)
        i, j = luck.sample(range(len(genes)), 2)
        if luck.random() < 0.5:  # where devices are full, only an exchange is left
            found[i], found[j] = found[j], found[i]
        else:
            found[i] = luck.randrange(DEVICES)
        return tuple(found)

    first = [tuple(luck.randrange(DEVICES) for _ in work) for _ in range(40)]
    steps = generations(first, cost, Breeding(cross=cross, mutate=mutate, mutation=0.6, patience=60), luck)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def test_six_partitions_on_four_devices_as_well_as_every_allocation() -> None:
    """4^6 allocations with room for two or three partitions each: the least in all of twelve cases."""
    draw = random.Random(5)
    for seed in range(12):
        work = tuple(draw.randint(1, 9) for _ in range(6))
        rooms = tuple(draw.randint(1, 3) for _ in range(DEVICES))
        if sum(rooms) < 6:
            rooms = (3, 2, 2, 1)
        least = min(load(work, rooms, genes) for genes in itertools.product(range(DEVICES), repeat=6))
        genes, found = best_of(work, rooms, seed)
        assert found == load(work, rooms, genes)
        assert found == pytest.approx(least, abs=1e-12)
    assert best_of((1, 2, 3, 4, 5, 6), (3, 3, 3, 3), 1) == best_of((1, 2, 3, 4, 5, 6), (3, 3, 3, 3), 1)


def test_fitness_is_one_over_the_value() -> None:
    assert fitness([math.log(4), math.log(2), math.inf]) == pytest.approx([0.5, 1.0, 0.0])
    assert fitness([math.inf, math.inf]) == [1.0, 1.0]
