"""Seconds of matrix products by tile and wave quantisation, over arrays of sizes.

A library cuts the result of m x n into tiles, deals them to the compute units of the device in *waves*, and
every unit goes through the depth k of its tile (NVIDIA, Matrix Multiplication Background User's Guide):

    seconds = waves x 2 r c (k / s + k0) / (f P / U),    waves = ceil(batch ceil(m / r) ceil(n / c) s / U)

with U units of together P FLOP/s, tiles of r x c that reach the fraction f, and k0 for the start and the end
of a tile. If tiles are fewer than units, the depth is split into s parts, whose sums are added in memory.
The fastest of the device kind's tilings and splits counts, since a library chooses by heuristics that mostly
find it. Sizes that do not fill 16 bytes keep only a fraction of the speed. Long products draw so much power
that clocks fall: the curve `sustained`, over the FLOPs of a product, if a kind has one.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

from explorer.base.units import dtype_bytes
from explorer.cluster import Curve, DeviceKind, Tile

Array = npt.NDArray[np.float64]

SPLITS = (1, 2, 4, 8)
"""Numbers of parts into which the depth may be cut."""
ALIGNMENT_BYTES = 16
_SUM_BYTES = 4.0  # partial sums are kept in fp32


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
    """Return the seconds of batches of (rows x depth) by (depth x columns) products on a device with tiles.

    Args:
        kind: the device; it has `compute_units` and `tiles`.
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
    per_unit = kind.peak(precision) / kind.compute_units
    high, wide, fraction, parts = _ways(kind.tiles, np.ndim(rows))
    tiles = batch * np.ceil(rows / high) * np.ceil(columns / wide)
    waves = np.ceil(tiles * parts / kind.compute_units)
    seconds = waves * (2.0 * high * wide / (fraction * per_unit)) * (depth / parts + kind.tile_depth)
    moved = np.where(parts > 1, (parts + 1) * _SUM_BYTES, 0.0) * batch * rows * columns
    best: Array = (seconds + moved / kind.memory_bandwidth_bytes_per_s).min(axis=0)
    stored = rows if summed else depth
    speed = np.where(_aligned(precision, columns, stored), 1.0, kind.unaligned_fraction)
    sustained = dict(kind.efficiency).get("sustained")
    if sustained is not None:
        speed = speed * _at(sustained, 2.0 * batch * rows * columns * depth)
    found: Array = best / speed
    return found


@lru_cache(maxsize=64)
def _ways(tiles: tuple[Tile, ...], dimensions: int) -> tuple[Array, Array, Array, Array]:
    """Return rows, columns and fraction of peak of every tile with every number of parts of the depth.

    All are of shape (ways, 1, ..., 1), to stand before the products' own axes.
    """
    rows = [(tile.rows, tile.columns, tile.fraction, split) for tile in tiles for split in SPLITS]
    high, wide, fraction, parts = np.array(rows, dtype=float).T.reshape(4, -1, *(1,) * dimensions)
    return high, wide, fraction, parts


def _at(curve: Curve, sizes: Array) -> Array:
    """Return fractions of a curve at sizes, linear in their logarithm."""
    points, fractions = np.asarray(curve.points, dtype=float).T
    found: Array = np.interp(np.log(np.maximum(sizes, 1e-300)), np.log(points), fractions)
    return found


def _aligned(precision: str, one: Array, other: Array) -> npt.NDArray[np.bool_]:
    width = dtype_bytes(precision)
    found: npt.NDArray[np.bool_] = (one * width % ALIGNMENT_BYTES == 0) & (
        other * width % ALIGNMENT_BYTES == 0
    )
    return found | (width >= 4)
