"""Own layers: real models on several ranks have the gradients and weights of one process."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer.run.own.own_source import OwnSource
from tests.run.own.own_cases import FACTORIES, GPT, LLAMA, case, configured, cut, source
from tests.run.programs import placed_stages
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


@pytest.mark.parametrize("schedule", ["zb_h1", "gpipe_2bp", "interleaved_1f1b", "pipedream", "chimera"])
def test_orders_of_every_sort(gpt: OwnSource, schedule: str) -> None:
    names = [layer.name for layer in gpt.graph.layers]
    prepared = case(gpt, placed_stages(schedule, 2, names, size=2), schedule)
    assert worst(on_threads(prepared)) <= EXACT


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
    # torch multiplies groups of rows, one for each expert, in fp32 at most
    ("name", "dtype", "bound"),
    [("t5", "fp64", EXACT), ("mixtral", "fp32", SINGLE)],
)
@pytest.mark.parametrize(("pipeline", "replicas"), [(2, 1), (4, 1), (1, 2), (2, 2)])
def test_models_of_transformers(
    tmp_path: Path, name: str, dtype: str, bound: float, pipeline: int, replicas: int
) -> None:
    own = configured(tmp_path, name, dtype)
    records = on_threads(case(own, cut(own, pipeline, replicas, size=2), "1f1b", batch=4))
    assert worst(records) <= bound
