"""Split backward: what waits for the weight gradient, against published counts and on every model.

Qi et al., Zero Bubble Pipeline Parallelism (ICLR 2024), section 3.1: of a transformer layer's activations
M_B = s b h (34 + 5 a s / h) the weight gradient needs M_W = 32 s b h.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.costs.memory import StageMemory, stage_memory
from explorer.costs.split_backward import last_readers, puts_off
from explorer.graph import BY_INPUT, BY_WEIGHT, Layer, LayerGraph, Parameter, Tensor, Use
from explorer.models import SOURCES, load_model
from explorer.models.builder import GraphBuilder
from explorer.sharding import megatron_layout, shard

SIZES = [(1024, 1024, 16), (2048, 6144, 64), (2048, 12288, 96)]


def memory(
    graph: LayerGraph,
    layers: tuple[str, ...] = (),
    *,
    recompute: str = "none",
    t: int = 1,
    sequence: bool = False,
) -> StageMemory:
    names = layers or tuple(layer.name for layer in graph.layers)
    sharded = shard(
        graph, names, layout=megatron_layout(sequence_parallel=sequence), sizes={"tensor": t} if t > 1 else {}
    )
    return stage_memory(
        graph, names, sharded, precision="fp16", optimizer="adam", zero=0, replicas=1, recompute=recompute,
        training=True,
    )  # fmt: skip


def korthikanti(s: int, h: int, a: int) -> LayerGraph:
    settings = {"layers": "2", "embed": str(h), "heads": str(a), "attention": "unfused", "dropout": "true"}
    return load_model("gpt", sequence_length=s, settings={**settings, "positions": str(s)})


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize(("s", "h", "a"), SIZES)
def test_a_layer_leaves_32_of_34_and_the_scores(s: int, h: int, a: int, recompute: str) -> None:
    graph = korthikanti(s, h, a)
    found = memory(graph, graph.blocks["layers.1"], recompute=recompute)
    assert found.waiting_bytes_per_sample == 32 * s * h


@pytest.mark.parametrize("t", [2, 8])
def test_tensor_and_sequence_parallel(t: int) -> None:
    """Whole without sequence parallelism: what qkv and up read (4), what projection and down write (4)."""
    s, h, a = SIZES[0]
    graph = korthikanti(s, h, a)
    layers = graph.blocks["layers.1"]
    assert memory(graph, layers, t=t).waiting_bytes_per_sample == s * h * (8 + 24 / t)
    assert memory(graph, layers, t=t, sequence=True).waiting_bytes_per_sample == s * h * 32 / t


def test_what_is_recomputed_beside_what_waits() -> None:
    """Full: of a block all but its input (2) and the products' inputs (14); selective: the core."""
    s, h, a = SIZES[0]
    graph = korthikanti(s, h, a)
    layers, scores = graph.blocks["layers.1"], 5 * a * s * s
    full, selective = (memory(graph, layers, recompute=name) for name in ("full", "selective"))
    assert full.recompute_rest_bytes_per_sample == 18 * s * h + scores
    assert selective.recompute_rest_bytes_per_sample == scores
    assert memory(graph, layers).recompute_rest_bytes_per_sample == 0


def test_two_products_of_one_input_keep_it_once() -> None:
    b = GraphBuilder("three")
    x = b.norm("norm", b.input("x", {"seq": 4, "embed": 8}))
    for name in "qkv":
        b.linear(name, x, {"out": 8})
    found = memory(b.build())
    assert found.waiting_bytes_per_sample == 2 * 32 * (1 + 3)  # their input, and three gradients


def test_experts_keep_both_factors_of_their_products() -> None:
    b = GraphBuilder("experts")
    x = b.norm("norm", b.input("x", {"seq": 8, "embed": 16}))
    b.experts("moe", x, b.router("router", x, 4), ffn=32, active=2)
    graph = b.build()
    (moe,) = (layer for layer in graph.layers if layer.kind == "experts")
    said = dict(zip(moe.saves, last_readers(graph, moe), strict=True))
    late = {name.removeprefix("moe.") for name, reader in said.items() if reader == BY_WEIGHT}
    assert late == {"product", "dispatched"}


def other(**fields: tuple[str, ...]) -> LayerGraph:
    """A layer of unknown kind that keeps 100 and 30 bytes, trains and writes 8 bytes."""
    sizes = {"x": 1.0, "a": 100.0, "b": 30.0, "y": 8.0}
    made = Layer(
        name="f", reads=(Use(name="x"),), writes=(Use(name="y"), Use(name="a"), Use(name="b")),
        parameters=(Use(name="w"),), saves=("a", "b"), **fields,
    )  # fmt: skip
    tensors = tuple(Tensor(name=n, shape=(v,), dtype="byte", backward=n == "y") for n, v in sizes.items())
    return LayerGraph(
        name="one", layers=(made,), tensors=tensors, parameters=(Parameter(name="w", shape=(4.0,)),)
    )


def test_a_layer_may_say_it() -> None:
    assert memory(other()).waiting_bytes_per_sample == 100 + 30 + 8
    said = other(last_read_by=(BY_INPUT, BY_WEIGHT))
    assert memory(said).waiting_bytes_per_sample == 30 + 8
    assert memory(other(last_read_by=(BY_INPUT, BY_INPUT))).waiting_bytes_per_sample == 0


@pytest.mark.parametrize("wrong", [(BY_INPUT,), (BY_INPUT, "nobody"), (BY_INPUT,) * 3])
def test_what_does_not_fit_is_refused(wrong: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"'f' saves 2 tensors") as caught:
        other(last_read_by=wrong)
    assert caught.value.found == wrong


@pytest.mark.parametrize("name", SOURCES.names())
def test_of_every_model_something_is_freed_and_something_waits(name: str) -> None:
    graph = load_model(name)
    readers = {r for layer in graph.layers for r in last_readers(graph, layer)}
    assert readers == {BY_INPUT, BY_WEIGHT}
    for layer in graph.layers:
        assert puts_off(graph, layer) or BY_WEIGHT not in last_readers(graph, layer)


@given(data=st.data())
def test_frozen_weights_leave_nothing(data: st.DataObject) -> None:
    """Freezing parameters never makes more wait; with none left to train nothing does."""
    graph = load_model("gpt", settings={"layers": "1", "embed": "64", "heads": "4", "vocab": "128"})
    frozen = data.draw(st.sets(st.sampled_from([p.name for p in graph.parameters])))
    parameters = tuple(replace(p, trainable=p.name not in frozen) for p in graph.parameters)
    fewer = memory(replace(graph, parameters=parameters))
    assert 0 <= fewer.waiting_bytes_per_sample <= memory(graph).waiting_bytes_per_sample
    none = tuple(replace(p, trainable=False) for p in graph.parameters)
    assert memory(replace(graph, parameters=none)).waiting_bytes_per_sample == 0
