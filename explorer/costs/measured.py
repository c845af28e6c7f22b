"""Measured seconds of layers as arrays: the rows that hold for a device kind and tensor degree, interpolated.

The time of a whole backward, if a source gives just one, is halved into the gradients of inputs and weights.
If a layer has no parameters, the whole is the gradient of its inputs: a schedule with a split backward cannot
put off any of it behind work that earlier layers wait for, as it does with weight gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from explorer.base.errors import InputError
from explorer.graph import Layer, LayerGraph, Measured

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRows:
    """Measured seconds of layers that were measured at the same batches."""

    layers: NDArray[np.int64]
    batches: Array
    seconds: Array
    """Shape (batches, 3, layers)."""
    degree: int
    """Tensor-parallel size at which they were measured."""

    def at(self, samples: float) -> Array:
        """Return seconds of shape (3, layers): linear between batches, proportional outside."""
        i = int(np.searchsorted(self.batches, samples))
        low, high = max(i - 1, 0), min(i, len(self.batches) - 1)
        if i in (0, len(self.batches)):
            scaled: Array = self.seconds[high] * (samples / self.batches[high])
            return scaled
        part = (samples - self.batches[low]) / (self.batches[high] - self.batches[low])
        mixed: Array = self.seconds[low] * (1 - part) + self.seconds[high] * part
        return mixed


def measured_rows(graph: LayerGraph, kind: str, degree: int) -> tuple[MeasuredRows, ...]:
    """Return the measured seconds that hold for a device kind and tensor degree, by equal sets of batches."""
    groups: dict[tuple[object, ...], list[tuple[int, Sequence[Measured]]]] = {}
    for i, layer in enumerate(graph.layers):
        chosen = _chosen(layer, kind, degree)
        if chosen:
            shape = (chosen[0].tensor_degree, *(item.batch for item in chosen))
            groups.setdefault(shape, []).append((i, chosen))
    return tuple(
        MeasuredRows(
            layers=np.asarray([i for i, _ in members]),
            batches=np.asarray([item.batch for item in members[0][1]], dtype=float),
            seconds=np.asarray(
                [[_seconds(graph.layers[i], item) for item in rows] for i, rows in members]
            ).transpose(1, 2, 0),
            degree=members[0][1][0].tensor_degree,
        )
        for members in groups.values()
    )


def _seconds(layer: Layer, item: Measured) -> tuple[float, float, float]:
    """Return the seconds of forward, input gradient and weight gradient."""
    if item.halves and not layer.parameters:
        return item.forward_s, item.input_grad_s + item.weight_grad_s, 0.0
    return item.forward_s, item.input_grad_s, item.weight_grad_s


def all_measured(graph: LayerGraph, kind: str, degree: int, layers: NDArray[np.int64]) -> bool:
    """Tell whether the seconds of some layers are all measured; layers without any work do not count.

    Such seconds include what the host and the framework added during the measurement.
    """
    if not _any_measured(graph):
        return False
    measured, others = (values[layers] for values in measured_and_not(graph, kind, degree))
    return bool(measured.any() and not others.any())


def measured_and_not(
    graph: LayerGraph, kind: str, degree: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return per layer whether it was measured, and whether it does something and was not; 1 or 0."""

    def make() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        measured = np.array([bool(_chosen(layer, kind, degree)) for layer in graph.layers])
        works = np.array([_works(layer) for layer in graph.layers])
        return measured.astype(np.int64), (works & ~measured).astype(np.int64)

    return graph.memo(f"costs.is measured {kind} {degree}", make)


def _any_measured(graph: LayerGraph) -> bool:
    return graph.memo("costs.any measured", lambda: any(layer.measured for layer in graph.layers))


def _works(layer: Layer) -> bool:
    parts = (layer.forward, layer.input_grad, layer.weight_grad)
    return any(item.flops or item.moved_elements for item in parts)


def with_collectives(graph: LayerGraph, kinds: tuple[str, ...], degree: int) -> NDArray[np.bool_]:
    """Tell for each layer whether its measured seconds on all these kinds include the lane's collectives."""

    def make(kind: str) -> NDArray[np.bool_]:
        found = [_chosen(layer, kind, degree) for layer in graph.layers]
        hold = [bool(rows) and all(row.collectives for row in rows) for rows in found]
        same = [bool(rows) and rows[0].tensor_degree == degree for rows in found]
        both: NDArray[np.bool_] = np.logical_and(hold, same)
        return both

    if not graph.memo("costs.collectives", lambda: _any_with_collectives(graph)):
        return np.zeros(len(graph.layers), dtype=bool)
    parts = [graph.memo(f"costs.collectives {kind} {degree}", partial(make, kind)) for kind in kinds]
    every: NDArray[np.bool_] = np.all(parts, axis=0)
    return every


def _any_with_collectives(graph: LayerGraph) -> bool:
    return any(item.collectives for layer in graph.layers for item in layer.measured)


def _chosen(layer: Layer, kind: str, degree: int) -> list[Measured]:
    """Return one layer's measured rows to use, by batch: this kind before any, this degree before 1.

    A degree that was not measured falls back to physics; only if the layer does not state its work does the
    nearest measured degree stand in, as if the work had been split evenly.

    Raises:
        InputError: there are only seconds of other device kinds.
    """
    if not layer.measured:
        return []
    works = _works(layer)
    rows = [item for item in layer.measured if item.device_kind == kind]
    rows = rows or [item for item in layer.measured if item.device_kind == "*"]
    if not rows:
        if works:
            return []
        raise InputError(
            f"layer {layer.name!r} was never measured on {kind!r} and does not state its work",
            key=f"layers.{layer.name}.measured",
            found=kind,
            allowed=", ".join(sorted({item.device_kind for item in layer.measured})),
        )
    degrees = {item.tensor_degree for item in rows}
    use = degree if degree in degrees else 1
    if use not in degrees:
        if works:
            return []
        use = min(degrees, key=lambda item: (abs(item - degree), item))
    by_batch = {item.batch: item for item in rows if item.tensor_degree == use}
    return [by_batch[batch] for batch in sorted(by_batch)]
