"""Own layers: real models on several ranks have the gradients and weights of one process."""

from __future__ import annotations

import pytest

from explorer.run.own.own_source import OwnSource
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
