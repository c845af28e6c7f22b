"""Ranges that flows carry where layers are cut, against every place of every tensor counted one by one."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from explorer.graph import Dim, Layer, LayerGraph, Parameter, Tensor, Use
from explorer.strategy import JobStrategy, Mesh, Slice, Stage
from explorer.tasks.placement import place

SIZE = 4
"""Places along either axis of the tensor between the two layers."""


def two_layers(readers: int) -> LayerGraph:
    """A layer whose result, (a, b), some others read."""
    dims = (Dim(name="a", size=SIZE), Dim(name="b", size=SIZE))
    between = Use(name="t", dims=("a", "b"))
    names = ["writer", *(f"reader{i}" for i in range(readers))]
    return LayerGraph(
        name="two",
        layers=tuple(
            Layer(
                name=name, dims=dims, reads=(between,) if i else (Use(name="x"),),
                writes=(Use(name=f"y{i}"),) if i else (between,),
                parameters=(Use(name=f"{name}.weight", dims=("a", "b")),),
            )
            for i, name in enumerate(names)
        ),
        tensors=(
            Tensor(name="x", shape=(1.0,), backward=False), Tensor(name="t", shape=(SIZE, SIZE)),
            *(Tensor(name=f"y{i + 1}", shape=(1.0,)) for i in range(readers)),
        ),
        parameters=tuple(Parameter(name=f"{name}.weight", shape=(SIZE, SIZE)) for name in names),
    )  # fmt: skip


def in_two(layer: str, dim: str, at: int) -> tuple[Slice, Slice]:
    return (
        Slice(layer=layer, dim=dim, start=0.0, stop=at / SIZE),
        Slice(layer=layer, dim=dim, start=at / SIZE, stop=1.0),
    )


cuts = st.tuples(st.sampled_from("ab"), st.integers(1, SIZE - 1))


def places(part: Slice) -> set[tuple[int, int]]:
    """Places of the tensor that a slice touches."""
    low, high = round(part.start * SIZE), round(part.stop * SIZE)
    axis = "ab".index(part.dim)
    return {p for p in product(range(SIZE), repeat=2) if low <= p[axis] < high}


@given(writer=cuts, readers=st.lists(cuts, min_size=1, max_size=3))
def test_a_flow_carries_the_smallest_block_of_what_its_readers_need(
    writer: tuple[str, int], readers: list[tuple[str, int]]
) -> None:
    """Two stages write the halves, two others read what theirs of each reader touches."""
    graph = two_layers(len(readers))
    made = in_two("writer", *writer)
    read = [in_two(f"reader{i}", *cut) for i, cut in enumerate(readers)]
    stages = [Stage(layers=(), slices=(part,), meshes=(Mesh(devices=(s,)),)) for s, part in enumerate(made)]
    for s in range(2):
        slices = tuple(pair[s] for pair in read)
        stages.append(Stage(layers=(), slices=slices, meshes=(Mesh(devices=(2 + s,)),)))
    placement = place(graph, JobStrategy(stages=tuple(stages), schedule="gpipe"))
    found = {}
    flows = zip(placement.skeleton.flows, placement.flow_tensors, placement.flow_ranges, strict=True)
    for flow, tensors, ranges in flows:
        for (_, fraction), part in zip(tensors, ranges, strict=True):
            bounds = {axis: (round(low * SIZE), round(high * SIZE)) for axis, low, high in part}
            carried = {
                p
                for p in product(range(SIZE), repeat=2)
                if all(bounds.get(k, (0, SIZE))[0] <= p[k] < bounds.get(k, (0, SIZE))[1] for k in range(2))
            }
            assert fraction == len(carried) / SIZE**2
            for target in flow.targets:
                found[flow.source, target] = carried
    for source, target in product(range(2), range(2, 4)):
        needed = set().union(*(places(pair[target - 2]) & places(made[source]) for pair in read))
        rows, columns = ({p[k] for p in needed} for k in range(2))
        block = set(product(span(rows), span(columns)))
        assert found.get((source, target), set()) == block


def span(places: set[int]) -> range:
    """All places from the first of some to the last."""
    return range(min(places), max(places) + 1) if places else range(0)


def test_whole_layers_have_no_ranges() -> None:
    graph = two_layers(1)
    stages = tuple(
        Stage(layers=(name,), meshes=(Mesh(devices=(s,)),)) for s, name in enumerate(("writer", "reader0"))
    )
    assert place(graph, JobStrategy(stages=stages, schedule="gpipe")).flow_ranges == ()


def test_a_scalar_parameter_is_whole_in_every_part() -> None:
    """Its dimensions are none, as are those of a parameter of which they are unknown, which counts as cut."""
    graph = two_layers(1)
    for shape, whole in (((), (2,)), ((SIZE,), ())):
        scale = Parameter(name="scale", shape=shape)
        writer, reader = graph.layers
        more = LayerGraph(
            name="three", layers=(replaced(writer), reader), tensors=graph.tensors,
            parameters=(*graph.parameters, scale),
        )  # fmt: skip
        first, second = in_two("writer", "a", 2)
        stages = (
            Stage(layers=(), slices=(first,), meshes=(Mesh(devices=(0,)),)),
            Stage(layers=("reader0",), slices=(second,), meshes=(Mesh(devices=(1,)),)),
        )
        assert place(more, JobStrategy(stages=stages, schedule="gpipe")).whole == (whole, whole)


def replaced(layer: Layer) -> Layer:
    """A layer with one more parameter, of no dimension."""
    return Layer(
        name=layer.name, dims=layer.dims, reads=layer.reads, writes=layer.writes,
        parameters=(*layer.parameters, Use(name="scale")),
    )  # fmt: skip
