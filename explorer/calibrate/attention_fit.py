"""Fit kernels of attention to measured attentions of idle devices, and scale them to devices of other sheets.

The fit is of the law in `explorer.costs.attention`, evaluated by its own code: least squares of
log(predicted / measured) with a soft loss, over the shares of peak by size of heads, imbalance, exposed
memory, start and sustained clock. Measured are forwards, whole sequences under a causal mask, behind the
writing of a cache (`cache_seconds`). Shares of the backward come from documents, as a part of the forward's.

Another device of the same instructions takes a kernel over by two numbers that hold over sheets:

    seconds of a score on a unit = 4 d / (e P / U) + s / clock

the products at the share e of peak, and a softmax of s cycles, as units for exponentials are as many in every
generation (16 a unit and clock; FlashAttention-3, 2024, section 3; FlashAttention-4, 2026).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import AttentionKernel, DeviceKind, HeadSpeed
from explorer.costs.attention import attention_seconds, cache_seconds

Array = npt.NDArray[np.float64]

LEAST_S = 10e-6
"""Shorter attentions tell of launches alone, and are left out."""
COUNTED_S = 50e-6
_LOSS_SCALE = 0.05  # errors above this count less and less
_NUMBERS: dict[str, tuple[float, float, float]] = {
    "imbalance": (0.5, 0.01, 5.0), "exposed": (0.7, 0.01, 5.0), "start_s": (5e-6, 2e-7, 3e-5),
    "sustained": (0.1, 0.005, 0.5),
}  # fmt: skip
"""Start, least and largest value of each number."""
_SHARE = (0.55, 0.02, 1.0)
_LARGEST = 256  # of larger heads not all fits in a unit's memory, and kernels are others
_PRODUCTS = 0.85


class MeasuredAttention(NamedTuple):
    """Causal forwards of whole sequences measured on one kind of device; arrays of one length."""

    kind: DeviceKind
    precision: str
    batch: Array
    sequence: Array
    heads: Array
    kv_heads: Array
    head: Array
    seconds: Array

    def taken(self, chosen: npt.NDArray[np.bool_]) -> MeasuredAttention:
        """Return some of them."""
        return MeasuredAttention(self.kind, self.precision, *(array[chosen] for array in self[2:]))

    def predicted(self, kernel: AttentionKernel) -> Array:
        """Return their seconds by a kernel."""
        return served_seconds(
            kernel, self.kind, self.precision, self.batch, self.sequence, self.heads, self.kv_heads, self.head
        )

    def errors(self, kernel: AttentionKernel) -> Array:
        """Return the logarithm of predicted over measured seconds."""
        found: Array = np.log(self.predicted(kernel) / self.seconds)
        return found


def served_seconds(
    kernel: AttentionKernel,
    kind: DeviceKind,
    precision: str,
    batch: Array,
    sequence: Array,
    heads: Array,
    kv_heads: Array,
    head: Array,
) -> Array:
    """Return the seconds of a causal forward as serving software does it: a cache is written first."""
    moved = 2.0 * batch * sequence * head * (2 * heads + 2 * kv_heads)
    attends = attention_seconds(
        kernel, kind, precision, batch * heads, sequence, sequence, head, causal=True, moved=moved
    )
    return attends + cache_seconds(kind, precision, batch * sequence, kv_heads, head)


def halves(measured: MeasuredAttention, seed: int = 0) -> npt.NDArray[np.bool_]:
    """Return which are fitted if the others judge: no pair of sequence and heads is on both sides."""
    pairs, of_pair = np.unique(np.stack([measured.sequence, measured.heads]), axis=1, return_inverse=True)
    order = np.random.default_rng(seed).permutation(pairs.shape[1])
    chosen: npt.NDArray[np.bool_] = order[of_pair.reshape(-1)] < pairs.shape[1] // 2
    return chosen


def fit_attention(
    measured: MeasuredAttention, kernel: AttentionKernel, backward: Mapping[int, float]
) -> AttentionKernel:
    """Return the kernel that explains measured attentions best.

    Args:
        measured: attentions of one kind of device and one kernel.
        kernel: its name and tile; other numbers are replaced.
        backward: share of peak of the backward over that of the forward, by size of heads; those of sizes in
            between are interpolated.
    """
    from scipy.optimize import least_squares

    used = measured.taken(measured.seconds >= LEAST_S)
    sizes = np.unique(used.head)
    ratios = np.interp(sizes, list(backward), list(backward.values()))

    def at(point: Array) -> AttentionKernel:
        values = np.exp(point)
        shares = values[: len(sizes)]
        numbers: dict[str, Any] = dict(zip(_NUMBERS, values[len(sizes) :].tolist(), strict=True))
        return replace(kernel, heads=_speeds(sizes, shares, shares * ratios), **numbers)

    start, low, high = np.log([_SHARE] * len(sizes) + list(_NUMBERS.values())).T
    found = least_squares(
        lambda point: used.errors(at(point)), start, bounds=(low, high), loss="soft_l1", f_scale=_LOSS_SCALE
    )
    return rounded(at(found.x))


def rounded(kernel: AttentionKernel, digits: int = 3) -> AttentionKernel:
    """Return a kernel with its numbers to so many digits, as a profile says them."""

    def to(value: float) -> float:
        return float(f"{value:.{digits}g}")

    numbers: dict[str, Any] = {name: to(getattr(kernel, name)) for name in _NUMBERS}
    heads = tuple(replace(s, forward=to(s.forward), backward=to(s.backward)) for s in kernel.heads)
    return replace(kernel, heads=heads, **numbers)


def mean_errors(errors: Array, seconds: Array) -> tuple[float, float]:
    """Return the median and mean error in per cent of attentions of `COUNTED_S` and more."""
    sizes = 100 * np.abs(np.expm1(errors[seconds >= COUNTED_S]))
    return float(np.median(sizes)), float(sizes.mean())


def _speeds(sizes: Array, forward: Array, backward: Array) -> tuple[HeadSpeed, ...]:
    return tuple(
        HeadSpeed(head=int(size), forward=min(1.0, float(one)), backward=min(1.0, float(other)))
        for size, one, other in zip(sizes, forward, backward, strict=True)
    )


# ---- Other devices --------------------------------------------------------------------------------


class Sheet(NamedTuple):
    """What a data sheet says of a device."""

    units: int
    peak_flops_per_s: float
    """In 16 bits."""
    clock_hz: float
    """Boost clock."""

    @property
    def per_cycle(self) -> float:
        """FLOPs of a unit in a cycle."""
        return self.peak_flops_per_s / self.units / self.clock_hz


SHEETS: Mapping[str, Sheet] = {
    "a100-sxm-80gb": Sheet(108, 312e12, 1.41e9),
    "h100-sxm-80gb": Sheet(132, 989.4e12, 1.83e9),
    "b200-sxm-180gb": Sheet(148, 2250e12, 1.85e9),
    "l40s-pcie-48gb": Sheet(142, 362e12, 2.52e9),
}
"""Sheets of NVIDIA's data sheets and architecture white papers, by device kind."""


def products_and_softmax(kernel: AttentionKernel, sheet: Sheet) -> tuple[float, float]:
    """Return the share of peak of a kernel's products and the cycles of the softmax of a score.

    They follow from the least and largest sizes of heads up to 256 that it states; a kernel of one size has
    its products at `_PRODUCTS`, as large matrix products.
    """
    known = [item for item in kernel.heads if item.head <= _LARGEST]
    size = np.array([item.head for item in known], dtype=float)
    flops = 4 * size / np.array([item.forward for item in known])
    several = len(known) > 1
    share = float(4 * (size[-1] - size[0]) / (flops[-1] - flops[0])) if several else _PRODUCTS
    softmax = float(np.mean(flops - 4 * size / share)) / sheet.per_cycle
    return share, softmax


def scaled(kernel: AttentionKernel, sheet: Sheet, other: Sheet, sizes: Sequence[int]) -> AttentionKernel:
    """Return a kernel of a device on another of which only the sheet is known."""
    share, softmax = products_and_softmax(kernel, sheet)
    size = np.array(sizes, dtype=float)
    forward = 4 * size / (4 * size / share + softmax * other.per_cycle)
    ratio = np.interp(
        size, [item.head for item in kernel.heads], [item.backward / item.forward for item in kernel.heads]
    )
    return rounded(replace(kernel, heads=_speeds(size, forward, forward * ratio)))
