"""Factors on the law of matrix products from measured ones: exact at their shapes, 1 far from all of them.

With d the distance of a shape from a measured one in (log2 m, log2 n, log2 k), r the logarithm of measured
over predicted seconds there, and R = `REACH`,

    log factor = sum w r / (sum w + 1 / R^2)     w = ((R - d) / (R d))^2 for d < R, else 0

(Franke and Little's weights of Shepard's method, 1980, with the law as a neighbour of its own): the measured
number at d = 0, and of a single neighbour ever less the further it is, nothing at twice a size. Libraries
choose kernels by shape, so that what they do better or worse than the law changes within such a distance: of
measured products of A100, H100, B200 and L40S whose columns and depth were left out, the others within
`REACH` took 0 to 2.5 % off the median error of a precision (docs/kernels.md).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import DeviceKind

Array = npt.NDArray[np.float64]

REACH = 1.0
"""Distance in doublings from which a measured shape says nothing."""
_SAME = 1e-9
_ALIKE = {"fp16": "bf16", "bf16": "fp16"}  # both are multiplied by the same units


class KnownRatios(NamedTuple):
    """Measured shapes, and how far a law is off there."""

    shapes: Array
    """log2 of rows, columns, depth; shape (n, 3)."""
    ratios: Array
    """Logarithms of measured over predicted seconds, shape (n,)."""


def measured_sizes(kind: DeviceKind, precision: str) -> Array | None:
    """Return measured (rows, columns, depth, seconds) of a precision, shape (4, n); None without any."""
    known = dict(kind.measured_products)
    times = known.get(precision) or known.get(_ALIKE.get(precision, ""))
    return np.array(times.points, dtype=float).T if times else None


def factors(known: KnownRatios | None, rows: Array, columns: Array, depth: Array) -> Array:
    """Return the factor of the law's seconds of each product, of one shape with the sizes.

    Args:
        known: what was measured; None for nothing.
        rows: m, of any shape.
        columns: n, as `rows`.
        depth: k, as `rows`.
    """
    if known is None:
        return np.ones_like(rows, dtype=float)
    asked = np.log2(np.maximum(np.stack([rows, columns, depth], axis=-1).reshape(-1, 3), 1.0))
    distinct, place = np.unique(asked, axis=0, return_inverse=True)
    found: Array = np.exp(_interpolated(known, distinct))[place.reshape(-1)].reshape(np.shape(rows))
    return found


def _interpolated(known: KnownRatios, asked: Array) -> Array:
    """Return the logarithms of factors at points, shape (points,)."""
    from scipy.spatial import cKDTree

    near = cKDTree(asked).sparse_distance_matrix(cKDTree(known.shapes), REACH, output_type="ndarray")
    point, other, apart = near["i"], near["j"], near["v"]
    weight = ((REACH - apart) / (REACH * np.maximum(apart, _SAME))) ** 2
    count = len(asked)
    sums = np.bincount(point, weight * known.ratios[other], minlength=count)
    found: Array = sums / (np.bincount(point, weight, minlength=count) + 1 / REACH**2)
    same = apart <= _SAME
    found[point[same]] = known.ratios[other[same]]
    return found
