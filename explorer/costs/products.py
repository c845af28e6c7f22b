"""Seconds of matrix products by the kernel that a library chooses, over arrays of sizes.

A library cuts the result of m x n into tiles of r x c, deals them to the compute units of the device in
*waves*, and every unit goes through the depth k of its tile (NVIDIA, Matrix Multiplication Background User's
Guide):

    compute = waves x 2 r c (k / s + k0) / (f P / U)
    waves = w + a (ceil(w) - w),    w = max(1, batch ceil(m / r) ceil(n / c) s / U)

with U units of together P FLOP/s, tiles that reach the fraction f, and k0 for the start and the end of a
tile. If tiles are fewer than units, the depth is split into s parts, whose sums are added in memory. a is 1
where the last wave takes as long as a full one, and less where persistent kernels or stream-K (Osama et al.,
PPoPP 2023) share it out (`ProductKernels.partial_wave`). The fastest tiling and split counts, since a library
chooses by heuristics that mostly find it: seconds rise in steps. Sizes that do not fill 16 bytes keep only a
fraction of the speed. Long products draw so much power that clocks fall (`sustained`). Factors and result
cross the memory once:

    seconds = max(compute, memory) + exposed x min(compute, memory)

A product repeated alone on an idle device has higher clocks than one in a long row of others, as in training:
there the compute of kernels that were measured alone takes 1 / `DeviceKind.settled_fraction` of its time.
Profiles written before there were kernels by precision have `tiles` for all of them: whole waves, and
no memory of their own, which `explorer.costs.compute` adds.

Where products of a kind were measured by shape (`DeviceKind.measured_products`) all of these are corrected by
what was measured nearby (`explorer.costs.measured_products`), never to less than the FLOPs at peak.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.caching import remembered
from explorer.base.units import dtype_bytes
from explorer.cluster import DeviceKind, ProductKernels, Tile
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.measured_products import KnownRatios, factors, measured_sizes

Array = npt.NDArray[np.float64]

SPLITS = (1, 2, 4, 8)
"""Numbers of parts into which the depth may be cut."""
ALIGNMENT_BYTES = 16
_EVEN_ROWS = 16
_LEAST_RESULT_BYTES = 2  # results of fp8 factors are in bf16
_SUM_BYTES = 4.0  # partial sums are kept in fp32


class Sizes(NamedTuple):
    """Sizes of batches of products, arrays of one shape."""

    batch: Array
    rows: Array
    columns: Array
    depth: Array


def product_seconds(
    kind: DeviceKind,
    precision: str,
    batch: Array,
    rows: Array,
    columns: Array,
    depth: Array,
    *,
    summed: bool = False,
) -> Array:
    """Return the seconds of batches of (rows x depth) by (depth x columns) products on a device.

    Args:
        kind: the device; without tiles its curve over FLOPs is the law.
        precision: data type of the factors.
        batch: products of each entry, shape (...,).
        rows: m, as `batch`.
        columns: n, as `batch`.
        depth: k, as `batch`.
        summed: whether it is a weight gradient, whose factors are stored by rows of the depth: rows and
            columns lie next to each other in memory and have to fill 16 bytes; else columns and depth.

    Raises:
        InputError: the kind has no peak for the precision.
    """
    sizes = Sizes(batch, rows, columns, depth)
    found = _law_seconds(kind, precision, sizes, summed=summed)
    if not kind.measured_products:
        return found
    # what was measured are single products: those of a batch share waves
    factor = np.where(batch == 1, factors(_known(kind, precision), rows, columns, depth), 1.0)
    return np.maximum(found * factor, 2.0 * batch * rows * columns * depth / kind.peak(precision))


def _law_seconds(kind: DeviceKind, precision: str, sizes: Sizes, *, summed: bool) -> Array:
    """Return the seconds of products by kernels, tiles or a curve, without what was measured."""
    _, rows, columns, depth = sizes
    stored = rows if summed else depth
    speed = np.where(_aligned(precision, columns, stored), 1.0, kind.unaligned_fraction)
    kernels = kind.kernels_of(precision)
    if kernels is not None:
        return _kernel_seconds(kind, kernels, precision, sizes, speed * kind.settled_fraction)
    flops = 2.0 * sizes.batch * rows * columns * depth
    if not kind.makes_tiles:
        by_curve: Array = effective_size(curve_of(kind, "matmul"), flops) / kind.peak(precision)
        return by_curve
    sustained = dict(kind.efficiency).get("sustained")
    if sustained is not None:
        speed = speed * _at(sustained.points, flops)
    found: Array = tile_seconds(kind, _whole_waves(kind.tiles, kind.tile_depth), precision, sizes) / speed
    return found


def alone_seconds(
    kind: DeviceKind,
    precision: str,
    rows: Array,
    columns: Array,
    depth: Array,
    *,
    tiled: Array | None = None,
) -> Array:
    """Return the seconds of one product, repeated on an idle device: launch, quantising, compute and memory.

    Args:
        kind: the device.
        precision: data type of the factors; the result is in bf16 if it is narrower.
        rows: m, of any shape.
        columns: n, as `rows`.
        depth: k, as `rows`.
        tiled: `tile_seconds` of its kernels, if they are known.

    Raises:
        InputError: the kind has no peak for the precision.
    """
    law = law_alone_seconds(kind, precision, rows, columns, depth, tiled=tiled)
    if not kind.measured_products:
        return law
    factor = factors(_known(kind, precision), rows, columns, depth)
    return np.maximum(law * factor, 2.0 * rows * columns * depth / kind.peak(precision))


def law_alone_seconds(
    kind: DeviceKind,
    precision: str,
    rows: Array,
    columns: Array,
    depth: Array,
    *,
    tiled: Array | None = None,
) -> Array:
    """Return `alone_seconds` by the law alone, without what was measured of the kind."""
    sizes = Sizes(np.ones_like(rows), rows, columns, depth)
    kernels = kind.kernels_of(precision)
    if kernels is not None:
        speed = np.where(_aligned(precision, columns, depth), 1.0, kind.unaligned_fraction)
        found = _kernel_seconds(kind, kernels, precision, sizes, speed, tiled) + kernels.start_s
        return found + (_quantising_seconds(kind, kernels, rows, depth) if precision == "fp8" else 0.0)
    seconds = _law_seconds(kind, precision, sizes, summed=False)
    moved = effective_size(curve_of(kind, "memory"), _moved_bytes(precision, sizes))
    memory = moved / kind.memory_bandwidth_bytes_per_s
    exposed = kind.exposed_memory * np.minimum(seconds, memory)
    total: Array = np.maximum(seconds, memory) + exposed + kind.launch_overhead_s
    return total


def _kernel_seconds(
    kind: DeviceKind,
    kernels: ProductKernels,
    precision: str,
    sizes: Sizes,
    speed: Array,
    tiled: Array | None = None,
) -> Array:
    """Return the seconds of products by the kernels of their precision, memory included."""
    if kernels.uneven_rows_fraction < 1:
        speed = speed * np.where(sizes.rows % _EVEN_ROWS == 0, 1.0, kernels.uneven_rows_fraction)
    if kernels.sustained:
        at_peak = 2.0 * sizes.batch * sizes.rows * sizes.columns * sizes.depth / kind.peak(precision)
        speed = speed * _at(kernels.sustained, at_peak)
    compute = (tile_seconds(kind, kernels, precision, sizes) if tiled is None else tiled) / speed
    bandwidth = kind.memory_bandwidth_bytes_per_s * kernels.memory_fraction
    memory = _moved_bytes(precision, sizes) / bandwidth
    found: Array = np.maximum(compute, memory) + kernels.exposed_memory * np.minimum(compute, memory)
    return found


@remembered(256)
def _known(kind: DeviceKind, precision: str) -> KnownRatios | None:
    """Return how far the law is off at the measured shapes of a precision; None if none was measured."""
    measured = measured_sizes(kind, precision)
    if measured is None:
        return None
    *sizes, seconds = measured
    law = law_alone_seconds(kind, precision, *sizes)
    return KnownRatios(np.log2(np.stack(sizes, axis=1)), np.log(seconds / law))


def tile_seconds(kind: DeviceKind, kernels: ProductKernels, precision: str, sizes: Sizes) -> Array:
    """Return the seconds of the fastest tiling and split, all units at their full clock.

    Of two sets of tilings the lower seconds are those of all of them.
    """
    batch, rows, columns, depth = sizes
    per_unit = kind.peak(precision) / kind.compute_units
    high, wide, fraction, parts = _ways(kernels.tiles, kernels.splits, np.ndim(rows))
    tiles = batch * np.ceil(rows / high) * np.ceil(columns / wide)
    waves = np.ceil(tiles * parts / kind.compute_units)
    if kernels.partial_wave < 1:
        filled = np.maximum(1.0, tiles * parts / kind.compute_units)
        waves = filled + kernels.partial_wave * (waves - filled)
    seconds = waves * (2.0 * high * wide / (fraction * per_unit)) * (depth / parts + kernels.tile_depth)
    moved = np.where(parts > 1, (parts + 1) * _SUM_BYTES, 0.0) * batch * rows * columns
    best: Array = (seconds + moved / kind.memory_bandwidth_bytes_per_s).min(axis=0)
    return best


@lru_cache(maxsize=64)
def _whole_waves(tiles: tuple[Tile, ...], tile_depth: float) -> ProductKernels:
    """Return what a device kind without kernels by precision says, as such kernels."""
    return ProductKernels(tiles=tiles, splits=SPLITS, tile_depth=tile_depth)


def _moved_bytes(precision: str, sizes: Sizes) -> Array:
    """Return the bytes of both factors and the result, each moved once."""
    batch, rows, columns, depth = sizes
    wide = dtype_bytes(precision)
    result = rows * columns * max(wide, _LEAST_RESULT_BYTES)
    found: Array = batch * ((rows * depth + columns * depth) * wide + result)
    return found


def _quantising_seconds(kind: DeviceKind, kernels: ProductKernels, rows: Array, depth: Array) -> Array:
    """Return the seconds of the pass that quantises the left factor (`Quantising`)."""
    own = kernels.quantising
    moved = depth * own.element_bytes / kind.memory_bandwidth_bytes_per_s
    found: Array = depth * own.depth_s + rows * np.maximum(own.row_s, moved)
    return found


@lru_cache(maxsize=64)
def _ways(
    tiles: tuple[Tile, ...], splits: tuple[int, ...], dimensions: int
) -> tuple[Array, Array, Array, Array]:
    """Return rows, columns and fraction of peak of every tile with every number of parts of the depth.

    All are of shape (ways, 1, ..., 1), to stand before the products' own axes.
    """
    rows = [(tile.rows, tile.columns, tile.fraction, split) for tile in tiles for split in splits]
    high, wide, fraction, parts = np.array(rows, dtype=float).T.reshape(4, -1, *(1,) * dimensions)
    return high, wide, fraction, parts


def _at(curve: tuple[tuple[float, float], ...], sizes: Array) -> Array:
    """Return fractions of a curve at sizes, linear in their logarithm."""
    points, fractions = np.asarray(curve, dtype=float).T
    found: Array = np.interp(np.log(np.maximum(sizes, 1e-300)), np.log(points), fractions)
    return found


def _aligned(precision: str, one: Array, other: Array) -> npt.NDArray[np.bool_]:
    width = dtype_bytes(precision)
    found: npt.NDArray[np.bool_] = (one * width % ALIGNMENT_BYTES == 0) & (
        other * width % ALIGNMENT_BYTES == 0
    )
    return found | (width >= 4)
