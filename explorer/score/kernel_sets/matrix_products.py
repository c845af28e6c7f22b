"""Matrix products of m x k by k x n (NVIDIA aiconfigurator, 2026): seconds of one, repeated on an idle GPU.

Factors are of `gemm_dtype`, results in bf16; of `fp8`, what quantises the left factor is included, since its
scales are found when the product is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.cluster import DeviceKind
from explorer.costs.products import alone_seconds
from explorer.score.kernel_devices import kind_called
from explorer.score.kernels import KERNEL_SETS, KernelRow, Refused, checked
from explorer.score.reading import Record

COLUMNS = ("device", "gemm_dtype", "m", "n", "k", "microseconds")
COUNTED_S = 50e-6
"""Seconds from which a product counts: shorter ones are mostly launches."""
DTYPES = {"bfloat16": "bf16", "bf16": "bf16", "float16": "fp16", "fp16": "fp16", "fp8": "fp8"}
"""Our precisions by the names of `gemm_dtype`."""


class Product(NamedTuple):
    """One line of the file."""

    line: int
    kind: DeviceKind
    precision: str
    sizes: tuple[int, int, int]
    measured_s: float


@KERNEL_SETS.add(
    "matrix_products", title="matrix products on idle GPUs", paper="NVIDIA aiconfigurator, 2026",
    path="measured/kernels/matrix_products.csv", source="aiconfigurator-kernels",
    counted="50 us and more", columns=COLUMNS,
)  # fmt: skip
def read(records: Sequence[Record]) -> Iterator[KernelRow | Refused]:
    """Read and predict matrix products."""
    groups: dict[tuple[str, str], list[Product]] = {}
    for record in records:
        found = checked(record, product_of)
        if isinstance(found, Refused):
            yield found
        else:
            groups.setdefault((found.kind.name, found.precision), []).append(found)
    for rows in groups.values():
        yield from _predicted(rows)


def product_of(record: Record) -> Product:
    """Return one line of the file.

    Raises:
        InputError: a size, the device or the precision is wrong.
    """
    dtype = record.text("gemm_dtype")
    if dtype not in DTYPES:
        raise InputError(
            f"unknown gemm_dtype {dtype!r}", key="gemm_dtype", found=dtype, allowed=", ".join(DTYPES)
        )
    return Product(
        record.line,
        kind_called(record.text("device")),
        DTYPES[dtype],
        (record.count("m"), record.count("n"), record.count("k")),
        record.positive("microseconds") * 1e-6,
    )


def _predicted(rows: Sequence[Product]) -> Iterator[KernelRow | Refused]:
    """Predict products of one kind and precision."""
    kind, precision = rows[0].kind, rows[0].precision
    sizes = np.array([row.sizes for row in rows], dtype=float).T
    try:
        seconds = alone_seconds(kind, precision, *sizes).tolist()
    except InputError as error:
        yield from (Refused(row.line, str(error)) for row in rows)
        return
    for row, predicted in zip(rows, seconds, strict=True):
        name = " x ".join(map(str, row.sizes))
        yield KernelRow(
            row.line, kind.name, precision, name, predicted, row.measured_s, row.measured_s >= COUNTED_S
        )
