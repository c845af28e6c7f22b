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
from explorer.tables.layers import LayerTable


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
    """The collectives of every plan of a tensor that the table knows, one plan after the other."""

    first: IntArray
    """Where those of each plan begin; one more at the end."""
    way: IntArray
    layer: IntArray
    """Which of the tensor's layers waits (`Sent.layer`)."""
    seconds: FloatArray
    bytes: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Edge:
    """Two neighbours: a row for each option of the writer, a column for each of the reader (`options`)."""

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
        self.layers = layers
        self._numbers: dict[int, int] = {}
        self._plans: list[TensorPlan] = []
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
        """Return the number of a tensor's plan.

        Args:
            tensor: position of the tensor.
            writer: plan of the layer that writes it; None for an input of the model.
            readers: plans of its readers, in order.
        """
        classes = tensor_classes(self.layers.lane.graph)
        return self._number(classes.classes[classes.of[tensor]], writer, readers)

    def _number(self, kind: TensorClass, writer: int | None, readers: Sequence[int]) -> int:
        plans, lane = self.layers.plans, self.layers.lane
        own = None if writer is None else plans[writer]
        return self.number(tensor_plan(lane.graph, kind, own, [plans[n] for n in readers], lane.axes))

    def number(self, plan: TensorPlan) -> int:
        """Return the number of a plan."""
        found = self._numbers.setdefault(id(plan), len(self._plans))
        if found == len(self._plans):
            self._plans.append(plan)
            self._sent.append(
                tuple(
                    Sent(way, layer, *self.layers.kind_cost(kind))
                    for way, items in enumerate(plan.ways)
                    for layer, kind in items
                )
            )
        return found

    def sent(self, number: int) -> tuple[Sent, ...]:
        """Return the collectives of a tensor under a plan."""
        return self._sent[number]

    def columns(self) -> SentColumns:
        """Return the collectives of all plans as columns."""
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
            sources = [layers.first_plan(writer, k) for k in layers.options(writer).choices.tolist()]
            targets = [layers.first_plan(reader, k) for k in layers.options(reader).choices.tolist()]
            found = np.array([[self._pair(kinds, a, b) for b in targets] for a in sources])
            self._edges[key] = Edge(seconds=found[..., 0], bytes=found[..., 1])
        return self._edges[key]

    def _pair(self, kinds: Sequence[TensorClass], writer: int, reader: int) -> FloatArray:
        """Return (forward and backward, seconds and bytes) of tensors between two plans."""
        found = np.zeros((2, 2))
        for kind in kinds:
            for item in self.sent(self._number(kind, writer, (reader,))):
                found[min(item.way, 1)] += item.seconds if item.way < 2 else 0.0, item.bytes
        return found
