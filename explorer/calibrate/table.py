"""Table of every number of a device kind or level that may be off, read and set by the key of its source.

A number that stands for many (the tiles of a device kind, a curve) is known by one of them, and the others
keep their ratios to it:

- `product_kernels`: the largest fraction of any of their tiles, of every precision;
- `operation_efficiency`: the largest of all operations;
- `protocols`: the overhead of the first, with which all their seconds move;
- `tiles`: the largest fraction of tiles of 128 x 128 and more; `tiles.small`: of the smaller ones;
- `efficiency.CLASS`: the last fraction of the curve; of `efficiency.sustained` only that one moves; with
  `efficiency.attention` go the shares of kernels of attention;
- `peak_flops_per_s`: the largest of all precisions;
- `bandwidth_bytes_per_s` of a level: those of a device and of an uplink go with it.

No fraction becomes more than 1. Both calibration (`explorer.calibrate.numbers`) and the fits to published
rows (`explorer.score.knobs`) change numbers only here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from explorer.base.errors import InputError
from explorer.cluster import Curve, DeviceKind, Level, ProductKernels, Protocol, Tile
from explorer.cluster.attention_kernels import scaled_kernels

CURVES = "efficiency."
"""Start of the keys of efficiency curves."""
SOFTWARE = ("host_issue_s", "action_overhead_s", "cached_fraction")
"""Numbers of the software on a device kind, which also has their sources."""
KIND_FIELDS = (
    "tile_depth", "settled_fraction", "unaligned_fraction", "launch_overhead_s", "lockstep_wait",
    "device_spread", "overlap_slowdown", "busy_slowdown", "exposed_memory", "reserved_bytes",
    "memory_bandwidth_bytes_per_s", "host_bandwidth_bytes_per_s",
)  # fmt: skip
"""Plain fields of a device kind."""
LEVEL_FIELDS = (
    "bandwidth_bytes_per_s", "latency_s", "collective_efficiency", "collective_overhead_s",
    "crossing_slowdown",
)  # fmt: skip
"""Numbers of a level."""

SQUARE = 128
"""Side in elements; tiles with a shorter side are small."""
_END_ONLY = f"{CURVES}sustained"
_FRACTIONS = (
    "product_kernels",
    "settled_fraction",
    "tiles",
    "tiles.small",
    "unaligned_fraction",
    "collective_efficiency",
    "operation_efficiency",
    "cached_fraction",
)


def largest(name: str) -> float:
    """Return the largest value of a number: 1 for fractions, else infinity.

    >>> largest("tiles.small"), largest("efficiency.conv"), largest("latency_s")
    (1.0, 1.0, inf)
    """
    return 1.0 if name in _FRACTIONS or name.startswith(CURVES) else float("inf")


def kind_value(kind: DeviceKind, name: str) -> float:
    """Return a number of a device kind.

    Raises:
        InputError: there is no such number.
    """
    if name in KIND_FIELDS:
        return float(getattr(kind, name))
    if name in SOFTWARE:
        return float(getattr(kind.software, name))
    if name == "peak_flops_per_s":
        return max(peak for _, peak in kind.peak_flops_per_s)
    if name == "product_kernels" and kind.product_kernels:
        return max(tile.fraction for _, kernels in kind.product_kernels for tile in kernels.tiles)
    if name in ("tiles", "tiles.small"):
        chosen = [tile.fraction for tile in kind.tiles if _is_small(tile) is (name != "tiles")]
        if chosen:
            return max(chosen)
    elif (curve := dict(kind.efficiency).get(name.removeprefix(CURVES))) and name.startswith(CURVES):
        return curve.points[-1][1]
    raise _unknown(
        kind.name,
        name,
        ("product_kernels", "tiles", "tiles.small", f"{CURVES}CLASS", *KIND_FIELDS, *SOFTWARE),
    )


def with_kind_value(kind: DeviceKind, name: str, value: float) -> DeviceKind:
    """Return the kind with a number set to `value`.

    Raises:
        InputError: there is no such number.
    """
    factor = value / (kind_value(kind, name) or 1.0)
    if name in KIND_FIELDS:
        return replace(kind, **{name: value})  # type: ignore[arg-type]
    if name in SOFTWARE:
        changes: dict[str, Any] = {name: value}
        return replace(kind, software=replace(kind.software, **changes))
    if name == "peak_flops_per_s":
        return replace(kind, peak_flops_per_s=tuple((p, peak * factor) for p, peak in kind.peak_flops_per_s))
    if name == "product_kernels":
        made = ((precision, _kernels_scaled(item, factor)) for precision, item in kind.product_kernels)
        return replace(kind, product_kernels=tuple(made))
    if name in ("tiles", "tiles.small"):
        return replace(
            kind,
            tiles=tuple(
                replace(tile, fraction=min(1.0, tile.fraction * factor))
                if _is_small(tile) is (name != "tiles")
                else tile
                for tile in kind.tiles
            ),
        )
    changed = name.removeprefix(CURVES)
    kernels = kind.attention_kernels
    return replace(
        kind,
        attention_kernels=scaled_kernels(kernels, factor) if changed == "attention" else kernels,
        efficiency=tuple(
            (other, _scaled(curve, factor, end_only=name == _END_ONLY) if other == changed else curve)
            for other, curve in kind.efficiency
        ),
    )


def level_value(level: Level, name: str) -> float:
    """Return a number of a level.

    Raises:
        InputError: there is no such number.
    """
    if name in LEVEL_FIELDS:
        return float(getattr(level, name))
    if name == "operation_efficiency" and level.operation_efficiency:
        return max(share for _, share in level.operation_efficiency)
    if name == "protocols" and level.protocols:
        return level.protocols[0].overhead_s
    raise _unknown(level.name, name, (*LEVEL_FIELDS, "operation_efficiency", "protocols"))


def with_level_value(level: Level, name: str, value: float) -> Level:
    """Return the level with a number set to `value`.

    Raises:
        InputError: there is no such number.
    """
    factor = value / (level_value(level, name) or 1.0)
    if name == "operation_efficiency":
        shares = ((op, min(1.0, share * factor)) for op, share in level.operation_efficiency)
        return replace(level, operation_efficiency=tuple(shares))
    if name == "protocols":
        return replace(level, protocols=tuple(_slower(protocol, factor) for protocol in level.protocols))
    if name != "bandwidth_bytes_per_s":
        changes: dict[str, float] = {name: min(value, largest(name))}
        return replace(level, **changes)  # type: ignore[arg-type]
    return replace(
        level,
        bandwidth_bytes_per_s=value,
        device_bytes_per_s=level.device_bytes_per_s * factor,
        uplink_bytes_per_s=level.uplink_bytes_per_s * factor,
    )


def _kernels_scaled(kernels: ProductKernels, factor: float) -> ProductKernels:
    tiles = (replace(tile, fraction=min(1.0, tile.fraction * factor)) for tile in kernels.tiles)
    return replace(kernels, tiles=tuple(tiles))


def _slower(protocol: Protocol, factor: float) -> Protocol:
    return replace(
        protocol,
        overhead_s=protocol.overhead_s * factor,
        step_s=protocol.step_s * factor,
        slice_s=protocol.slice_s * factor,
    )


def _is_small(tile: Tile) -> bool:
    return min(tile.rows, tile.columns) < SQUARE


def _scaled(curve: Curve, factor: float, *, end_only: bool) -> Curve:
    last = len(curve.points) - 1
    return Curve(
        points=tuple(
            (size, fraction if end_only and i < last else min(1.0, fraction * factor))
            for i, (size, fraction) in enumerate(curve.points)
        )
    )


def _unknown(owner: str, name: str, allowed: tuple[str, ...]) -> InputError:
    return InputError(
        f"{name!r} of {owner!r} cannot be fitted", key=name, found=name, allowed=", ".join(allowed)
    )
