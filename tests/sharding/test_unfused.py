"""Unfused attention and dropout: sharded they compute what they do on one device, and choose as fused."""

from __future__ import annotations

import math

import pytest

from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.sharding import context_layout, megatron_layout, shard, ulysses_layout
from explorer.sharding.derive import choose, signatures
from explorer.sharding.states import BROADCAST, PARTIAL, Axis
from tests.sharding import unfused
from tests.sharding.checking import check, grid_request, without_internals
from tests.sharding.layers import FORWARD

FOUR = Axis(name="a", size=4)


def block(heads: int, kv_heads: int, *, fused_qkv: bool = False) -> LayerGraph:
    """Norm, attention in parts with dropout, projection, dropout and addition."""
    b = GraphBuilder("attention")
    x = b.linear("in", b.input("x", {"seq": 4, "inputs": 8}), {"embed": 8}, over=("inputs",))
    h = b.norm("norm", x, bias=False)
    if fused_qkv:
        inputs = [b.linear("qkv", h, {"qkv": 3, "heads": heads, "head": 4})]
    else:
        q = b.linear("q", h, {"heads": heads, "head": 4})
        inputs = [q, *(b.linear(name, h, {"kv_heads": kv_heads, "head": 4}) for name in "kv")]
    h = b.attention_parts("core", *inputs, heads=heads, head=4, dropout=True)
    h = b.linear("o", h, {"embed": 8}, over=("heads", "head"))
    b.dropout("dropout_add", h, x)
    return without_internals(b.build())


LAYOUTS = {
    "megatron": megatron_layout("a"),
    "megatron with sequence": megatron_layout("a", sequence_parallel=True),
    "context": context_layout("a"),
    "ulysses": ulysses_layout("a"),
    "keys": (("kv_seq", "a"),),
    "head": (("head", "a"),),
    "two axes": (*megatron_layout("a"), ("seq", "b")),
    "queries and keys": (("seq", "a"), ("kv_seq", "b")),
}


def test_the_executor_knows_all_parts() -> None:
    kinds = {layer.kind for layer in block(4, 4).layers}
    assert kinds <= set(FORWARD)
    assert {"scores", "softmax", "context", "dropout"} <= set(vars(unfused)) & kinds


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("heads", "kv_heads", "fused"), [(4, 4, True), (4, 4, False), (8, 4, False)])
def test_values_gradients_and_collectives(name: str, heads: int, kv_heads: int, fused: bool) -> None:
    sizes = {"a": 2, "b": 2} if any(axis == "b" for _, axis in LAYOUTS[name]) else {"a": 4}
    check(block(heads, kv_heads, fused_qkv=fused), grid_request(LAYOUTS[name], sizes))


def test_fewer_key_value_heads_than_devices() -> None:
    run = check(block(8, 2), grid_request(megatron_layout("a"), {"a": 4}), held_twice="kv")
    assert run.plan("k").parameters[0].sums == (("a", 2),)
    assert run.plan("core.scores").work == 0.25


@pytest.mark.parametrize("layout", [megatron_layout("a"), ulysses_layout("a")])
def test_every_part_is_split_by_heads(layout: tuple[tuple[str, str], ...]) -> None:
    """As the fused kernel, which takes heads before all else: nothing is sent between the parts."""
    graph = load_model("llama", settings={"layers": "1", "attention": "unfused"}, sequence_length=64)
    parts = ("scores", "softmax", "context")
    chosen = [choose(graph.layer[f"layers.0.attention.{part}"], FOUR, layout) for part in parts]
    assert all("heads" in signature.dims and signature.work == 0.25 for signature in chosen)


def test_sends_what_the_fused_kernel_makes_send() -> None:
    """Tensor and sequence parallel, whole blocks: equal collectives with one kernel and with parts."""
    found = []
    for kind in ("fused", "unfused"):
        graph = load_model("gpt", settings={"layers": "2", "attention": kind}, sequence_length=64)
        layers = tuple(layer.name for layer in graph.layers)
        layout = megatron_layout("a", sequence_parallel=True)
        result = shard(graph, layers, layout=layout, sizes={"a": 4})
        ways = (result.forward, result.backward)
        found.append([[(c.op, c.axis, c.elements_per_sample) for c in way] for way in ways])
    assert found[0] == found[1]
    assert found[0][0]


def test_partial_sums_are_reduced_before_dropout() -> None:
    """A mask on a part of a sum is none of the sum that Megatron computes."""
    graph = block(4, 4)
    for layer in graph.layers:
        if layer.kind == "dropout":
            found = signatures(layer, FOUR)
            assert all(PARTIAL not in signature.reads for signature in found)
            assert any(BROADCAST in signature.reads for signature in found)


@pytest.mark.parametrize("t", [2, 4, 8])
def test_context_gathers_keys_and_values(t: int) -> None:
    """2 s kv_heads head elements forward, as around a fused kernel (Llama 3, section 3.3.2)."""
    settings = {"layers": "1", "attention": "unfused", "kv_heads": "8"}
    graph = load_model("llama", settings=settings, sequence_length=64)
    names = tuple(layer.name for layer in graph.layers if ".attention." in layer.name)
    result = shard(graph, names, layout=context_layout("c"), sizes={"c": t})
    gathered = [c.elements_per_sample for c in result.forward if c.op == "all_gather"]
    assert math.fsum(gathered) == 2 * 64 * 8 * 128
    assert {c.op for c in result.forward} == {"all_gather"}
