"""Kernels of fused attention that a device kind has, and which of them a framework's choice means there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.cluster.sources import Source

KERNELS = ("xformers", "flash-1", "flash-2", "flash-3", "flash-4", "cudnn")
"""Names of fused kernels, older ones first: memory-efficient attention (Rabe and Staats, 2021), those of
FlashAttention's four papers (2022 to 2026), and the library's of the year, on each generation its best."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSpeed:
    """What a kernel reaches at one size of heads."""

    head: int
    """Size of a head."""
    forward: float
    """Share of a compute unit's peak on a long row of blocks, softmax included, 0 < share <= 1."""
    backward: float
    """The same of the backward, whose FLOPs are 2.5 times as many."""

    def __post_init__(self) -> None:
        if self.head < 1 or not (0 < self.forward <= 1 and 0 < self.backward <= 1):
            raise InputError(
                f"heads of {self.head} at {self.forward} and {self.backward} of peak", key="heads",
                found=(self.head, self.forward, self.backward),
                allowed="a size of 1 or more, fractions in (0, 1]",
            )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernel:
    """One kernel of fused attention on one device kind; `explorer.costs.attention` has its formula."""

    name: str
    """A name in `KERNELS`."""
    heads: tuple[HeadSpeed, ...]
    """Speeds by size of heads, ascending; sizes between two are interpolated."""
    rows: int = 128
    """Queries that a compute unit works on at once."""
    columns: int = 128
    """Keys that it takes at once."""
    imbalance: float = 0.0
    """How much longer than their mean the units take if each has one block of rows; less with more blocks."""
    exposed: float = 0.0
    """Share of the seconds in which its inputs and outputs pass memory at peak that is not hidden."""
    start_s: float = 0.0
    """Seconds of its start and end."""
    sustained: float = 0.0
    """How much longer work of 10 ms takes than at the clock of short work: power limits."""
    sources: tuple[Source, ...] = ()
    """Where the numbers come from."""

    def __post_init__(self) -> None:
        sizes = [item.head for item in self.heads]
        for key, found, allowed in (
            ("name", self.name, None if self.name in KERNELS else ", ".join(KERNELS)),
            ("heads", sizes, None if sizes and sizes == sorted(set(sizes)) else "sizes, ascending"),
            ("rows", self.rows, None if self.rows > 0 else "1 or more"),
            ("columns", self.columns, None if self.columns > 0 else "1 or more"),
        ):
            if allowed is not None:
                raise InputError(
                    f"an attention kernel with {key} {found!r}", key=key, found=found, allowed=allowed
                )


def kernel_named(kernels: Sequence[AttentionKernel], name: str) -> AttentionKernel | None:
    """Return the kernel that software which asks for `name` runs.

    Args:
        kernels: those of a device kind.
        name: a name in `KERNELS`; empty for the first.

    Returns:
        That kernel; else the newest that is older, since software falls back; else the oldest. None of none.

    >>> fast = (HeadSpeed(head=128, forward=0.6, backward=0.5),)
    >>> two = (AttentionKernel(name="flash-2", heads=fast), AttentionKernel(name="flash-1", heads=fast))
    >>> kernel_named(two, "flash-3").name, kernel_named(two, "xformers").name, kernel_named(two, "").name
    ('flash-2', 'flash-1', 'flash-2')
    """
    if not kernels or not name:
        return kernels[0] if kernels else None
    ranks = [KERNELS.index(kernel.name) for kernel in kernels]
    asked = KERNELS.index(name)
    rank = max((rank for rank in ranks if rank <= asked), default=min(ranks))
    return kernels[ranks.index(rank)]


def scaled_kernels(kernels: Sequence[AttentionKernel], factor: float) -> tuple[AttentionKernel, ...]:
    """Return kernels with all shares of peak times a factor, none above 1."""

    def times(speed: HeadSpeed) -> HeadSpeed:
        return replace(
            speed, forward=min(1.0, speed.forward * factor), backward=min(1.0, speed.backward * factor)
        )

    return tuple(replace(kernel, heads=tuple(map(times, kernel.heads))) for kernel in kernels)
