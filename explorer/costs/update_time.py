"""Seconds of optimizer steps: bound by the memory that they move.

A step writes where it has read. A processor fetches what it writes anew before it writes it, so a device kind
may state the fraction of its bandwidth that a step reaches, the curve `update`; else it is that of `memory`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.base.units import scalar_bytes
from explorer.cluster import Curve, DeviceKind
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.measured import Array
from explorer.framework import Framework
from explorer.workload import OPTIMIZERS

UPDATE = "update"
"""Efficiency class of optimizer steps."""
CLIPPING_PASSES = 3
"""Times that gradients pass memory to be clipped: read for their norm, then read and written scaled."""


class UpdateKernels(NamedTuple):
    """How a framework updates weights."""

    separate: bool = False
    """Whether every operation of the optimizer is a kernel of its own."""
    clipping: bool = False
    """Whether gradients are clipped by their norm before."""


FUSED = UpdateKernels()
"""One kernel, nothing clipped."""


def update_kernels(framework: Framework) -> UpdateKernels:
    """Return how a framework updates weights."""
    return UpdateKernels(framework.updates == "separate", framework.clipping)


@remembered(4096)
def update_seconds(
    kind: DeviceKind,
    *,
    elements: float,
    optimizer: str,
    precision: str,
    kernels: UpdateKernels = FUSED,
    gradient_bytes: float = 4.0,
) -> float:
    """Return the seconds of one optimizer step over `elements` trainable scalars: bound by the memory moved.

    Raises:
        InputError: the optimizer or precision is unknown.
    """
    found = updates_seconds(
        kind, elements=np.asarray([elements], dtype=float), optimizer=optimizer, precision=precision,
        kernels=kernels, gradient_bytes=gradient_bytes,
    )  # fmt: skip
    return float(found[0])


def updates_seconds(
    kind: DeviceKind,
    *,
    elements: Array,
    optimizer: str,
    precision: str,
    kernels: UpdateKernels = FUSED,
    gradient_bytes: float = 4.0,
) -> Array:
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
    wide = max(1.0, scalar_bytes(precision) / 4)
    curve = dict(kind.efficiency).get(UPDATE) or curve_of(kind, "memory")
    item = OPTIMIZERS[optimizer]
    moved = (item.separate_bytes if kernels.separate else item.moved_bytes) * wide
    if kernels.clipping and moved:
        moved += CLIPPING_PASSES * gradient_bytes
    return _moving_seconds(kind, curve, elements * moved)


def predicting_seconds(kind: DeviceKind, *, elements: float, optimizer: str, precision: str) -> float:
    """Return the seconds of writing a copy of `elements` trainable scalars, moved on by some updates.

    It is bound by the memory moved, and reads no gradient: the weight (its fp32 master if it is narrower) and
    every state of the optimizer are read, the copy is written in the precision of compute. In fp32 that is 12
    bytes for each scalar with momentum, where an update moves 20.
    """
    width, states = scalar_bytes(precision), OPTIMIZERS[optimizer].states
    if not states:
        return 0.0  # nothing says where the weights go
    moved = elements * (max(4.0, width) * (1 + states) + width)
    return float(_moving_seconds(kind, curve_of(kind, "memory"), np.asarray([moved]))[0])


def _moving_seconds(kind: DeviceKind, curve: Curve | None, moved_bytes: Array) -> Array:
    """Return the seconds of kernels that only move memory; those that move nothing do not run."""
    effective = effective_size(curve, moved_bytes)
    seconds = effective / kind.memory_bandwidth_bytes_per_s + kind.launch_overhead_s
    return np.where(moved_bytes <= 0, 0.0, seconds)
