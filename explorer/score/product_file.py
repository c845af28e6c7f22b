"""Measured matrix products of a CSV file in a cluster profile, where they correct the law of products.

    device,gemm_dtype,m,n,k,microseconds
    NVIDIA H200,bfloat16,4096,8192,4096,412.7

The columns are those of `explorer score matrix_products`; `device` may be left out where a profile has one
kind of device. Of a shape measured several times the median counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.operator_times import measured_kind
from explorer.cluster import Cluster, DeviceKind
from explorer.costs.products import law_alone_seconds
from explorer.score.kernel_devices import means
from explorer.score.kernel_sets.matrix_products import DTYPES
from explorer.score.reading import Record, read_table
from explorer.score.rows import RowProblem

COLUMNS = ("gemm_dtype", "m", "n", "k", "microseconds")


class _Row(NamedTuple):
    """One line of the file."""

    kind: str
    precision: str
    shape: tuple[float, float, float]
    seconds: float


class ImportedProducts(NamedTuple):
    """What was measured in one precision, and how far the law was off."""

    kind: str
    precision: str
    shapes: int
    median_pct: float
    """Median of |predicted / measured - 1| of the law alone, in per cent."""
    mean_pct: float
    """Mean of the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCluster:
    """A profile with measured products."""

    cluster: Cluster
    """With `DeviceKind.measured_products`; shapes that it had before stay unless they are measured anew."""
    imported: tuple[ImportedProducts, ...]
    """By kind and precision."""
    problems: tuple[RowProblem, ...]
    """Lines that were left out."""


def with_products(cluster: Cluster, path: Path) -> MeasuredCluster:
    """Return a profile with the products of a file.

    Args:
        cluster: the profile.
        path: CSV file.

    Raises:
        InputError: the file lacks a column or has no row of the profile's devices, or a product is faster
            than the peak of its device.
    """
    records, problems = read_table(path, COLUMNS)
    rows: list[_Row] = []
    for record in records:
        try:
            rows.append(_row(cluster, record))
        except InputError as error:
            problems.append(RowProblem(path.name, record.line, str(error)))
    if not rows:
        why = problems[0].message if problems else "it has no rows"
        raise InputError(f"no product of {cluster.name}'s devices: {why}", file=str(path))
    kinds, imported = [], []
    for kind in cluster.device_kinds:
        own = [row for row in rows if row.kind == kind.name]
        made, found = _with_times(kind, own, path) if own else (kind, [])
        kinds.append(made)
        imported += found
    return MeasuredCluster(
        cluster=replace(cluster, device_kinds=tuple(kinds)), imported=tuple(imported),
        problems=tuple(problems),
    )  # fmt: skip


def _with_times(
    kind: DeviceKind, rows: Sequence[_Row], path: Path
) -> tuple[DeviceKind, list[ImportedProducts]]:
    several: dict[str, dict[tuple[float, float, float], list[float]]] = {}
    for row in rows:
        several.setdefault(row.precision, {}).setdefault(row.shape, []).append(row.seconds)
    times = {
        precision: {shape: median(seconds) for shape, seconds in found.items()}
        for precision, found in several.items()
    }
    made = measured_kind(kind, times, f"products by shape of {path.name}, each alone on an idle device")
    return made, [_imported(kind, precision, found) for precision, found in times.items()]


def _imported(
    kind: DeviceKind, precision: str, times: Mapping[tuple[float, float, float], float]
) -> ImportedProducts:
    sizes = np.array(list(times), dtype=float).T
    law = law_alone_seconds(kind, precision, *sizes)
    errors = (100 * np.abs(law / np.array(list(times.values())) - 1)).tolist()
    return ImportedProducts(kind.name, precision, len(times), median(errors), fmean(errors))


def _row(cluster: Cluster, record: Record) -> _Row:
    """Return one line of the file.

    Raises:
        InputError: a size, the precision or the device is wrong.
    """
    dtype = record.text("gemm_dtype")
    if dtype not in DTYPES:
        raise InputError(
            f"unknown gemm_dtype {dtype!r}", key="gemm_dtype", found=dtype, allowed=", ".join(DTYPES)
        )
    shape = (float(record.count("m")), float(record.count("n")), float(record.count("k")))
    return _Row(_kind(cluster, record), DTYPES[dtype], shape, record.positive("microseconds") * 1e-6)


def _kind(cluster: Cluster, record: Record) -> str:
    names = [kind.name for kind in cluster.device_kinds]
    if "device" not in record.cells:
        if len(names) == 1:
            return names[0]
        raise InputError("a device is needed", key="device", found="", allowed=", ".join(names))
    given = record.text("device")
    found = next((name for name in names if name == given or means(given, name)), "")
    if not found:
        raise InputError(f"another device, {given!r}", key="device", found=given, allowed=", ".join(names))
    return found
