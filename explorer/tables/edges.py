"""Edge table: what it costs to bring tensors from one layer's sharding to another's, on one lane.

A tensor is converted once for each state that its readers need, and their gradients are added up before they
are converted; so its cost depends on the plans of all its layers (`EdgeTable.of`). What planners put on the
edge between two neighbours (`EdgeTable.matrix`) is the cost if there were no other reader: exact for chains.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explorer.sharding.result import FloatArray, IntArray
from explorer.sharding.tensor_classes import TensorClass, tensor_classes
from explorer.sharding.tensor_plans import TensorPlan, tensor_plan
from explorer.tables.layer_options import OptionTable
from explorer.tables.layers import LayerTable

TENSORS_KEPT = 200_000
"""Tensors, by class and plans of their layers, that a table remembers: 200 bytes each."""


class Sent(NamedTuple):
    """One collective of a tensor."""

    way: int
    """0 in the forward, 1 in the backward, 2 for gathers that the backward repeats unseen."""
    layer: int
    """Which of the tensor's layers waits for it: 0 the writer, 1 the first reader."""
    seconds: float
    bytes: float
    """Bytes that each device sends."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SentColumns:
    """All collectives that the table knows, number by number."""

    first: IntArray
    """Where those of each number begin; one more at the end."""
    way: IntArray
    layer: IntArray
    """Which of the tensor's layers waits (`Sent.layer`)."""
    seconds: FloatArray
    bytes: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edge:
    """Two neighbours: rows for the options of the writer, columns for those of the reader (`OptionTable`)."""

    seconds: FloatArray
    """(writer's options, reader's options, 2): seconds of forward and backward."""
    bytes: FloatArray
    """The same of the bytes that each device sends; gathers that the backward repeats count as backward."""


class EdgeTable:
    """Costs of tensors between layers on one lane, made when they are first asked for.

    Args:
        layers: the layers and their plans.
    """

    def __init__(self, layers: LayerTable) -> None:
        self.layers, self.options = layers, OptionTable(layers)
        self._known: dict[tuple[int, int | None, tuple[int, ...]], int] = {}
        self._seen: dict[int, tuple[TensorPlan, int]] = {}
        self._numbers: dict[tuple[Sent, ...], int] = {}
        self._sent: list[tuple[Sent, ...]] = []
        self._edges: dict[object, Edge] = {}
        self._columns: SentColumns | None = None

    def neighbours(self) -> tuple[tuple[int, int], ...]:
        """Return every (writer, reader) of a tensor, by position."""
        wires = self.layers.wires
        pairs = {
            (source[0], reader): None
            for source, readers in zip(wires.writer, wires.readers, strict=True)
            if source
            for reader, _ in readers
        }
        return tuple(pairs)

    def of(self, tensor: int, writer: int | None, readers: Sequence[int]) -> int:
        """Return the number of what a tensor sends.

        Args:
            tensor: position of the tensor.
            writer: plan of the layer that writes it; None for an input of the model.
            readers: plans of its readers, in order.
        """
        classes = tensor_classes(self.layers.lane.graph)
        key = (int(classes.of[tensor]), writer, tuple(readers))
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= TENSORS_KEPT:
                self._known.clear()
            kind = classes.classes[key[0]]
            known = self._known[key] = self.number(self._plan(kind, writer, readers))
        return known

    def _plan(self, kind: TensorClass, writer: int | None, readers: Sequence[int]) -> TensorPlan:
        plans, lane = self.layers.plans, self.layers.lane
        own = None if writer is None else plans[writer]
        return tensor_plan(lane.graph, kind, own, [plans[n] for n in readers], lane.axes)

    def number(self, plan: TensorPlan) -> int:
        """Return the number of what a tensor of this plan sends; plans that send the same have one."""
        seen = self._seen.get(id(plan))
        if seen is None:
            if len(self._seen) >= TENSORS_KEPT:
                self._seen.clear()
            seen = self._seen[id(plan)] = (plan, self._make_number(plan))  # alive, and so its identity
        return seen[1]

    def _make_number(self, plan: TensorPlan) -> int:
        sent = tuple(
            [
                Sent(way, layer, *self.layers.kind_cost(kind))
                for way, items in enumerate(plan.ways)
                for layer, kind in items
            ]
        )
        found = self._numbers.setdefault(sent, len(self._sent))
        if found == len(self._sent):
            self._sent.append(sent)
        return found

    def sent(self, number: int) -> tuple[Sent, ...]:
        """Return the collectives of a number."""
        return self._sent[number]

    def columns(self) -> SentColumns:
        """Return the collectives of all numbers as columns."""
        known = self._columns
        if known is None or len(known.first) != len(self._sent) + 1:
            flat = [item for items in self._sent for item in items]
            known = self._columns = SentColumns(
                first=np.cumsum([0, *map(len, self._sent)]),
                way=np.array([item.way for item in flat], dtype=np.int64),
                layer=np.array([item.layer for item in flat], dtype=np.int64),
                seconds=np.array([item.seconds for item in flat]),
                bytes=np.array([item.bytes for item in flat]),
            )
        return known

    def matrix(self, writer: int, reader: int) -> Edge:
        """Return what re-sharding between two neighbours costs under all their options.

        Args:
            writer: position of a layer.
            reader: position of a layer that reads something it writes.
        """
        layers, classes = self.layers, tensor_classes(self.layers.lane.graph)
        wires = layers.wires
        kinds = [
            kind._replace(readers=(kind.readers[k]._replace(same=0),))
            for t in dict.fromkeys(wires.reads[reader])
            if (source := wires.writer[t]) and source[0] == writer
            for kind in [classes.classes[classes.of[t]]]
            for k in [[i for i, _ in wires.readers[t]].index(reader)]
        ]
        key = (*kinds, int(wires.template_of[writer]), int(wires.template_of[reader]))
        if key not in self._edges:
            sources = [layers.first_plan(writer, k) for k in self.options.of(writer).choices.tolist()]
            targets = [layers.first_plan(reader, k) for k in self.options.of(reader).choices.tolist()]
            # few states for many options: what they leave and need of these tensors is all that matters
            rows, row_of = _distinct([self._left(kinds, plan) for plan in sources])
            columns, column_of = _distinct([self._needed(kinds, plan) for plan in targets])
            found = np.array([[self._pair(kinds, sources[a], targets[b]) for b in columns] for a in rows])
            found = found[np.ix_(row_of, column_of)]
            self._edges[key] = Edge(seconds=found[..., 0], bytes=found[..., 1])
        return self._edges[key]

    def _left(self, kinds: Sequence[TensorClass], plan: int) -> tuple[object, ...]:
        found = self.layers.plans[plan]
        return tuple(
            [
                (found.writes[k], found.write_gradients[k], found.write_sizes[k])
                for k in [x.write for x in kinds]
            ]
        )

    def _needed(self, kinds: Sequence[TensorClass], plan: int) -> tuple[object, ...]:
        found = self.layers.plans[plan]
        places = [kind.readers[0].position for kind in kinds]
        return tuple([(found.reads[k], found.read_gradients[k]) for k in places])

    def _pair(self, kinds: Sequence[TensorClass], writer: int, reader: int) -> FloatArray:
        """Return (forward and backward, seconds and bytes) of tensors between two plans."""
        found = np.zeros((2, 2))
        for kind in kinds:
            for item in self.sent(self.number(self._plan(kind, writer, (reader,)))):
                found[min(item.way, 1)] += item.seconds if item.way < 2 else 0.0, item.bytes
        return found


def _distinct(items: Sequence[object]) -> tuple[list[int], list[int]]:
    """Return where each different item comes first, and which of these every item equals."""
    numbers: dict[object, int] = {}
    of = [numbers.setdefault(item, len(numbers)) for item in items]
    return [of.index(n) for n in range(len(numbers))], of
