"""Tensors of a graph by class: all that sharding reads of a tensor besides the plans of its layers.

Tensors of one class whose layers have the same plans are split, converted and sent alike. A model of a
hundred equal blocks has some dozen classes, so a layout is worked out once for each (class, plans) and
handed to the tensors by arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.graph import LayerGraph
from explorer.sharding.wiring import Wiring, wiring

IntArray = npt.NDArray[np.int64]

_WIDTH = 8
"""Layers of a tensor that stand in the table; the few tensors with more are looked up one by one."""


class Reader(NamedTuple):
    """How a layer reads a tensor."""

    position: int
    """Position among its reads."""
    carries: bool
    """Whether it sends gradients on."""
    saves: bool
    """Whether it saves the tensor."""
    same: int
    """The first reader that is the same layer: itself, unless a layer reads the tensor twice."""


class TensorClass(NamedTuple):
    """What equal tensors have in common."""

    write: int
    """Position among the writes of the layer that writes it; -1 for an input of the model."""
    readers: tuple[Reader, ...]
    """How layers read it, in order."""
    needs_gradient: bool
    shape: tuple[float, ...]
    dtype: str
    elements: float
    """Elements of one sample."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TensorClasses:
    """The tensors of a graph by class, with the layers of each."""

    classes: tuple[TensorClass, ...]
    """Different classes."""
    of: IntArray
    """Class of each tensor."""
    layers: IntArray
    """(tensors, at most 8): the writer of each tensor, then its readers; -1 where there is none."""
    wide: tuple[tuple[int, tuple[int, ...]], ...]
    """Tensors with more layers than `layers` holds, with all of theirs."""
    place: IntArray
    """Turn of each tensor in the order in which the layers touch them; those nobody touches come last."""
    savers: tuple[frozenset[int], ...]
    """Layers that save each tensor."""

    def layers_of(self, tensors: IntArray, ordinals: IntArray | int) -> IntArray:
        """Return the layer that is the writer (0) or a reader (1, 2, ...) of each of some tensors."""
        if not self.wide:
            found: IntArray = self.layers[tensors, ordinals]
            return found
        rows = dict(self.wide)
        pairs = zip(tensors.tolist(), np.broadcast_to(ordinals, len(tensors)).tolist(), strict=True)
        own = [rows[t][k] if t in rows else int(self.layers[t, k]) for t, k in pairs]
        return np.array(own, dtype=np.int64)


def tensor_classes(graph: LayerGraph) -> TensorClasses:
    """Return the tensors of a graph by class, found once per graph."""
    return graph.memo("sharding.tensor classes", lambda: _classes(graph, wiring(graph)))


def _classes(graph: LayerGraph, wires: Wiring) -> TensorClasses:
    savers = _savers(graph)
    known: dict[TensorClass, int] = {}
    number, rows = [], []
    for t, tensor in enumerate(graph.tensors):
        source, readers = wires.writer[t], wires.readers[t]
        own = [layer for layer, _ in readers]
        found = TensorClass(
            write=source[1] if source else -1,
            readers=tuple([Reader(k, wires.carries[i], i in savers[t], own.index(i)) for i, k in readers]),
            needs_gradient=wires.needs_gradient[t],
            shape=tensor.shape,
            dtype=tensor.dtype,
            elements=math.prod(tensor.shape),
        )
        number.append(known.setdefault(found, len(known)))
        rows.append((source[0] if source else -1, *own))
    return TensorClasses(
        classes=tuple(known),
        of=np.array(number, dtype=np.int64),
        layers=_table(rows),
        wide=tuple((t, row) for t, row in enumerate(rows) if len(row) > _WIDTH),
        place=_places(wires, len(rows)),
        savers=savers,
    )


def _table(rows: Sequence[tuple[int, ...]]) -> IntArray:
    width = min(_WIDTH, max(map(len, rows), default=1))
    table = np.full((len(rows), width), -1, dtype=np.int64)
    for t, row in enumerate(rows):
        table[t, : len(row)] = row[:width]
    return table


def _places(wires: Wiring, count: int) -> IntArray:
    pairs = zip(wires.reads, wires.writes, strict=True)
    order = list(dict.fromkeys([t for reads, writes in pairs for t in (*reads, *writes)]))
    found = np.full(count, len(order), dtype=np.int64)
    found[order] = np.arange(len(order))
    return found


def _savers(graph: LayerGraph) -> tuple[frozenset[int], ...]:
    """Return the layers that save each tensor."""
    position = {tensor.name: i for i, tensor in enumerate(graph.tensors)}
    found: list[set[int]] = [set() for _ in graph.tensors]
    for i, layer in enumerate(graph.layers):
        for name in layer.saves:
            if name in position:
                found[position[name]].add(i)
    return tuple(map(frozenset, found))
