"""Units at the border: seconds, bytes, FLOPs and bytes/s inside; GiB and ms only in files and on screen.

Every quantity in code carries its unit in its name (`step_time_s`, `weight_bytes`). This module holds
the only conversions, so a factor of 1000 against 1024 can go wrong in one place only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from explorer.base.errors import InputError

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40
MS, US = 1e-3, 1e-6

_FACTORS: dict[str, dict[str, float]] = {
    "bytes": {
        "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
        "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB,
    },
    "bytes_per_s": {
        "B/s": 1, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12,
        "KiB/s": KIB, "MiB/s": MIB, "GiB/s": GIB,
        "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8, "Tbit/s": 1e12 / 8,
    },
    "s": {"s": 1, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "min": 60, "h": 3600},
    "flops_per_s": {"FLOP/s": 1, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
    "watts": {"W": 1, "kW": 1e3},
}  # fmt: skip

MOST: dict[str | None, float] = {
    "bytes": 1e30, "bytes_per_s": 1e30, "s": 1e12, "flops_per_s": 1e30, "watts": 1e12, None: 1e30,
}  # fmt: skip
"""Largest value that a file may state, by dimension (None for plain numbers)."""

_QUANTITY = re.compile(r"^\s*([-+]?[0-9][0-9_ ]*\.?[0-9]*(?:[eE][-+]?[0-9]+)?)\s*([A-Za-z/]*)\s*$")

DTYPE_BYTES: dict[str, float] = {
    "fp64": 8, "fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1,
    "int64": 8, "int32": 4, "int8": 1, "bool": 1, "byte": 1,
}  # fmt: skip
"""Bytes of one element by data type name; `byte` is for sources that give only byte counts."""


def parse_quantity(value: float | str, dimension: str) -> float:
    """Convert a quantity, a bare number or text such as ``"80 GiB"``, to the inside unit of `dimension`.

    >>> parse_quantity("200 Gbit/s", "bytes_per_s")
    25000000000.0
    >>> parse_quantity(3, "s")
    3.0

    Raises:
        InputError: the text is not a number with a unit of this dimension.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    factors = _FACTORS[dimension]
    match = _QUANTITY.match(value) if isinstance(value, str) else None
    if match is None or (match[2] and match[2] not in factors):
        allowed = f"a number, alone or with one of {', '.join(factors)}"
        raise InputError(f"{value!r} is not a quantity in {dimension}", found=value, allowed=allowed)
    number = float(match[1].replace("_", "").replace(" ", ""))
    return number * factors[match[2]] if match[2] else number


TENSORS = {"fp8": "bf16"}
"""Data types of tensors under a workload's precision, where they are not the precision itself: fp8 is a way
to multiply, not to keep (Transformer Engine; torchao's float8)."""


def tensor_type(precision: str) -> str:
    """Return the data type in which a workload of some precision keeps tensors and weights.

    >>> tensor_type("fp8"), tensor_type("fp16")
    ('bf16', 'fp16')
    """
    return TENSORS.get(precision, precision)


def scalar_bytes(precision: str) -> float:
    """Return the bytes of one scalar of tensors and weights under a workload's precision.

    Raises:
        InputError: the precision is unknown.
    """
    return dtype_bytes(tensor_type(precision))


def dtype_bytes(dtype: str) -> float:
    """Return the bytes of one element of `dtype`.

    Raises:
        InputError: the data type is unknown.
    """
    try:
        return DTYPE_BYTES[dtype]
    except KeyError:
        raise InputError(
            f"unknown data type {dtype!r}", found=dtype, allowed=", ".join(DTYPE_BYTES)
        ) from None


def format_bytes(count: float) -> str:
    """Write bytes for people, in binary units.

    >>> format_bytes(80 * 2**30)
    '80.0 GiB'
    """
    for unit, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(count) >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count:.0f} B"


def format_seconds(seconds: float) -> str:
    """Write seconds for people.

    >>> format_seconds(0.00351)
    '3.51 ms'
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns" if seconds else "0 s"


def format_devices(devices: Sequence[int]) -> str:
    """Write devices for people: runs as spans, and only the beginning of long lists.

    >>> format_devices((4, 5, 6, 7))
    '4-7'
    """
    if len(devices) > 2 and list(devices) == list(range(devices[0], devices[-1] + 1)):
        return f"{devices[0]}-{devices[-1]}"
    shown = ",".join(map(str, devices[:6]))
    return shown + (f",... ({len(devices)})" if len(devices) > 6 else "")
