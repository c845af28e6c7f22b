"""Counts behind memory: how many scalars of some layers a device holds, before precisions.

Facts that depend only on the graph are one set of arrays per graph; those that depend on a stage and its
sharding are one `Counts`. `explorer.costs.memory` turns counts into bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.costs.keeping import Recompute
from explorer.costs.memory_arrays import BoolArray, FloatArray, GraphArrays, IntArray, graph_arrays
from explorer.costs.memory_peaks import (
    TensorSize,
    backward_peak,
    exchanged,
    kept_twice,
    largest,
    largest_layer,
    placeholders,
)
from explorer.graph import LayerGraph
from explorer.sharding.result import ShardedLayers


class Weights(NamedTuple):
    """Parameters of a stage that have equally many replicas."""

    carved: float
    """Factor by which they have fewer replicas than the stage; below 1 if they have more."""
    trained: TensorSize
    frozen: TensorSize
    touched: TensorSize
    """Trained ones, weighted by the share of them that a step touches (sparse tables)."""
    fixed_states: float
    """Scalars of fixed type that have optimizer states."""
    fixed_masters: float
    """Those of `fixed_states` narrower than fp32, which need a master copy."""
    updated: float
    """Scalars of any type that one update changes: trained ones times the share that a step touches."""

    def replicas(self, replicas: int) -> float:
        """Return the number of devices with the same shard if the stage has so many replicas, for ZeRO."""
        return max(1.0, replicas / self.carved)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Scalars that one device holds for some layers."""

    weights: tuple[Weights, ...]
    """Parameters by number of replicas."""
    held: FloatArray
    """Per parameter of the graph: the share of it that the device holds; 0 for those of other layers."""
    largest_block: TensorSize
    """Trained parameters of the block that has the most."""
    largest_gathered: TensorSize
    """Parameters, frozen ones included, of the block that has the most."""
    saved: Mapping[Recompute, TensorSize]
    """By recompute choice: tensors kept from forward to backward, per sample."""
    again: Mapping[Recompute, TensorSize]
    """By recompute choice: tensors of the largest block recomputed for the backward, per sample."""
    again_for_inputs: Mapping[Recompute, TensorSize]
    """As `again`, without tensors that a weight gradient reads."""
    again_in_turn: Mapping[Recompute, TensorSize] = field(default_factory=dict)
    """As `again`, less what a whole backward has freed of later blocks by then; of choices that differ
    between layers; all others are `again`."""
    waiting: TensorSize
    """Kept from the input gradient to the weight gradient if a backward is split: saved (or recomputed)
    tensors that the latter reads, and gradients of the tensors that its layers write, per sample."""
    working: Mapping[Recompute, TensorSize]
    """By recompute choice, training: gradients alive at the worst point of the backward, less the tensors
    freed by then, per sample."""
    placeholders: TensorSize
    """Weights of matrix products; those of equal blocks count once, and of their experts one."""
    exchanged: TensorSize
    """Largest buffer gathered from the lane and largest one scattered over it, per sample."""
    passing: TensorSize
    """Inference: inputs and outputs of the largest layer, per sample."""
    border: TensorSize
    """Tensors sent on and gradients sent back, per sample."""
    logits: float
    """Scalars that a loss reads and converts to fp32, per sample."""
    whole: Mapping[Recompute, TensorSize] = field(default_factory=dict)
    """By recompute choice: what is recomputed if all is at once; without an entry what is saved less kept."""


@remembered(STAGES_KEPT)
def counts(
    graph: LayerGraph,
    layers: tuple[str, ...],
    sharded: ShardedLayers,
    fractions: tuple[tuple[str, float], ...],
    whole: tuple[int, ...],
) -> Counts:
    """Count what one device holds for some layers: the one answer that memory, updates and collectives read.

    Args:
        graph: the model.
        layers: names of the layers of one stage, all of them known to `sharded`.
        sharded: their sharding (of these layers or of more).
        fractions: layers of which only this share is here; others are whole.
        whole: parameters of cut layers that are nevertheless whole here.
    """
    arrays, index = graph_arrays(graph), graph.index
    scale = np.zeros(len(graph.layers))
    scale[[index[name] for name in layers]] = 1.0
    for name, fraction in fractions:
        scale[index[name]] = fraction
    inside = scale > 0
    held = held_tensors(arrays, sharded, scale)
    twice = TensorSize(*kept_twice(graph, sharded)[:, inside].sum(axis=1).tolist())
    late = late_tensors(arrays, inside)
    saved, again, again_for_inputs = _saved(arrays, held, inside, twice, late)
    gradient = held * arrays.gradient
    loss = inside & arrays.is_loss
    reads_loss = arrays.reads.item[loss[arrays.reads.layer]]
    part = _held_parameters(graph, arrays, sharded, scale, whole)
    largest_block, largest_gathered = _largest_blocks(arrays, part, inside)
    return Counts(
        weights=_weights(arrays, sharded, part),
        held=part,
        largest_block=largest_block,
        largest_gathered=largest_gathered,
        saved=saved,
        again=again,
        again_for_inputs=again_for_inputs,
        waiting=_waiting(graph, arrays, sharded, gradient, held * late, inside),
        working=_working(arrays, held, gradient, inside),
        placeholders=placeholders(graph, arrays, part, inside),
        exchanged=exchanged(graph, sharded, inside),
        passing=largest_layer(arrays, held, inside),
        border=_border(arrays, gradient, held, inside),
        logits=float((held * arrays.compute)[np.unique(reads_loss)].sum()),
    )


def held_tensors(arrays: GraphArrays, sharded: ShardedLayers, scale: FloatArray) -> FloatArray:
    """Return for each tensor the share that a device holds, if a layer of the stage touches it."""
    part = np.zeros(len(arrays.compute))
    for pairs in (arrays.saves, arrays.touches):
        np.maximum.at(part, pairs.item, scale[pairs.layer])
    return part * sharded.tensor_share


def _size(arrays: GraphArrays, share: FloatArray) -> TensorSize:
    return TensorSize(float(arrays.compute @ share), float(arrays.fixed @ share))


def _saved(
    arrays: GraphArrays, held: FloatArray, inside: BoolArray, twice: TensorSize, late: BoolArray
) -> tuple[dict[Recompute, TensorSize], dict[Recompute, TensorSize], dict[Recompute, TensorSize]]:
    """Return by recompute choice what is kept, what is recomputed, and the latter without `late` tensors."""
    mine = inside[arrays.saves.layer]
    layer, item = arrays.saves.layer[mine], arrays.saves.item[mine]
    block = recomputed_together(arrays, inside)
    sizes = kept_tensors(arrays, inside)
    within = block[layer] >= 0
    blocks = _distinct(block[layer][within], item[within], len(held))
    dropped = {"selective": (~sizes["selective"], blocks), "full": (~sizes["full"], blocks)}
    if arrays.policy is None:
        cores = _distinct(arrays.own_block[layer], item, len(held))
        dropped["selective"] = (arrays.inner, cores)
    again: dict[Recompute, TensorSize] = {"none": TensorSize()}
    for_inputs = dict(again)
    for name, (mask, pairs) in dropped.items():
        again[name] = largest(arrays.compute, arrays.fixed, held * mask, *pairs)
        for_inputs[name] = largest(arrays.compute, arrays.fixed, held * (mask & ~late), *pairs)
    saved: dict[Recompute, TensorSize] = {
        name: _joined(_size(arrays, held * mask), TensorSize() if name == "full" else twice)
        for name, mask in sizes.items()
    }
    return saved, again, for_inputs


def kept_tensors(arrays: GraphArrays, inside: BoolArray) -> dict[str, BoolArray]:
    """Tell by recompute choice which tensors some layers keep from forward to backward."""
    mine = inside[arrays.saves.layer]
    layer, item = arrays.saves.layer[mine], arrays.saves.item[mine]
    block = recomputed_together(arrays, inside)
    kept, inputs = (np.zeros(len(arrays.compute), dtype=bool) for _ in range(2))
    kept[item] = True
    inputs[item[block[layer] < 0]] = True
    inputs[_block_inputs(arrays, inside, block)] = True
    lean = kept & ~arrays.inner if arrays.policy is None else inputs | arrays.policy
    return {"none": kept, "selective": lean, "full": inputs}


def recomputed_together(arrays: GraphArrays, inside: BoolArray) -> IntArray:
    """Return the blocks of layers; a stage without blocks is recomputed as a whole (GPipe)."""
    return arrays.block if (arrays.block[inside] >= 0).any() else np.zeros_like(arrays.block)


def late_tensors(arrays: GraphArrays, inside: BoolArray) -> BoolArray:
    """Tell for each tensor whether a weight gradient of the stage is the last to read its saved value."""
    late = np.zeros(len(arrays.compute), dtype=bool)
    late[arrays.saves_for_weights.item[inside[arrays.saves_for_weights.layer]]] = True
    return late


def _waiting(
    graph: LayerGraph,
    arrays: GraphArrays,
    sharded: ShardedLayers,
    gradient: FloatArray,
    saved: FloatArray,
    inside: BoolArray,
) -> TensorSize:
    """Count what lies between the halves of a split backward: see `explorer.costs.split_backward`."""
    off = inside & arrays.puts_off
    found = arrays.writer >= 0
    found[found] = off[arrays.writer[found]]
    readers = np.zeros_like(inside)
    readers[arrays.saves_for_weights.layer] = True
    twice = TensorSize(*kept_twice(graph, sharded)[:, inside & readers].sum(axis=1).tolist())
    return _joined(_size(arrays, saved + gradient * found), twice)


def _joined(one: TensorSize, other: TensorSize) -> TensorSize:
    return TensorSize(one.compute + other.compute, one.fixed_bytes + other.fixed_bytes)


def _working(
    arrays: GraphArrays, held: FloatArray, gradient: FloatArray, inside: BoolArray
) -> dict[Recompute, TensorSize]:
    """Count gradients under way; in recomputed blocks nothing counts as free when a gradient is needed."""
    most = largest_layer(arrays, gradient, inside)
    return {"none": backward_peak(arrays, held, gradient, inside), "selective": most, "full": most}


def _distinct(group: IntArray, item: IntArray, items: int) -> tuple[IntArray, IntArray]:
    """Return (group, item) pairs, each once."""
    pairs = np.unique(group * items + item)
    return pairs // items, pairs % items


def _block_inputs(arrays: GraphArrays, inside: BoolArray, block: IntArray) -> IntArray:
    """Return the tensors that a block reads and did not make here itself."""
    layer, item = arrays.reads.layer, arrays.reads.item
    writer = arrays.writer[item]
    here = (writer >= 0) & inside[writer] & (block[writer] == block[layer])
    found: IntArray = item[inside[layer] & (block[layer] >= 0) & ~here]
    return found


def _border(arrays: GraphArrays, gradient: FloatArray, held: FloatArray, inside: BoolArray) -> TensorSize:
    layer, item = arrays.reads.layer, arrays.reads.item
    writer = arrays.writer[item]
    made_here = (writer >= 0) & inside[writer]
    read_here = inside[layer]
    sent = np.zeros(len(held))
    sent[item[made_here & ~read_here]] = held[item[made_here & ~read_here]]
    back = item[read_here & ~made_here & (writer >= 0)]
    sent[back] = gradient[back]
    return _size(arrays, sent)


def _held_parameters(
    graph: LayerGraph, arrays: GraphArrays, sharded: ShardedLayers, scale: FloatArray, whole: tuple[int, ...]
) -> FloatArray:
    """Return for each parameter the share that a device holds."""
    part = np.zeros(len(graph.parameters))
    np.maximum.at(part, arrays.uses.item, scale[arrays.uses.layer])
    part[list(whole)] = 1.0
    return part * sharded.holdings.fraction


def _weights(arrays: GraphArrays, sharded: ShardedLayers, part: FloatArray) -> tuple[Weights, ...]:
    table = arrays.weight
    carved = carved_of(sharded)
    scalars = table["compute"] + table["states"]
    found = []
    for fewer in np.unique(carved[part > 0]).tolist() or [1.0]:
        here = part * (carved == fewer)
        trained = here * table["trainable"]

        def size(share: FloatArray) -> TensorSize:
            return TensorSize(float(table["compute"] @ share), float(table["fixed"] @ share))

        found.append(
            Weights(
                carved=fewer,
                trained=size(trained),
                frozen=size(here - trained),
                touched=size(trained * table["density"]),
                fixed_states=float(table["states"] @ trained),
                fixed_masters=float(table["masters"] @ trained),
                updated=float(scalars @ (trained * table["density"])),
            )
        )
    return tuple(found)


def carved_of(sharded: ShardedLayers) -> FloatArray:
    """Return for each parameter how many times fewer replicas it has than its stage; below 1 if more."""
    found: FloatArray = sharded.memo("carved", lambda: _carved(sharded))
    return found


def _carved(sharded: ShardedLayers) -> FloatArray:
    spread, held = set(spread_axes(sharded)), sharded.holdings
    more = [math.prod(size for axis, size in item.sums if axis in spread) for item in held.table]
    return held.carved / np.where(held.summed, np.array([*more, 1.0])[held.number], 1.0)


def spread_axes(sharded: ShardedLayers) -> tuple[str, ...]:
    """Return the mesh axes inside the replicas that split no parameter (context parallelism).

    Devices along them hold equal weights, as replicas do, so ZeRO divides over them as well.
    """

    def make() -> tuple[str, ...]:
        held = sharded.holdings
        split = {axis for number in np.unique(held.number[held.order]) for axis in held.table[number].axes}
        summed = held.number[held.order[held.summed[held.order]]]
        numbers, first = np.unique(summed, return_index=True)
        sums = [held.table[number].sums for number in numbers[np.argsort(first)]]
        return tuple(dict.fromkeys(axis for item in sums for axis, _ in item if axis not in split))

    found: tuple[str, ...] = sharded.memo("spread axes", make)
    return found


def _largest_blocks(
    arrays: GraphArrays, part: FloatArray, inside: BoolArray
) -> tuple[TensorSize, TensorSize]:
    """Return the trained, and all, parameters of the block that has the most of them."""
    table = arrays.weight
    mine = inside[arrays.uses.layer]
    block = arrays.block[arrays.uses.layer[mine]]
    block = np.where(block < 0, arrays.block.max(initial=-1) + 1 + arrays.uses.layer[mine], block)
    pairs = _distinct(block, arrays.uses.item[mine], len(part))
    return (
        largest(table["compute"], table["fixed"], part * table["trainable"], *pairs),
        largest(table["compute"], table["fixed"], part, *pairs),
    )
