"""Temporary memory of a device: gradients under way, gathered tensors, placeholders of gradients.

The backward goes through the layers from the last to the first. At layer i those gradients are alive whose
tensor a layer from i on reads and one up to i writes; tensors that only layers after i saved are freed. The
maximum of alive - freed over the layers is what the backward needs beyond what the forward left.

Transformer Engine and Megatron-Core hold further buffers if products add their weight gradients straight into
a sum of a wider type: autograd is handed an unwritten gradient of the weight's own type instead, one for
each shape, kept from call to call (`get_dummy_wgrad` of Transformer Engine 2, 2025).
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from explorer.base.units import dtype_bytes
from explorer.costs.memory_arrays import BoolArray, FloatArray, GraphArrays, IntArray
from explorer.graph import COMPUTE, LayerGraph
from explorer.sharding.result import Kind, ShardedLayers

PRODUCTS = frozenset({"linear", "matmul", "experts"})
"""Kinds of layers whose weight gradients are added in place."""


class TensorSize(NamedTuple):
    """Scalars in the workload's precision, and bytes of fixed types."""

    compute: float = 0.0
    fixed_bytes: float = 0.0

    def bytes(self, compute_bytes: float) -> float:
        """Return the bytes if a scalar of the workload's precision has `compute_bytes`."""
        return self.compute * compute_bytes + self.fixed_bytes


def largest(
    compute: FloatArray, fixed: FloatArray, share: FloatArray, group: IntArray, item: IntArray
) -> TensorSize:
    """Return the group of items with most bytes (two per scalar of the precision): group[k] has item[k]."""
    if not len(group):
        return TensorSize()
    part = share[item]
    scalars = np.bincount(group, weights=compute[item] * part)
    others = np.bincount(group, weights=fixed[item] * part)
    most = int(np.argmax(2 * scalars + others))
    return TensorSize(float(scalars[most]), float(others[most]))


def largest_layer(arrays: GraphArrays, share: FloatArray, inside: BoolArray) -> TensorSize:
    """Return the inputs and outputs of the layer that has most of them."""
    mine = inside[arrays.touches.layer]
    layer, item = arrays.touches.layer[mine], arrays.touches.item[mine]
    return largest(arrays.compute, arrays.fixed, share, layer, item)


def backward_peak(
    arrays: GraphArrays, held: FloatArray, gradient: FloatArray, inside: BoolArray
) -> TensorSize:
    """Return the gradients alive less saved tensors freed, at the layer where that is most.

    Args:
        arrays: the graph.
        held: per tensor the share that a device holds.
        gradient: as `held`, 0 for tensors without a gradient.
        inside: per layer whether the stage has it.
    """
    place = np.cumsum(inside) - 1
    count = int(place[-1]) + 1
    first, last = _alive(arrays, inside, place, count)
    seen = (gradient > 0) & (last >= 0)
    alive = _between(arrays, gradient, first, last, seen, count)
    freed = _between(arrays, held, *_freed(arrays, inside, place, count), count)
    net = alive - freed
    most = int(np.argmax(2 * net[0] + net[1]))
    return TensorSize(float(net[0, most]), float(net[1, most]))


def _alive(arrays: GraphArrays, inside: BoolArray, place: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Return per tensor the first and last layer at whose backward its gradient is alive; -1 if never."""
    mine = inside[arrays.touches.layer]
    layer, item = place[arrays.touches.layer[mine]], arrays.touches.item[mine]
    first = np.full(len(arrays.compute), count)
    last = np.full(len(arrays.compute), -1)
    np.minimum.at(first, item, layer)
    np.maximum.at(last, item, layer)
    read_outside = arrays.reads.item[~inside[arrays.reads.layer]]
    from_next = read_outside[(arrays.writer[read_outside] >= 0) & inside[arrays.writer[read_outside]]]
    last[from_next] = count - 1
    return first, last


def _freed(
    arrays: GraphArrays, inside: BoolArray, place: IntArray, count: int
) -> tuple[IntArray, IntArray, BoolArray]:
    """Return per saved tensor the layers at whose backward it is gone: those before its first saver."""
    mine = inside[arrays.saves.layer]
    first = np.full(len(arrays.compute), count)
    np.minimum.at(first, arrays.saves.item[mine], place[arrays.saves.layer[mine]])
    return np.zeros_like(first), first - 1, first < count


def _between(
    arrays: GraphArrays, share: FloatArray, first: IntArray, last: IntArray, chosen: BoolArray, count: int
) -> FloatArray:
    """Sum by layer the scalars and fixed bytes of the chosen tensors that live from `first` to `last`."""
    found = np.zeros((2, count + 1))
    for row, size in enumerate((arrays.compute, arrays.fixed)):
        amount = (size * share)[chosen]
        np.add.at(found[row], first[chosen], amount)
        np.subtract.at(found[row], last[chosen] + 1, amount)
    return np.cumsum(found, axis=1)[:, :-1]


def placeholders(graph: LayerGraph, arrays: GraphArrays, part: FloatArray, inside: BoolArray) -> TensorSize:
    """Count trained weights of matrix products: those of equal blocks once, and of a layer's experts one.

    Args:
        graph: the model.
        arrays: the same as arrays.
        part: per parameter the share of it that a device holds.
        inside: per layer whether the stage has it.
    """
    names, sizes = product_sizes(graph, arrays, part)
    mine = inside[arrays.uses.layer] & (names[arrays.uses.item] >= 0)
    item = np.unique(arrays.uses.item[mine])
    item = item[part[item] > 0]
    _, once = np.unique(names[item], return_index=True)
    compute, fixed = sizes[:, item[once]].sum(axis=1)
    return TensorSize(float(compute), float(fixed))


def product_sizes(graph: LayerGraph, arrays: GraphArrays, part: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return per parameter a number common to equal weights of equal blocks, and its placeholder.

    Args:
        graph: the model.
        arrays: the same as arrays.
        part: per parameter the share of it that a device holds.

    Returns:
        The numbers, -1 if it is no weight of a product, and (2, parameters) scalars and fixed bytes.
    """
    names, experts = graph.memo("memory.products", lambda: _products(graph))
    one = np.maximum(1.0, experts * part)  # one of the experts that the device holds
    share = part * arrays.weight["trainable"] / one
    return names, np.stack([arrays.weight["compute"] * share, arrays.weight["fixed"] * share])


def _products(graph: LayerGraph) -> tuple[IntArray, FloatArray]:
    """Return per parameter a number common to equal weights of equal blocks (-1: no product), and experts."""
    position = {item.name: i for i, item in enumerate(graph.parameters)}
    numbers: dict[object, int] = {}
    names = np.full(len(graph.parameters), -1, dtype=np.int64)
    experts = np.ones(len(graph.parameters))
    for layer in graph.layers:
        if layer.kind not in PRODUCTS:
            continue
        for use in layer.parameters:
            parameter = graph.parameters[position[use.name]]
            if len(parameter.shape) < 2:  # a bias
                continue
            key = (re.sub(r"\d+", "", use.name), parameter.shape)
            names[position[use.name]] = numbers.setdefault(key, len(numbers))
            if "experts" in use.dims:
                experts[position[use.name]] = parameter.shape[use.dims.index("experts")]
    return names, experts


def exchanged(graph: LayerGraph, sharded: ShardedLayers, inside: BoolArray) -> TensorSize:
    """Return the largest buffer that a lane gathers, and the largest that it scatters, per sample.

    A gathered tensor lives while its reader works, a sum until its part is kept; all-reduces are in place. A
    ring holds the block at hand and the one that arrives, in the backward with their gradients.
    """
    compute, fixed = exchange_sizes(graph, sharded)[:, :, inside].max(axis=2, initial=0.0).sum(axis=1)
    return TensorSize(float(compute), float(fixed))


def exchange_sizes(graph: LayerGraph, sharded: ShardedLayers) -> FloatArray:
    """Return buffers by layer, shape (2, 2, layers): scalars and fixed bytes; gathers and scatters."""
    sizes: FloatArray = sharded.memo("memory.exchanged", lambda: _exchanges(graph, sharded))
    return sizes


def _exchanges(graph: LayerGraph, sharded: ShardedLayers) -> FloatArray:
    sizes = np.zeros((2, 2, len(graph.layers)))
    rows = {"all_gather": 0, "reduce_scatter": 1, "ring": 0, "ring_gradient": 0}
    blocks = {"ring": 2, "ring_gradient": 4}
    for k, kind in enumerate(sharded.kinds):
        op, _, devices, _, _ = kind
        if op in rows:
            number, amount = _amount(kind)
            part = blocks[op] / devices if op in blocks else 1.0
            for way in sharded.sends:
                waiting = way.layer[way.kind == k]
                np.maximum.at(sizes[number, rows[op]], waiting, amount * part)
    return sizes


def kept_twice(graph: LayerGraph, sharded: ShardedLayers) -> FloatArray:
    """Return shape (2, layers): scalars and bytes of fixed type that a layer saves in a form of its own.

    An all-to-all makes another tensor for its reader. If both its writer and the reader save it (an attention
    writes by heads, and the product behind it reads by sequence), it is kept twice.
    """
    found: FloatArray = sharded.memo("memory.kept twice", lambda: _twice(graph, sharded))
    return found


def _twice(graph: LayerGraph, sharded: ShardedLayers) -> FloatArray:
    sizes = np.zeros((2, len(graph.layers)))
    forward = sharded.sends[0]
    for k, kind in enumerate(sharded.kinds):
        if kind[0] != "all_to_all":
            continue
        number, amount = _amount(kind)
        mine = forward.kind == k
        for layer, tensor in zip(forward.layer[mine].tolist(), forward.tensor[mine].tolist(), strict=True):
            name = graph.tensors[tensor].name if tensor >= 0 else ""
            writer = graph.producer.get(name, "")
            if writer and name in graph.layer[writer].saves and name in graph.layers[layer].saves:
                sizes[number, layer] += amount
    return sizes


def _amount(kind: Kind) -> tuple[int, float]:
    _, _, _, elements, dtype = kind
    if dtype == COMPUTE:
        return 0, elements
    return 1, elements * dtype_bytes(dtype)
