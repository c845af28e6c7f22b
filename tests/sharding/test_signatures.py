"""Legal signatures of single layers: the einsum rule and what every kind adds to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.graph import Dim, Layer, LayerGraph, Tensor, Use
from explorer.models.builder import GraphBuilder
from explorer.sharding import expert_layout, layout_problems, megatron_layout, shard
from explorer.sharding.derive import RULES, choose, derive, signatures
from explorer.sharding.experts import active_experts
from explorer.sharding.states import BROADCAST, PARTIAL, SAMPLE, Axis, describe, piece, share

FOUR = Axis(name="tensor", size=4)
CARVED = Axis(name="expert", size=4, carved=True)


def matmul() -> Layer:
    b = GraphBuilder("one")
    b.linear("up", b.input("x", {"seq": 8, "embed": 16}), {"ffn": 32}, bias=True)
    return b.build().layers[0]


def states(signature: object) -> tuple[list[str], list[str], list[str]]:
    return tuple(
        [describe(s) for s in getattr(signature, part)] for part in ("reads", "parameters", "writes")
    )


@pytest.mark.parametrize(
    ("dim", "expected", "gradients"),
    [  # OneFlow's table for a matrix product, and its duals; the bias is added once
        ("seq", (["split(0)"], ["broadcast"] * 2, ["split(0)"]), (0, (PARTIAL, PARTIAL))),
        ("ffn", (["broadcast"], ["split(0)"] * 2, ["split(1)"]), (PARTIAL, (0, 0))),
        ("embed", (["split(1)"], ["split(1)", "broadcast"], ["partial"]), (1, (1, BROADCAST))),
    ],
)
def test_signatures_of_a_matrix_product(dim: str, expected: object, gradients: object) -> None:
    signature = derive(matmul(), (dim,), FOUR)
    assert states(signature) == expected
    assert (signature.read_gradients[0], signature.parameter_gradients) == gradients
    assert signature.work == 0.25


def test_all_legal_signatures_are_listed_once() -> None:
    found = signatures(matmul(), FOUR)
    assert [item.dims for item in found] == [(), ("seq",), ("embed",), ("ffn",)]
    assert len({states(item)[2][0] for item in found}) == 4


def test_partial_sums_pass_linear_layers_only() -> None:
    b = GraphBuilder("two")
    x = b.input("x", {"seq": 4, "embed": 4})
    y = b.norm("norm", x)
    b.add("add", x, y)
    b.activation("gelu", y)
    b.activation("gelu without gradient", x)
    _, add, *others = b.build().layers
    assert any(item.writes == (PARTIAL,) for item in signatures(add, FOUR))
    assert not any(PARTIAL in item.writes for layer in others for item in signatures(layer, FOUR))


def test_contraction_is_a_sum_only_for_kinds_that_are_sums() -> None:
    uses = {"reads": (Use(name="x", dims=("a", "b")),), "writes": (Use(name="y", dims=("a",)),)}
    dims = (Dim(name="a", size=8), Dim(name="b", size=8))
    for kind, legal in (("einsum", True), ("other", False), ("router", False)):
        assert (derive(Layer(name="f", kind=kind, dims=dims, **uses), ("b",), FOUR) is not None) == legal


def test_diagonals_and_unknown_dimensions_are_not_split() -> None:
    dims = (Dim(name="a", size=8),)
    twice = Layer(
        name="f",
        kind="einsum",
        dims=dims,
        reads=(Use(name="x", dims=("a", "a")),),
        writes=(Use(name="y", dims=("a",)),),
    )
    unknown = Layer(
        name="g", kind="einsum", dims=dims, reads=(Use(name="x"),), writes=(Use(name="y", dims=("a",)),)
    )
    assert derive(twice, ("a",), FOUR) is None
    assert derive(unknown, ("a",), FOUR) is None
    assert choose(unknown, FOUR, (("a", "tensor"),)).dims == ()


def test_too_few_pieces_are_not_split_unless_key_value_heads() -> None:
    b = GraphBuilder("heads")
    x = b.input("x", {"seq": 4, "embed": 8})
    b.linear("k", x, {"kv_heads": 2, "head": 4})
    b.linear("q", x, {"heads": 2, "head": 4})
    k, q = b.build().layers
    signature = derive(k, ("kv_heads",), FOUR)
    assert (signature.work, signature.summands) == (0.5, 2)
    assert derive(q, ("heads",), FOUR) is None


def test_the_first_pair_of_a_layout_that_applies_counts() -> None:
    layout = megatron_layout(sequence_parallel=True)
    assert choose(matmul(), FOUR, layout).dims == ("ffn",)
    assert choose(matmul(), FOUR, (("seq", "tensor"), ("ffn", "tensor"))).dims == ("seq",)
    assert choose(matmul(), FOUR, (("ffn", "other"),)).dims == ()


def test_convolution_by_height_exchanges_a_halo() -> None:
    """Gholami et al.: X_w X_c floor(k/2) forward and Y_w Y_c floor(k/2) backward, per neighbour side."""
    b = GraphBuilder("conv")
    x = b.input("x", {"channels": 3, "height": 32, "width": 24})
    x = b.conv2d("first", x, 8, 1)
    x = b.conv2d("second", x, 16, 5, stride=2, padding=2)
    names = ("first", "second")
    result = shard(b.build(), names, layout=(("height", "d"),), sizes={"d": 4})
    assert [(c.op, c.layer, c.elements_per_sample) for c in result.forward] == [
        ("halo", "second", 24 * 8 * 2)
    ]
    assert [(c.op, c.layer, c.elements_per_sample) for c in result.backward] == [
        ("halo", "second", 12 * 16 * 2)
    ]
    assert result.partial_gradients == {"first.weight", "second.weight"}
    assert result.work.tolist() == [0.25, 0.25]


def test_convolution_by_channels_follows_the_einsum_rule() -> None:
    """One-dimensional model parallelism of Gholami et al.: gather activations, reduce their gradients."""
    b = GraphBuilder("conv")
    x = b.input("x", {"channels": 4, "height": 8, "width": 8})
    for name in ("first", "second"):
        x = b.conv2d(name, x, 4, 3, padding=1)
    result = shard(b.build(), ("first", "second"), layout=(("out_channels", "t"),), sizes={"t": 4})
    assert [(c.op, c.elements_per_sample) for c in result.forward] == [("all_gather", 256)]
    assert [(c.op, c.elements_per_sample) for c in result.backward] == [("reduce_scatter", 256)]


def experts_layer() -> Layer:
    b = GraphBuilder("moe")
    x = b.input("x", {"seq": 16, "embed": 8})
    b.experts("experts", x, b.router("router", x, 8), ffn=32, active=2)
    return b.build().layers[1]


def test_experts_send_tokens_there_and_back() -> None:
    layer = experts_layer()
    assert active_experts(layer) == 2
    lane, carved = (choose(layer, axis, expert_layout(axis.name)) for axis in (FOUR, CARVED))
    assert [inner.op for inner in (*lane.forward, *lane.backward)] == ["all_to_all"] * 4
    assert (lane.forward[0].factor, carved.forward[0].factor) == (0.5, 2.0)
    assert lane.reads == (0, 0)
    assert carved.reads == (SAMPLE, SAMPLE)
    assert lane.parameters == carved.parameters == (0, 0, 0)
    assert lane.parameter_gradients == (0, 0, 0)


def test_batch_norm_by_height_reduces_two_numbers_a_channel() -> None:
    b = GraphBuilder("norm")
    b.batch_norm("bn", b.input("x", {"channels": 6, "height": 8, "width": 8}))
    result = shard(b.build(), ("bn",), layout=(("height", "d"),), sizes={"d": 4})
    assert [(c.op, c.elements_per_sample) for c in result.forward] == [("all_reduce", 12)]
    assert result.partial_gradients == {"bn.weight", "bn.bias"}


def test_every_rule_is_for_a_kind_and_says_so() -> None:
    assert {"attention", "conv", "embedding", "experts", "loss", "norm", "softmax"} <= set(RULES.names())
    assert all(entry.title for entry in RULES)


@given(st.integers(1, 500), st.integers(1, 64))
def test_the_largest_piece(size: int, parts: int) -> None:
    assert piece(size, parts) * size == pytest.approx(-(-size // parts))
    assert max(1 / parts, 1 / size) <= piece(size, parts) <= 1


def test_share_counts_samples_of_carved_axes() -> None:
    axes = (FOUR, CARVED)
    assert share((0, SAMPLE), (8, 8), axes) == 0.25
    assert share((BROADCAST, BROADCAST), (8, 8), axes) == 4
    assert share((0, 0), (16, 8), axes) == 4 / 16


def test_wrong_dimensions_are_an_error() -> None:
    layer = Layer(name="f", dims=(Dim(name="a", size=4),), reads=(Use(name="x", dims=("a", "a")),))
    graph = LayerGraph(name="g", layers=(layer,), tensors=(Tensor(name="x", shape=(4,)),))
    with pytest.raises(InputError, match="maps 'x'"):
        shard(graph, ("f",))
    with pytest.raises(InputError, match="unknown layer 'h'"):
        shard(LayerGraph(name="g", layers=(Layer(name="f"),)), ("h",))


def test_layout_problems_are_listed_all() -> None:
    graph = LayerGraph(name="g", layers=(matmul(),), tensors=_tensors(), parameters=_parameters())
    layout = (("ffn", "tensor"), ("fnn", "tensor"), ("seq", "context"), ("embed", "replica"))
    problems = layout_problems(graph, layout, {"replica": 2, "tensor": 4})
    assert len(problems) == 3
    assert "'fnn'" in problems[0]
    with pytest.raises(InputError, match="replica"):
        shard(graph, ("up",), layout=layout, sizes={"replica": 2, "tensor": 4})
    with pytest.raises(InputError, match="no device"):
        shard(graph, ("up",), sizes={"tensor": 0})


def _tensors() -> tuple[Tensor, ...]:
    b = GraphBuilder("one")
    b.linear("up", b.input("x", {"seq": 8, "embed": 16}), {"ffn": 32}, bias=True)
    return b.build().tensors


def _parameters() -> tuple[object, ...]:
    b = GraphBuilder("one")
    b.linear("up", b.input("x", {"seq": 8, "embed": 16}), {"ffn": 32}, bias=True)
    return b.build().parameters
