"""Least seconds and FLOPs of layers: their work at the best efficiency that a kind of device reaches.

However layers are split over devices and samples over calls, all parts of a layer together take as long as
its FLOPs at the highest fraction of peak on any curve or tile, or as its activations at the best bandwidth.
Products whose sizes are known take at least, with f the best tile's share of peak and k0 its start and end,

    compute = 2 m n (k + k0) / (f P),     memory = m (n + k) bytes,     max + exposed x min

since every tile pays k0 (`explorer.costs.products`), and parts of a product are no deeper than the whole; a
weight gradient may be of any depth. Fused attentions take every score that is not hidden, at the speed of
their heads, which nothing splits. Rows that are routed are moved and activated besides, wherever their
experts are (`explorer.costs.expert_rows`). Parameters, launches and whole tiles come on top.
"""

from __future__ import annotations

import numpy as np

from explorer.base.units import dtype_bytes, scalar_bytes, tensor_type
from explorer.cluster import Curve, DeviceKind
from explorer.costs.attention import BACKWARD_PASSES, attention_peak, kernel_flops
from explorer.costs.clocks import clocked
from explorer.costs.compute import unwanted_gradients
from explorer.costs.efficiency import curve_of
from explorer.costs.expert_rows import PERMUTATION, least_elements
from explorer.costs.graph_work import HALF, NAMES, IntArray, WorkTable, work_table
from explorer.costs.measured import Array, measured_and_not
from explorer.costs.model_key import model_key
from explorer.costs.narrow_products import narrow_columns
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
    seconds = np.zeros_like(table.flops)
    for name, columns in zip(NAMES, table.classes, strict=True):
        for way in range(3) if len(columns) else ():
            seconds[way, columns] = table.flops[way, columns] / _best_speed(kind, name, precision, way)
    if kind.prices_shapes:
        _set_products(seconds, table, kind, precision)
    bandwidth = kind.memory_bandwidth_bytes_per_s
    moved = table.moved_elements * wide / (bandwidth * _most(curve_of(kind, "memory")))
    np.maximum(seconds, moved, out=seconds)
    if kind.attention_kernels and kind.compute_units:
        _set_attention(seconds, table, kind, precision)
    if table.routing:
        seconds[:2] += _row_seconds(table, kind, wide)
    found = np.where(table.active, seconds * table.trips, 0.0)[:, inverse]
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


def _known_products(table: WorkTable) -> IntArray:
    """Return the layers whose products have known sizes."""
    columns = table.classes[NAMES.index("matmul")]
    found: IntArray = columns[table.sizes[0, columns] > 0]
    return found


def _product_flops(table: WorkTable) -> Array:
    """Return the FLOPs of one call, those of products of known sizes by these sizes."""
    found = np.array(table.flops)
    columns = _known_products(table)
    once = 2.0 * table.sizes[:, columns].prod(axis=0)
    steps = table.trips[0, columns] / table.trips[2, columns]
    count = table.products[:, columns]
    found[0, columns] = count[0, :, 0] * once
    for way in (1, 2):
        found[way, columns] = (count[way, :, 0] + count[way, :, 1] * steps) * once
    return found


def _set_products(seconds: Array, table: WorkTable, kind: DeviceKind, precision: str) -> None:
    """Replace the seconds of products of known sizes by what their tiles take at least."""
    columns = _known_products(table)
    narrow = np.isin(columns, narrow_columns(table, precision))
    for own, mine in ((tensor_type(precision), columns[~narrow]), (precision, columns[narrow])):
        if not len(mine):
            continue
        _, _, wide, deep = table.sizes[:, mine]
        steps = table.trips[0, mine] / table.trips[2, mine]
        count = table.products[:, mine]
        forward, back = (_product_seconds(kind, own, table.sizes[:, mine], depth) for depth in (deep, wide))
        summed = _product_seconds(kind, own, table.sizes[:, mine], np.inf) * steps
        seconds[0, mine] = count[0, :, 0] * forward
        for way in (1, 2):
            seconds[way, mine] = count[way, :, 0] * back + count[way, :, 1] * summed


def _product_seconds(kind: DeviceKind, precision: str, sizes: Array, depth: Array | float) -> Array:
    """Return the least seconds of products of a sample's rows; a tile goes through so much depth at most."""
    batch, rows, wide, deep = sizes
    flops, peak = 2.0 * batch * rows * wide * deep, kind.peak(precision)
    if kind.measured_products:  # some measured shape may be at peak
        at_peak: Array = flops / peak
        return at_peak
    kernels = kind.kernels_of(precision)
    tiles = kind.tiles if kernels is None else kernels.tiles
    speed = _most(dict(kind.efficiency).get("sustained")) if kernels is None else kind.settled_fraction
    start = kind.tile_depth if kernels is None else kernels.tile_depth
    compute: Array = flops / (peak * speed * max(tile.fraction for tile in tiles)) * (1.0 + start / depth)
    if kernels is None:
        return compute
    memory = batch * rows * (wide + deep) * dtype_bytes(precision)
    memory /= kind.memory_bandwidth_bytes_per_s * kernels.memory_fraction
    found: Array = np.maximum(compute, memory) + kernels.exposed_memory * np.minimum(compute, memory)
    return found


def _set_attention(seconds: Array, table: WorkTable, kind: DeviceKind, precision: str) -> None:
    """Replace the seconds of fused attentions of known sizes by what their kernel takes at least."""
    columns = table.classes[NAMES.index("attention")]
    columns = columns[table.sizes[0, columns] > 0]
    heads, queries, head, keys = table.sizes[:, columns]
    scores = heads * queries * keys * np.where(table.causal[columns], HALF, 1.0)
    kernel, wide = kind.attention_kernels[0], scalar_bytes(precision)
    for way, passes in ((0, 1.0), (1, BACKWARD_PASSES)):
        device = scores * kernel_flops(kernel, head, backward=way == 1) / attention_peak(kind, precision)
        memory = table.moved_elements[way, columns] * wide * passes / kind.memory_bandwidth_bytes_per_s
        seconds[way, columns] = np.maximum(device, memory) + kernel.exposed * memory


def _row_seconds(table: WorkTable, kind: DeviceKind, element_bytes: float) -> Array:
    """Return the (2, layers) seconds in which routed rows move at least, forward and backward."""
    permutes = PERMUTATION if PERMUTATION in dict(kind.efficiency) else "memory"
    found = np.zeros((2, table.trips.shape[1]))
    for name, elements in zip((permutes, "memory"), least_elements(table), strict=True):
        bandwidth = kind.memory_bandwidth_bytes_per_s * _most(curve_of(kind, name))
        found += elements * element_bytes / bandwidth
    return found


def _best_speed(kind: DeviceKind, name: str, precision: str, way: int) -> float:
    """Return the FLOP/s that no layer of a class exceeds in one direction, if its sizes are not known."""
    peak = kind.peak(precision)
    if name == "memory" and dtype_bytes(precision) < 4 and "fp32" in dict(kind.peak_flops_per_s):
        peak = kind.peak("fp32")
    curves = dict(kind.efficiency)
    if way and f"{name}_backward" in curves:
        return peak * _most(curves[f"{name}_backward"])
    return peak * _most(curve_of(kind, name))


def _most(curve: Curve | None) -> float:
    """Return the highest fraction of a curve; 1 without one."""
    return 1.0 if curve is None else max(fraction for _, fraction in curve.points)
