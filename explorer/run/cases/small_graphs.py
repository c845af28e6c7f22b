"""Small graphs: a model's graph with fewer blocks, or with smaller sizes of its dimensions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from math import prod

from explorer.graph import Layer, LayerGraph, Parameter, Tensor, Use, Work

Axis = tuple[str, str, int]
"""("tensor" or "parameter", its name, number of one of its axes)."""


def without_blocks(graph: LayerGraph, gone: Collection[str]) -> LayerGraph:
    """Return a graph without some blocks: who read what a block wrote reads what the block read instead.

    A block that passes on what nothing that it read is like stays.
    """
    stands_for: dict[str, str] = {}
    shape = {tensor.name: tensor.shape for tensor in graph.tensors}
    order = {tensor.name: i for i, tensor in enumerate(graph.tensors)}
    kept: list[Layer] = []
    for names in graph.blocks.values():
        layers = [graph.layer[name] for name in names]
        inner = {use.name for layer in layers for use in layer.writes}
        read = {stands_for.get(u.name, u.name) for layer in layers for u in layer.reads} - inner
        passed = [name for name in inner if any(graph.layer[r].block != layers[0].block
                                                for r in graph.consumers.get(name, ()))]  # fmt: skip
        likes = {
            name: max((x for x in read if shape[x] == shape[name]), key=lambda x: order[x], default="")
            for name in passed
        }
        if layers[0].block in gone and all(likes.values()):
            stands_for |= likes
        else:
            kept += layers
    kept.sort(key=lambda layer: graph.index[layer.name])
    return _of(graph, [_reading(layer, stands_for) for layer in kept])


def _reading(layer: Layer, stands_for: Mapping[str, str]) -> Layer:
    if not any(use.name in stands_for for use in layer.reads):
        return layer
    saves = tuple(stands_for.get(name, name) for name in layer.saves)
    reads = tuple(replace(use, name=stands_for.get(use.name, use.name)) for use in layer.reads)
    return replace(layer, reads=reads, saves=saves)


def without_internals(graph: LayerGraph) -> LayerGraph:
    """Return a graph without what layers write for their own backward only."""
    own = {
        use.name
        for layer in graph.layers
        for use in layer.writes
        if use.name not in graph.consumers and not graph.tensor[use.name].backward
    }
    layers = [
        replace(
            layer,
            writes=tuple(use for use in layer.writes if use.name not in own),
            saves=tuple(name for name in layer.saves if name not in own),
            last_read_by=(),
        )
        for layer in graph.layers
    ]
    return _of(graph, layers)


def _of(graph: LayerGraph, layers: list[Layer]) -> LayerGraph:
    tensors = {use.name for layer in layers for use in (*layer.reads, *layer.writes)}
    parameters = {use.name for layer in layers for use in layer.parameters}
    return replace(
        graph,
        layers=tuple(layers),
        tensors=tuple(item for item in graph.tensors if item.name in tensors),
        parameters=tuple(item for item in graph.parameters if item.name in parameters),
    )


def with_sizes(graph: LayerGraph, most: Mapping[str, int]) -> LayerGraph:
    """Return a graph whose dimensions have at most some sizes.

    Axes that a layer iterates by one name have one size, whatever other layers call them: queries and keys by
    position become as short as one another. Work goes with the sizes.
    """
    size_of = _sizes(graph, most)

    def shape(kind: str, item: Tensor | Parameter) -> tuple[float, ...]:
        return tuple(size_of.get((kind, item.name, i), size) for i, size in enumerate(item.shape))

    return replace(
        graph,
        layers=tuple(_resized(layer, size_of) for layer in graph.layers),
        tensors=tuple(replace(item, shape=shape("tensor", item)) for item in graph.tensors),
        parameters=tuple(replace(item, shape=shape("parameter", item)) for item in graph.parameters),
    )


def _axes(layer: Layer) -> list[tuple[str, Axis]]:
    """List a layer's dimensions with the axes that it iterates by them."""
    uses: list[tuple[str, Use]] = [("tensor", use) for use in (*layer.reads, *layer.writes)]
    uses += [("parameter", use) for use in layer.parameters]
    return [(dim, (kind, use.name, i)) for kind, use in uses for i, dim in enumerate(use.dims) if dim]


def _sizes(graph: LayerGraph, most: Mapping[str, int]) -> dict[Axis, float]:
    """Return the new sizes of all axes that become smaller."""
    parent: dict[Axis, Axis] = {}

    def find(axis: Axis) -> Axis:
        while (up := parent.get(axis, axis)) != axis:
            axis = up
        return axis

    names: dict[Axis, set[str]] = defaultdict(set)
    for layer in graph.layers:
        first: dict[str, Axis] = {}
        for dim, axis in _axes(layer):
            root, other = find(first.setdefault(dim, axis)), find(axis)
            if root != other:
                parent[other] = root
            names[axis].add(dim)
    together: dict[Axis, set[str]] = defaultdict(set)
    for axis, dims in names.items():
        together[find(axis)] |= dims
    caps = {
        root: min((most[dim] for dim in dims if dim in most), default=0) for root, dims in together.items()
    }
    return {
        axis: min(size, float(caps[find(axis)]))
        for axis, size in _present(graph).items()
        if axis in names and caps[find(axis)]
    }


def _present(graph: LayerGraph) -> dict[Axis, float]:
    found = {("tensor", t.name, i): size for t in graph.tensors for i, size in enumerate(t.shape)}
    return found | {
        ("parameter", p.name, i): size for p in graph.parameters for i, size in enumerate(p.shape)
    }


def _resized(layer: Layer, size_of: Mapping[Axis, float]) -> Layer:
    now = {dim: size_of[axis] for dim, axis in _axes(layer) if axis in size_of}
    dims = tuple(replace(dim, size=min(dim.size, now.get(dim.name, dim.size))) for dim in layer.dims)
    ratio = prod(a.size / b.size for a, b in zip(dims, layer.dims, strict=True) if b.size)

    def scaled(work: Work) -> Work:
        return Work(flops=work.flops * ratio, moved_elements=work.moved_elements * ratio)

    return replace(
        layer, dims=dims, measured=(), forward=scaled(layer.forward), input_grad=scaled(layer.input_grad),
        weight_grad=scaled(layer.weight_grad),
    )  # fmt: skip
