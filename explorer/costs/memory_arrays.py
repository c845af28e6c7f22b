"""A graph as arrays for adding up memory: the facts that depend on no stage and no sharding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes
from explorer.costs.split_backward import last_readers, puts_off
from explorer.graph import AGAIN, BY_WEIGHT, COMPUTE, KEEP, Layer, LayerGraph, Use

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ATTENTION_CORE = frozenset({"attention", "scores", "softmax", "context"})
"""Kinds of layers whose inner tensors selective recompute drops (Korthikanti et al., section 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """(layer, item) pairs of a graph, in layer order."""

    layer: IntArray
    """Positions of layers."""
    item: IntArray
    """Positions of tensors or parameters, one per layer entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphArrays:
    """Tensors, parameters and the layers that touch them; independent of stages and sharding."""

    compute: FloatArray
    """Per tensor its scalars in the workload's precision."""
    fixed: FloatArray
    """Per tensor its bytes of a fixed type."""
    gradient: BoolArray
    """Per tensor whether it has a gradient."""
    writer: IntArray
    """Per tensor the layer that writes it; -1 for inputs of the model."""
    inner: BoolArray
    """Per tensor whether only the core of an attention writes and saves it."""
    policy: BoolArray | None
    """Per tensor whether a layer states that selective recomputation keeps it; None if no layer does."""
    saves: Pairs
    """Tensors that layers save."""
    saves_for_weights: Pairs
    """Those saved tensors that the weight gradient reads last."""
    puts_off: BoolArray
    """Per layer whether its weight gradient waits for the second half of a split backward."""
    reads: Pairs
    """Tensors that layers read."""
    touches: Pairs
    """Tensors that layers read and write."""
    uses: Pairs
    """Parameters of layers."""
    block: IntArray
    """Per layer its block; -1 if it has none."""
    own_block: IntArray
    """As `block`, but a layer without one is a block of its own."""
    is_loss: BoolArray
    """Per layer whether it is a loss that converts its inputs to fp32. A loss that keeps only tensors without
    gradients (its targets) makes the gradient in the place of its prediction at once."""
    weight: Mapping[str, FloatArray]
    """Per parameter: compute, fixed, density, trainable, states, masters."""


def graph_arrays(graph: LayerGraph) -> GraphArrays:
    """Return the graph as arrays, made once per graph.

    Raises:
        InputError: a layer saves a tensor that does not exist.
    """
    return graph.memo("memory.arrays", lambda: _make_arrays(graph))


def core_layers(graph: LayerGraph) -> BoolArray:
    """Tell which layers selective recomputation recomputes: those that say so (`Layer.selective`), else the
    core of an attention: `ATTENTION_CORE`, and layers that turn scores into scores.
    """
    return graph.memo("made again", lambda: _core_layers(graph))


def _core_layers(graph: LayerGraph) -> BoolArray:
    if any(layer.selective for layer in graph.layers):
        return np.array([layer.selective == AGAIN for layer in graph.layers], dtype=bool)
    return np.array([_is_core(layer) for layer in graph.layers], dtype=bool)


def _is_core(layer: Layer) -> bool:
    def has_scores(uses: Iterable[Use]) -> bool:
        return any("kv_seq" in use.dims and "seq" in use.dims for use in uses)

    return layer.kind in ATTENTION_CORE or (has_scores(layer.reads) and has_scores(layer.writes))


def _make_arrays(graph: LayerGraph) -> GraphArrays:
    tensor = {item.name: i for i, item in enumerate(graph.tensors)}
    parameter = {item.name: i for i, item in enumerate(graph.parameters)}
    blocks = {name: i for i, name in enumerate(dict.fromkeys(x.block for x in graph.layers if x.block))}
    saves = _pairs(((i, name) for i, x in enumerate(graph.layers) for name in x.saves), tensor, graph)
    writer = np.full(len(tensor), -1, dtype=np.int64)
    writes = _pairs(((i, u.name) for i, x in enumerate(graph.layers) for u in x.writes), tensor, graph)
    reads = _pairs(((i, u.name) for i, x in enumerate(graph.layers) for u in x.reads), tensor, graph)
    writer[writes.item] = writes.layer
    block = np.array([blocks.get(x.block, -1) for x in graph.layers], dtype=np.int64)
    core = core_layers(graph)
    inner = (writer >= 0) & core[writer]
    inner[saves.item[~core[saves.layer]]] = False
    elements = np.array([np.prod(item.shape) for item in graph.tensors], dtype=np.float64)
    compute = np.array([item.dtype == COMPUTE for item in graph.tensors], dtype=bool)
    width = np.array([0.0 if x.dtype == COMPUTE else dtype_bytes(x.dtype) for x in graph.tensors])
    return GraphArrays(
        compute=np.where(compute, elements, 0.0),
        fixed=elements * width,
        gradient=np.array([item.name in graph.needs_gradient for item in graph.tensors], dtype=bool),
        writer=writer,
        inner=inner,
        policy=_policy(graph, writer),
        saves=saves,
        saves_for_weights=_pairs(
            (
                (i, name)
                for i, x in enumerate(graph.layers)
                for name, reader in zip(x.saves, last_readers(graph, x), strict=True)
                if reader == BY_WEIGHT
            ),
            tensor,
            graph,
        ),
        puts_off=np.array([puts_off(graph, x) for x in graph.layers], dtype=bool),
        reads=reads,
        touches=Pairs(
            layer=np.concatenate([reads.layer, writes.layer]), item=np.concatenate([reads.item, writes.item])
        ),
        uses=_pairs(
            ((i, u.name) for i, x in enumerate(graph.layers) for u in x.parameters), parameter, graph
        ),
        block=block,
        own_block=np.where(block < 0, len(blocks) + np.arange(len(block)), block),
        is_loss=np.array([_converts(graph, x) for x in graph.layers], dtype=bool),
        weight=_weight_arrays(graph),
    )


def _policy(graph: LayerGraph, writer: IntArray) -> BoolArray | None:
    if not any(layer.selective for layer in graph.layers):
        return None
    keeps = np.array([layer.selective == KEEP for layer in graph.layers], dtype=bool)
    kept: BoolArray = (writer >= 0) & keeps[writer]
    return kept


def _converts(graph: LayerGraph, layer: Layer) -> bool:
    written = {use.name for use in layer.writes}
    keeps = any(name in graph.needs_gradient or name in written for name in layer.saves)
    return layer.kind == "loss" and (keeps or not layer.saves)


def _pairs(named: Iterable[tuple[int, str]], position: Mapping[str, int], graph: LayerGraph) -> Pairs:
    rows = list(dict.fromkeys(named))  # a tensor may be read in two roles
    try:
        item = np.array([position[name] for _, name in rows], dtype=np.int64)
    except KeyError as error:
        raise InputError(
            f"a layer of {graph.name!r} saves unknown tensor {error.args[0]!r}",
            key="saves",
            found=error.args[0],
            allowed="a name in tensors",
        ) from None
    return Pairs(layer=np.array([layer for layer, _ in rows], dtype=np.int64), item=item)


def _weight_arrays(graph: LayerGraph) -> Mapping[str, FloatArray]:
    rows = []
    for item in graph.parameters:
        if item.dtype == COMPUTE:
            size = (item.elements, 0.0, 0.0, 0.0)
        else:
            width = dtype_bytes(item.dtype)
            # A source that knows only bytes is taken to have fp32 weights.
            scalars = item.elements / 4 if item.dtype == "byte" else item.elements
            masters = scalars if width < 4 and item.dtype != "byte" else 0.0
            size = (0.0, item.elements * width, scalars, masters)
        rows.append((*size, item.density, float(item.trainable)))
    table = np.array(rows, dtype=np.float64).reshape(-1, 6)
    names = ("compute", "fixed", "states", "masters", "density", "trainable")
    return {name: table[:, k].copy() for k, name in enumerate(names)}
