"""Conversions of every tensor of a graph under a layout, once for each class and plans of its layers."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.caching import IdentityCache
from explorer.graph import LayerGraph
from explorer.sharding.assign import Assignment, LayerPlan
from explorer.sharding.result import Kind
from explorer.sharding.states import Axis
from explorer.sharding.tensor_classes import IntArray, TensorClass, TensorClasses, tensor_classes
from explorer.sharding.traffic import Rest, Sent, rest_of, traffic
from explorer.sharding.wiring import Wiring, wiring

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
    wires, kind = wiring(graph), tensors.classes[tensors.of[t]]
    source, readers = wires.writer[t], wires.readers[t]
    own = [plans[i] for i, _ in ((source, *readers) if source else readers)]
    known = graph.memo("sharding.tensor plans", lambda: IdentityCache(PATTERNS_KEPT))
    return known.get(
        (kind, *own), None if own else axes, lambda: _make(wires, plans, axes, t, kind, tensors.savers[t])
    )


def _make(
    wires: Wiring,
    plans: Sequence[LayerPlan],
    axes: tuple[Axis, ...],
    t: int,
    kind: TensorClass,
    savers: Container[int],
) -> TensorPlan:
    rest = rest_of(wires, plans, t, kind.shape, axes)
    sent = traffic(wires, plans, {t: rest}, axes, t, range(len(plans)), savers)
    source = wires.writer[t]
    layers = [source[0] if source else -1, *(i for i, _ in wires.readers[t])]

    def waiting(item: Sent) -> Waiting:
        return layers.index(item.layer), kind_of_step(item, kind, axes)

    forward, backward, regather = (tuple([waiting(item) for item in way]) for way in sent)
    return TensorPlan(rest, (forward, backward, regather))


def kind_of_step(sent: Sent, kind: TensorClass, axes: Sequence[Axis]) -> Kind:
    """Return the collective that makes one conversion of a tensor."""
    axis = axes[sent.step.axis]
    elements = kind.elements * sent.step.buffer
    elements *= axis.stretch if sent.step.op in PASSED_ON else 1.0
    return sent.step.op, axis.name, axis.size, elements, kind.dtype
