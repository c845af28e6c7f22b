"""Room of a device: up to which predicted peak everything fits, and beyond which it does not.

A prediction of memory is off in two ways, independent of each other: tensors by a share (what kernels keep,
and how much of its memory an allocator cannot use: `Software.memory_band`), and what a process loses before
its first tensor (context, buffers of communicators) by the band of its source. With T bytes of tensors, R
reserved and C there are, a plan *fits* where even the upper end does, and *does not fit* where not even the
lower end does:

    T + R + sqrt((a T)^2 + (b R)^2) <= C          T + R - sqrt((a T)^2 + (b R)^2) > C

Both borders are roots of one quadratic equation, with D = C - R:

    T = (D -+ sqrt(a^2 D^2 + (1 - a^2) b^2 R^2)) / (1 - a^2)

Between them it *may fit*. The half-widths a and b are those of nineteen cases in twenty, `SURE` times the
80 % bands that sources state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.cluster.device_kinds import MARGINS, SURELY, DeviceKind
from explorer.cluster.topology import Cluster

FITS, MAY_FIT, DOES_NOT_FIT = "fits", "may fit", "does not fit"
VERDICTS = (FITS, MAY_FIT, DOES_NOT_FIT)
"""Verdicts on a plan's memory, the best first."""

SURE = 1.53
"""Half-width of a normal error that holds in 19 cases of 20, over that of the 80 % band."""
WIDEST = 0.9
"""Largest relative half-width: beyond it no amount would be too much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRoom:
    """Borders of one device, bytes of a predicted peak with what is reserved."""

    fits_bytes: float
    """Largest peak that fits for sure."""
    may_fit_bytes: float
    """Largest peak that may fit."""
    limit_bytes: float
    """The one of both that the device kind's margin asks for: plans above it are infeasible."""

    def verdict(self, peak_bytes: float) -> str:
        """Return one of `VERDICTS` on a predicted peak."""
        if peak_bytes <= self.fits_bytes:
            return FITS
        return MAY_FIT if peak_bytes <= self.may_fit_bytes else DOES_NOT_FIT


def memory_room(kind: DeviceKind) -> MemoryRoom:
    """Return the room of a device kind, by the bands of its profile and of its software.

    Without any band both borders are its memory.

    >>> kind = DeviceKind(name="a", memory_bytes=80.0, memory_bandwidth_bytes_per_s=1.0,
    ...                   peak_flops_per_s=(("bf16", 1.0),))
    >>> memory_room(kind).fits_bytes, memory_room(kind).may_fit_bytes
    (80.0, 80.0)
    """
    reserved = kind.reserved_bytes
    left = kind.memory_bytes - reserved
    a, b = (min(WIDEST, SURE * band) for band in (kind.software.memory_band, _reserved_band(kind)))
    if left <= 0 or not (a or b):
        fits = may_fit = kind.memory_bytes
    else:
        spread = math.sqrt((a * left) ** 2 + (1 - a * a) * (b * reserved) ** 2)
        fits, may_fit = (reserved + (left + way * spread) / (1 - a * a) for way in (-1, 1))
    return MemoryRoom(
        fits_bytes=fits, may_fit_bytes=may_fit,
        limit_bytes=fits if kind.memory_margin == SURELY else may_fit,
    )  # fmt: skip


def _reserved_band(kind: DeviceKind) -> float:
    """Return the 80 % band of the reserved bytes; 0 if no source is about them."""
    return next((source.band for source in kind.sources if source.key == "reserved_bytes"), 0.0)


def with_margin(cluster: Cluster, margin: str) -> Cluster:
    """Return a cluster whose devices take plans that fit for sure (`surely`), or may fit (`likely`).

    Raises:
        InputError: an unknown margin.
    """
    if margin not in MARGINS:
        raise InputError(
            f"unknown memory margin {margin!r}",
            key="memory_margin",
            found=margin,
            allowed=" or ".join(MARGINS),
        )
    if all(kind.memory_margin == margin for kind in cluster.device_kinds):
        return cluster
    return cluster.memo(("margin", margin), lambda: _with_margin(cluster, margin))


MARGIN = "memory_margin"
"""Setting of a reference to a cluster: its devices' margin, where it is not the profile's own."""


def margin_settings(cluster: Cluster) -> tuple[tuple[str, str], ...]:
    """Return the settings with which a reference to a cluster keeps that only what fits for sure is taken."""
    sure = all(kind.memory_margin == SURELY for kind in cluster.device_kinds)
    return ((MARGIN, SURELY),) if sure else ()


def under_settings(cluster: Cluster, settings: tuple[tuple[str, str], ...]) -> Cluster:
    """Return a cluster as the settings of its reference have it.

    Raises:
        InputError: a setting other than `MARGIN`, or an unknown margin.
    """
    for name, value in settings:
        if name != MARGIN:
            raise InputError(f"unknown setting {name!r} of a cluster", key=name, found=value, allowed=MARGIN)
        cluster = with_margin(cluster, value)
    return cluster


def _with_margin(cluster: Cluster, margin: str) -> Cluster:
    kinds = tuple(replace(kind, memory_margin=margin) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)


def worst(verdicts: tuple[str, ...]) -> str:
    """Return the worst of some verdicts; `fits` of none."""
    return max(verdicts, key=VERDICTS.index, default=FITS)
