"""Mesh-TensorFlow's layouts: no legal one is cheaper, by all maps of names to axes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models.builder import GraphBuilder
from explorer.models.gpt import attention_half
from explorer.planners._pieces.integer_program import least
from explorer.planners._pieces.layer_meshes import layer_mesh
from explorer.planners.mesh_tensorflow import (
    BATCH,
    HEADS,
    Layout,
    LayoutCosts,
    LayoutRules,
    best_layout,
    legal_layouts,
)
from explorer.schedules._milp_program import Program
from explorer.search import Problem, search
from explorer.workload import Job, Workload


def every_layout(names: tuple[str, ...], axes: int) -> list[Layout]:
    """Every map of names to axes, legal or not."""
    ways = itertools.product((None, *range(axes)), repeat=len(names))
    return [tuple((n, m) for n, m in zip(names, way, strict=True) if m is not None) for way in ways]


def least_of_all(costs: LayoutCosts) -> float:
    found = [costs.total_s(layout) for layout in every_layout(costs.names, costs.axes)]
    return min(seconds for seconds in found if seconds is not None)


def random_costs(draw: random.Random, axes: int) -> LayoutCosts:
    """Sets of names with whole costs of their legal maps."""
    names = "abcde"[: draw.randint(2, 5)]
    costs = {}
    for _ in range(draw.randint(1, 6)):
        own = frozenset(draw.sample(names, draw.randint(1, min(3, len(names)))))
        costs[own] = {layout: float(draw.randint(0, 40)) for layout in legal_layouts(sorted(own), axes)}
    return LayoutCosts(axes=axes, costs=costs)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("axes", [1, 2])
def test_no_layout_is_cheaper(axes: int) -> None:
    draw = random.Random(axes)
    gained = 0
    for _ in range(30):
        case = random_costs(draw, axes)
        best = least_of_all(case)
        assert case.total_s(best_layout(case)) == best
        gained += best < (case.total_s(()) or 0.0)
    assert gained > 10  # to map nothing would not do


def test_layouts_that_put_two_names_of_a_layer_on_an_axis_are_not_legal() -> None:
    assert set(legal_layouts(["a", "b"], 1)) == {(), (("a", 0),), (("b", 0),)}
    two = set(legal_layouts(["a", "b"], 2))
    assert (("a", 0), ("b", 1)) in two
    assert (("a", 0), ("a", 1)) not in two
    assert (("a", 0), ("b", 0)) not in two
    assert len(two) == 1 + 4 + 2


def test_a_program_without_a_solution_is_said_in_one_line() -> None:
    program = Program()
    column = program.column(0.0, 1.0)
    program.at_least(2.0, (column, 1.0))
    with pytest.raises(InputError, match="no solution") as caught:
        least(program)
    assert "\n" not in str(caught.value)


@pytest.fixture(scope="module")
def problem() -> Problem:
    b = GraphBuilder("block")
    x = b.input("x", {"seq": 64, "embed": 512})
    x = b.add("attention.add", attention_half(b, b.norm("attention.norm", x), 8), x)
    y = b.activation("gelu", b.linear("up", b.norm("norm", x), {"ffn": 4096}))
    b.add("add", b.linear("down", y, {"embed": 512}, over=("ffn",)), x)
    job = Job(global_batch=4, precision="fp32", optimizer="sgd")
    return Problem(
        graph=b.build(), cluster=load_cluster("dgx-1-v100"), workload=Workload(jobs=(job,)), max_devices=4
    )


@pytest.mark.parametrize("shape", [(("inner", 4),), (("outer", 2), ("inner", 2))], ids=["one", "two"])
def test_costs_of_a_model_are_those_of_its_layers_and_edges(
    problem: Problem, shape: tuple[tuple[str, int], ...]
) -> None:
    """Every legal layout, summed layer by layer from the choices that it comes to; the best is the best."""
    mesh = layer_mesh(problem, shape, 4)
    rules = LayoutRules(problem, mesh)
    costs = rules.costs()
    plan = mesh.table.layers.first_plan
    options = [{plan(i, int(k)): o for o, k in enumerate(own)} for i, own in enumerate(mesh.options)]
    seen = {}
    for layout in every_layout(costs.names, costs.axes):
        total = costs.total_s(layout)
        if total is not None:
            chosen = [options[i][plan(i, k)] for i, k in enumerate(rules.chosen(layout))]
            assert total == pytest.approx(mesh.costs.total_s(chosen), rel=1e-12)
            seen[layout] = total
    assert len(seen) > 5
    assert {BATCH, HEADS, "ffn", "embed", "seq"} <= set(costs.names)
    assert seen[best_layout(costs)] == pytest.approx(min(seen.values()), rel=1e-6)


def test_a_plan_is_one_layout_for_all_layers(problem: Problem) -> None:
    few = replace(problem, workload=problem.workload.with_job(global_batch=2))
    new = [item.new for item in search(few, "mesh_tensorflow") if item.new]
    assert len(new) == 2  # a mesh of one axis, and one of two
    for item in new:
        axes: dict[str, set[str]] = {}
        for sharding in item.strategy.job.stages[0].shardings:
            for dim, axis in sharding.layout:
                axes.setdefault(dim, set()).add(axis)
        assert all(len(own) == 1 for own in axes.values())
    assert "over inner" in new[0].label
