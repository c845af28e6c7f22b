"""Efficiency curves of a device kind: sizes of work as sizes that take as long at peak."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from explorer.cluster import Curve, DeviceKind
from explorer.costs.measured import Array


def curve_of(kind: DeviceKind, name: str) -> Curve | None:
    """Return the curve of a class; attention and convolutions without their own take that of products.

    For `memory` the curve is over bytes, so its FLOPs run at peak: they seldom bind.
    """
    curves = dict(kind.efficiency)
    return curves.get(name) or (curves.get("matmul") if name != "memory" else None)


def effective_size(curve: Curve | None, size: Array) -> Array:
    """Return size over efficiency: a size that takes as long at peak. Never falls as the size grows."""
    if curve is None:
        return size
    logs, fractions, floors = _prepared(curve)
    at = np.log(np.maximum(size, 1e-300))
    effective: Array = size / np.interp(at, logs, fractions)
    return np.maximum(effective, floors[np.searchsorted(logs, at, side="right")])


@lru_cache(maxsize=256)
def _prepared(curve: Curve) -> tuple[Array, Array, Array]:
    """Return the logarithms of the sizes, fractions, and the longest effective size up to each point."""
    sizes, fractions = np.asarray(curve.points, dtype=float).T
    floors = np.concatenate([[0.0], np.maximum.accumulate(sizes / fractions)])
    return np.log(sizes), fractions, floors
