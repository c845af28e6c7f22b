"""A graph in indices, with its distinct layers: what sharding reads of it under any layout.

Layers with equal kind, dimensions and shapes share a *template*, so the many equal blocks of a model are
resolved only once.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.graph import Layer, LayerGraph
from explorer.sharding.derive import is_linear

IntArray = npt.NDArray[np.int64]

Shapes = tuple[tuple[float, ...], ...]
"""Shapes of several tensors or parameters."""


ELEMENTWISE = ("elementwise", "add")
"""Kinds of layers that may follow their inputs where their layout leaves them replicated."""


class Template(NamedTuple):
    """One representative of equal layers, with the shapes of the tensors and parameters it touches."""

    layer: Layer
    reads: Shapes
    writes: Shapes
    parameters: Shapes


class Follower(NamedTuple):
    """A layer that may adopt the states of its inputs."""

    layer: int
    sources: tuple[tuple[int, int, bool], ...]
    """Per tensor it reads: layer that writes it (-1 if none), position there, whether others read it too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """A graph in indices: everything that does not depend on a layout."""

    templates: tuple[Template, ...]
    """Distinct layers."""
    template_of: IntArray
    """Template of each layer."""
    reads: tuple[tuple[int, ...], ...]
    """Tensors that each layer reads, in the order of its uses."""
    writes: tuple[tuple[int, ...], ...]
    """Tensors that each layer writes."""
    writer: tuple[tuple[int, int] | None, ...]
    """(layer, position among its writes) of each tensor's writer; None for an input of the model."""
    readers: tuple[tuple[tuple[int, int], ...], ...]
    """(layer, position among its reads) of every reader of each tensor, in order."""
    span: tuple[tuple[int, int], ...]
    """First and last layer that touch each tensor; inputs of the model start at -1."""
    needs_gradient: tuple[bool, ...]
    """Whether each tensor's gradient is computed."""
    carries: tuple[bool, ...]
    """Whether each layer sends a gradient to what it reads."""
    followers: tuple[Follower, ...]
    """Elementwise layers, in order."""


def wiring(graph: LayerGraph) -> Wiring:
    """Return the graph in indices, made once per graph."""
    return graph.memo("sharding.wiring", lambda: _wiring(graph))


def _wiring(graph: LayerGraph) -> Wiring:
    position = {tensor.name: i for i, tensor in enumerate(graph.tensors)}
    shape = [tensor.shape for tensor in graph.tensors]
    parameter_shape = {item.name: item.shape for item in graph.parameters}
    templates: list[Template] = []
    known: dict[Hashable, int] = {}
    template_of, reads, writes = [], [], []
    writer: list[tuple[int, int] | None] = [None] * len(shape)
    readers: list[list[tuple[int, int]]] = [[] for _ in shape]
    for i, layer in enumerate(graph.layers):
        read = tuple([position[use.name] for use in layer.reads])
        written = tuple([position[use.name] for use in layer.writes])
        shapes = (
            tuple([shape[t] for t in read]),
            tuple([shape[t] for t in written]),
            tuple([parameter_shape[use.name] for use in layer.parameters]),
        )
        key = _template_key(layer, shapes)
        if (template := known.get(key)) is None:
            template = known[key] = len(templates)
            templates.append(Template(layer, *shapes))
        template_of.append(template)
        reads.append(read)
        writes.append(written)
        for k, t in enumerate(read):
            readers[t].append((i, k))
        for k, t in enumerate(written):
            writer[t] = (i, k)
    needs = tuple([tensor.name in graph.needs_gradient for tensor in graph.tensors])
    return Wiring(
        templates=tuple(templates),
        template_of=np.array(template_of, dtype=np.int64),
        reads=tuple(reads),
        writes=tuple(writes),
        writer=tuple(writer),
        readers=tuple(map(tuple, readers)),
        span=tuple(
            [
                (source[0] if source else -1, max([source[0] if source else -1, *[i for i, _ in found]]))
                for source, found in zip(writer, readers, strict=True)
            ]
        ),
        needs_gradient=needs,
        carries=tuple([not written or any(needs[t] for t in written) for written in writes]),
        followers=tuple(
            [
                Follower(i, tuple([(*(writer[t] or (-1, 0)), len(readers[t]) > 1) for t in reads[i]]))
                for i, layer in enumerate(graph.layers)
                if layer.kind in ELEMENTWISE
            ]
        ),
    )


def _template_key(layer: Layer, shapes: tuple[Shapes, Shapes, Shapes]) -> Hashable:
    # The work counts only if a rule reads it (experts).
    return (
        layer.kind,
        (layer.forward.flops, layer.routing) if layer.kind == "experts" else is_linear(layer),
        tuple([(dim.name, dim.size, dim.splittable) for dim in layer.dims]),
        # the shapes tell how many of these are reads and writes
        tuple([use.dims for use in (*layer.reads, *layer.writes, *layer.parameters)]),
        shapes,
    )
