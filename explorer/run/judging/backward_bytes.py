"""Bytes of one backward on our ranks, layer by layer: what it makes less what it gives back.

The backward goes through a piece's layers from the last to the first. At a layer the gradients of its weights
are there beside those of all later layers (a rank adds them to its sums when all are there), what only later
layers saved is gone, and gradients of activations are under way. Besides a plan's needs, autograd holds

* the result of a reader beside the gradients of other readers, until both are added up;
* the gradient of what an operator makes inside of a layer (the log-softmax of a cross entropy); where that is
  in fp32 and what the layer reads is in bf16, the result, too, is in fp32 until it is cast;
* the gradients that came for a piece's outputs, and those of its inputs, until the backward ends;
* the second gradient of a weight with two readers beside the first, and their sum, too, if the first is a
  product's: a transposed view, to which autograd does not add in place as it does to the gradient of a table.

oneDNN computes convolutions in a layout of its own: it copies what a convolution reads, its weight and the
gradient that comes, and each result is there twice for a moment. Kernels of one place that skip none are
plain products; of `_ROWS` samples on torch hands them over as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from explorer.costs.memory_arrays import BoolArray, FloatArray, GraphArrays, IntArray, graph_arrays
from explorer.costs.memory_counts import late_tensors
from explorer.graph import COMPUTE, Layer, LayerGraph
from explorer.run.judging.piece_shares import PieceShares

_ROWS = 16
"""Samples of a call from which torch gives convolutions of one place to oneDNN."""

_FLOATING = frozenset({COMPUTE, "fp64", "fp32", "fp16", "bf16"})
"""Data types of tensors that have a gradient while a backward goes through a layer."""


@dataclass(frozen=True, kw_only=True)
class PieceLayers:
    """The layers of one piece, and the samples of a microbatch."""

    graph: LayerGraph
    """The model, as its operators run."""
    layers: tuple[int, ...]
    """Positions of the piece's layers, in order."""
    samples: float
    """Samples of a microbatch."""
    element_bytes: float
    """Bytes of a scalar of compute."""
    shares: PieceShares | None = None
    """What a rank has of everything if layers are cut; None if all are whole."""

    @property
    def arrays(self) -> GraphArrays:
        """The graph as arrays."""
        return graph_arrays(self.graph)

    @cached_property
    def sizes(self) -> FloatArray:
        """Bytes of every tensor of the graph for a microbatch, as far as the piece has it."""
        return self.whole_sizes * (self.shares.tensors if self.shares else 1.0)

    @cached_property
    def whole_sizes(self) -> FloatArray:
        """Bytes of every whole tensor of the graph for a microbatch."""
        arrays = self.arrays
        found: FloatArray = self.samples * (self.element_bytes * arrays.compute + arrays.fixed)
        return found

    @cached_property
    def weights(self) -> FloatArray:
        """Bytes of the gradient of every parameter of the graph."""
        table = self.arrays.weight
        found: FloatArray = self.element_bytes * table["compute"] * table["trainable"]
        return found * (self.shares.weights if self.shares else 1.0)

    @cached_property
    def place(self) -> IntArray:
        """Per layer of the graph its place in the piece; -1 elsewhere."""
        found = np.full(len(self.graph.layers), -1, dtype=np.int64)
        found[list(self.layers)] = np.arange(len(self.layers))
        return found

    @cached_property
    def position(self) -> dict[str, int]:
        """Number of every tensor of the graph by its name."""
        return {item.name: i for i, item in enumerate(self.graph.tensors)}

    def arriving(self) -> FloatArray:
        """Return the bytes of every tensor with a gradient that the piece reads of other pieces."""
        arrays, place = self.arrays, self.place
        if self.shares:
            return self.whole_sizes * arrays.gradient * self.shares.arriving
        found = np.zeros(len(arrays.compute))
        read = np.unique(arrays.reads.item[place[arrays.reads.layer] >= 0])
        outside = read[(arrays.writer[read] >= 0) & (place[arrays.writer[read]] < 0)]
        found[outside] = (self.sizes * arrays.gradient)[outside]
        return found

    def unsaved_inputs(self) -> float:
        """Return the bytes of inputs that no layer of the piece saves: autograd holds them as its leaves."""
        arrays, found = self.arrays, self.arriving()
        saved = arrays.saves.item[self.place[arrays.saves.layer] >= 0]
        kept = self.whole_sizes * self.shares.in_parts if self.shares else np.zeros(len(found))
        found[saved] = np.minimum(found, kept)[saved]
        return float(found.sum())

    def remade(self) -> float:
        """Return the bytes that a backward makes again which finds the piece's inputs and nothing else."""
        arrays = self.arrays
        saved = np.unique(arrays.saves.item[self.place[arrays.saves.layer] >= 0])
        return float((self.sizes - np.minimum(self.sizes, self.arriving()))[saved].sum())


def first_half_bytes(piece: PieceLayers) -> float:
    """Return the most bytes that the first half of a split backward makes beyond what it has given back: what
    weight gradients read stays, and so do the gradients from which they start.
    """
    inside = piece.place >= 0
    late = late_tensors(piece.arrays, inside)
    at_layers = _under_way(piece, stay=inside & piece.arrays.puts_off) - _given_back(piece, late)[1:]
    return max(0.0, float(at_layers.max(initial=0.0)))


def backward_bytes(piece: PieceLayers, adding: float = 0.0) -> float:
    """Return the most bytes that a backward makes beyond what it has given back of its activations.

    Args:
        piece: its layers.
        adding: bytes that are there besides while its weight gradients, all made, are added to their sums.
    """
    made, gone = _gathered(piece), _given_back(piece)
    at_layers = made + _under_way(piece) + _copies(piece) - gone[1:]
    at_end = float(made[0] - gone[0] + piece.arriving().sum() + _came(piece).sum())
    return max(0.0, at_end + adding, float(at_layers.max(initial=0.0)))


def _gathered(piece: PieceLayers) -> FloatArray:
    """Return per layer the weight gradients there are when its own have been made."""
    arrays, place = piece.arrays, piece.place
    made = np.zeros(len(piece.layers))
    used = place[arrays.uses.layer] >= 0
    last = np.full(len(piece.graph.parameters), -1)
    np.maximum.at(last, arrays.uses.item[used], place[arrays.uses.layer[used]])
    np.add.at(made, last[last >= 0], piece.weights[last >= 0])
    found: FloatArray = np.cumsum(made[::-1])[::-1]
    return found


def _given_back(piece: PieceLayers, late: BoolArray | None = None) -> FloatArray:
    """Return, per number of first layers that are not passed yet, the saved bytes that are gone.

    `late`: tensors that stay; None for none.
    """
    arrays, place = piece.arrays, piece.place
    count = len(piece.layers)
    saved = place[arrays.saves.layer] >= 0
    first = np.full(len(piece.graph.tensors), count)
    np.minimum.at(first, arrays.saves.item[saved], place[arrays.saves.layer[saved]])
    gone = np.zeros(count + 1)
    goes = first < count if late is None else (first < count) & ~late
    np.add.at(gone, first, np.where(goes, piece.sizes, 0.0))
    found: FloatArray = np.cumsum(gone[::-1])[::-1]
    return found


def _came(piece: PieceLayers) -> FloatArray:
    """Return the bytes of every tensor whose gradient comes from other pieces."""
    arrays, place = piece.arrays, piece.place
    if piece.shares:
        return piece.whole_sizes * arrays.gradient * piece.shares.sent
    found = np.zeros(len(arrays.compute))
    read = np.unique(arrays.reads.item[place[arrays.reads.layer] < 0])
    mine = read[(arrays.writer[read] >= 0) & (place[arrays.writer[read]] >= 0)]
    found[mine] = (piece.sizes * arrays.gradient)[mine]
    return found


def _under_way(piece: PieceLayers, stay: BoolArray | None = None) -> FloatArray:
    """Return per layer the gradients of activations that are there during its backward, results included.

    `stay`: layers of the graph the gradients of whose outputs are kept until the end; None for none.
    """
    arrays, place = piece.arrays, piece.place
    count = len(piece.layers)
    sizes = piece.sizes * arrays.gradient
    first, last = np.full(len(sizes), count), np.full(len(sizes), -1)
    mine = place[arrays.touches.layer] >= 0
    np.minimum.at(first, arrays.touches.item[mine], place[arrays.touches.layer[mine]])
    mine = place[arrays.reads.layer] >= 0
    np.maximum.at(last, arrays.reads.item[mine], place[arrays.reads.layer[mine]])
    if stay is not None:
        written = (arrays.writer >= 0) & stay[arrays.writer]
        first[written & (first < count)] = 0
    came = _came(piece)
    total = np.full(count, came.sum())
    for item in np.flatnonzero((sizes > 0) & (last >= 0)).tolist():
        total[first[item] : last[item] + 1] += sizes[item]
    # another reader's result is there beside what is added up so far
    for layer, item in zip(arrays.reads.layer.tolist(), arrays.reads.item.tolist(), strict=True):
        at = int(place[layer])
        if at >= 0 and sizes[item] and last[item] > at:
            total[at] += sizes[item]
    return total + _inside(piece)


def _inside(piece: PieceLayers) -> FloatArray:
    """Return per layer the largest tensor that it saves and nobody reads: it has a gradient in between; and
    what the result of that is wider than what the layer reads, until it is cast.
    """
    arrays, place, tensors = piece.arrays, piece.place, piece.graph.tensors
    floating = np.array([item.dtype in _FLOATING for item in tensors], dtype=bool)
    hidden = ~arrays.gradient & floating & (arrays.writer >= 0)
    hidden[arrays.reads.item] = False
    computed = arrays.compute * arrays.gradient
    read = set(zip(arrays.reads.layer.tolist(), computed[arrays.reads.item].tolist(), strict=True))
    found = np.zeros(len(piece.layers))
    for layer, item in zip(arrays.saves.layer.tolist(), arrays.saves.item.tolist(), strict=True):
        if hidden[item] and arrays.writer[item] == layer and place[layer] >= 0:
            made, elements = float(piece.sizes[item]), float(prod(tensors[item].shape))
            if (layer, elements) in read:
                made += max(0.0, made - piece.samples * piece.element_bytes * elements)
            found[place[layer]] = max(found[place[layer]], made)
    return found


def _copies(piece: PieceLayers) -> FloatArray:
    """Return per layer what libraries and sums of gradients copy during its backward."""
    found = np.zeros(len(piece.layers))
    size = {item.name: float(piece.weights[i]) for i, item in enumerate(piece.graph.parameters)}
    in_place: dict[str, bool] = {}
    for at in reversed(range(len(piece.layers))):
        layer = piece.graph.layers[piece.layers[at]]
        for name in dict.fromkeys(use.name for use in layer.parameters):
            if name in in_place:
                found[at] += size[name] * (1 if in_place[name] else 2)
            in_place[name] = name in in_place or layer.kind == "embedding"
        if layer.kind == "conv":
            found[at] += _convolution(piece, layer)
    return found


def _convolution(piece: PieceLayers, layer: Layer) -> float:
    """Return the bytes that oneDNN copies in the backward of a convolution, results themselves apart."""
    sizes, arrays, position = piece.sizes, piece.arrays, piece.position
    weights = [piece.graph.parameter[use.name] for use in layer.parameters]
    kernel = max(weights, key=lambda item: item.elements, default=None)
    if kernel is None:
        return 0.0
    read = [position[use.name] for use in layer.reads]
    moving = sum(float(sizes[i]) for i in read if arrays.gradient[i])
    given = sum(float(sizes[position[use.name]]) for use in layer.writes)
    one_place = prod(kernel.shape[2:]) == 1  # a capture leaves axes of one place out
    whole = len(kernel.shape) > 1 and moving * kernel.shape[0] == given * kernel.shape[1]
    if one_place and whole and piece.samples < _ROWS:
        return 0.0
    # its input and the gradient that comes; or its weight's gradient in both layouts
    return max(moving + given, piece.element_bytes * kernel.elements)


__all__ = ["PieceLayers", "backward_bytes", "first_half_bytes"]
