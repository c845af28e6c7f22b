"""Least seconds and FLOPs of layers: their work at the best efficiency that a kind of device reaches.

However layers are split over devices and samples over calls, all parts of a layer together take as long as
its FLOPs at the highest fraction of peak on any curve or tile, or as its activations at the best bandwidth.
Parameters, launches and whole tiles come on top.
"""

from __future__ import annotations

import numpy as np

from explorer.base.units import dtype_bytes, scalar_bytes
from explorer.cluster import Curve, DeviceKind
from explorer.costs.attention import attention_peak
from explorer.costs.clocks import clocked
from explorer.costs.compute import unwanted_gradients
from explorer.costs.efficiency import curve_of
from explorer.costs.graph_work import NAMES, WorkTable, work_table
from explorer.costs.measured import Array, measured_and_not
from explorer.costs.model_key import model_key
from explorer.graph import LayerGraph


def least_seconds(graph: LayerGraph, kind: DeviceKind, precision: str) -> Array | None:
    """Return device-seconds of one sample that each layer takes at least, however it is split.

    Args:
        graph: the layers.
        kind: the device.
        precision: compute precision of the workload.

    Returns:
        Shape (3, layers): forward, input and weight gradient; None where seconds were measured.
    """
    if measured_and_not(graph, kind.name, 1)[0].any():
        return None
    kind = clocked(graph, kind, precision)
    table, inverse = graph.memo("costs.table", lambda: work_table(graph))
    wide = scalar_bytes(precision)
    flops = _product_flops(table) if kind.prices_shapes else table.flops
    seconds = np.zeros_like(flops)
    for name, columns in zip(NAMES, table.classes, strict=True):
        for way in range(3) if len(columns) else ():
            seconds[way, columns] = flops[way, columns] / _best_speed(kind, name, precision, way)
    moved = (
        table.moved_elements * wide / (kind.memory_bandwidth_bytes_per_s * _most(curve_of(kind, "memory")))
    )
    found = np.where(table.active, np.maximum(seconds, moved) * table.trips, 0.0)[:, inverse]
    found *= 1 + kind.running(model_key(graph)).busy_slowdown
    return np.where(unwanted_gradients(graph), 0.0, found)


def least_flops(graph: LayerGraph, *, training: bool) -> float:
    """Return the FLOPs of one sample that devices do at least: kernels skip what a causal mask hides.

    Args:
        graph: the layers.
        training: whether gradients are computed as well, those that something needs.
    """
    table, inverse = graph.memo("costs.table", lambda: work_table(graph))
    each = (np.minimum(table.flops, _product_flops(table)) * table.trips)[:, inverse]
    wanted = np.where(unwanted_gradients(graph), 0.0, each)
    return float(wanted.sum() if training else wanted[0].sum())


def _product_flops(table: WorkTable) -> Array:
    """Return the FLOPs of one call, those of products of known sizes by these sizes."""
    found = np.array(table.flops)
    columns = table.classes[NAMES.index("matmul")]
    columns = columns[table.sizes[0, columns] > 0]
    once = 2.0 * table.sizes[:, columns].prod(axis=0)
    steps = table.trips[0, columns] / table.trips[2, columns]
    count = table.products[:, columns]
    found[0, columns] = count[0, :, 0] * once
    for way in (1, 2):
        found[way, columns] = (count[way, :, 0] + count[way, :, 1] * steps) * once
    return found


def _best_speed(kind: DeviceKind, name: str, precision: str, way: int) -> float:
    """Return the FLOP/s that no layer of a class exceeds in one direction."""
    peak = kind.peak(precision)
    if name == "memory" and dtype_bytes(precision) < 4 and "fp32" in dict(kind.peak_flops_per_s):
        peak = kind.peak("fp32")
    curves = dict(kind.efficiency)
    most = _most(curve_of(kind, name))
    if way and f"{name}_backward" in curves:
        most = _most(curves[f"{name}_backward"])
    if name == "matmul" and kind.makes_tiles:
        kernels = kind.kernels_of(precision)
        tiles = max(tile.fraction for tile in (kernels.tiles if kernels else kind.tiles))
        slower = kind.settled_fraction if kernels else _most(curves.get("sustained"))
        most = max(most, tiles * slower)
    if name == "matmul" and kind.measured_products:
        most = 1.0  # some measured shape may be at peak
    if name == "attention" and kind.attention_kernels and kind.compute_units:
        shares = (item.backward if way else item.forward for item in kind.attention_kernels[0].heads)
        return max(peak * most, attention_peak(kind, precision) * max(shares))
    return peak * most


def _most(curve: Curve | None) -> float:
    """Return the highest fraction of a curve; 1 without one."""
    return 1.0 if curve is None else max(fraction for _, fraction in curve.points)
