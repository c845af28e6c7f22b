"""Distinct layers and tensors are resolved once, the others by arrays: equal to the walk over every one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.sharding import Override, Uneven, context_layout, megatron_layout, ulysses_layout
from explorer.sharding.stage import GraphSharding, Request
from tests.sharding import walk
from tests.sharding.random_graphs import small_models

DIMS = (
    "heads",
    "kv_heads",
    "ffn",
    "vocab",
    "seq",
    "embed",
    "height",
    "channels_out",
    "channels_in",
    "experts",
    "hidden",
)
MODELS = (
    "gpt2-small", "llama3-8b", "mixtral-8x7b", "deepseek-v2", "t5-large", "resnet50", "inception-v3", "dlrm",
    "gnmt-8", "vit-l16", "unet-3d", "awd-lm",
)  # fmt: skip


def assert_equal(graph: LayerGraph, request: Request, layers: tuple[str, ...] = ()) -> None:
    """The whole graph, or some of its layers, under a request."""
    names = layers or tuple(layer.name for layer in graph.layers)
    found, expected = walk.of(GraphSharding(graph, request).cut(names)), walk.Walk(graph, request).cut(names)
    for field in walk.Result._fields:
        assert getattr(found, field) == getattr(expected, field), field


def _requests() -> Iterator[tuple[str, Request]]:
    four = (("tensor", 4),)
    yield "nothing", Request((), four, ())
    yield "no mesh", Request((), (), ())
    yield "megatron", Request(megatron_layout(), four, ())
    yield "sequence parallel", Request(megatron_layout(sequence_parallel=True), (("tensor", 8),), ())
    yield "ulysses", Request(ulysses_layout(), (("context", 2),), ())
    yield "ring", Request(context_layout(ring=True), (("context", 4),), ())
    every = tuple((dim, "tensor") for dim in DIMS)
    yield "every dimension", Request(every, four, ())
    yield "two axes", Request((*megatron_layout("a"), ("seq", "b")), (("a", 2), ("b", 2)), ())
    yield (
        "columns",
        Request((("channels_out", "a"), ("embed", "a"), ("height", "b")), (("a", 2), ("b", 3)), ()),
    )
    override = Override(layers=("*1*",), layout=(("seq", "tensor"),))
    yield "override", Request(megatron_layout(), four, (override,))
    carved = Override(
        layers=("*.experts*", "*2*"), layout=(("experts", "e"), ("ffn", "e")), sizes=(("e", 4),)
    )
    yield "carved", Request(megatron_layout(), (("tensor", 2),), (carved, override))
    uneven: Uneven = (("tensor", (3.0, 1.0), 0),)
    yield "uneven", Request(megatron_layout(sequence_parallel=True), (("tensor", 2),), (), uneven)


REQUESTS = dict(_requests())


@pytest.mark.parametrize("model", MODELS)
def test_zoo_models_under_every_kind_of_layout(model: str) -> None:
    graph = load_model(model)
    for request in REQUESTS.values():
        assert_equal(graph, request)


@pytest.mark.parametrize("request_name", REQUESTS)
def test_a_part_of_a_model(request_name: str) -> None:
    graph = load_model("gpt2-small")
    names = [layer.name for layer in graph.layers]
    assert_equal(graph, REQUESTS[request_name], tuple(names[5:40]))
    assert_equal(graph, REQUESTS[request_name], (*names[:7], *names[30:33], *names[-9:]))


GRAPHS = {name: load_model(name) for name in ("gpt2-small", "inception-v3", "gnmt-8")}
"""Loaded once, so that what they keep from one example serves the next."""


@st.composite
def requests(draw: st.DrawFn, graph: LayerGraph) -> Request:
    """A layout over one or two axes, and up to three exceptions, some with an axis of their own."""
    dims = sorted({dim.name for layer in graph.layers for dim in layer.dims})
    names = [layer.name for layer in graph.layers]
    sizes = tuple((axis, draw(st.sampled_from([2, 3, 4, 8]))) for axis in draw(st.sampled_from(["a", "ab"])))

    def layout(axes: list[str]) -> tuple[tuple[str, str], ...]:
        pairs = st.tuples(st.sampled_from(dims), st.sampled_from(axes))
        return tuple(draw(st.lists(pairs, max_size=4, unique=True)))

    overrides = []
    for _ in range(draw(st.integers(0, 3))):
        chosen = tuple(draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)))
        own = draw(st.sampled_from([None, (("c", 2),), sizes[:1], (*sizes[:1], ("c", 4))]))
        axes = [axis for axis, _ in (sizes if own is None else own)]
        overrides.append(Override(layers=chosen, layout=layout(axes), sizes=own))
    return Request(layout([axis for axis, _ in sizes]), sizes, tuple(overrides))


@settings(max_examples=40)
@given(st.data(), st.sampled_from(sorted(GRAPHS)))
def test_random_exceptions(data: st.DataObject, model: str) -> None:
    assert_equal(GRAPHS[model], data.draw(requests(GRAPHS[model])))


@settings(max_examples=40)
@given(st.data(), small_models())
def test_random_graphs(data: st.DataObject, graph: LayerGraph) -> None:
    request = data.draw(requests(graph))
    names = [layer.name for layer in graph.layers]
    first = data.draw(st.integers(0, len(names) - 1))
    assert_equal(graph, request, tuple(names[first : data.draw(st.integers(first + 1, len(names)))]))
