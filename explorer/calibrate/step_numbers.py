"""The few numbers that a measured step can tell apart, and how to move them.

A step is minutes of kernels, host calls and transfers. One number of it says by how much each of these groups
takes longer than the profile says, all of a group together:

- `KIND.compute`: every kernel of a device kind (`DeviceKind.busy_slowdown`);
- `KIND.host`: issue of kernels and calls of stages (`host_issue_s`, `action_overhead_s`);
- `LEVEL.transfers`: bandwidth and latencies of a level;
- `KIND.overlap`, `KIND.lockstep`: what kernels lose beside transfers, and to the slowest device;
- `model NAME`: the kernels of one model besides (`DeviceKind.model_seconds`): shapes that a library does well
  or badly. Two models share all numbers but this.

Values are logarithms of factors of seconds: above 0 is slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.calibrate.numbers import CLASSES, numbers_of, shifted
from explorer.calibrate.posterior import sd_of
from explorer.cluster import Cluster, DeviceKind, Level
from explorer.cluster.calibration import MODEL

MOST_SLOWDOWN = 1.0
"""Largest slowdown that a profile may state; what is more makes operators less efficient."""
MODEL_SD = 0.05
"""Standard deviation of a model's own number before any of its steps was measured: 6 to 7 % of its compute,
half of what is left between sources once each has been fitted (docs/score.md)."""
_LEAST_COMPUTE, _DEFAULT = 0.02, {"host": 0.5, "transfers": 0.2, "overlap": 0.05, "lockstep": 0.5}
_HOST = ("host_issue_s", "action_overhead_s")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNumber:
    """One group of numbers that a step time can tell."""

    key: str
    """Unique key: `a100-sxm-80gb.compute`, `nvswitch.transfers`, `model llama3-8b`."""
    title: str
    """Readable name, continued by `slower` or `faster`."""
    sd: float
    """Standard deviation of the logarithm of its factor, by the profile."""
    members: tuple[str, ...]
    """Keys of the profile's numbers that it moves (`explorer.calibrate.numbers`)."""
    move: Callable[[Cluster, float], Cluster]
    """Returns a cluster with the group slower by a factor."""


def step_numbers(cluster: Cluster, models: tuple[str, ...] = ()) -> tuple[StepNumber, ...]:
    """List the numbers of a cluster that steps can tell, those of models last."""
    used = {group.device_kind for group in cluster.nodes}
    kinds = [kind for kind in cluster.device_kinds if kind.name in used]
    found = [item for kind in kinds for item in _of_kind(cluster, kind)]
    found += [_of_level(cluster, level) for level in cluster.levels]
    return (*found, *map(_of_model, models))


def moved(cluster: Cluster, numbers: tuple[StepNumber, ...], logs: Mapping[str, float]) -> Cluster:
    """Return the cluster with numbers moved by the logarithms of their factors, by key."""
    for number in numbers:
        if by := logs.get(number.key, 0.0):
            cluster = number.move(cluster, math.exp(by))
    return cluster


# -- device kinds -----------------------------------------------------------------------------------------


def _of_kind(cluster: Cluster, kind: DeviceKind) -> list[StepNumber]:
    bands = {item.key: item.band for item in numbers_of(cluster)}
    found = [
        StepNumber(
            key=f"{kind.name}.compute", title=f"kernels on {kind.name}", sd=_compute_sd(kind, bands),
            members=tuple(f"{kind.name}.{name}" for name in (*CLASSES, "busy_slowdown", "launch_overhead_s")),
            move=lambda cluster, factor: _slower_kernels(cluster, kind.name, factor),
        )
    ]  # fmt: skip
    hosts = tuple(f"{kind.name}.{name}" for name in _HOST if getattr(kind.software, name) > 0)
    if hosts:
        # both together are known as well as the better one alone: they add up to what steps show
        own = min((band for key in hosts if (band := bands.get(key))), default=_DEFAULT["host"])
        found.append(
            StepNumber(
                key=f"{kind.name}.host", title=f"the host of {kind.name}", sd=sd_of(own), members=hosts,
                move=lambda cluster, factor: shifted(cluster, dict.fromkeys(hosts, factor)),
            )
        )  # fmt: skip
    return [*found, _overlap(kind), *([_lockstep(kind)] if kind.device_spread else [])]


def _compute_sd(kind: DeviceKind, bands: Mapping[str, float]) -> float:
    """Return the deviation of kernels together with what a busy machine adds to them."""
    own = max(_LEAST_COMPUTE, bands.get(f"{kind.name}.matmul", 0.0))
    busy = kind.busy_slowdown * bands.get(f"{kind.name}.busy_slowdown", 0.0)
    return math.hypot(sd_of(own), sd_of(busy))


def _slower_kernels(cluster: Cluster, name: str, factor: float) -> Cluster:
    """Return the cluster with all kernels of a kind slower: by its slowdown as far as that goes, else by what
    its operators reach.
    """
    (kind,) = (item for item in cluster.device_kinds if item.name == name)
    wanted = (1 + kind.busy_slowdown) * factor
    busy = min(max(wanted - 1, 0.0), MOST_SLOWDOWN)
    cluster = _with_kind(cluster, replace(kind, busy_slowdown=busy))
    left = (1 + busy) / wanted
    return shifted(cluster, {f"{name}.{item}": left for item in CLASSES}) if left != 1 else cluster


def _overlap(kind: DeviceKind) -> StepNumber:
    """Return what kernels take longer while the device communicates: 0.05 is 5 %."""

    def move(cluster: Cluster, factor: float) -> Cluster:
        (own,) = (item for item in cluster.device_kinds if item.name == kind.name)
        longer = (1 + own.overlap_slowdown) * factor - 1
        return _with_kind(cluster, replace(own, overlap_slowdown=min(max(longer, 0.0), MOST_SLOWDOWN)))

    return StepNumber(
        key=f"{kind.name}.overlap", title=f"kernels beside transfers on {kind.name}",
        sd=sd_of(_DEFAULT["overlap"]), members=(f"{kind.name}.overlap_slowdown",), move=move,
    )  # fmt: skip


def _lockstep(kind: DeviceKind) -> StepNumber:
    """Return by how much equal devices differ, on the slowest of which all others wait."""

    def move(cluster: Cluster, factor: float) -> Cluster:
        (own,) = (item for item in cluster.device_kinds if item.name == kind.name)
        spread = min(own.device_spread * factor, MOST_SLOWDOWN)
        return _with_kind(cluster, replace(own, device_spread=spread))

    return StepNumber(
        key=f"{kind.name}.lockstep", title=f"waits for the slowest device of {kind.name}",
        sd=sd_of(_DEFAULT["lockstep"]), members=(f"{kind.name}.device_spread",), move=move,
    )  # fmt: skip


def _with_kind(cluster: Cluster, kind: DeviceKind) -> Cluster:
    kinds = tuple(kind if item.name == kind.name else item for item in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)


# -- levels and models ------------------------------------------------------------------------------------


def _of_level(cluster: Cluster, level: Level) -> StepNumber:
    own = [item for item in numbers_of(cluster) if item.owner == level.name]
    timed = tuple(item.key for item in own if item.quantity in ("seconds", "bytes_per_s"))
    rates = {item.key for item in own if item.quantity == "bytes_per_s"}
    bands = [item.band for item in own if item.name in ("bandwidth_bytes_per_s", "collective_efficiency")]

    def move(cluster: Cluster, factor: float) -> Cluster:
        return shifted(cluster, {key: 1 / factor if key in rates else factor for key in timed})

    return StepNumber(
        key=f"{level.name}.transfers", title=f"transfers over {level.name}",
        sd=sd_of(math.hypot(*bands) or _DEFAULT["transfers"]),
        members=(*timed, f"{level.name}.collective_efficiency"), move=move,
    )  # fmt: skip


def _of_model(name: str) -> StepNumber:
    def move(cluster: Cluster, factor: float) -> Cluster:
        return replace(
            cluster, device_kinds=tuple(_slower_model(kind, name, factor) for kind in cluster.device_kinds)
        )

    return StepNumber(key=MODEL + name, title=f"kernels of {name}", sd=MODEL_SD, members=(), move=move)


def _slower_model(kind: DeviceKind, model: str, factor: float) -> DeviceKind:
    known = dict(kind.model_seconds)
    known[model] = known.get(model, 1.0) * factor
    return replace(kind, model_seconds=tuple(known.items()))
