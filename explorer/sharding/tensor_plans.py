"""Conversions of every tensor of a graph under a layout, once for each class and plans of its layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.caching import IdentityCache
from explorer.graph import LayerGraph
from explorer.sharding.assign import Assignment
from explorer.sharding.layer_plan import LayerPlan
from explorer.sharding.result import Kind
from explorer.sharding.states import Axis
from explorer.sharding.tensor_classes import IntArray, TensorClass, TensorClasses, tensor_classes
from explorer.sharding.traffic import Rest, Sent, rest_of, traffic
from explorer.sharding.wiring import wiring

PATTERNS_KEPT = 8192
"""Conversions of distinct tensors that a graph remembers."""
PASSED_ON = ("all_gather", "reduce_scatter", "ring", "ring_gradient")
"""Collectives that pass pieces from device to device; each pass takes as long as the largest piece."""
_LARGEST_KEY = 2**62

Waiting = tuple[int, Kind]
"""(which of a tensor's layers waits, collective): 0 is the writer, 1 the first reader."""


class TensorPlan(NamedTuple):
    """One tensor as it rests between its layers, and the collectives that it needs."""

    rest: Rest
    ways: tuple[tuple[Waiting, ...], tuple[Waiting, ...], tuple[Waiting, ...]]
    """Collectives of the forward, of the backward, and gathers that the backward repeats."""


class TensorPlans(NamedTuple):
    """The plans of all tensors of a graph."""

    plans: tuple[TensorPlan, ...]
    """Different plans."""
    of: IntArray
    """Plan of each tensor."""


def plan_tensors(
    graph: LayerGraph, assigned: Assignment, plans: Sequence[LayerPlan], axes: tuple[Axis, ...]
) -> TensorPlans:
    """Plan every tensor of a graph whose layers are all in one place.

    Args:
        graph: the model.
        assigned: the different plans, and which each layer has.
        plans: the plan of each layer.
        axes: the mesh axes.
    """
    tensors = tensor_classes(graph)
    numbers = _patterns(tensors, assigned)
    _, example, plan_of = np.unique(numbers, return_index=True, return_inverse=True)
    return TensorPlans(tuple([_plan(graph, plans, axes, t, tensors) for t in example.tolist()]), plan_of)


def _patterns(tensors: TensorClasses, assigned: Assignment) -> IntArray:
    """Return a number per tensor: equal for equal class and plans of its layers, and only then."""
    count = len(assigned.plans) + 1
    of = np.append(assigned.of + 1, 0)  # a place without a layer is -1
    key, values = tensors.of, len(tensors.classes)
    for column in tensors.layers.T:
        if values * count > _LARGEST_KEY:
            distinct, key = np.unique(key, return_inverse=True)
            values = len(distinct)
        key, values = key * count + of[column], values * count
    if tensors.wide:
        _, key = np.unique(key, return_inverse=True)
        known: dict[object, int] = {}
        for t, layers in tensors.wide:
            own = (int(key[t]), *of[list(layers)].tolist())
            key[t] = len(key) + known.setdefault(own, len(known))
    return key


def _plan(
    graph: LayerGraph, plans: Sequence[LayerPlan], axes: tuple[Axis, ...], t: int, tensors: TensorClasses
) -> TensorPlan:
    wires = wiring(graph)
    source = wires.writer[t]
    writer, readers = plans[source[0]] if source else None, [plans[i] for i, _ in wires.readers[t]]
    return tensor_plan(graph, tensors.classes[tensors.of[t]], writer, readers, axes)


def tensor_plan(
    graph: LayerGraph,
    kind: TensorClass,
    writer: LayerPlan | None,
    readers: Sequence[LayerPlan],
    axes: tuple[Axis, ...],
) -> TensorPlan:
    """Return the plan of a tensor whose layers are all in one place; the graph remembers it.

    Args:
        graph: the model.
        kind: the tensor.
        writer: plan of the layer that writes it; None for an input of the model.
        readers: plans of the layers that read it.
        axes: the mesh axes.
    """
    own = readers if writer is None else (writer, *readers)
    known = graph.memo("sharding.tensor plans", lambda: IdentityCache(PATTERNS_KEPT))
    return known.get((kind, *own), None if own else axes, lambda: _make(kind, writer, readers, axes))


class _Alone(NamedTuple):
    """The wiring of one tensor: its layers are 0, the writer, and 1, 2, ..., the readers."""

    writer: tuple[tuple[int, int] | None]
    readers: tuple[tuple[tuple[int, int], ...]]
    needs_gradient: tuple[bool]
    carries: tuple[bool, ...]


def _make(
    kind: TensorClass, writer: LayerPlan | None, readers: Sequence[LayerPlan], axes: tuple[Axis, ...]
) -> TensorPlan:
    wires = _Alone(
        ((0, kind.write) if writer else None,),
        (tuple((1 + item.same, item.position) for item in kind.readers),),
        (kind.needs_gradient,),
        (True, *(item.carries for item in kind.readers)),
    )
    plans = [writer or readers[0], *readers] if readers else [writer] if writer else []
    rest = rest_of(wires, plans, 0, kind.shape, axes)
    savers = {1 + item.same for item in kind.readers if item.saves}
    sent = traffic(wires, plans, {0: rest}, axes, 0, range(1 + len(readers)), savers)

    def waiting(item: Sent) -> Waiting:
        return item.layer, kind_of_step(item, kind, axes)

    forward, backward, regather = (tuple([waiting(item) for item in way]) for way in sent)
    return TensorPlan(rest, (forward, backward, regather))


def kind_of_step(sent: Sent, kind: TensorClass, axes: Sequence[Axis]) -> Kind:
    """Return the collective that makes one conversion of a tensor."""
    axis = axes[sent.step.axis]
    elements = kind.elements * sent.step.buffer
    elements *= axis.stretch if sent.step.op in PASSED_ON else 1.0
    return sent.step.op, axis.name, axis.size, elements, kind.dtype
