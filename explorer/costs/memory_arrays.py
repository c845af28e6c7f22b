"""A graph as arrays, for adding up memory: what depends on no stage and no sharding."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.errors import InputError
from explorer.graph import COMPUTE, LayerGraph
from explorer.units import dtype_bytes

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

ATTENTION_CORE = frozenset({"attention", "softmax"})
"""Kinds of layers whose inner tensors selective recompute drops (Korthikanti et al., section 5)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """(layer, item) pairs of a graph, in layer order."""

    layer: IntArray
    """Positions of layers."""
    item: IntArray
    """Positions of tensors or parameters, as many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphArrays:
    """Tensors, parameters and who touches them; nothing of any stage or sharding."""

    compute: FloatArray
    """Per tensor its scalars in the workload's precision."""
    fixed: FloatArray
    """Per tensor its bytes of a fixed type."""
    gradient: BoolArray
    """Per tensor whether it has a gradient."""
    writer: IntArray
    """Per tensor its layer, -1 for inputs of the model."""
    inner: BoolArray
    """Per tensor whether only the core of an attention writes and saves it."""
    saves: Pairs
    """Tensors that layers save."""
    reads: Pairs
    """Tensors that layers read."""
    touches: Pairs
    """Tensors that layers read and write."""
    uses: Pairs
    """Parameters of layers."""
    block: IntArray
    """Per layer its block, -1 for none."""
    own_block: IntArray
    """The same, but a layer without one is a block of its own."""
    is_loss: BoolArray
    """Per layer."""
    weight: Mapping[str, FloatArray]
    """Per parameter: compute, fixed, density, trainable, states, masters."""


def graph_arrays(graph: LayerGraph) -> GraphArrays:
    """The graph as arrays, made once per graph.

    Raises:
        InputError: a layer saves a tensor that does not exist.
    """
    return graph.memo("memory.arrays", lambda: _make_arrays(graph))


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
    core = np.array([x.kind in ATTENTION_CORE for x in graph.layers])
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
        saves=saves,
        reads=reads,
        touches=Pairs(
            layer=np.concatenate([reads.layer, writes.layer]), item=np.concatenate([reads.item, writes.item])
        ),
        uses=_pairs(
            ((i, u.name) for i, x in enumerate(graph.layers) for u in x.parameters), parameter, graph
        ),
        block=block,
        own_block=np.where(block < 0, len(blocks) + np.arange(len(block)), block),
        is_loss=np.array([x.kind == "loss" for x in graph.layers], dtype=bool),
        weight=_weight_arrays(graph),
    )


def _pairs(named: Iterable[tuple[int, str]], position: Mapping[str, int], graph: LayerGraph) -> Pairs:
    rows = list(named)
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
