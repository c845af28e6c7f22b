"""Layers as matrix products: sizes by hand, FLOPs over the zoo, and shares under layouts."""

from __future__ import annotations

import math

import numpy as np
import pytest

from explorer.graph import Layer, LayerGraph, Work
from explorer.matrix_products import PRODUCTS, contraction, contractions
from explorer.models import SOURCES, load_model
from explorer.sharding import megatron_layout, shard

SMALL = [entry.name for entry in SOURCES if entry.parameters < 3e9]


def of(graph: LayerGraph, name: str) -> tuple[float, ...]:
    found = contractions(graph)[graph.index[name]]
    assert found is not None, name
    return (*found.sizes, found.products)


def test_sizes_of_a_decoder_block() -> None:
    graph = load_model(
        "gpt",
        settings={"layers": "1", "embed": "64", "heads": "4", "attention": "unfused"},
        sequence_length=16,
    )
    assert of(graph, "layers.0.attention.qkv") == (1, 16, 192, 64, 1)
    assert of(graph, "layers.0.attention.scores") == (4, 16, 16, 16, 1)
    assert of(graph, "layers.0.attention.context") == (4, 16, 16, 16, 1)
    assert of(graph, "layers.0.attention.proj") == (1, 16, 64, 64, 1)
    assert of(graph, "head") == (1, 16, 50257, 64, 1)


def test_a_convolution_is_the_product_of_its_unfolded_input() -> None:
    assert of(load_model("resnet50"), "conv1") == (1, 112 * 112, 64, 3 * 49, 1)


def test_experts_share_the_tokens() -> None:
    graph = load_model("mixtral-8x7b", sequence_length=512)
    assert of(graph, "layers.0.moe.experts") == (8, 512 * 2 / 8, 14336, 4096, 3)


@pytest.mark.parametrize("name", SMALL)
def test_products_have_the_flops_of_their_layer(name: str) -> None:
    graph = load_model(name)
    for layer, found in zip(graph.layers, contractions(graph), strict=True):
        assert (found is None) or layer.kind in PRODUCTS
        if layer.kind == "linear":
            assert found is not None, layer.name
        if found is not None:
            assert 2 * found.products * math.prod(found.sizes) == pytest.approx(layer.forward.flops, rel=0.02)


def test_a_layer_that_tells_only_flops_has_none() -> None:
    assert contraction(Layer(name="x", kind="linear", forward=Work(flops=1e9))) is None


@pytest.mark.parametrize("name", ["gpt2-small", "llama3-8b", "mixtral-8x7b", "bert-large"])
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_shares_of_products_make_the_share_of_work(name: str, sequence_parallel: bool) -> None:
    graph = load_model(name)
    names = tuple(layer.name for layer in graph.layers)
    layout = megatron_layout(sequence_parallel=sequence_parallel)
    sharded = shard(graph, names, layout=layout, sizes={"tensor": 4})
    shares = sharded.split.prod(axis=0)
    known = np.array([item is not None for item in contractions(graph)])
    rows = sharded.work[known] / shares[known]
    assert (rows <= 1 + 1e-12).all(), "what is left of the work is a share of the rows"
    split = [i for i in np.flatnonzero(known) if sharded.work[i] < 1]
    assert split, "Megatron splits something"
    columns_or_depth = [i for i in split if {"heads", "ffn"} & {dim.name for dim in graph.layers[i].dims}]
    assert np.allclose(sharded.work[columns_or_depth], shares[columns_or_depth])


def test_a_plain_graph_is_whole() -> None:
    graph = load_model("gpt2-small")
    sharded = shard(graph, tuple(layer.name for layer in graph.layers))
    assert (sharded.split == 1).all()
