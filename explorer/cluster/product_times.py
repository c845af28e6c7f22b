"""Measured seconds of matrix products by shape: what a device kind is known to take, in place of a law."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductTimes:
    """Measured products of one precision, each alone on an idle device and repeated."""

    points: tuple[tuple[float, float, float, float], ...]
    """(rows m, columns n, depth k, seconds) of products of m x k by k x n, each shape once."""

    def __post_init__(self) -> None:
        shapes = [point[:3] for point in self.points]
        wrong = [point for point in self.points if min(point[:3]) < 1 or not 0 < point[3] < float("inf")]
        if wrong or not self.points:
            raise InputError(
                "measured products need sizes of 1 or more and seconds above 0", key="points",
                found=wrong[:1] or self.points, allowed="[[rows, columns, depth, seconds], ...]",
            )  # fmt: skip
        if len(set(shapes)) < len(shapes):
            twice = next(shape for i, shape in enumerate(shapes) if shape in shapes[:i])
            raise InputError(
                "a product was measured twice", key="points", found=twice, allowed="each shape once"
            )


def faster_than_peak(
    times: ProductTimes, peak_flops_per_s: float
) -> tuple[float, float, float, float] | None:
    """Return the first measured product that takes less than its FLOPs at peak; None if there is none."""
    for rows, columns, depth, seconds in times.points:
        if seconds < 2.0 * rows * columns * depth / peak_flops_per_s:
            return rows, columns, depth, seconds
    return None
