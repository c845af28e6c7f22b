"""Parameters of a sharded graph as columns: what one device holds of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.graph import LayerGraph
from explorer.sharding.assign import Assignment
from explorer.sharding.layer_plan import Held
from explorer.sharding.result import BoolArray, FloatArray, Holdings, IntArray


class _Uses(NamedTuple):
    """Uses of parameters by layers."""

    parameter: IntArray
    layer: IntArray
    position: IntArray
    """Position among the layer's parameters."""
    shared: tuple[int, ...]
    """Parameters that several uses share (tied weights)."""
    trainable: BoolArray
    """Per parameter."""


def holdings(
    graph: LayerGraph, assigned: Assignment, fewer: FloatArray, members: IntArray | None
) -> Holdings:
    """Return what one device holds of the parameters of some layers.

    Args:
        graph: the model.
        assigned: the plans of all layers.
        fewer: per layer how many times fewer replicas than the stage its group has.
        members: the layers; None for all.
    """
    uses = graph.memo("sharding.uses", lambda: _uses(graph))
    parameter, layer, position = uses.parameter, uses.layer, uses.position
    if members is not None:
        inside = np.zeros(len(graph.layers), dtype=bool)
        inside[members] = True
        mine = inside[layer]
        parameter, layer, position = parameter[mine], layer[mine], position[mine]
    counts = [len(plan.parameters) for plan in assigned.plans]
    first = np.cumsum([0, *counts])
    table = [held for plan in assigned.plans for held in plan.parameters]
    own = first[assigned.of[layer]] + position
    number = np.full(len(graph.parameters), -1, dtype=np.int64)
    number[parameter] = own
    carved = np.ones(len(graph.parameters))
    apart = fewer[layer] != 1.0
    carved[parameter[apart]] = fewer[layer[apart]]
    for p in uses.shared:
        found = own[parameter == p].tolist()
        if len(set(found)) > 1:
            number[p] = len(table)
            table.append(_joined_all([table[n] for n in found]))
    share = np.array([*(held.fraction for held in table), 1.0])
    sums = np.array([*(bool(held.sums) for held in table), False])
    _, starts = np.unique(parameter, return_index=True)
    return Holdings(
        table=tuple(table),
        number=number,
        fraction=share[number],
        carved=carved,
        summed=sums[number] & uses.trainable,
        order=parameter[np.sort(starts)],
    )


def _uses(graph: LayerGraph) -> _Uses:
    index = {item.name: p for p, item in enumerate(graph.parameters)}
    found = [
        (index[use.name], i, k)
        for i, layer in enumerate(graph.layers)
        for k, use in enumerate(layer.parameters)
    ]
    table = np.array(found, dtype=np.int64).reshape(-1, 3)
    numbers, times = np.unique(table[:, 0], return_counts=True)
    trainable = np.array([item.trainable for item in graph.parameters], dtype=bool)
    parameter, layer, position = table.T.copy()
    return _Uses(parameter, layer, position, tuple(numbers[times > 1].tolist()), trainable)


def _joined_all(held: Sequence[Held]) -> Held:
    found = held[0]
    for item in held[1:]:
        found = joined(found, item)
    return found


def joined(one: Held, other: Held) -> Held:
    """Join two layers' holdings of one parameter: split only if both split it, else whole."""
    if one == other:
        return one
    common = tuple(axis for axis in one.axes if axis in other.axes)
    fraction = max(one.fraction, other.fraction) if common else 1.0
    return Held(fraction, common, tuple(dict.fromkeys((*one.sums, *other.sums))))
