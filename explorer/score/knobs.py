"""Knobs: the numbers of a profile that were fitted on measurements, and how to turn them.

A `Source` that names the measurements that its number was fitted on (`fitted_on`) and the value believed
before (`prior`) makes a knob of that number, which `explorer.calibrate.table` reads and sets. Costs of
software on a device kind belong to the framework that states them:
`a100-sxm-80gb/megatron-2021.host_issue_s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from explorer.base.errors import InputError
from explorer.calibrate.table import (
    SOFTWARE,
    kind_value,
    largest,
    level_value,
    with_kind_value,
    with_level_value,
)
from explorer.cluster import Cluster, DeviceKind, Level, Source

Owner = TypeVar("Owner", DeviceKind, Level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Knob:
    """One fitted number."""

    key: str
    """Its owner and the key of its source: `a100-sxm-80gb.tiles`, `a100-sxm-80gb/nvswitch.latency_s`."""
    value: float
    """Value in the profile."""
    prior: float
    """Value believed before any fit, in the same unit."""
    fitted_on: str
    """Source of the rows on which it was fitted."""

    @property
    def name(self) -> str:
        """Key of its source: `tiles`, `latency_s`."""
        return name_of(self.key)

    @property
    def most(self) -> float:
        """Largest value."""
        return most_of(self.key)


def name_of(key: str) -> str:
    """Return the name of the number that a knob turns: `tiles.small` of `a100-sxm-80gb.tiles.small`.

    >>> name_of("a100-sxm-80gb/nvswitch.latency_s"), name_of("k.efficiency.memory")
    ('latency_s', 'efficiency.memory')
    """
    return key.partition(".")[2]


def most_of(key: str) -> float:
    """Return the largest value of a knob: 1 for fractions."""
    return largest(name_of(key))


def knobs_of(cluster: Cluster) -> tuple[Knob, ...]:
    """Return every knob of a cluster, in its order.

    Raises:
        InputError: a fitted number has no prior, or cannot be turned.
    """
    found = []
    for kind in cluster.device_kinds:
        found += [_knob(owner, s, kind_value(kind, s.key)) for owner, s in _kind_knobs(kind)]
    for level in cluster.levels:
        owner = _level_owner(cluster, level)
        found += [_knob(owner, s, level_value(level, s.key)) for s in _fitted(level.sources)]
    return tuple(found)


def turned(cluster: Cluster, values: Mapping[str, float]) -> Cluster:
    """Return the cluster with some knobs, by key, at other values; keys of other clusters are ignored."""
    if not any(knob.key in values for knob in knobs_of(cluster)):
        return cluster
    return replace(
        cluster,
        device_kinds=tuple(_turned(k, _kind_knobs(k), values, with_kind_value) for k in cluster.device_kinds),
        levels=tuple(
            _turned(
                level, [(_level_owner(cluster, level), s) for s in _fitted(level.sources)], values,
                with_level_value,
            )
            for level in cluster.levels
        ),
    )  # fmt: skip


def _turned(
    owner: Owner,
    knobs: Sequence[tuple[str, Source]],
    values: Mapping[str, float],
    change: Callable[[Owner, str, float], Owner],
) -> Owner:
    for name, source in knobs:
        if (value := values.get(f"{name}.{source.key}")) is not None:
            owner = change(owner, source.key, value)
    return owner


def _kind_knobs(kind: DeviceKind) -> list[tuple[str, Source]]:
    """Return (owner, source) of each fitted number of a device kind, costs of software on it last."""
    framework = kind.software.framework
    software = f"{kind.name}/{framework}" if framework else kind.name
    own = [(software if source.key in SOFTWARE else kind.name, source) for source in _fitted(kind.sources)]
    return own + [(software, source) for source in _fitted(kind.software.sources)]


def _fitted(sources: tuple[Source, ...]) -> list[Source]:
    return [source for source in sources if source.fitted_on]


def _level_owner(cluster: Cluster, level: Level) -> str:
    """Return the owner of a level: equal names on clusters of one device kind are the same hardware."""
    return f"{cluster.nodes[0].device_kind}/{level.name}"


def _knob(owner: str, source: Source, value: float) -> Knob:
    key = f"{owner}.{source.key}"
    if source.prior is None:
        raise InputError(
            "a number that was fitted on rows needs what was believed before",
            key=key, allowed="prior: a number",
        )  # fmt: skip
    return Knob(key=key, value=value, prior=source.prior, fitted_on=source.fitted_on)
