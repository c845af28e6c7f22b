"""Work of a graph as arrays: FLOPs, bytes, kernels and products of its distinct layers by direction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.base.units import dtype_bytes
from explorer.graph import COMPUTE, Layer, LayerGraph
from explorer.matrix_products import Contraction, contractions
from explorer.routing import Routing

Array = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

CLASSES: dict[str, str] = {
    "linear": "matmul", "matmul": "matmul", "scores": "matmul", "context": "matmul", "experts": "matmul",
    "recurrent": "matmul", "router": "matmul", "attention": "attention", "conv": "conv",
}  # fmt: skip
"""Efficiency class by kind of layer; all others are `memory`, bound by the bytes they move."""

NAMES = ("matmul", "attention", "conv", "memory")

KERNELS: dict[str, tuple[int, int, int]] = {
    "linear": (5, 5, 5), "scores": (5, 10, 0), "context": (5, 10, 0), "attention": (5, 10, 0),
    "softmax": (4, 4, 0), "dropout": (4, 4, 0), "norm": (3, 3, 3), "embedding": (4, 4, 4),
    "loss": (16, 12, 0), "experts": (30, 30, 15), "router": (15, 15, 4), "recurrent": (2, 2, 1),
}  # fmt: skip
"""Operations that an eager framework issues for a layer: forward, input and weight gradient; else 1 each.

A linear layer of a parallel transformer is a product, views, copies, a bias and the nodes of its graph, so
about five stand for it; convolutions and pointwise functions are single calls of a library.
"""

NO_ROUTES: Array = np.zeros((5, 0))
"""Column of a table without routed layers."""

NARROW_KINDS = ("linear", "experts")
"""Kinds of layers whose products are in fp8 under that precision, if they are inside of a block."""

HALF = 0.5  # half of a causal mask is hidden
BACKWARD_PRODUCTS = 1.25
"""A fused attention recomputes its scores in the backward: five products where two times two are counted
(Dao, FlashAttention-2, 2023, section 4.1)."""

_ROWS_ONLY = ("embedding",)  # reads only rows it looks up, which are activations; so is a sparse gradient


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkTable:
    """Work of some layers as arrays of shape (3, layers): forward, input gradient, weight gradient."""

    flops: Array
    """FLOPs that kernels do for one sample."""
    moved_elements: Array
    """Activation elements moved for one sample."""
    parameter_elements: Array
    """Scalars of parameters in the workload's precision, moved once per call."""
    parameter_bytes: Array
    """Bytes of parameters of fixed types, moved once per call."""
    summed_elements: Array
    """Scalars that separate kernels move to add up weight gradients, once per call
    (`Layer.gradient_passes`).
    """
    kernels: Array
    """Kernels of one call."""
    products: Array
    """Shape (3, layers, 2): products of the forward's kind in each direction: with the sample's rows as rows,
    and with them as depth."""
    sizes: Array
    """Shape (4, layers): batch, rows, columns, depth of the products of one sample; 0 where unknown."""
    shared_by: Array
    """Shape (layers,): products that may be in fp8 and share what they read, this one included; 0 for what is
    no such product (`explorer.costs.narrow_products`)."""
    causal: npt.NDArray[np.bool_]
    """Whether a fused attention skips what its mask hides."""
    trips: Array
    """Calls per sample. The weight gradient of a recurrent cell is one product over all steps, and over all
    samples (as in cuDNN): one call with the work of all."""
    active: npt.NDArray[np.bool_]
    """Directions in which there is work."""
    classes: tuple[IntArray, ...]
    """Columns of each class, in the order of `NAMES`."""
    routing: tuple[Routing | None, ...]
    """How tokens reach the experts of each layer; None where none are routed. () if nowhere."""
    routed: Array
    """Shape (5, layers): of routed layers tokens of a sample, experts of each, experts, their inner width,
    and the width of a token."""

    def taken(self, columns: IntArray) -> WorkTable:
        """Return the table of some columns."""
        of_class = np.empty(self.trips.shape[1], dtype=np.int64)
        for number, members in enumerate(self.classes):
            of_class[members] = number
        routing = tuple([self.routing[i] for i in columns.tolist()]) if self.routing else ()
        routes = any(item is not None for item in routing)
        return WorkTable(
            flops=self.flops[:, columns],
            moved_elements=self.moved_elements[:, columns],
            parameter_elements=self.parameter_elements[:, columns],
            parameter_bytes=self.parameter_bytes[:, columns],
            summed_elements=self.summed_elements[:, columns],
            kernels=self.kernels[:, columns],
            products=self.products[:, columns],
            sizes=self.sizes[:, columns],
            shared_by=self.shared_by[columns],
            causal=self.causal[columns],
            trips=self.trips[:, columns],
            active=self.active[:, columns],
            classes=tuple(np.flatnonzero(of_class[columns] == number) for number in range(len(NAMES))),
            routing=routing if routes else (),
            routed=self.routed[:, columns] if routes else NO_ROUTES,
        )


def work_table(graph: LayerGraph) -> tuple[WorkTable, IntArray]:
    """Return the work of the distinct layers, and which one each layer is: equal layers are costed once."""
    trains = any(item.trainable for item in graph.parameters)
    seen: dict[object, int] = {}
    columns: list[Array] = []
    classes: list[int] = []
    examples: list[Layer] = []
    inverse = np.empty(len(graph.layers), dtype=np.int64)
    for i, (layer, product) in enumerate(zip(graph.layers, contractions(graph), strict=True)):
        column = _column(graph, layer, product, trains=trains)
        signature = (layer.kind, layer.routing and _routed(layer), column.tobytes())
        if signature not in seen:
            seen[signature] = len(columns)
            columns.append(column)
            examples.append(layer)
            classes.append(NAMES.index(CLASSES.get(layer.kind, "memory")))
        inverse[i] = seen[signature]
    return _table(np.stack(columns, axis=-1), np.asarray(classes), examples), inverse


def _table(stacked: Array, of_class: IntArray, examples: Sequence[Layer]) -> WorkTable:
    some = any(layer.routing is not None for layer in examples)
    return WorkTable(
        routing=tuple([layer.routing for layer in examples]) if some else (),
        routed=np.array([_routed(layer)[1:] for layer in examples]).T if some else NO_ROUTES,
        flops=stacked[0],
        moved_elements=stacked[1],
        parameter_elements=stacked[2],
        parameter_bytes=stacked[3],
        summed_elements=stacked[10],
        kernels=stacked[4],
        products=np.stack([stacked[5], stacked[6]], axis=-1),
        sizes=np.stack([stacked[7, 0], stacked[7, 1], stacked[7, 2], stacked[8, 0]]),
        causal=stacked[8, 1] > 0,
        shared_by=stacked[8, 2],
        trips=stacked[9],
        active=(stacked[0] > 0) | (stacked[1] > 0),
        classes=tuple(np.flatnonzero(of_class == number) for number in range(len(NAMES))),
    )


def _column(graph: LayerGraph, layer: Layer, product: Contraction | None, *, trains: bool) -> Array:
    """Return all numbers of one layer, shape (11, 3): rows as `_table` reads them, columns are directions.

    Gradients that nothing needs cost nothing, if the graph trains anything at all: those for inputs upstream
    of every trainable parameter (frozen layers below LoRA), and those for frozen weights.
    """
    used = [graph.parameter[use.name] for use in layer.parameters]
    wants_input = not trains or any(use.name in graph.needs_gradient for use in layer.reads)
    wants_weight = not trains or any(item.trainable for item in used)
    column = np.zeros((11, 3))
    if product is not None:
        column[7], column[8, 0] = product.sizes[:3], product.sizes[3]
    column[8, 1] = layer.causal
    column[8, 2] = _shared_by(graph, layer) if product is not None else 0
    summed = layer.trips if layer.kind == "recurrent" else 1
    column[9] = layer.trips, layer.trips, layer.trips / summed
    kernels = KERNELS.get(layer.kind, (1, 1, 1))
    for d, (item, wanted) in enumerate(
        ((layer.forward, True), (layer.input_grad, wants_input), (layer.weight_grad, wants_weight))
    ):
        if not wanted or not (item.flops or item.moved_elements):
            continue
        steps = summed if d == 2 else 1
        column[0, d] = item.flops * _done(layer, d) * steps
        column[1, d], column[4, d] = item.moved_elements * steps, kernels[d]
        if product is not None:
            here = round(product.products * item.flops / layer.forward.flops)
            column[5:7, d] = _products(product.products, here, d)
        for parameter in used:
            rows_only = layer.kind in _ROWS_ONLY and (d < 2 or parameter.density < 1)
            if rows_only or (d == 2 and not parameter.trainable):
                continue
            touched = parameter.elements * parameter.density
            if parameter.dtype == COMPUTE:
                column[2, d] += touched
                column[10, d] += touched * layer.gradient_passes * (d == 2)
            else:
                column[3, d] += touched * dtype_bytes(parameter.dtype)
    return column


def _routed(layer: Layer) -> tuple[Routing | None, float, float, float, float, float]:
    """Return how a layer's tokens are routed, and its column of `WorkTable.routed`."""
    if layer.routing is None:
        return (None, 0.0, 0.0, 0.0, 0.0, 0.0)
    sizes = {dim.name: dim.size for dim in layer.dims}
    matrices = max(1, sum("ffn" in use.dims and "experts" in use.dims for use in layer.parameters))
    one = 2.0 * matrices * sizes["seq"] * sizes["ffn"] * sizes["embed"]
    chosen = layer.forward.flops / one
    return (layer.routing, sizes["seq"], chosen, sizes["experts"], sizes["ffn"], sizes["embed"])


def _shared_by(graph: LayerGraph, layer: Layer) -> int:
    """Return how many products of blocks that have weights read what a layer reads first; 0 if it is none."""
    readers = graph.memo("costs.narrow readers", lambda: _narrow_readers(graph))
    return readers.get(layer.reads[0].name, 0) if _may_be_narrow(layer) else 0


def _narrow_readers(graph: LayerGraph) -> dict[str, int]:
    return Counter(layer.reads[0].name for layer in graph.layers if _may_be_narrow(layer))


def _may_be_narrow(layer: Layer) -> bool:
    return layer.kind in NARROW_KINDS and bool(layer.block and layer.reads and layer.parameters)


def _done(layer: Layer, direction: int) -> float:
    """Return the FLOPs that a kernel does for each one counted."""
    if layer.kind != "attention":
        return 1.0
    return (HALF if layer.causal else 1.0) * (1.0 if direction == 0 else BACKWARD_PRODUCTS)


def _products(forward: int, here: int, direction: int) -> tuple[int, int]:
    """Count products with the samples' rows as rows, and as depth: a weight gradient sums over them."""
    if direction == 2:
        return 0, here
    return min(here, forward), max(0, here - forward)
