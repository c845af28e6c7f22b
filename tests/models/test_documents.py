"""Documents packed into a sample: pairs of tokens of one document only, in FLOPs, seconds and when run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_times
from explorer.graph import Layer, LayerGraph
from explorer.matrix_products import contraction, mean_document
from explorer.models import load_model

A100 = load_cluster("dgx-a100").device_kinds[0]
SETTINGS = {
    "gpt": {"layers": "1", "embed": "1024", "heads": "8"},
    "llama": {"layers": "1", "embed": "1024", "heads": "8", "kv_heads": "2", "ffn": "2048"},
}


def graph_of(documents: str, model: str = "gpt", tokens: int = 8192, **more: str) -> LayerGraph:
    settings = {**SETTINGS[model], "documents": documents, **more}
    return load_model(model, sequence_length=tokens, settings=settings)


def attention_of(graph: LayerGraph) -> Layer:
    return next(layer for layer in graph.layers if layer.kind == "attention")


def seconds(graph: LayerGraph, **more: Any) -> np.ndarray:
    place = graph.index[attention_of(graph).name]
    found = layer_times(graph, A100, samples=2.0, precision="bf16", **more)
    return found[:2, place]


def test_a_mean_length_counts_pairs() -> None:
    assert mean_document([512]) == 512
    assert mean_document([1, 2, 3]) == pytest.approx((1 + 4 + 9) / 6)


@pytest.mark.parametrize("model", SETTINGS)
def test_work_is_that_of_the_documents(model: str) -> None:
    whole, packed = (attention_of(graph_of(text, model)) for text in ("", "1024+3072"))
    share = (1024**2 + 3072**2) / 4096 / 8192
    assert packed.documents == (1024, 3072)
    assert packed.forward.flops == pytest.approx(whole.forward.flops * share)
    assert packed.input_grad.flops == pytest.approx(whole.input_grad.flops * share)
    assert packed.forward.moved_elements == whole.forward.moved_elements


def test_equal_documents_are_samples_of_their_own() -> None:
    """Four documents of 2,048 in a sample take what four samples of 2,048 take."""
    packed, short = graph_of("2048"), graph_of("", tokens=2048)
    assert contraction(attention_of(packed)) is not None
    place = short.index[attention_of(short).name]
    alone = layer_times(short, A100, samples=8.0, precision="bf16")[:2, place]
    assert seconds(packed) == pytest.approx(alone)


def test_shares_of_heads_and_queries_of_documents() -> None:
    packed, short = graph_of("2048"), graph_of("", tokens=2048)
    count, place = len(packed.layers), short.index[attention_of(short).name]
    work, split = np.full(count, 0.125), np.ones((3, count))
    split[0] = 0.5
    quarter = layer_times(short, A100, samples=8.0, precision="bf16", work=work, split=split)[:2, place]
    assert seconds(packed, work=work, split=split) == pytest.approx(quarter)


@given(lengths=st.lists(st.integers(128, 4096), min_size=1, max_size=6))
def test_documents_of_a_tile_and_more_never_take_longer_than_one(lengths: list[int]) -> None:
    whole, text = seconds(graph_of("")), "+".join(map(str, lengths))
    if sum(lengths) <= 8192:
        assert (seconds(graph_of(text)) <= whole * (1 + 1e-9)).all()


@pytest.mark.parametrize("text", ["0", "-1", "many", "1024+", "8193", "4096+4097"])
def test_wrong_lengths_are_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        graph_of(text)
    assert caught.value.key == "documents"


def test_an_attention_in_parts_refuses_documents() -> None:
    with pytest.raises(InputError, match="all pairs"):
        graph_of("1024", attention="unfused")


@pytest.mark.parametrize("causal", [False, True])
def test_ranks_see_their_own_document(causal: bool) -> None:
    torch = pytest.importorskip("torch")
    from explorer.run.sharded.attention import _mask

    def mask(documents: tuple[int, ...], queries: np.ndarray, keys: np.ndarray) -> Any:
        layer = Layer(name="core", kind="attention", causal=causal, documents=documents)
        here: Any = SimpleNamespace(layer=layer, options={})
        return _mask(here, queries, keys, torch.device("cpu"))

    own = [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]  # documents of 3 and 2 tokens, twice
    queries, keys = np.array([8, 1, 4]), np.array([9, 0, 5, 3, 2])
    found = mask((3, 2), queries, keys).tolist()
    assert found == [
        [own[q] == own[k] and (q >= k or not causal) for k in keys.tolist()] for q in queries.tolist()
    ]
    assert (mask((), queries, keys) is None) is not causal
