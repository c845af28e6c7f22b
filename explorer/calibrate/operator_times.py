"""Measured seconds of single operations in a device kind, where they correct what its laws say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from explorer.base.errors import InputError
from explorer.cluster import DeviceKind, ProductTimes, Source
from explorer.cluster.product_times import faster_than_peak

BAND = 0.05
"""Half-width of the 80 % band that measured products are given: what repeating one changes."""

Shape: TypeAlias = tuple[float, float, float]
"""Rows, columns and depth of a product."""


def measured_kind(kind: DeviceKind, times: Mapping[str, Mapping[Shape, float]], reference: str) -> DeviceKind:
    """Return a kind with seconds of products by precision and shape, beside those that it has.

    Args:
        kind: the device.
        times: by precision, seconds by (rows, columns, depth).
        reference: where they were measured.

    Raises:
        InputError: one is faster than the kind's peak.
    """
    known: dict[str, dict[Shape, float]] = {
        precision: {point[:3]: point[3] for point in item.points}
        for precision, item in kind.measured_products
    }
    for precision, found in times.items():
        known[precision] = {**known.get(precision, {}), **found}
    made = tuple(
        (precision, ProductTimes(points=tuple((*shape, found[shape]) for shape in sorted(found))))
        for precision, found in known.items()
    )
    for precision, item in made:
        if (fast := faster_than_peak(item, kind.peak(precision))) is not None:
            m, n, k, seconds = fast
            raise InputError(
                f"a product of {m:g} x {n:g} x {k:g} in {precision} in {seconds * 1e6:.4g} us is faster than"
                f" the peak of {kind.name}, {kind.peak(precision):.4g} FLOP/s",
                key="measured_products", found=seconds,
                allowed=f"{2 * m * n * k / kind.peak(precision) * 1e6:.4g} us or more; or correct the peak",
            )  # fmt: skip
    source = Source(key="measured_products", how="measured", band=BAND, reference=reference)
    kept = tuple(item for item in kind.sources if item.key != source.key)
    return replace(kind, measured_products=made, sources=(*kept, source))
