"""Borders: the tensors that cross from one run of layers to another, with their bytes and transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.units import scalar_bytes
from explorer.costs.memory_arrays import graph_arrays
from explorer.graph import LayerGraph
from explorer.pricing.layer_columns import FloatArray
from explorer.tasks.placement import layer_edges
from explorer.tasks.skeleton import IntArray

Tensors = tuple[tuple[int, float], ...]
"""(tensor, share of it that is sent)."""


class Borders(NamedTuple):
    """What crosses every cut of a graph; arrays over the positions of cuts, one more than layers.

    If the run before a cut starts at `first` or earlier and the run behind it stops after `last`, all that
    crosses the cut goes from the one to the other.
    """

    sample_bytes: FloatArray
    """Bytes of one sample of the tensors written before a cut and read behind it, each once and whole."""
    first: IntArray
    """First layer that writes one of them; the cut if there are none."""
    last: IntArray
    """Last layer that reads one of them; the cut less 1 if there are none."""


def borders_of(graph: LayerGraph, precision: str) -> Borders:
    """Return what crosses every cut, made once for a graph and a precision."""
    return graph.memo(f"borders {precision}", lambda: _borders(graph, precision))


def _borders(graph: LayerGraph, precision: str) -> Borders:
    writer, reader, tensor = layer_edges(graph)
    count = len(graph.layers)
    size = graph_arrays(graph).compute * scalar_bytes(precision) + graph_arrays(graph).fixed
    furthest = np.full(len(size), -1, dtype=np.int64)
    np.maximum.at(furthest, tensor, reader)
    made_by = np.zeros(len(size), dtype=np.int64)
    made_by[tensor] = writer
    sent = np.flatnonzero(furthest > made_by)
    change = np.zeros(count + 2)
    np.add.at(change, made_by[sent] + 1, size[sent])
    np.subtract.at(change, furthest[sent] + 1, size[sent])
    first, last = np.arange(count + 1), np.arange(-1, count)
    for a, b in zip(made_by[sent].tolist(), furthest[sent].tolist(), strict=True):
        np.minimum(first[a + 1 : b + 1], a, out=first[a + 1 : b + 1])
        np.maximum(last[a + 1 : b + 1], b, out=last[a + 1 : b + 1])
    return Borders(sample_bytes=np.cumsum(change)[: count + 1], first=first, last=last)


def flow_tensors(graph: LayerGraph, source: tuple[int, int], target: tuple[int, int]) -> Tensors:
    """Return the tensors that a run of layers writes and another reads, in the order of a placement's flows.

    Args:
        graph: the model.
        source: (start, stop) of the writing run.
        target: (start, stop) of the reading run.
    """
    writer, reader, tensor = layer_edges(graph)
    across = (writer >= source[0]) & (writer < source[1]) & (reader >= target[0]) & (reader < target[1])
    return tuple((t, 1.0) for t in dict.fromkeys(tensor[across].tolist()))


def is_chain(graph: LayerGraph, bounds: Sequence[int] | IntArray) -> bool:
    """Tell whether every stage reads of the one before and sends a gradient back, so that a microbatch is
    never in two at once.

    Where a model has branches, neighbours may work side by side: both directions of GNMT's first layer.

    Args:
        graph: the model.
        bounds: stage i has the layers from [i] to before [i + 1].
    """
    return all(linked_stages(graph, bounds))


def linked_stages(graph: LayerGraph, bounds: Sequence[int] | IntArray) -> tuple[bool, ...]:
    """Tell of every stage but the last whether the next one reads of it and sends a gradient back.

    Args:
        graph: the model.
        bounds: stage i has the layers from [i] to before [i + 1].
    """

    def make() -> tuple[IntArray, IntArray]:
        writer, reader, tensor = layer_edges(graph)
        learns = np.array([item.name in graph.needs_gradient for item in graph.tensors], dtype=bool)
        return writer[learns[tensor]], reader[learns[tensor]]

    ends = graph.memo("edges with gradients", make)
    one, other = (np.searchsorted(bounds, end, side="right") for end in ends)
    found = np.zeros(len(bounds) - 1, dtype=bool)
    found[one[other == one + 1] - 1] = True
    return tuple(found[:-1].tolist())
