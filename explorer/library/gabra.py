"""GABRA: partitions of a model allotted to devices by a genetic algorithm."""

from __future__ import annotations

import math
import random
from collections.abc import Generator

from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.planners._pieces.generations import Breeding, fitness, generations

WORK, DEVICES = (7, 5, 4, 4, 3, 1), 4
Genes = tuple[int, ...]


def _longest(genes: Genes) -> float:
    loads = [sum(work for work, gene in zip(WORK, genes, strict=True) if gene == d) for d in range(DEVICES)]
    return float(max(loads))


def _cost(genes: Genes) -> Generator[None, None, float]:
    yield None
    return math.log(_longest(genes))


def _cross(one: Genes, two: Genes, luck: random.Random) -> Genes:
    cut = luck.randrange(1, len(WORK))
    return one[:cut] + two[cut:]


def _mutate(genes: Genes, luck: random.Random) -> Genes:
    i = luck.randrange(len(genes))
    return (*genes[:i], luck.randrange(DEVICES), *genes[i + 1 :])


def _best() -> float:
    """Return the longest work of a device in the allocation that the genetic algorithm ends with."""
    luck = random.Random(0)
    first = [tuple(luck.randrange(DEVICES) for _ in WORK) for _ in range(24)]
    steps = generations(first, _cost, Breeding(cross=_cross, mutate=_mutate, mutation=0.6, patience=40), luck)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return _longest(stop.value[0])


@SYSTEMS.add(
    System(
        name="gabra",
        title="Partitions and replicas allotted to devices by a genetic algorithm",
        paper="Akintoye et al., A Hybrid Parallelization Approach for Distributed and Scalable Deep Learning,"
        " 2021",
        year=2021,
        uses=Uses(searchers=("gabra",), options=("uneven stages",)),
        missing="its 3D-ResAttNet; it gives no figures of populations and rates, ours are options."
        " In 40 evaluations it beats random search of the same plans on two of five pairs only",
        claims=(
            Claim(
                text="six partitions of 7, 5, 4, 4, 3 and 1 s on four devices: 7 s, the best of all 4^6",
                published=7,
                unit="s",
                measure=_best,
                why="worked out by hand; the paper prints no such case",
            ),
            Claim(
                text="fitness is one over the cost: 4 s are selected half as often as 2 s",
                published=0.5,
                unit="",
                measure=lambda: fitness([math.log(4.0), math.log(2.0)])[0],
                why="worked out by hand from the definition",
            ),
        ),
    )
)
def example() -> Example:
    """ResNet-50 on four V100 as two partitions, each with two replicas."""
    return Example(
        model="resnet50",
        cluster="dgx-1-v100",
        global_batch=64,
        shape={"stages": 2, "replicas": 2, "microbatch_size": 8},
    )
