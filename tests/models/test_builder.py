"""GraphBuilder: what one layer of each kind records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.graph import Layer
from explorer.models import load_model
from explorer.models.builder import GraphBuilder, Value

SIZES = st.integers(1, 64)


def only(b: GraphBuilder) -> Layer:
    return b.build().layers[-1]


def image(b: GraphBuilder, channels: int = 3, height: int = 8, width: int = 8) -> Value:
    return b.input("x", {"channels": channels, "height": height, "width": width})


@given(seq=SIZES, inner=SIZES, outer=SIZES)
def test_linear_costs_2mnk_in_each_product(seq: int, inner: int, outer: int) -> None:
    b = GraphBuilder("g")
    x = b.activation(
        "before", b.linear("a", b.input("x", {"seq": seq, "in": 1}), {"embed": inner}, over=("in",))
    )
    b.linear("b", x, {"ffn": outer}, bias=True)
    layer = only(b)
    assert {w.flops for w in (layer.forward, layer.input_grad, layer.weight_grad)} == {
        2 * seq * inner * outer
    }
    assert layer.forward.moved_elements == seq * (inner + outer)
    assert b.build().parameter["b.weight"].shape == (outer, inner)
    assert b.build().parameter["b.bias"].shape == (outer,)
    assert layer.saves == ("before",)


def test_linear_refuses_one_name_on_both_sides() -> None:
    b = GraphBuilder("g")
    x = b.input("x", {"seq": 2, "embed": 4})
    with pytest.raises(InputError, match="both sides"):
        b.linear("a", x, {"embed": 4})


def test_frozen_weight_keeps_no_input_and_has_no_weight_gradient() -> None:
    b = GraphBuilder("g")
    y = b.linear("first", b.input("x", {"embed": 4}), {"ffn": 8})
    b.linear("second", y, {"embed": 4}, over=("ffn",), trainable=False)
    layer = only(b)
    assert layer.saves == ()
    assert layer.weight_grad.flops == 0
    assert layer.input_grad.flops == 2 * 4 * 8


def test_nothing_is_kept_before_the_first_trainable_weight() -> None:
    b = GraphBuilder("g")
    b.activation("relu", b.input("x", {"embed": 4}), saves="output")
    layer = only(b)
    assert layer.saves == ()
    assert layer.input_grad.moved_elements == 0


def test_sharing_needs_the_same_shape() -> None:
    b = GraphBuilder("g")
    b.embedding("embed", b.input("t", {"seq": 2}, dtype="int64"), {"vocab": 10}, {"embed": 4})
    with pytest.raises(InputError, match="another shape"):
        b.linear("head", b.input("x", {"seq": 2, "embed": 4}), {"vocab": 11}, weight="embed.weight")


@given(
    size=st.integers(4, 40), kernel=st.integers(1, 4), stride=st.integers(1, 3), padding=st.integers(0, 1),
    channels=SIZES,
)  # fmt: skip
def test_convolution_agrees_with_torch(
    size: int, kernel: int, stride: int, padding: int, channels: int
) -> None:
    torch = pytest.importorskip("torch")
    b = GraphBuilder("g")
    y = b.conv2d(
        "c", image(b, 3, size, size + 1), channels, kernel, stride=stride, padding=padding, bias=True
    )
    with torch.device("meta"):
        module = torch.nn.Conv2d(3, channels, kernel, stride, padding)
        assert tuple(module(torch.empty(1, 3, size, size + 1)).shape[1:]) == y.shape
    assert b.build().parameter_count == sum(p.numel() for p in module.parameters())
    assert only(b).forward.flops == 2 * y.elements * 3 * kernel**2


def test_grouped_and_oblong_convolution() -> None:
    b = GraphBuilder("g")
    y = b.conv2d("c", image(b, 6), 12, (1, 3), padding=(0, 1), groups=3)
    assert y.shape == (12, 8, 8)
    assert b.build().parameter["c.weight"].shape == (12, 2, 1, 3)
    assert only(b).forward.flops == 2 * 12 * 64 * 2 * 3


def test_convolution_does_not_split_by_space() -> None:
    b = GraphBuilder("g")
    b.conv2d("c", image(b), 4, 3, stride=2, padding=1)
    assert {dim.name for dim in only(b).dims if dim.splittable} == {"in_channels", "out_channels"}
    assert {dim.name: dim.size for dim in only(b).dims}["height"] == 4


def test_max_pool_keeps_its_indices() -> None:
    b = GraphBuilder("g")
    y = b.max_pool("p", b.conv2d("c", image(b), 4, 1), 3, stride=2, padding=1)
    graph = b.build()
    assert only(b).saves == ("c", "p.indices")
    assert graph.tensor["p.indices"].bytes_per_sample("bf16") == 8 * y.elements


def test_relu_keeps_its_output_and_an_addition_nothing() -> None:
    b = GraphBuilder("g")
    x = b.linear("a", b.input("x", {"embed": 4}), {"ffn": 8})
    y = b.activation("relu", x, saves="output")
    assert only(b).saves == ("relu",)
    b.add("add", x, y)
    assert only(b).saves == ()
    assert only(b).forward.moved_elements == 24


@given(seq=SIZES, groups=st.integers(1, 4), kv=st.integers(1, 4), head=SIZES)
def test_attention_of_grouped_queries(seq: int, groups: int, kv: int, head: int) -> None:
    b = GraphBuilder("g")
    x = b.embedding("e", b.input("t", {"seq": seq}, dtype="int64"), {"vocab": 10}, {"embed": 4})
    q = b.linear("q", x, {"heads": groups * kv, "head": head})
    k, v = (b.linear(name, x, {"kv_heads": kv, "head": head}) for name in "kv")
    y = b.attention("a", q, k, v, heads=groups * kv, head=head)
    layer = only(b)
    assert y.shape == (seq, groups * kv, head)
    assert layer.forward.flops == 4 * seq * seq * groups * kv * head
    assert layer.input_grad.flops == 2 * layer.forward.flops
    assert layer.saves == ("q", "k", "v", "a", "a.statistics")
    assert b.build().tensor["a.statistics"].bytes_per_sample("bf16") == 4 * seq * groups * kv


def test_cross_attention_reads_another_length() -> None:
    b = GraphBuilder("g")
    q = b.input("q", {"seq": 5, "heads": 2, "head": 4})
    k, v = (b.input(name, {"kv_seq": 7, "kv_heads": 2, "head": 4}) for name in "kv")
    b.attention("a", q, k, v, heads=2, head=4)
    assert only(b).forward.flops == 4 * 5 * 7 * 2 * 4


def test_loss_keeps_log_probabilities_in_fp32() -> None:
    b = GraphBuilder("g")
    logits = b.linear("head", b.input("x", {"seq": 3, "embed": 4}), {"vocab": 10})
    b.loss("loss", logits, b.input("targets", {"seq": 3}, dtype="int64"))
    tensor = b.build().tensor
    assert tensor["loss.log_softmax"].bytes_per_sample("bf16") == 3 * 10 * 4
    assert tensor["loss"].shape == ()
    assert {dim.name for dim in only(b).dims if not dim.splittable} == {"vocab"}


def test_blocks_prefix_names_and_end() -> None:
    b = GraphBuilder("g")
    x = b.input("x", {"embed": 4})
    with b.block("layers.0"):
        y = b.linear("up", x, {"ffn": 8})
    b.linear("down", y, {"embed": 4}, over=("ffn",))
    graph = b.build()
    assert [(layer.name, layer.block) for layer in graph.layers] == [
        ("layers.0.up", "layers.0"),
        ("down", ""),
    ]
    assert "layers.0.up.weight" in graph.parameter


def test_repeated_layer_is_refused() -> None:
    b = GraphBuilder("g")
    x = b.input("x", {"embed": 4})
    b.linear("a", x, {"ffn": 8})
    b.linear("a", x, {"ffn": 8})
    with pytest.raises(InputError, match="duplicate name 'a'"):
        b.build()


def test_a_plain_loss_moves_fp32_copies_of_every_prediction() -> None:
    kinds = {"kernel": (2, 2), "plain": (19, 7)}
    for text, (forward, backward) in kinds.items():
        graph = load_model("gpt", sequence_length=16, settings={"layers": "1", "vocab": "100", "loss": text})
        layer = graph.layer["loss"]
        assert layer.forward.moved_elements == forward * 16 * 100
        assert layer.input_grad.moved_elements == backward * 16 * 100
