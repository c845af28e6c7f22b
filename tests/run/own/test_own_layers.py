"""Own layers: real models on several ranks have the gradients and weights of one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.run.own.own_source import OwnSource
from explorer.run.ranks.compute import Compute
from explorer.schedules import SCHEDULES
from tests.run.own.own_cases import FACTORIES, GPT, LLAMA, case, configured, cut, source
from tests.run.programs import EVERY, placed_stages
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")
EXACT, SINGLE = 1e-10, 1e-5


@pytest.fixture(scope="module")
def gpt() -> OwnSource:
    return source(*GPT)


@pytest.mark.parametrize(("pipeline", "replicas"), [(1, 2), (2, 1), (4, 1), (2, 2)])
def test_gpt_with_tied_weights(gpt: OwnSource, pipeline: int, replicas: int) -> None:
    records = on_threads(case(gpt, cut(gpt, pipeline, replicas, size=2), "1f1b"))
    assert worst(records) <= EXACT
    assert sum(record["numerics"]["compared"] for record in records) >= 2 * len(gpt.graph.parameters)


@pytest.mark.parametrize("schedule", EVERY)
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_every_schedule(gpt: OwnSource, schedule: str, ranks: int) -> None:
    """Literal orders and swarms apart, which have no placement of their own."""
    names = [layer.name for layer in gpt.graph.layers]
    size = 1 if SCHEDULES.get(schedule).unmet_even(ranks, 4) else 2
    prepared = case(gpt, placed_stages(schedule, ranks, names, size=size), schedule, optimizer="momentum")
    records = on_threads(prepared)
    assert worst(records) <= EXACT
    assert all(record["left"] == 0 and record["numerics"]["compared"] for record in records)


def test_a_module_with_a_skip_connection() -> None:
    own = source(f"{FACTORIES}:skip")
    for stages, schedule in (
        (cut(own, 2), "1f1b"),
        (cut(own, 3), "zb_h1"),
        (cut(own, 1, 2, size=2), "gpipe"),
    ):
        assert worst(on_threads(case(own, stages, schedule))) <= EXACT


@pytest.mark.parametrize("last", ["act", "norm", "residual"])
@pytest.mark.parametrize("schedule", ["split_backward", "zb_h1", "zb_auto"])
def test_every_weight_has_its_gradient_wherever_a_split_backward_is_cut(last: str, schedule: str) -> None:
    """A bias of a unit that reads the model's input alone; an output that later units of its stage read."""
    own = source(f"{FACTORIES}:skip")
    names = [layer.name for layer in own.graph.layers]
    first, second = cut(own, 2)
    at = names.index(last) + 1
    stages = (replace(first, layers=tuple(names[:at])), replace(second, layers=tuple(names[at:])))
    runs: list[Compute] = []
    records = on_threads(case(own, stages, schedule, optimizer="momentum"), runs.append)
    assert worst(records) <= EXACT
    assert {name for run in runs for name, _ in run.applied} == {p.name for p in own.graph.parameters}


def test_a_gradient_that_is_missing_is_found(gpt: OwnSource) -> None:
    def forget(run: Compute) -> None:
        before = run._add

        def without(piece: Any, number: int, found: Any, beside: Any = ()) -> None:
            before(piece, number, {n: g for n, g in found.items() if not n.endswith("bias")}, beside)

        run._add = without  # type: ignore[method-assign]

    assert worst(on_threads(case(gpt, cut(gpt, 2), "1f1b"), forget)) == float("inf")


def test_llama() -> None:
    own = source(*LLAMA)
    assert worst(on_threads(case(own, cut(own, 3), "1f1b"))) <= EXACT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dtype", "bound"),
    [("t5", "fp64", EXACT), ("mixtral", "fp64", EXACT), ("mixtral", "fp32", SINGLE)],
)
@pytest.mark.parametrize(("pipeline", "replicas"), [(2, 1), (4, 1), (1, 2), (2, 2)])
def test_models_of_transformers(name: str, dtype: str, bound: float, pipeline: int, replicas: int) -> None:
    own = configured(name, dtype)
    records = on_threads(case(own, cut(own, pipeline, replicas, size=2), "1f1b", batch=4))
    assert worst(records) <= bound
