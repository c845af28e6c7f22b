"""Seconds of compute: measured where somebody measured, else physics by shape, over all layers at once.

Physics of one layer in one direction on one device, for the work of one call (a *trip*):

    seconds = max(flops / (peak x efficiency(flops)), moved / (bandwidth x efficiency(moved))) + launch

where moved = activation elements x their bytes + the parameters once (Williams, Waterman, Patterson:
Roofline, 2009). Efficiency is the device kind's curve for the class of operation; matrix-like kinds run at
the workload's precision, all others on the vector units. A curve may rise so steeply that more work would
take less time; then the time of the smaller work is kept, so that more work never is faster.

A source's measured seconds go before physics. The arrays made here are read-only and shared.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from explorer.cluster import Curve, DeviceKind
from explorer.costs.measured import Array, measured_rows
from explorer.errors import InputError
from explorer.graph import COMPUTE, Layer, LayerGraph
from explorer.units import dtype_bytes
from explorer.workload import OPTIMIZERS

CLASSES: dict[str, str] = {
    "linear": "matmul", "matmul": "matmul", "experts": "matmul", "recurrent": "matmul", "router": "matmul",
    "attention": "attention", "conv": "conv",
}  # fmt: skip
"""Efficiency class of each kind of layer; all others are `memory`, bound by what they move."""

_NAMES = ("matmul", "attention", "conv", "memory")
_ROWS_ONLY = ("embedding",)  # forward reads the rows it looks up, which are activations, not the whole table
_MAX_RESULTS = 2048  # results remembered per graph


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Work of some layers as arrays of shape (3, layers): forward, input gradient, weight gradient."""

    flops: Array
    moved_elements: Array
    parameter_elements: Array
    parameter_bytes: Array
    trips: Array
    active: NDArray[np.bool_]
    classes: tuple[NDArray[np.int64], ...]
    """Columns of each class of `_NAMES`."""

    def taken(self, columns: NDArray[np.int64]) -> _Table:
        """The table of other columns."""
        of_class = np.empty(self.trips.shape[0], dtype=np.int64)
        for number, members in enumerate(self.classes):
            of_class[members] = number
        return _Table(
            flops=self.flops[:, columns],
            moved_elements=self.moved_elements[:, columns],
            parameter_elements=self.parameter_elements[:, columns],
            parameter_bytes=self.parameter_bytes[:, columns],
            trips=self.trips[columns],
            active=self.active[:, columns],
            classes=tuple(np.flatnonzero(of_class[columns] == number) for number in range(len(_NAMES))),
        )


def layer_times(
    graph: LayerGraph,
    kind: DeviceKind,
    *,
    samples: float,
    precision: str,
    work: Array | None = None,
    tensor_degree: int = 1,
) -> Array:
    """Seconds of every layer on one device, shape (3, layers): forward, input gradient, weight gradient.

    Args:
        graph: the layers.
        kind: the device.
        samples: samples of one call, a fraction allowed.
        precision: compute precision of the workload.
        work: shape (layers,): the fraction of each layer's work and parameters that this device has;
            None is all of everything. A read-only array is recognised by identity, which is fastest.
        tensor_degree: tensor-parallel size, to find measured seconds by; those of degree 1 are multiplied
            by `work`, those of this degree are taken as they are.

    Raises:
        InputError: samples below 0, an unknown precision, a `work` of the wrong shape, or a layer that was
            measured on other device kinds only and says nothing of its work.
    """
    results: dict[object, tuple[DeviceKind, Array | None, Array]] = graph.memo("costs.layer_times", dict)
    key = (id(kind), samples, precision, tensor_degree, _identity(work))
    found = results.get(key)
    if found is not None:
        return found[2]
    times = _layer_times(graph, kind, samples, precision, work, tensor_degree)
    times.flags.writeable = False
    if len(results) >= _MAX_RESULTS:
        del results[next(iter(results))]
    results[key] = (kind, work, times)  # holds kind and work, so that their identities stay theirs
    return times


def update_seconds(kind: DeviceKind, *, elements: float, optimizer: str, precision: str) -> float:
    """Seconds of one optimizer step over `elements` trainable scalars: bound by the memory they move.

    Raises:
        InputError: an unknown optimizer or precision.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(
            f"unknown optimizer {optimizer!r}",
            key="optimizer",
            found=optimizer,
            allowed=", ".join(OPTIMIZERS),
        )
    wide = max(1.0, dtype_bytes(precision) / 4)
    moved = elements * OPTIMIZERS[optimizer].moved_bytes * wide
    if moved <= 0:
        return 0.0
    size = np.asarray([moved])
    effective = float(_effective(_curve(kind, "memory"), size)[0])
    return effective / kind.memory_bandwidth_bytes_per_s + kind.launch_overhead_s


def _identity(work: Array | None) -> object:
    if work is None:
        return None
    return work.tobytes() if work.flags.writeable or work.base is not None else id(work)


def _layer_times(
    graph: LayerGraph, kind: DeviceKind, samples: float, precision: str, work: Array | None, degree: int
) -> Array:
    count = len(graph.layers)
    if not samples >= 0:
        raise InputError(f"{samples} samples", key="samples", found=samples, allowed=">= 0")
    if work is not None and work.shape != (count,):
        raise InputError(
            f"work of shape {work.shape}",
            key="work",
            found=work.shape,
            allowed=f"one number for {count} layers",
        )
    table, inverse = graph.memo("costs.table", lambda: _tabulated(graph))
    if work is None:
        times = _physics(table, kind, samples, precision, 1.0)[:, inverse]
    else:
        every = graph.memo("costs.every", lambda: table.taken(inverse))
        times = _physics(every, kind, samples, precision, work)
    key = f"costs.measured {kind.name} {degree}"
    for rows in graph.memo(key, lambda: measured_rows(graph, kind.name, degree)):
        seconds = rows.at(samples)
        if rows.degree != degree or degree == 1:
            seconds = seconds * rows.degree * (1.0 if work is None else work[rows.layers])
        times[:, rows.layers] = seconds
    times[graph.memo("costs.unwanted", lambda: _unwanted(graph))] = 0.0
    return times


def _unwanted(graph: LayerGraph) -> NDArray[np.bool_]:
    """Gradients, shape (3, layers), that measured seconds hold but frozen weights (LoRA) make needless.

    Seconds measured in full training stay where all weights train: there a first layer's are right as
    they are, even if a source gave one backward and we halved it.
    """
    found = np.zeros((3, len(graph.layers)), dtype=bool)
    if all(item.trainable for item in graph.parameters) or not any(i.trainable for i in graph.parameters):
        return found
    for i, layer in enumerate(graph.layers):
        made = [use.name for use in layer.reads if use.name in graph.producer]
        used = [graph.parameter[use.name] for use in layer.parameters]
        found[1, i] = bool(made) and not any(name in graph.needs_gradient for name in made)
        found[2, i] = bool(used) and not any(item.trainable for item in used)
        if found[2, i] and not made:
            found[1, i] = True
    return found


def _physics(table: _Table, kind: DeviceKind, samples: float, precision: str, work: Array | float) -> Array:
    wide = dtype_bytes(precision)
    flops = table.flops * (samples * work)
    moved = table.moved_elements * (samples * work * wide)
    moved += (table.parameter_elements * wide + table.parameter_bytes) * work
    memory = _effective(_curve(kind, "memory"), moved) / kind.memory_bandwidth_bytes_per_s
    seconds = np.empty_like(flops)
    for name, columns in zip(_NAMES, table.classes, strict=True):
        if len(columns):
            effective = _effective(_curve(kind, name), flops[:, columns])
            seconds[:, columns] = effective / _peak(kind, name, precision)
    np.maximum(seconds, memory, out=seconds)
    seconds += kind.launch_overhead_s
    seconds *= table.trips
    seconds[~table.active | (samples * work <= 0)] = 0.0
    return seconds


def _peak(kind: DeviceKind, name: str, precision: str) -> float:
    """Peak FLOP/s of a class: outside matrix products the vector units', which compute in fp32 or wider."""
    if name == "memory" and dtype_bytes(precision) < 4 and "fp32" in dict(kind.peak_flops_per_s):
        return kind.peak("fp32")
    return kind.peak(precision)


def _curve(kind: DeviceKind, name: str) -> Curve | None:
    """The curve of a class; attention and convolutions without one of their own take that of products.

    For `memory` the curve is over bytes, so its FLOPs run at peak: they seldom bind.
    """
    curves = dict(kind.efficiency)
    return curves.get(name) or (curves.get("matmul") if name != "memory" else None)


def _effective(curve: Curve | None, size: Array) -> Array:
    """Size over efficiency: what would take as long at peak. Never falls as the size grows."""
    if curve is None:
        return size
    logs, fractions, floors = _prepared(curve)
    at = np.log(np.maximum(size, 1e-300))
    effective: Array = size / np.interp(at, logs, fractions)
    return np.maximum(effective, floors[np.searchsorted(logs, at, side="right")])


@lru_cache(maxsize=256)
def _prepared(curve: Curve) -> tuple[Array, Array, Array]:
    """Logarithms of the sizes, fractions, and the longest effective size at or below each point."""
    sizes, fractions = np.asarray(curve.points, dtype=float).T
    floors = np.concatenate([[0.0], np.maximum.accumulate(sizes / fractions)])
    return np.log(sizes), fractions, floors


def _tabulated(graph: LayerGraph) -> tuple[_Table, NDArray[np.int64]]:
    """The distinct layers' work, and which of them each layer is: identical layers are costed once."""
    trains = any(item.trainable for item in graph.parameters)
    seen: dict[object, int] = {}
    columns: list[Array] = []
    classes: list[int] = []
    inverse = np.empty(len(graph.layers), dtype=np.int64)
    for i, layer in enumerate(graph.layers):
        column = _column(graph, layer, trains=trains)
        signature = (layer.kind, column.tobytes())
        if signature not in seen:
            seen[signature] = len(columns)
            columns.append(column)
            classes.append(_NAMES.index(CLASSES.get(layer.kind, "memory")))
        inverse[i] = seen[signature]
    stacked = np.stack(columns, axis=-1)
    of_class = np.asarray(classes)
    table = _Table(
        flops=stacked[0],
        moved_elements=stacked[1],
        parameter_elements=stacked[2],
        parameter_bytes=stacked[3],
        trips=stacked[4, 0],
        active=(stacked[0] > 0) | (stacked[1] > 0),
        classes=tuple(np.flatnonzero(of_class == number) for number in range(len(_NAMES))),
    )
    return table, inverse


def _column(graph: LayerGraph, layer: Layer, *, trains: bool) -> Array:
    """FLOPs, moved elements, parameter elements, parameter bytes and trips by direction, shape (5, 3).

    Gradients that nothing needs cost nothing, where the graph trains anything at all: with respect to
    inputs upstream of every trainable parameter (frozen layers below LoRA), and to frozen weights.
    """
    used = [graph.parameter[use.name] for use in layer.parameters]
    wants_input = not trains or any(use.name in graph.needs_gradient for use in layer.reads)
    wants_weight = not trains or any(item.trainable for item in used)
    column = np.zeros((5, 3))
    column[4] = layer.trips
    for d, (item, wanted) in enumerate(
        ((layer.forward, True), (layer.input_grad, wants_input), (layer.weight_grad, wants_weight))
    ):
        if not wanted or not (item.flops or item.moved_elements):
            continue
        column[0, d], column[1, d] = item.flops, item.moved_elements
        for parameter in used:
            if (layer.kind in _ROWS_ONLY and d < 2) or (d == 2 and not parameter.trainable):
                continue
            touched = parameter.elements * parameter.density
            if parameter.dtype == COMPUTE:
                column[2, d] += touched
            else:
                column[3, d] += touched * dtype_bytes(parameter.dtype)
    return column
