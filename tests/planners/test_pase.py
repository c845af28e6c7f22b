"""PaSE's program over a vertex order: no combination of shardings is cheaper, and tables stay small."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models.builder import GraphBuilder
from explorer.planners._pieces.choice_graph import ChoiceGraph
from explorer.planners._pieces.layer_meshes import layer_mesh, strategy_of_options
from explorer.planners._pieces.vertex_order import checked, vertex_order
from explorer.planners.pase import Shardings, least_total
from explorer.search import Problem, search
from explorer.simulation.simulate import simulate
from explorer.workload import Job, Workload
from tests.planners.random_choices import all_choices, random_choices


def found_for(costs: ChoiceGraph) -> Shardings:
    last = list(least_total(costs))[-1]
    assert last is not None
    return last


@pytest.mark.parametrize("seed", range(4))
def test_no_combination_is_cheaper(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(60):
        costs = random_choices(draw, near=draw.choice([0.2, 0.5, 1.0]))
        found = found_for(costs)
        assert found.seconds == min(map(costs.total_s, all_choices(costs)))
        assert costs.total_s(found.chosen) == found.seconds


def dependent_sets(count: int, edges: set[tuple[int, int]], sequence: list[int]) -> list[set[int]]:
    """By definition: vertices that come later and are reached over earlier ones."""
    found = []
    for place, v in enumerate(sequence):
        earlier, reached, front = set(sequence[:place]), {v}, [v]
        while front:
            u = front.pop()
            for w in range(count):
                if w not in reached and ((u, w) in edges or (w, u) in edges):
                    reached.add(w)
                    if w in earlier:
                        front.append(w)
        found.append(reached - earlier - {v})
    return found


def test_dependent_sets_are_those_reached_through_settled_vertices() -> None:
    draw = random.Random(5)
    for _ in range(60):
        n = draw.randint(1, 8)
        edges = {pair for pair in itertools.combinations(range(n), 2) if draw.random() < 0.3}
        order = vertex_order([draw.randint(1, 4) for _ in range(n)], edges)
        assert sorted(turn.vertex for turn in order) == list(range(n))
        expected = dependent_sets(n, edges, [turn.vertex for turn in order])
        assert [set(turn.dependent) for turn in order] == expected


def test_a_path_depends_on_one_and_a_ladder_on_two() -> None:
    path = vertex_order([3] * 30, [(i, i + 1) for i in range(29)])
    assert max(len(turn.dependent) for turn in path) == 1
    # residual connections: each vertex reads the last two
    ladder = vertex_order([3] * 30, [(i, i + k) for k in (1, 2) for i in range(30 - k)])
    assert max(len(turn.dependent) for turn in ladder) == 2


def test_too_many_entries_are_refused_with_their_number() -> None:
    pairs = list(itertools.combinations(range(8), 2))
    with pytest.raises(InputError, match=r"a table of 100,000,000 entries") as caught:
        checked(vertex_order([10] * 8, pairs), [10] * 8)
    assert caught.value.key == "model"
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def problem() -> Problem:
    b = GraphBuilder("feed-forward")
    x = b.input("x", {"embed": 1024})
    for i in range(3):
        x = b.linear(f"down{i}", b.linear(f"up{i}", x, {"ffn": 8192}), {"embed": 1024}, over=("ffn",))
    workload = Workload(jobs=(Job(global_batch=8, precision="fp32", optimizer="sgd"),))
    return Problem(graph=b.build(), cluster=load_cluster("dgx-1-v100"), workload=workload, max_devices=4)


def test_on_a_chain_its_costs_are_those_of_the_simulator(problem: Problem) -> None:
    """Where every tensor has one reader, sums of tables differ by what a call of a stage takes besides."""
    mesh = layer_mesh(problem, (("outer", 2), ("inner", 2)), 8)
    draw = random.Random(0)
    over = []
    for _ in range(12):
        chosen = [draw.randrange(len(own)) for own in mesh.options]
        report = simulate(
            problem.graph,
            problem.needed_cluster,
            problem.workload,
            strategy_of_options(problem, mesh, chosen),
        )
        over.append(report.step_time_s / mesh.costs.total_s(chosen))
    assert max(over) < 1.5 * min(over)


def test_few_samples_and_large_weights_are_split_by_weights(problem: Problem) -> None:
    """Gradients of 192 MiB are dearer to add up than activations of 8 samples."""
    found = list(search(problem, "pase"))[-1].best
    assert found is not None
    split = {dim for item in found.strategy.job.stages[0].shardings for dim, _ in item.layout}
    assert "ffn" in split
    batch = replace(problem, workload=problem.workload.with_job(global_batch=65536))
    mesh = layer_mesh(batch, (("inner", 4),), 65536)
    chosen = found_for(mesh.costs).chosen
    ways = {mesh.choices[int(own[k])].axes for own, k in zip(mesh.options, chosen, strict=True)}
    assert ways == {()}  # every layer on samples of its own


def test_one_axis_is_no_better_than_two_by_its_own_costs(problem: Problem) -> None:
    one = found_for(layer_mesh(problem, (("inner", 4),), 8).costs).seconds
    two = found_for(layer_mesh(problem, (("outer", 2), ("inner", 2)), 8).costs).seconds
    assert np.isfinite([one, two]).all()
    labels = [item.new.label for item in search(problem, "pase", options={"axes": "1"}) if item.new]
    assert labels == ["layers on 4 devices, microbatches of 8"]
