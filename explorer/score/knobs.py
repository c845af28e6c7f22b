"""Knobs: the numbers of a profile that were fitted on measurements, and how to turn them.

A `Source` that names what its number was fitted on (`fitted_on`) and what was believed before (`prior`) makes
a knob of that number. A knob of many numbers (the tiles of a device kind, a curve) is known by one of them,
and the others keep their ratios to it:

- `tiles`: the largest fraction of tiles of 128 x 128 and more; `tiles.small`: of the smaller ones;
- `efficiency.CLASS`: the last fraction of the curve; of `efficiency.sustained` only that one moves;
- `bandwidth_bytes_per_s` of a level: with it go those of a device and of an uplink.

No fraction becomes more than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from explorer.base.errors import InputError
from explorer.cluster import Cluster, Curve, DeviceKind, Level, Source, Tile

_SQUARE = 128  # a tile with a shorter side than this is a small one
_CURVES = "efficiency."
_END_ONLY = "efficiency.sustained"
_KIND_NUMBERS = (
    "tile_depth", "unaligned_fraction", "launch_overhead_s", "host_issue_s", "action_overhead_s",
    "lockstep_wait", "cached_fraction", "reserved_bytes",
)  # fmt: skip
_LEVEL_NUMBERS = ("latency_s", "collective_efficiency", "collective_overhead_s")
_FRACTIONS = ("tiles", "tiles.small", "unaligned_fraction", "collective_efficiency")

Owner = TypeVar("Owner", DeviceKind, Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One fitted number."""

    key: str
    """Its owner and the key of its source: `a100-sxm-80gb.tiles`, `a100-sxm-80gb/nvswitch.latency_s`."""
    value: float
    """What the profile says."""
    prior: float
    """What was believed before any fit, in the same unit."""
    fitted_on: str
    """The source of the rows that it was fitted on."""

    @property
    def name(self) -> str:
        """Key of its source: `tiles`, `latency_s`."""
        return name_of(self.key)

    @property
    def most(self) -> float:
        """Largest value."""
        return most_of(self.key)


def name_of(key: str) -> str:
    """What a knob turns: `tiles.small` of `a100-sxm-80gb.tiles.small`.

    >>> name_of("a100-sxm-80gb/nvswitch.latency_s"), name_of("k.efficiency.memory")
    ('latency_s', 'efficiency.memory')
    """
    return key.partition(".")[2]


def most_of(key: str) -> float:
    """Largest value of a knob: 1 for fractions."""
    name = name_of(key)
    return 1.0 if name in _FRACTIONS or name.startswith(_CURVES) else float("inf")


def knobs_of(cluster: Cluster) -> tuple[Knob, ...]:
    """Every knob of a cluster, in its order.

    Raises:
        InputError: a fitted number without a prior, or one that cannot be turned.
    """
    found = []
    for kind in cluster.device_kinds:
        found += [_knob(kind.name, s, kind_value(kind, s.key)) for s in _fitted(kind.sources)]
    for level in cluster.levels:
        owner = _level_owner(cluster, level)
        found += [_knob(owner, s, level_value(level, s.key)) for s in _fitted(level.sources)]
    return tuple(found)


def turned(cluster: Cluster, values: Mapping[str, float]) -> Cluster:
    """The cluster with some of its knobs, by key, at other values; keys of other clusters are left alone."""
    if not any(knob.key in values for knob in knobs_of(cluster)):
        return cluster
    return replace(
        cluster,
        device_kinds=tuple(
            _turned(kind, kind.name, values, with_kind_value) for kind in cluster.device_kinds
        ),
        levels=tuple(
            _turned(level, _level_owner(cluster, level), values, with_level_value) for level in cluster.levels
        ),
    )


def _turned(
    owner: Owner, name: str, values: Mapping[str, float], change: Callable[[Owner, str, float], Owner]
) -> Owner:
    for source in _fitted(owner.sources):
        if (value := values.get(f"{name}.{source.key}")) is not None:
            owner = change(owner, source.key, value)
    return owner


def _fitted(sources: tuple[Source, ...]) -> list[Source]:
    return [source for source in sources if source.fitted_on]


def _level_owner(cluster: Cluster, level: Level) -> str:
    """Levels of one name on clusters of one device kind are the same hardware."""
    return f"{cluster.nodes[0].device_kind}/{level.name}"


def _knob(owner: str, source: Source, value: float) -> Knob:
    key = f"{owner}.{source.key}"
    if source.prior is None:
        raise InputError(
            "a number that was fitted on rows needs what was believed before",
            key=key, allowed="prior: a number",
        )  # fmt: skip
    return Knob(key=key, value=value, prior=source.prior, fitted_on=source.fitted_on)


# ---- One number of a device kind or a level -----------------------------------------------------


def kind_value(kind: DeviceKind, name: str) -> float:
    """The number of a device kind by which a knob is known.

    Raises:
        InputError: there is no such number.
    """
    if name in _KIND_NUMBERS:
        return float(getattr(kind, name))
    if name in ("tiles", "tiles.small"):
        chosen = [tile.fraction for tile in kind.tiles if _is_small(tile) is (name != "tiles")]
        if chosen:
            return max(chosen)
    elif (curve := dict(kind.efficiency).get(name.removeprefix(_CURVES))) and name.startswith(_CURVES):
        return curve.points[-1][1]
    raise _unknown(kind.name, name, ("tiles", "tiles.small", f"{_CURVES}CLASS", *_KIND_NUMBERS))


def with_kind_value(kind: DeviceKind, name: str, value: float) -> DeviceKind:
    """The kind with that number at `value`.

    Raises:
        InputError: there is no such number.
    """
    factor = value / (kind_value(kind, name) or 1.0)
    if name in _KIND_NUMBERS:
        changes: dict[str, float] = {name: value}
        return replace(kind, **changes)  # type: ignore[arg-type]
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
    changed = name.removeprefix(_CURVES)
    return replace(
        kind,
        efficiency=tuple(
            (other, _scaled(curve, factor, end_only=name == _END_ONLY) if other == changed else curve)
            for other, curve in kind.efficiency
        ),
    )


def level_value(level: Level, name: str) -> float:
    """The number of a level by which a knob is known.

    Raises:
        InputError: there is no such number.
    """
    if name in (*_LEVEL_NUMBERS, "bandwidth_bytes_per_s"):
        return float(getattr(level, name))
    raise _unknown(level.name, name, (*_LEVEL_NUMBERS, "bandwidth_bytes_per_s"))


def with_level_value(level: Level, name: str, value: float) -> Level:
    """The level with that number at `value`.

    Raises:
        InputError: there is no such number.
    """
    factor = value / (level_value(level, name) or 1.0)
    if name != "bandwidth_bytes_per_s":
        changes: dict[str, float] = {name: value}
        return replace(level, **changes)  # type: ignore[arg-type]
    return replace(
        level,
        bandwidth_bytes_per_s=value,
        device_bytes_per_s=level.device_bytes_per_s * factor,
        uplink_bytes_per_s=level.uplink_bytes_per_s * factor,
    )


def _is_small(tile: Tile) -> bool:
    return min(tile.rows, tile.columns) < _SQUARE


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
