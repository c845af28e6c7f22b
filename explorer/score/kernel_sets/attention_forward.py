"""Causal attentions (NVIDIA aiconfigurator, 2026): seconds of one forward, repeated on an idle GPU.

Whole sequences of one length in bf16, as serving software computes them: their keys and values are written to
a cache first. A kernel that the device kind lacks is predicted as software would fall back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.attention_fit import COUNTED_S, served_seconds
from explorer.cluster import DeviceKind
from explorer.cluster.attention_kernels import KERNELS, kernel_named
from explorer.score.kernel_devices import kind_called
from explorer.score.kernels import KERNEL_SETS, KernelRow, Refused, checked
from explorer.score.reading import Record

COLUMNS = (
    "device", "kernel", "batch_size", "sequence", "num_heads", "num_key_value_heads", "head_dim",
    "microseconds",
)  # fmt: skip
SIZES = COLUMNS[2:7]
NAMES = (
    (r"fa4|flash_attn_?4|flash-?4", "flash-4"), (r"fa3|flash_attn_?3|flash-?3", "flash-3"),
    (r"fa1|flash-?1", "flash-1"), (r"flashinfer|trtllm|tensorrt|cudnn", "cudnn"), (r"xformers", "xformers"),
    (r"fa2|flash|triton|sdpa", "flash-2"),
)  # fmt: skip
"""Our kernels by patterns in the names that software gives to kernels; the first that fits counts."""
PRECISION = "bf16"


class Attention(NamedTuple):
    """One line of the file."""

    line: int
    kind: DeviceKind
    kernel: str
    sizes: tuple[int, ...]
    measured_s: float


@KERNEL_SETS.add(
    "attention_forward", title="causal attention forward on idle GPUs", paper="NVIDIA aiconfigurator, 2026",
    path="measured/kernels/attention_forward.csv", source="aiconfigurator-kernels",
    counted="50 us and more", columns=COLUMNS,
)  # fmt: skip
def read(records: Sequence[Record]) -> Iterator[KernelRow | Refused]:
    """Read and predict attentions."""
    groups: dict[tuple[str, str], list[Attention]] = {}
    for record in records:
        found = checked(record, attention_of)
        if isinstance(found, Refused):
            yield found
        else:
            groups.setdefault((found.kind.name, found.kernel), []).append(found)
    for rows in groups.values():
        yield from _predicted(rows)


def attention_of(record: Record) -> Attention:
    """Return one line of the file.

    Raises:
        InputError: a size, the device or the kernel is wrong, or the device has no kernels of attention.
    """
    sizes = tuple(record.count(name) for name in SIZES)
    if sizes[2] % sizes[3]:
        raise InputError(
            f"{sizes[2]} heads share {sizes[3]} of keys and values", key="num_key_value_heads",
            found=sizes[3], allowed=f"a divisor of {sizes[2]}",
        )  # fmt: skip
    kind = kind_called(record.text("device"))
    kernel = kernel_named(kind.attention_kernels, kernel_called(record.text("kernel")))
    if kernel is None:
        raise InputError(
            f"{kind.name} has no kernels of attention", key="device", found=kind.name,
            allowed="a device kind that states attention_kernels",
        )  # fmt: skip
    return Attention(record.line, kind, kernel.name, sizes, record.positive("microseconds") * 1e-6)


def kernel_called(name: str) -> str:
    """Return our name of a kernel that software calls `name`.

    >>> kernel_called("vllm_flash_attn_fa3"), kernel_called("vllm_flash_attn")
    ('flash-3', 'flash-2')

    Raises:
        InputError: no pattern fits.
    """
    found = next((own for pattern, own in NAMES if re.search(pattern, name.lower())), "")
    if not found:
        raise InputError(f"unknown kernel {name!r}", key="kernel", found=name, allowed=", ".join(KERNELS))
    return found


def _predicted(rows: Sequence[Attention]) -> Iterator[KernelRow]:
    """Predict attentions of one kind and kernel."""
    kind, name = rows[0].kind, rows[0].kernel
    kernel = next(kernel for kernel in kind.attention_kernels if kernel.name == name)
    sizes = np.array([row.sizes for row in rows], dtype=float).T
    seconds = served_seconds(kernel, kind, PRECISION, *sizes).tolist()
    for row, predicted in zip(rows, seconds, strict=True):
        batch, sequence, heads, kv_heads, head = row.sizes
        text = f"{batch} x {sequence}, {heads} heads of {head}, {kv_heads} of keys"
        yield KernelRow(
            row.line, kind.name, name, text, predicted, row.measured_s, row.measured_s >= COUNTED_S
        )
