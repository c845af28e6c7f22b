"""LSTM, additive attention, concatenation, windows in three dimensions: what each layer records."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.graph import Layer, LayerGraph
from explorer.models.builder import GraphBuilder, Value
from explorer.sharding import shard
from explorer.sharding.derive import derive
from explorer.sharding.states import Axis

SIZES = st.integers(1, 32)


def volume(b: GraphBuilder, channels: int, *sides: int) -> Value:
    dims = ("height", "width") if len(sides) == 2 else ("depth", "height", "width")
    # A layer before, because nothing flows back into an input.
    image = b.input("x", {"channels": 3, **dict(zip(dims, sides, strict=True))})
    return b.conv2d("before", image, channels, 1)


def lstm(seq: int, embed: int, hidden: int, **settings: int) -> LayerGraph:
    b = GraphBuilder("lstm")
    x = b.linear("first", b.input("x", {"seq": seq, "features": 1}), {"embed": embed}, over=("features",))
    b.lstm("lstm", x, hidden, **settings)
    return b.build()


@given(
    seq=SIZES, embed=SIZES, hidden=st.integers(2, 32), projected=st.booleans(), biases=st.sampled_from([1, 2])
)
def test_lstm_against_torch_and_by_hand(
    seq: int, embed: int, hidden: int, projected: bool, biases: int
) -> None:
    torch = pytest.importorskip("torch")
    projection = hidden // 2 if projected else 0
    graph, state = lstm(seq, embed, hidden, projection=projection, biases=biases), projection or hidden
    with torch.device("meta"):
        module = torch.nn.LSTM(embed, hidden, proj_size=projection)
    theirs = sum(p.numel() for p in module.parameters()) - (2 - biases) * 4 * hidden
    assert graph.parameter_count - embed == theirs
    layer, cell = graph.layers[1:]
    assert (layer.kind, cell.kind, cell.trips) == ("linear", "recurrent", seq)
    assert layer.forward.flops == 2 * seq * 4 * hidden * embed
    assert cell.forward.flops == 2 * (4 * hidden * state + projection * hidden)
    assert cell.forward == cell.input_grad == cell.weight_grad
    assert graph.tensor["lstm.cell"].shape == (seq, state)


def test_what_an_lstm_keeps() -> None:
    """Its input; of every step the gates, the memory and the state; the units where they are projected."""
    for projection, width in ((0, 4 + 1 + 1), (8, 4 + 1 + 1 + 0.5)):
        graph = lstm(10, 8, 16, projection=projection)
        kept = {name for layer in graph.layers[1:] for name in layer.saves}
        assert sum(math.prod(graph.tensor[name].shape) for name in kept) == 10 * (8 + 16 * width)


def test_steps_follow_one_another() -> None:
    cell = lstm(4, 4, 8).layers[2]
    assert derive(cell, ("seq",), Axis(name="t", size=2)) is None
    assert derive(cell, ("gates",), Axis(name="t", size=2)) is None
    assert derive(cell, ("hidden",), Axis(name="t", size=2)) is not None


def test_additive_attention_keeps_all_pairs() -> None:
    b = GraphBuilder("attention")
    x = b.input("x", {"seq": 5, "features": 1})
    q = b.linear("q", x, {"units": 4}, over=("features",))
    y = b.input("y", {"kv_seq": 7, "features": 1})
    k, values = (
        b.linear(name, y, {dim: 4}, over=("features",)) for name, dim in (("k", "units"), ("v", "embed"))
    )
    found = b.additive_attention("a", q, k, values)
    graph = b.build()
    scores, softmax, context = (graph.layer[f"a.{part}"] for part in ("scores", "softmax", "context"))
    assert (found.dims, found.shape) == (("seq", "embed"), (5, 4))
    assert graph.tensor["a.scores.tanh"].shape == (5, 7, 4)
    assert (scores.saves, softmax.saves, context.saves) == (
        ("a.scores.tanh",), ("a.softmax",), ("a.softmax", "v"),
    )  # fmt: skip
    assert scores.forward.flops == scores.weight_grad.flops == 2 * 5 * 7 * 4
    assert context.input_grad.flops == 2 * context.forward.flops == 4 * 5 * 7 * 4
    assert graph.parameter["a.scores.weight"].shape == (4,)


def last(b: GraphBuilder) -> Layer:
    return b.build().layers[-1]


def test_concatenation_adds_sizes_and_keeps_nothing() -> None:
    b = GraphBuilder("concat")
    x = volume(b, 4, 8, 8)
    y = b.concat("concat", x, b.conv2d("other", x, 6, 1), axis="channels")
    assert y.shape == (10, 8, 8)
    assert last(b).saves == ()
    assert last(b).forward.moved_elements == 2 * y.elements
    assert {dim.name for dim in last(b).dims} == {"height", "width"}
    result = shard(b.build(), ("other", "concat"), layout=(("height", "t"),), sizes={"t": 4})
    assert result.work.tolist()[1:] == [0.25, 0.25]
    assert not result.forward


def test_concatenation_takes_the_middle_of_what_is_larger() -> None:
    b = GraphBuilder("crop")
    x = volume(b, 4, 8, 8, 6)
    y = b.concat("concat", b.conv3d("small", x, 2, 3), x, axis="channels")
    assert y.shape == (6, 6, 6, 4)
    assert last(b).dims == ()
    assert last(b).forward.moved_elements == 2 * y.elements


@given(size=st.integers(4, 12), kernel=st.integers(1, 3), stride=st.integers(1, 2), channels=SIZES)
def test_windows_in_three_dimensions(size: int, kernel: int, stride: int, channels: int) -> None:
    torch = pytest.importorskip("torch")
    b = GraphBuilder("volume")
    x = volume(b, 2, size, size + 1, size + 2)
    y = b.conv3d("conv", x, channels, kernel, stride=stride, padding=1, bias=True)
    with torch.device("meta"):
        module = torch.nn.Conv3d(2, channels, kernel, stride, 1)
        assert tuple(module(torch.empty(1, *map(int, x.shape))).shape[1:]) == y.shape
        pooled = torch.nn.MaxPool3d(2)(torch.empty(1, *map(int, x.shape)))
    assert tuple(pooled.shape[1:]) == b.max_pool("pool", x, 2, stride=2).shape
    layer = b.build().layer["conv"]
    assert layer.forward.flops == 2 * y.elements * 2 * kernel**3
    assert {dim.name for dim in layer.dims if dim.splittable} == {"in_channels", "out_channels"}
    assert b.build().parameter_count - 2 * 3 == sum(p.numel() for p in module.parameters())


def test_a_volume_split_by_depth_exchanges_a_halo_and_up_convolutions_none() -> None:
    b = GraphBuilder("volume")
    x = b.conv3d("conv", volume(b, 4, 8, 6, 4), 8, 3, padding=1)
    y = b.up_conv("up", x, 5, 2)
    assert y.shape == (5, 16, 12, 8)
    assert last(b).forward.flops == 2 * x.elements * 5 * 8
    result = shard(b.build(), ("conv", "up"), layout=(("depth", "t"),), sizes={"t": 4})
    assert [(c.op, c.layer, c.elements_per_sample) for c in result.forward] == [("halo", "conv", 4 * 6 * 4)]
    assert [(c.op, c.layer, c.elements_per_sample) for c in result.backward] == [("halo", "conv", 8 * 6 * 4)]


def test_average_pool_keeps_its_input_and_plain_normalisation_has_no_weights() -> None:
    b = GraphBuilder("pool")
    x = volume(b, 4, 8, 8)
    assert b.average_pool("pool", x, 3, stride=1, padding=1).shape == x.shape
    assert last(b).saves == ("before",)
    b.batch_norm("norm", x, affine=False)
    assert last(b).parameters == ()
    assert last(b).weight_grad.moved_elements == 0
    assert last(b).input_grad.moved_elements > 0
