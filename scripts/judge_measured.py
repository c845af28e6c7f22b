"""Judge measured products by shape: half of the pairs of columns and depth are measured, the others judge.

A part of `scripts/fit_costs.py kernels` that fits nothing: laws are those of bundled profiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
from fit_blocks import Fitted, markdown, percent
from fit_products import read_products

from explorer.calibrate.product_fit import COUNTED_S, MeasuredProducts, halves
from explorer.cluster import ProductTimes
from explorer.costs.products import alone_seconds

SET = "matrix_products"


def made(paths: Mapping[str, Path], _executor: Executor) -> Fitted:
    """Return errors of the law alone, and with half of the pairs measured."""
    head = (
        "device, precision",
        "judged",
        "law: median",
        "mean",
        "half of the pairs measured: median",
        "mean",
    )
    lines = []
    for (name, precision), rows in read_products(paths[SET]).items():
        chosen = halves(rows)
        left = rows.taken(~chosen)
        left = left.taken(left.seconds >= COUNTED_S)
        cells = [f"{name}, {precision}", f"{len(left.seconds):,}"]
        for products in (left, left._replace(kind=measured(rows.taken(chosen)).kind)):
            sizes = np.abs(errors_of(products))
            cells += [percent(float(np.median(sizes))), percent(float(sizes.mean()))]
        lines.append(cells)
    return Fitted("measured", markdown(head, lines), ())


def measured(rows: MeasuredProducts) -> MeasuredProducts:
    """Return products whose kind knows all of them that are not faster than its peak."""
    points = {
        (m, n, k): max(seconds, 2 * m * n * k / rows.kind.peak(rows.precision))
        for m, n, k, seconds in np.stack(rows[2:], axis=1).tolist()
    }
    times = ProductTimes(points=tuple((*shape, seconds) for shape, seconds in sorted(points.items())))
    return rows._replace(kind=replace(rows.kind, measured_products=((rows.precision, times),)))


def errors_of(rows: MeasuredProducts) -> np.ndarray:
    """Return signed errors in per cent."""
    predicted = alone_seconds(rows.kind, rows.precision, rows.rows, rows.columns, rows.depth)
    found: np.ndarray = 100 * (predicted / rows.seconds - 1)
    return found
