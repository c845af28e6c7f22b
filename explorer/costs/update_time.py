"""Seconds of optimizer steps: bound by the memory that they move.

A step writes where it has read. A processor fetches what it writes anew before it writes it, so a device kind
may state the fraction of its bandwidth that a step reaches, the curve `update`; else it is that of `memory`.
"""

from __future__ import annotations

import numpy as np

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes
from explorer.cluster import Curve, DeviceKind
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.measured import Array
from explorer.workload import OPTIMIZERS

UPDATE = "update"
"""Efficiency class of optimizer steps."""


@remembered(4096)
def update_seconds(kind: DeviceKind, *, elements: float, optimizer: str, precision: str) -> float:
    """Return the seconds of one optimizer step over `elements` trainable scalars: bound by the memory moved.

    Raises:
        InputError: the optimizer or precision is unknown.
    """
    found = updates_seconds(
        kind, elements=np.asarray([elements], dtype=float), optimizer=optimizer, precision=precision
    )
    return float(found[0])


def updates_seconds(kind: DeviceKind, *, elements: Array, optimizer: str, precision: str) -> Array:
    """Return the seconds of many optimizer steps, as `update_seconds`.

    Raises:
        InputError: the optimizer or precision is unknown.
    """
    if optimizer not in OPTIMIZERS:
        raise InputError(
            f"unknown optimizer {optimizer!r}",
            key="optimizer",
            found=optimizer,
            allowed=", ".join(OPTIMIZERS),
        )
    wide = max(1.0, dtype_bytes(precision) / 4)
    curve = dict(kind.efficiency).get(UPDATE) or curve_of(kind, "memory")
    return _moving_seconds(kind, curve, elements * OPTIMIZERS[optimizer].moved_bytes * wide)


def predicting_seconds(kind: DeviceKind, *, elements: float, optimizer: str, precision: str) -> float:
    """Return the seconds of writing a copy of `elements` trainable scalars, moved on by some updates.

    It is bound by the memory moved, and reads no gradient: the weight (its fp32 master if it is narrower) and
    every state of the optimizer are read, the copy is written in the precision of compute. In fp32 that is 12
    bytes for each scalar with momentum, where an update moves 20.
    """
    width, states = dtype_bytes(precision), OPTIMIZERS[optimizer].states
    if not states:
        return 0.0  # nothing says where the weights go
    moved = elements * (max(4.0, width) * (1 + states) + width)
    return float(_moving_seconds(kind, curve_of(kind, "memory"), np.asarray([moved]))[0])


def _moving_seconds(kind: DeviceKind, curve: Curve | None, moved_bytes: Array) -> Array:
    """Return the seconds of kernels that only move memory; those that move nothing do not run."""
    effective = effective_size(curve, moved_bytes)
    seconds = effective / kind.memory_bandwidth_bytes_per_s + kind.launch_overhead_s
    return np.where(moved_bytes <= 0, 0.0, seconds)
