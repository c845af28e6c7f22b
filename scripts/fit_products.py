"""Fit the kernels of matrix products of bundled device kinds to measured products, and judge the fits.

A part of `scripts/fit_costs.py kernels`. For each device and precision three fits: of half of the pairs of
columns and depth, which the others judge; of all, whose numbers the profiles get; and of all other devices
together, which this one judges as a device that nobody measured. The rows are those of `explorer score
matrix_products`.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fit_blocks import Block, Fitted, flow, markdown, percent

from explorer.base.plain_data import to_plain
from explorer.calibrate.product_fit import COUNTED_S, MeasuredProducts, fit_products, halves
from explorer.cluster import ProductKernels
from explorer.score.kernel_sets.matrix_products import COLUMNS, product_of
from explorer.score.kernels import Refused, checked
from explorer.score.reading import read_table

SET = "matrix_products"
PROFILES = {
    "a100-sxm-80gb": "dgx-a100", "h100-sxm-80gb": "hgx-h100", "b200-sxm-180gb": "b200",
    "l40s-pcie-48gb": "l40s-pcie-8",
}  # fmt: skip
"""Profile that states the kernels of each measured kind; others extend it."""
BANDS = {"bf16": 0.2, "fp8": 0.4}
"""Half-width of the 80 % band of products of a device that nobody measured."""

Measured = Mapping[tuple[str, str], MeasuredProducts]


class Task(NamedTuple):
    """One fit: of half of the shapes, of all, or of every device but one."""

    what: str
    kind: str
    precision: str
    rows: tuple[MeasuredProducts, ...]
    starts: int


def made(paths: Mapping[str, Path], executor: Executor) -> Fitted:
    """Fit, and return errors and numbers."""
    measured = read_products(paths[SET])
    tasks = tasks_of(measured)
    kernels = list(executor.map(fitted, tasks))
    found = {(task.what, task.kind, task.precision): item for task, item in zip(tasks, kernels, strict=True)}
    blocks = []
    for kind, profile in PROFILES.items():
        own = {precision: found["all", kind, precision] for name, precision in measured if name == kind}
        if own:
            blocks.append(Block(profile, kind, as_text(own)))
    return Fitted("products", table_of(measured, found), tuple(blocks))


def read_products(path: Path) -> dict[tuple[str, str], MeasuredProducts]:
    """Measured products by kind of device and precision."""
    rows: dict[tuple[str, str], list[tuple[Any, tuple[float, ...]]]] = {}
    for record in read_table(path, COLUMNS)[0]:
        found = checked(record, product_of)
        if not isinstance(found, Refused):
            group = rows.setdefault((found.kind.name, found.precision), [])
            group.append((found.kind, (*found.sizes, found.measured_s)))
    return {
        key: MeasuredProducts(group[0][0], key[1], *np.array([row for _, row in group], dtype=float).T)
        for key, group in rows.items()
    }


def tasks_of(measured: Measured) -> list[Task]:
    """Return the fits, the longest first."""
    tasks = []
    for (kind, precision), rows in measured.items():
        others = [item for (name, width), item in measured.items() if width == precision and name != kind]
        if others:
            tasks.append(Task("without", kind, precision, tuple(others), 2))
        tasks.append(Task("all", kind, precision, (rows,), 4))
        tasks.append(Task("half", kind, precision, (rows.taken(halves(rows)),), 4))
    return sorted(tasks, key=lambda task: task.what != "without")


def fitted(task: Task) -> ProductKernels:
    """Run one fit."""
    return fit_products(task.rows, starts=task.starts)


def table_of(measured: Measured, found: Mapping[tuple[str, str, str], ProductKernels]) -> str:
    """Return the errors of products that count, of shapes and of devices left out."""
    head = (
        "device, precision", "products", "all fitted: median", "mean", "shapes left out: median", "mean",
        "device left out: median", "mean", "bias", "inside ±20 % (fp8 ±40 %)",
    )  # fmt: skip
    lines = []
    for (kind, precision), rows in measured.items():
        left = rows.taken(~halves(rows))
        cells = [f"{kind}, {precision}", f"{(rows.seconds >= COUNTED_S).sum():,}"]
        for what, judged in (("all", rows), ("half", left), ("without", rows)):
            if (what, kind, precision) not in found:
                cells += ["", "", "", ""]
                continue
            errors = errors_of(judged, found[what, kind, precision])
            sizes = np.abs(errors)
            cells += [percent(float(np.median(sizes))), percent(float(sizes.mean()))]
            if what == "without":
                inside = float((sizes <= 100 * BANDS[precision]).mean())
                cells += [percent(float(errors.mean()), signed=True), f"{inside:.0%}"]
        lines.append(cells)
    return markdown(head, lines)


def errors_of(products: MeasuredProducts, kernels: ProductKernels) -> np.ndarray:
    """Return signed errors in per cent of the products that count."""
    counted = products.taken(products.seconds >= COUNTED_S)
    found: np.ndarray = 100 * np.expm1(counted.errors(kernels))
    return found


def as_text(kernels: Mapping[str, ProductKernels], indent: int = 4) -> str:
    """Return the numbers as a profile says them."""
    lines = [f"{'':{indent}}product_kernels:"]
    for precision, item in kernels.items():
        lines.append(f"{'':{indent + 2}}{precision}:")
        for key, value in to_plain(item).items():
            if key == "tiles":
                lines.append(f"{'':{indent + 4}}tiles:")
                lines += [f"{'':{indent + 6}}- {flow(tile)}" for tile in value]
            else:
                lines.append(f"{'':{indent + 4}}{key}: {flow(value)}")
    return "\n".join(lines) + "\n"
