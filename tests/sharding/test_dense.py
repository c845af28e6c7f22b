"""A sharded graph computes what the dense one does, for every layout: values, gradients, collectives."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.graph import Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work
from explorer.models.builder import GraphBuilder
from explorer.sharding import Override, context_layout, megatron_layout, ulysses_layout
from explorer.sharding.reshard import wire_factor
from explorer.sharding.stage import Request
from tests.sharding.checking import check, grid_request, random_values, without_internals
from tests.sharding.dense import Execution
from tests.sharding.ring import PASSED

MESHES = ({"a": 2}, {"a": 4}, {"a": 2, "b": 2})


def _layer(name: str, kind: str, sizes: dict[str, int], reads, writes, parameters=(), saves=()) -> Layer:
    named = {d: None for _, dims in (*reads, *writes, *parameters) for d in dims}
    return Layer(
        name=name,
        kind=kind,
        dims=tuple(Dim(name=d, size=sizes[d]) for d in named),
        reads=tuple(Use(name=n, dims=tuple(d)) for n, d in reads),
        writes=tuple(Use(name=n, dims=tuple(d)) for n, d in writes),
        parameters=tuple(Use(name=n, dims=tuple(d)) for n, d in parameters),
        saves=saves,
        input_grad=Work(
            moved_elements=1.0
        ),  # tells a sum, which saves nothing, from a layer without gradient
    )


@st.composite
def contractions(draw: st.DrawFn) -> tuple[LayerGraph, str]:
    """Two reads and a weight contracted, squashed, and added to what was squashed; 2 to 4 dimensions."""
    dims = "ijkl"[: draw(st.integers(2, 4))]
    sizes = {d: draw(st.sampled_from([4, 8])) for d in dims}

    def some(least: int) -> str:
        return "".join(draw(st.permutations(sorted(draw(st.sets(st.sampled_from(dims), min_size=least))))))

    x, w, out = some(1), some(1), some(1)
    y = "".join(d for d in dims if d not in x + w) or some(1)
    layers = (
        _layer("scale", "einsum", sizes, [("x0", x)], [("x", x)], [("s", x[:1])]),
        _layer("product", "einsum", sizes, [("x", x), ("y", y)], [("t", out)], [("w", w)]),
        _layer("squash", "elementwise", sizes, [("t", out)], [("u", out)], saves=("t",)),
        _layer("add", "elementwise", sizes, [("t", out), ("u", out)], [("v", out)]),
        _layer("again", "einsum", sizes, [("x", x), ("v", out)], [("r", out)]),
    )
    shapes = {"x0": x, "x": x, "y": y, "t": out, "u": out, "v": out, "r": out}
    graph = LayerGraph(
        name="contraction",
        layers=layers,
        tensors=tuple(Tensor(name=n, shape=tuple(sizes[d] for d in ds)) for n, ds in shapes.items()),
        parameters=(
            Parameter(name="s", shape=(sizes[x[0]],)),
            Parameter(name="w", shape=tuple(sizes[d] for d in w)),
        ),
    )
    return graph, dims


@settings(max_examples=25)
@given(contractions(), st.sampled_from(MESHES), st.integers(0, 2**16))
def test_every_layout_of_a_random_contraction(
    case: tuple[LayerGraph, str], sizes: dict[str, int], seed: int
) -> None:
    graph, dims = case
    for chosen in itertools.product(["", *dims], repeat=len(sizes)):
        layout = tuple((dim, axis) for dim, axis in zip(chosen, sizes, strict=True) if dim)
        check(graph, grid_request(layout, sizes), seed=seed)


@settings(max_examples=15)
@given(contractions(), st.sampled_from(["ij", "ji"]), st.integers(0, 2**16))
def test_other_layouts_for_single_layers(case: tuple[LayerGraph, str], order: str, seed: int) -> None:
    """Layers of one graph under different layouts and meshes: tensors go from one to the other."""
    graph, _ = case
    first, second = order
    carved = Override(layers=("product",), layout=((first, "c"),), sizes=(("c", 2),))
    other = Override(layers=("again", "squash"), layout=((second, "a"),))
    check(graph, Request(((first, "a"),), (("a", 2),), (carved, other)), seed=seed)


def mlp(*, bias: bool = True) -> LayerGraph:
    b = GraphBuilder("mlp")
    x = b.input("x", {"seq": 4, "embed": 8})
    x = b.linear("in", x, {"embed2": 8})
    x = x.seen_as("seq", "embed")
    h = b.norm("norm", x, bias=False)
    h = b.linear("up", h, {"ffn": 16}, bias=bias)
    h = b.activation("act", h)
    h = b.linear("down", h, {"embed": 8}, over=("ffn",), bias=bias)
    b.add("add", x, h)
    return b.build()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sequence_parallel", [False, True])
@pytest.mark.parametrize("tensor", [2, 4])
def test_megatron_mlp(tensor: int, sequence_parallel: bool, bias: bool) -> None:
    layout = megatron_layout(sequence_parallel=sequence_parallel)
    run = check(mlp(bias=bias), grid_request(layout, {"tensor": tensor}))
    ops = [key[:2] for key in run.mesh.sent.elements()]
    forward = ["all_gather", "reduce_scatter"] if sequence_parallel else ["all_reduce"]
    assert sorted(op for way, op in ops if way == "forward") == forward


def test_norm_over_a_split_width_reduces_its_statistics() -> None:
    run = check(mlp(), grid_request({"embed": "a", "seq": "b"}, {"a": 4, "b": 2}))
    assert [exchange.op for exchange in run.plan("norm").forward] == ["all_reduce"]


def attention_block(heads: int, kv_heads: int) -> LayerGraph:
    b = GraphBuilder("attention")
    tokens = b.input("tokens", {"seq": 4}, dtype="int64")
    x = b.embedding("embed", tokens, {"vocab": 16}, {"embed": 8})
    h = b.norm("norm", x, bias=False)
    q = b.linear("q", h, {"heads": heads, "head": 3})
    k, v = (b.linear(name, h, {"kv_heads": kv_heads, "head": 3}) for name in "kv")
    k, v = (item.seen_as("kv_seq", "kv_heads", "head") for item in (k, v))
    h = b.attention("core", q, k, v, heads=heads, head=3)
    h = b.linear("o", h, {"embed": 8}, over=("heads", "head"))
    x = b.add("add", x, h)
    logits = b.linear("logits", x, {"vocab": 16})
    b.loss("loss", logits, b.input("targets", {"seq": 4}, dtype="int64"))
    return without_internals(b.build())


LAYOUTS = {
    "megatron": megatron_layout("a"),
    "megatron with sequence": megatron_layout("a", sequence_parallel=True),
    "context": context_layout("a"),
    "ring": context_layout("a", ring=True),
    "ring with heads": (*megatron_layout("b"), *context_layout("a", ring=True)),
    "ulysses": ulysses_layout("a"),
    "two axes": (*megatron_layout("a"), ("seq", "b")),
    "heads twice": (("heads", "a"), ("kv_heads", "a"), ("heads", "b"), ("kv_heads", "b")),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(("heads", "kv_heads"), [(4, 4), (8, 4)])
def test_attention_embedding_and_loss(name: str, heads: int, kv_heads: int) -> None:
    sizes = {"a": 2, "b": 2} if any(axis == "b" for _, axis in LAYOUTS[name]) else {"a": 4}
    check(attention_block(heads, kv_heads), grid_request(LAYOUTS[name], sizes), vocab=16)


@pytest.mark.parametrize("devices", [2, 4])
def test_a_ring_sends_what_its_passes_add_up_to(devices: int) -> None:
    """n - 1 passes of a block forward; as many backward, and n of its gradients."""
    PASSED.clear()
    run = check(attention_block(8, 4), grid_request(LAYOUTS["ring"], {"a": devices}), vocab=16)
    plan, samples = run.plan("core"), 2
    whole = 2 * 4 * 4 * 3  # keys and values of one sample: positions, heads, head
    for way, factor in (("forward", devices - 1), ("backward", 2 * devices - 1)):
        (exchange,) = getattr(plan, way)
        assert exchange.elements == whole
        expected = wire_factor(exchange.op, devices) * exchange.elements
        assert PASSED["core", way] == pytest.approx(samples * expected)
        assert expected == pytest.approx(factor / devices * whole)
    assert not [key for key in run.mesh.sent if key[0] == "forward" and key[3] in ("k", "v")]


def test_fewer_key_value_heads_than_devices() -> None:
    """Each is held by several devices, which add the gradients of its weight."""
    run = check(
        attention_block(8, 2), grid_request(megatron_layout("a"), {"a": 4}), vocab=16, held_twice="kv"
    )
    assert run.plan("k").parameters[0].sums == (("a", 2),)
    assert run.plan("k").parameters[0].fraction == 0.5
    assert run.plan("q").parameters[0].sums == ()


def test_one_weird_trick() -> None:
    """Some layers by model, the rest by sample on the same devices (Krizhevsky; 1.5D of Gholami et al.)."""
    by_model = Override(layers=("down", "up", "act"), layout=(("ffn", "model"),), sizes=(("model", 4),))
    run = check(mlp(), Request((), (), (by_model,)))
    sent = {key[:3]: count for key, count in run.mesh.sent.items()}
    assert sent == {
        ("forward", "all_gather", "model"): 1,
        ("forward", "reduce_scatter", "model"): 1,
        ("backward", "all_gather", "model"): 1,
        ("backward", "reduce_scatter", "model"): 1,
    }


def test_sums_of_partial_sums_are_reduced_once() -> None:
    """Attention and MLP side by side (GPT-J): one all-reduce forward, where one after the other needs two."""
    b = GraphBuilder("parallel")
    x = b.linear("in", b.input("x", {"seq": 4, "inputs": 8}), {"embed": 8}, over=("inputs",))
    halves = [
        b.linear(f"down{i}", b.linear(f"up{i}", x, {"ffn": 16}), {"embed": 8}, over=("ffn",)) for i in (1, 2)
    ]
    b.add("residual", x, b.add("sum", *halves))
    run = check(b.build(), grid_request(megatron_layout(), {"tensor": 4}))
    assert Counter(key[:2] for key in run.mesh.sent.elements()) == {
        ("forward", "all_reduce"): 1,
        ("backward", "all_reduce"): 1,
    }


def test_elementwise_layers_follow_their_inputs() -> None:
    """An activation whose dimension has another name stays split, as its input is."""
    b = GraphBuilder("renamed")
    h = b.linear("up", b.input("x", {"seq": 4, "embed": 8}), {"ffn": 16})
    h = b.activation("act", h.seen_as("seq", "wide"))
    b.linear("down", h.seen_as("seq", "ffn"), {"embed": 8}, over=("ffn",))
    run = check(b.build(), grid_request(megatron_layout(), {"tensor": 4}))
    assert not run.mesh.sent
    assert run.whole.work.tolist() == [0.25] * 3


def test_the_executor_differentiates() -> None:
    """The reference itself: directional derivatives of the dense execution agree with its gradients."""
    graph = attention_block(4, 2)
    values, cotangents = random_values(graph, 2, 3, vocab=16)
    run = Execution(graph, Request((), (), ()), values)
    run.forward()
    _, gradients = run.backward(cotangents)

    def total(name: str, step: np.ndarray) -> float:
        moved = Execution(graph, Request((), (), ()), {**values, name: values[name] + step})
        return float((moved.forward()["loss"][()].values * cotangents["loss"]).sum())

    for name, gradient in gradients.items():
        step = 1e-5 * np.random.default_rng(1).normal(size=gradient.shape)
        numeric = (total(name, step) - total(name, -step)) / 2
        np.testing.assert_allclose(numeric, (gradient * step).sum(), rtol=1e-5, err_msg=name)
