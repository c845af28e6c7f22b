"""The plan's own layers on lanes of several ranks, in the interpreter's order, against one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.run.sharded.requests import request_of
from explorer.strategy import Mesh, Sharding
from tests.run.own.own_cases import GPT, cut, source
from tests.run.own.own_cases import case as own_case
from tests.run.sharded.plans import CASES, GRAPH, Case, plan
from tests.run.sharded.ranks import on_ranks

Results = list[list[dict[str, Any]]]


@pytest.fixture(scope="module", params=[2, 4])
def results(request: pytest.FixtureRequest) -> Results:
    return on_ranks(request.param, "tests.run.sharded.check_backend:check")


def test_gradients_and_weights_equal_one_process(results: Results) -> None:
    cases = {item.name: item for item in CASES}
    for found in (item for rank in results for item in rank):
        case, errors = cases[found["name"]], found["numerics"]
        exact = case.dtype == "fp64"
        assert errors["gradient"] < (1e-13 if exact else 1e-5), found
        # adam divides rounding by rounding where a gradient is 0 but for it
        assert errors["weight"] < (1e-8 if case.optimizer == "adam" else 1e-14 if exact else 1e-5), found
        assert errors["compared"] > 0
        assert found["moved"] > 1e-4
        assert found["left"] == 0


def test_sharded_weights_are_gathered_and_reduced_as_their_level_says(results: Results) -> None:
    steps, microbatches = 2, 4
    expected = {
        "zero 1": (steps, steps),
        "zero 2": (steps, steps * microbatches),
        "zero 3": (2 * steps * microbatches, steps * microbatches),
        "data x tensor zero 3": (2 * steps * microbatches, steps * microbatches),
        "pipeline x zero 2": (steps, steps * microbatches),
        "hybrid zero 3": (2 * steps * 2, steps * 2),
    }
    for case in (item for rank in results for item in rank if item["name"] in expected):
        gathers, reductions = expected[case["name"]]
        assert set(case["gathers"].values()) == {gathers}, case["name"]
        assert set(case["reductions"].values()) == {reductions}, case["name"]


def test_nothing_gathered_is_held_at_the_end(results: Results) -> None:
    for case in (item for rank in results for item in rank):
        assert case["kept"] == 0, case["name"]


def test_breadth_first_gathers_a_chunk_at_most_twice_and_reduces_it_once(results: Results) -> None:
    """Lamy-Poirier 2023: with v chunks a device and step has 2 v - 1 gathers and v reductions."""
    steps, chunks = 2, 2
    found = [item for rank in results for item in rank if item["name"] == "breadth first zero 3"]
    for case in found:
        assert sum(case["gathers"].values()) == steps * (2 * chunks - 1)
        assert all(count <= 2 * steps for count in case["gathers"].values())
        assert set(case["reductions"].values()) == {steps}
    assert len(found) in (0, 4)


def test_zero_sends_what_its_closed_form_says(results: Results) -> None:
    """Each gather and each reduction sends (n - 1) / n of all weights, which divide by 2."""
    scalars = sum(int(item.elements) for item in GRAPH.parameters)
    for rank in results:
        for case in (item for item in rank if item["name"] in ("zero 1", "zero 2", "zero 3")):
            times = sum(case["gathers"].values()) + sum(case["reductions"].values())
            assert case["sent"] == times * scalars * 8 / 2


def test_stages_of_unlike_layouts_are_refused() -> None:
    case = next(item for item in CASES if item.name == "pipeline x tensor")
    strategy = plan(case).strategy
    first, *rest = strategy.stages
    assert request_of(strategy).layout == case.layout
    with pytest.raises(InputError, match="laid out differently"):
        request_of(replace(strategy, stages=(replace(first, layout=()), *rest)))
    carved = Sharding(
        layers=("*.up",), layout=(("ffn", "x"),), meshes=(Mesh(devices=(0, 1), axes=(("x", 2),)),)
    )
    with pytest.raises(InputError, match="over devices of several lanes"):
        request_of(replace(strategy, stages=(replace(first, shardings=(carved,)), *rest)))


def test_zero_without_flushes_is_refused() -> None:
    with pytest.raises(InputError, match="an order without flushes"):
        plan(Case("without", "pipedream", 2, 2, fields={"zero": 2}))
    assert not plan(Case("without", "pipedream", 2)).case.order.flush


def test_a_tied_weight_of_stages_with_uneven_replicas_is_refused_under_zero() -> None:
    own = source(*GPT)
    first, second = cut(own, 2, 1, size=2)
    first = replace(first, meshes=(Mesh(devices=(0, 1)),), zero=2)
    with pytest.raises(InputError, match="3 ranks hold a weight of several stages, of which 2 share parts"):
        own_case(own, (first, replace(second, meshes=(Mesh(devices=(2,)),))), "1f1b")
    even = (first, replace(second, meshes=(Mesh(devices=(2, 3)),)))
    assert own_case(own, even, "1f1b").program.skeleton.sections[0].shards == 2
