"""Numbers of the levels of a node fitted to measured collectives: efficiencies, protocols, overheads.

What is fitted is what the profile states as not 0 of levels with protocols: their `operation_efficiency`, and
each protocol's seconds, shares and copies. Bandwidths, who is below
which switch and which protocols there are come from documents. What a busy node adds to every collective
(`collective_overhead_s`) is left out, as collectives are measured back to back on idle devices. The fit is
the most probable point in logarithms around the profile's numbers: a row counts by its logarithmic error, by
its size where that is large (a library that takes the slower protocol for a size is no noise of a clock), and
small messages for less.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from explorer.cluster import Cluster, Level, Protocol
from explorer.costs.collectives import collective_lines, lowest_line

FloatArray = NDArray[np.float64]

LARGE_BYTES = 2.0**20
"""Bytes from which a message counts fully."""
SMALL_WEIGHT = 0.6
"""Weight of an error of a smaller message."""
ERROR_SCALE = 0.05
"""Relative error up to which errors count by their squares."""
MOST_EFFICIENT = 1.0
"""Largest share of a bandwidth."""
STARTS: tuple[dict[str, float], ...] = (
    {},
    {"step_s": 0.1, "operation_efficiency": 1.1},
    {"step_s": 0.1, "operation_efficiency": 1.2, "overhead_s": 1.5},
)
"""Factors by field of the places where fits begin, of which the best end counts: several protocols explain
middle sizes nearly as well."""
PRIOR_SD = 2.0
"""Standard deviation of a number's logarithm around the profile's: a factor of 7."""
_STEPS = ("overhead_s", "step_s", "slice_s")
_TABLES = ("shares", "own_copy")


_RINGS = ("all_reduce", "all_gather", "reduce_scatter")
_EVERY = (*_RINGS, "all_to_all")
_NCCL_S = {"nvswitch": (8.4e-6, 3.4e-6, 6.6e-6, 0.6e-6), "pcie": (8.4e-6, 5.7e-6, 6.6e-6, 1.0e-6)}
"""By kind of link what NCCL's tuning model (tuning.cc) believes of rings: seconds of a collective and of a
step, of its simple protocol and of that for small messages."""


class CollectiveTime(NamedTuple):
    """One measured collective over the first devices of a node."""

    op: str
    """all_reduce, reduce_scatter, all_gather or all_to_all."""
    devices: int
    """How many take part."""
    bytes_count: float
    """Full buffer, as `explorer.costs.collectives` counts it."""
    seconds: float
    """Measured."""


class _Setting(NamedTuple):
    """One number of a level that may be fitted."""

    level: int
    protocol: int
    """Position of the protocol; -1 for the level's own number."""
    field: str
    op: str
    """Entry of a table; empty for a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveFit:
    """Fitted profile with what it says of the rows."""

    cluster: Cluster
    """With the fitted levels, on an idle node (`idle`)."""
    errors: tuple[float, ...]
    """predicted / measured - 1 of each row."""


def fit_collectives(cluster: Cluster, rows: Sequence[CollectiveTime], *, rounds: int = 60) -> CollectiveFit:
    """Return a profile whose levels say best what some collectives took.

    Args:
        cluster: profile with the numbers to start from, of a node at least as large as the rows' groups.
        rows: measured collectives; levels that no row crosses keep their numbers.
        rounds: most evaluations of the slopes.
    """
    from scipy.optimize import least_squares

    cluster = idle(cluster)
    groups = _grouped(rows)
    used = max(row.devices for row in rows)
    settings = [item for item in _settings(cluster) if _joins(cluster, cluster.levels[item.level], used)]
    start = np.log([_value(cluster.levels[item.level], item) for item in settings])
    most = np.array([math.log(_most(item)) for item in settings])

    def misses(logs: Any) -> Any:
        tried = _with(cluster, settings, np.exp(logs))
        errors = [
            np.log(_predicted(tried, op, n, sizes) / seconds) * weights
            for (op, n), (sizes, seconds, weights, _) in groups.items()
        ]
        beliefs = np.sqrt(2 * ERROR_SCALE) * ERROR_SCALE * (logs - start) / PRIOR_SD
        return np.concatenate([*errors, beliefs])

    tries = []
    for factors in STARTS:
        begun = start + np.log([factors.get(item.field, 1.0) for item in settings])
        tries.append(
            least_squares(
                misses, np.minimum(begun, most - 1e-3), bounds=(np.full(len(start), -60.0), most),
                loss="soft_l1", f_scale=ERROR_SCALE, max_nfev=rounds,
            )
        )  # fmt: skip
    found = min(tries, key=lambda item: float(item.cost))
    best = _with(cluster, settings, np.exp(found.x))
    return CollectiveFit(cluster=best, errors=collective_errors(best, rows))


def with_documented_protocols(cluster: Cluster, depths: Sequence[int], *, in_switch: bool) -> Cluster:
    """Return a cluster some of whose levels have what documents say of NCCL's protocols: where fits start.

    The small messages' protocol stores half flags (or an eighth), so that it reaches a part of the bandwidth;
    that slices take .3 us each and an own copy half of a sent byte's time is general knowledge.

    Args:
        cluster: the profile.
        depths: positions of the levels, of kind nvswitch or pcie.
        in_switch: whether switches add up (NVLink SHARP: NVSwitch of Hopper and later).
    """
    levels = list(cluster.levels)
    for k in depths:
        level = levels[k]
        overhead, step, early, short = _NCCL_S[level.kind]
        protocols = [
            Protocol(
                name="simple", overhead_s=overhead, step_s=step, slice_s=0.3e-6,
                own_copy=tuple((op, 0.5) for op in _EVERY) if level.kind == "nvswitch" else (),
            ),
            Protocol(
                name="low_latency", overhead_s=early, step_s=short,
                shares=tuple((op, 0.4) for op in _RINGS),
            ),
            Protocol(name="low_latency_pairs", overhead_s=early, shares=(("all_to_all", 0.1),)),
        ]  # fmt: skip
        if in_switch:
            adding = Protocol(
                name="in_switch",
                overhead_s=18e-6,
                slice_s=0.3e-6,
                shares=(("all_reduce", 0.85),),
                in_switch=True,
            )
            protocols.append(adding)
        efficiency = tuple((op, level.collective_efficiency) for op in _EVERY)
        levels[k] = replace(level, operation_efficiency=efficiency, protocols=tuple(protocols))
    return replace(cluster, levels=tuple(levels))


def idle(cluster: Cluster) -> Cluster:
    """Return a cluster on which nobody comes late to a collective: protocols say what it takes by itself."""
    return replace(
        cluster,
        levels=tuple(
            replace(level, collective_overhead_s=0.0) if level.protocols else level
            for level in cluster.levels
        ),
    )


def _most(item: _Setting) -> float:
    return MOST_EFFICIENT if item.field == "operation_efficiency" else 1.0 if item.op else math.inf


def collective_errors(cluster: Cluster, rows: Sequence[CollectiveTime]) -> tuple[float, ...]:
    """Return predicted / measured - 1 of collectives measured on idle devices."""
    cluster = idle(cluster)
    errors = np.zeros(len(rows))
    for (op, n), (sizes, seconds, _, places) in _grouped(rows).items():
        errors[places] = _predicted(cluster, op, n, sizes) / seconds - 1
    return tuple(errors.tolist())


def _grouped(
    rows: Iterable[CollectiveTime],
) -> dict[tuple[str, int], tuple[FloatArray, FloatArray, FloatArray, NDArray[np.int64]]]:
    """Return bytes, seconds, weights and places of the rows of each operation and number of devices."""
    found: dict[tuple[str, int], list[tuple[float, float, float, int]]] = {}
    for place, row in enumerate(rows):
        weight = 1.0 if row.bytes_count >= LARGE_BYTES else SMALL_WEIGHT
        found.setdefault((row.op, row.devices), []).append((row.bytes_count, row.seconds, weight, place))
    return {
        key: (*np.array(items, dtype=float).T[:3], np.array([item[3] for item in items]))
        for key, items in found.items()
    }


def _predicted(cluster: Cluster, op: str, devices: int, sizes: FloatArray) -> FloatArray:
    lines = collective_lines(cluster, op, tuple(range(devices)))
    return np.asarray(lowest_line(lines, sizes))  # type: ignore[arg-type]


def _joins(cluster: Cluster, level: Level, devices: int) -> bool:
    """Tell whether any of the first devices of a node reach each other over a level or one inside of it."""
    inner = cluster.levels[: cluster.levels.index(level)]
    reached = max([1, *(cluster.node_size(0) if item.scope == "node" else _scope(item) for item in inner)])
    return reached < devices


def _scope(level: Level) -> float:
    return float(level.scope) if isinstance(level.scope, int) else math.inf


def _settings(cluster: Cluster) -> list[_Setting]:
    """Return the numbers of a profile that collectives may tell: those that it does not state as 0."""
    found = []
    for k, level in enumerate(cluster.levels):
        if level.protocols:
            found += [_Setting(k, -1, "operation_efficiency", op) for op, _ in level.operation_efficiency]
        for p, protocol in enumerate(level.protocols):
            found += [_Setting(k, p, field, "") for field in _STEPS if getattr(protocol, field)]
            found += [
                _Setting(k, p, field, op) for field in _TABLES for op, x in getattr(protocol, field) if x
            ]
    return found


def _value(level: Level, item: _Setting) -> float:
    owner: Level | Protocol = level if item.protocol < 0 else level.protocols[item.protocol]
    value = getattr(owner, item.field)
    return float(dict(value)[item.op] if item.op else value)


def _with(cluster: Cluster, settings: Sequence[_Setting], values: Iterable[float]) -> Cluster:
    """Return the cluster with some numbers replaced."""
    numbers: dict[tuple[int, int], dict[str, Any]] = {}
    for item, value in zip(settings, values, strict=True):
        own = numbers.setdefault((item.level, item.protocol), {})
        if item.op:
            own.setdefault(item.field, {})[item.op] = min(float(value), 1.0)
        else:
            own[item.field] = float(value)
    levels = []
    for k, level in enumerate(cluster.levels):
        protocols = tuple(_changed(item, numbers.get((k, p), {})) for p, item in enumerate(level.protocols))
        levels.append(replace(_changed(level, numbers.get((k, -1), {})), protocols=protocols))
    return replace(cluster, levels=tuple(levels))


def _changed(owner: Any, numbers: dict[str, Any]) -> Any:
    """Return a level or protocol with other numbers; entries of tables keep their order."""
    fields = {
        name: tuple((op, value.get(op, x)) for op, x in getattr(owner, name))
        if isinstance(value, dict)
        else value
        for name, value in numbers.items()
    }
    return replace(owner, **fields) if fields else owner
