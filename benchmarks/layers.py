"""Milliseconds of sharding layers anew: a layout, one layer's exception, one layer moved, tables of layers.

`python benchmarks/layers.py`: medians of CPU time, every layout and exception seen for the first time; below
them the empty loop of a million rounds. `layout` and `exception` are the sharding of the whole graph alone;
`simulate` is everything from a strategy with another exception, or another place, for one layer to its
report; `assembled` and `changed` are the cost of a graph from tables, whole and after one layer's change.
"""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from evaluate import empty_loop

import explorer
from explorer.base.errors import PlanError
from explorer.graph import LayerGraph
from explorer.sharding import Override
from explorer.sharding.stage import GraphSharding, Request
from explorer.strategies.moves import groups_of, place_layers
from explorer.strategy import Sharding, Strategy
from explorer.tables import EdgeTable, LayerTable, assemble, lane_of, layer_choices

ROUNDS = 15


class Case(NamedTuple):
    """A model in a pipeline of tensor-parallel stages."""

    model: str
    cluster: str
    stages: int
    tensor: int

    def __str__(self) -> str:
        return f"{self.model} p={self.stages} t={self.tensor}"


CASES = (
    Case("gpt3-175b", "dgx-a100-128", 8, 8),
    Case("llama3-405b", "hgx-h100-2048", 16, 8),
    Case("bert-large", "dgx-a100", 1, 8),
    Case("inception-v3", "dgx-a100", 1, 4),
    Case("resnet50", "dgx-a100", 1, 4),
)


def median_ms(works: Iterable[Callable[[], object]]) -> float:
    """The median CPU time of some calls."""
    found = []
    for work in works:
        start = time.process_time()
        work()
        found.append((time.process_time() - start) * 1e3)
    return statistics.median(found)


def layouts(graph: LayerGraph, sizes: tuple[tuple[str, int], ...]) -> list[Request]:
    """Different layouts over an axis, each of two or three of the model's dimensions."""
    dims = sorted({dim.name for layer in graph.layers for dim in layer.dims if dim.splittable})
    chosen = [*itertools.combinations(dims, 2), *itertools.combinations(dims, 3)]
    random.Random(0).shuffle(chosen)
    return [Request(tuple((dim, sizes[0][0]) for dim in some), sizes, ()) for some in chosen[: ROUNDS + 1]]


def sharding(graph: LayerGraph, request: Request) -> Callable[[], object]:
    """Shard all layers."""
    names = tuple(layer.name for layer in graph.layers)
    return lambda: GraphSharding(graph, request).cut(names)


def exceptions(strategy: Strategy) -> list[Strategy]:
    """The strategy with another layer of its middle stage replicated each time."""
    stages = strategy.job.stages
    middle = len(stages) // 2
    names = random.Random(0).sample(stages[middle].layers, ROUNDS + 1)
    own = [replace(stages[middle], shardings=(Sharding(layers=(name,)),)) for name in names]
    return [
        strategy.with_job(strategy.job.with_stages((*stages[:middle], stage, *stages[middle + 1 :])))
        for stage in own
    ]


def moved(graph: LayerGraph, strategy: Strategy) -> list[Strategy]:
    """The strategy with another layer moved to the stage after next, out of its run."""
    groups = groups_of(strategy.job)
    if len(groups) < 4:
        return []
    middle = len(groups) // 2
    names = random.Random(0).sample(strategy.job.stages[middle - 1].layers[1:-1], ROUNDS + 1)
    return [
        strategy.with_job(place_layers(graph, strategy.job, {name: middle + 1}, groups)) for name in names
    ]


def row(case: Case) -> list[float]:
    """Milliseconds of one model."""
    graph, cluster = explorer.load_model(case.model), explorer.load_cluster(case.cluster)
    workload = explorer.default_workload(graph).with_job(global_batch=64)
    strategy = explorer.uniform(
        graph, cluster, workload.job, stages=case.stages, tensor=case.tensor, microbatches=64
    )
    if not strategy.job.stages[0].layout:
        raise PlanError([f"{case}: no layout"])
    sizes = (("tensor", case.tensor),)
    new = [sharding(graph, request) for request in layouts(graph, sizes)]
    base = Request(strategy.job.stages[0].layout, sizes, ())
    names = random.Random(1).sample([layer.name for layer in graph.layers], ROUNDS + 1)
    own = [sharding(graph, base._replace(overrides=(Override(layers=(name,)),))) for name in names]

    def simulations(strategies: list[Strategy]) -> list[Callable[[], object]]:
        return [lambda it=it: explorer.simulate(graph, cluster, workload, it) for it in strategies]

    simulated = [simulations(exceptions(strategy)), simulations(moved(graph, strategy))]
    for works in (new, own, *simulated):
        for work in works[:1]:
            work()  # what is made once for a graph
    medians = [median_ms(works[1:]) if works else float("nan") for works in (new, own, *simulated)]
    return [len(graph.layers), *medians, *assembled(graph, cluster, workload.job, strategy)]


def assembled(
    graph: LayerGraph, cluster: explorer.Cluster, job: explorer.Job, strategy: Strategy
) -> list[float]:
    """Milliseconds of a graph from tables, whole and after a change."""
    stage = replace(strategy.job.stages[0], layers=tuple(layer.name for layer in graph.layers), layout=())
    choices = layer_choices(graph, stage)
    table = EdgeTable(LayerTable(lane_of(graph, cluster, job, stage), choices))
    draw = random.Random(2)

    def choice() -> int:
        return draw.randrange(len(choices))

    now = assemble(table, [choice() for _ in graph.layers])
    for _ in range(400):  # a walk meets most pairs of choices early
        now = now.changed({draw.randrange(len(graph.layers)): choice()})
    vectors = [now.chosen.tolist() for _ in range(ROUNDS)]
    for vector in vectors:
        vector[draw.randrange(len(vector))] = choice()
    whole = median_ms([lambda vector=vector: assemble(table, vector).time() for vector in vectors])
    changes = [{draw.randrange(len(graph.layers)): choice()} for _ in range(40 * ROUNDS)]
    return [whole, median_ms([lambda change=change: now.changed(change).time() for change in changes])]


def main() -> None:
    """Print a table."""
    heads = ("layout", "exception", "simulate: exception", "simulate: moved", "assembled", "changed")
    print(f"| ms of CPU | layers | {' | '.join(heads)} |")
    print("|---|---|---|---|---|---|---|---|")
    for case in CASES:
        print(f"| {case} | {' | '.join(f'{value:.4g}' for value in row(case))} |")
    print(f"\nempty loop: {median_ms([empty_loop] * ROUNDS):.1f} ms")


if __name__ == "__main__":
    main()
