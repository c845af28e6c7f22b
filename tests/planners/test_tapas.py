"""Folding: a plan of the folded graph costs the same unfolded; work that does not grow with the depth."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.models.gpt import attention_half, feed_forward_half
from explorer.planners._pieces.choice_graph import ChoiceGraph
from explorer.planners._pieces.folding import folded, repeats
from explorer.planners._pieces.layer_meshes import layer_mesh
from explorer.planners._pieces.vertex_order import vertex_order
from explorer.planners.pase import Shardings, least_total
from explorer.search import Problem
from explorer.workload import Job, Workload
from tests.planners.random_choices import random_choices

Table = np.ndarray


def stacked(draw: random.Random, block: ChoiceGraph, times: int) -> tuple[ChoiceGraph, list[int]]:
    """A first vertex, a block several times, each tied to the next, a last one; and who is alike."""
    size, options = block.count, [len(own) for own in block.seconds]

    def table(a: int, b: int) -> Table:
        return np.array([[float(draw.randint(0, 20)) for _ in range(b)] for _ in range(a)])

    ends = [np.array([0.0, 3.0]), np.array([1.0, 0.0])]
    between, near = table(options[-1], options[0]), table(2, options[0])
    seconds = [ends[0], *(own for _ in range(times) for own in block.seconds), ends[1]]
    edges = {(0, 1): near}
    for k in range(times):
        first = 1 + k * size
        edges |= {(u + first, v + first): x for (u, v), x in block.edges.items()}
        if k:
            edges[first - 1, first] = between
            edges[0, first] = near  # what every block reads
    last = len(seconds) - 1
    edges[last - 1, last] = table(options[-1], 2)
    held = {id(own): np.arange(len(own), dtype=float) for own in seconds}
    graph = ChoiceGraph(
        seconds=tuple(seconds), held_bytes=tuple(held[id(own)] for own in seconds), edges=edges
    )
    return graph, [0, *(list(range(1, size + 1)) * times), size + 1]


def optimum(costs: ChoiceGraph) -> Shardings:
    *_, found = least_total(costs)
    assert found is not None
    return found


@pytest.mark.parametrize("seed", range(6))
def test_no_plan_that_is_the_same_for_all_blocks_is_cheaper(seed: int) -> None:
    """60 graphs, every plan priced on the graph that is not folded."""
    draw, same = random.Random(seed), 0
    for _ in range(10):
        block = random_choices(draw, most=3)
        graph, of = stacked(draw, block, draw.randint(2, 4))
        whole = folded(graph)
        assert whole.costs.count <= block.count + 2
        found = optimum(whole.costs)
        chosen = whole.spread(found.chosen)
        assert graph.total_s(chosen) == pytest.approx(found.seconds, rel=1e-12, abs=1e-9)
        assert graph.total_bytes(chosen) == pytest.approx(whole.costs.total_bytes(found.chosen))
        sizes = [2, *(len(own) for own in block.seconds), 2]
        every = itertools.product(*(range(size) for size in sizes))
        least = min(graph.total_s([plan[k] for k in of]) for plan in every)
        assert found.seconds >= least - 1e-9  # vertices of a block that are alike are folded as well
        if whole.costs.count == block.count + 2:
            assert found.seconds == pytest.approx(least)
            same += 1
        assert found.seconds >= optimum(graph).seconds - 1e-9
    assert same > 4


def test_runs_are_folded_within_runs_and_beside_them() -> None:
    assert repeats([]) == ()
    assert repeats([1, 2, 3]) == (0, 1, 2)
    assert repeats([5, 5, 5]) == (0, 0, 0)
    assert repeats([1, 2, 2, 1, 2, 2]) == (0, 1, 1, 0, 1, 1)
    assert repeats([1, 2, 1, 2, 9, 4, 4, 4]) == (0, 1, 0, 1, 2, 3, 3, 3)
    assert repeats([1, 2, 1, 2, 9, 1, 2, 1, 2]) == (0, 1, 0, 1, 2, 3, 4, 3, 4)
    draw = random.Random(2)
    for _ in range(50):
        items = [draw.randint(0, 3) for _ in range(draw.randint(0, 14))]
        found = repeats(items)
        assert all(items[found.index(k)] == item for k, item in zip(found, items, strict=True))
        assert sorted(set(found)) == list(range(len(set(found))))


def decoder(blocks: int) -> LayerGraph:
    b = GraphBuilder(f"decoder-{blocks}")
    tokens, targets = (b.input(part, {"seq": 64}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": 1024}, {"embed": 512})
    for i in range(blocks):
        with b.block(f"layers.{i}"):
            x = b.add("attention.add", attention_half(b, b.norm("attention.norm", x), 8), x)
            x = b.add("mlp.add", feed_forward_half(b, b.norm("mlp.norm", x)), x)
    b.loss("loss", b.linear("head", b.norm("norm", x), {"vocab": 1024}), targets)
    return b.build()


@pytest.fixture(scope="module")
def costs() -> Callable[[int], ChoiceGraph]:
    """Costs of a decoder of so many blocks on a mesh of four devices."""

    def make(blocks: int) -> ChoiceGraph:
        job = Job(global_batch=4, precision="fp32", optimizer="sgd")
        problem = Problem(
            graph=decoder(blocks), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(job,)),
            max_devices=4,
        )  # fmt: skip
        return layer_mesh(problem, (("inner", 4),), 4).costs

    return make


def entries(costs: ChoiceGraph) -> int:
    """Entries of all tables of the program: what its work is proportional to."""
    sizes = [len(own) for own in costs.seconds]
    order = vertex_order(sizes, costs.edges)
    return sum(sizes[v] * math.prod(sizes[u] for u in dependent) for v, dependent in order)


def test_work_does_not_grow_with_the_depth_and_the_plan_is_no_worse(
    costs: Callable[[int], ChoiceGraph],
) -> None:
    graphs = {blocks: costs(blocks) for blocks in (3, 6, 12)}
    wholes = {blocks: folded(graph) for blocks, graph in graphs.items()}
    assert len({whole.costs.count for whole in wholes.values()}) == 1
    assert len({entries(whole.costs) for whole in wholes.values()}) == 1
    assert entries(graphs[12]) > 3 * entries(graphs[3])
    for blocks, whole in wholes.items():
        assert optimum(whole.costs).seconds == pytest.approx(optimum(graphs[blocks]).seconds, rel=1e-9)
