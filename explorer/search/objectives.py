"""Objectives that searches minimise, with their units and lower bounds, and frontiers of several.

An objective is one `Objective` in `OBJECTIVES`: how it is read off a report, a lower bound for all strategies
of a problem, and one for a single strategy whose step time and memory are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from explorer.base.errors import InputError
from explorer.base.units import dtype_bytes, scalar_bytes, tensor_type
from explorer.cluster import Cluster, DeviceKind
from explorer.cluster.memory_room import memory_room
from explorer.costs.energy import SECONDS_PER_HOUR, dollars, dollars_per_hour, energy_joules
from explorer.costs.least_seconds import least_flops
from explorer.graph import COMPUTE, LayerGraph
from explorer.search._devices import Pool
from explorer.simulation.report import Report
from explorer.workload import Job

FRONTIER = "frontier"
"""Objective whose best is by the first of its axes, while all non-dominated candidates are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A number to be minimised."""

    name: str
    """Name, as typed."""
    title: str
    """Title in a few words, for people."""
    unit: str
    """Unit of its values."""
    value: Callable[[Cluster, Job, Report], float]
    """Returns its value for a report.

    Raises:
        InputError: the job does not say what it needs.
    """
    bound: Callable[[LayerGraph, Job, Pool], float]
    """Returns a lower bound for all strategies on the devices of the pool."""
    bound_name: str
    """Name of what that bound counts, in a few words."""
    strategy_bound: Callable[[Cluster, Job, float, float, Sequence[int]], float]
    """Returns a lower bound for a strategy, given lower bounds of its step time (s) and peak memory (bytes),
    and its devices."""
    per_device: bool = False
    """Whether every device in use adds to it, so that fewer may be better."""
    needs: Callable[[Job], bool] = lambda _: True
    """Tells whether the job states everything that it needs."""


def flops_of_step(graph: LayerGraph, job: Job) -> float:
    """Return the least FLOPs of one step: the forward, and the backward of what is trained."""
    return least_flops(graph, training=job.training) * job.global_batch


def _peaks(pool: Pool, job: Job) -> list[float]:
    """Return the peak FLOP/s of the fastest devices that may be used together, found quickly by kind."""
    kinds = {kind.name: _fastest(kind, job) for kind in pool.cluster.device_kinds}
    return sorted((kinds[pool.cluster.kind_of(device).name] for device in pool.devices), reverse=True)[
        : pool.count
    ]


def _fastest(kind: DeviceKind, job: Job) -> float:
    """Return the FLOP/s of the fastest units: those of vectors compute in fp32 whatever the precision is."""
    vectors = dict(kind.peak_flops_per_s).get("fp32", 0.0) if scalar_bytes(job.precision) < 4 else 0.0
    return max(kind.peak(job.precision), vectors)


def _least_s(graph: LayerGraph, job: Job, pool: Pool) -> float:
    """Return work over peak: no step is shorter than its FLOPs at the peak of all usable devices."""
    return flops_of_step(graph, job) / sum(_peaks(pool, job))


def _least_per_flop(graph: LayerGraph, job: Job, pool: Pool, price: Callable[[int], float]) -> float:
    """Return the price of all FLOPs on the kind of device on which one costs least."""
    kinds = {pool.cluster.kind_of(device).name: device for device in pool.devices}
    each = (price(d) / _fastest(pool.cluster.kind_of(d), job) for d in kinds.values())
    return flops_of_step(graph, job) * min(each)


def _least_dollars(graph: LayerGraph, job: Job, pool: Pool) -> float:
    cluster = pool.cluster
    return _least_per_flop(graph, job, pool, lambda d: cluster.kind_of(d).price_per_hour / SECONDS_PER_HOUR)


def _least_joules(graph: LayerGraph, job: Job, pool: Pool) -> float:
    return _least_per_flop(graph, job, pool, lambda d: pool.cluster.kind_of(d).busy_watts)


def _weight_bytes(graph: LayerGraph, job: Job) -> float:
    """Return the bytes of all weights, each once."""
    names = (tensor_type(job.precision) if item.dtype == COMPUTE else item.dtype for item in graph.parameters)
    return sum(item.elements * dtype_bytes(name) for item, name in zip(graph.parameters, names, strict=True))


def _least_bytes(graph: LayerGraph, job: Job, pool: Pool) -> float:
    """Return the bytes of all weights, spread evenly over all devices that may be used."""
    return _weight_bytes(graph, job) / pool.count


def _least_devices(graph: LayerGraph, job: Job, pool: Pool) -> float:
    """Return the devices of most room that hold all weights."""
    used = {pool.cluster.kind_of(device).name for device in pool.devices}
    room = max(memory_room(kind).limit_bytes for kind in pool.cluster.device_kinds if kind.name in used)
    return max(1.0, math.ceil(_weight_bytes(graph, job) / max(room, 1.0) * (1 - 1e-9)))


def _joules(cluster: Cluster, _: Job, report: Report) -> float:
    return energy_joules(cluster, report.devices, report.per_device(report.busy_s), report.step_time_s)


def _idle_joules(cluster: Cluster, _: Job, step_s: float, __: float, devices: Sequence[int]) -> float:
    """Return the joules that the devices draw if they are never more than idle."""
    kinds = (cluster.kind_of(device) for device in devices)
    return step_s * sum(min(kind.idle_watts, kind.busy_watts) for kind in kinds)


def steps_to_accuracy(job: Job) -> float:
    """Return the steps of all epochs at this global batch (log-linear between known batches).

    Raises:
        InputError: the workload states no epochs or no samples per epoch.
    """
    if not job.epochs or not job.samples_per_epoch:
        why = f" ({job.epochs_source})" if job.epochs_source else ""
        raise InputError(
            f"the objective time_to_accuracy needs samples per epoch and epochs to converge{why}",
            key="workload.epochs",
            allowed="epochs: [[batch, epochs], ...] and samples_per_epoch > 0",
        )
    return job.samples_per_epoch / job.global_batch * epochs_at(job.epochs, job.global_batch)


def epochs_at(points: tuple[tuple[int, float], ...], batch: int) -> float:
    """Return the epochs to converge at a batch: linear in log(batch) between points, flat outside.

    >>> epochs_at(((32, 10.0), (128, 20.0)), 64)
    15.0
    """
    before = [point for point in points if point[0] <= batch]
    after = [point for point in points if point[0] >= batch]
    if not before or not after:
        return (before or after)[-1 if before else 0][1]
    (x0, y0), (x1, y1) = before[-1], after[0]
    return y0 if x0 == x1 else y0 + (y1 - y0) * math.log(batch / x0) / math.log(x1 / x0)


def epochs_words(job: Job) -> str:
    """Say how many epochs a job takes at its global batch, and where that was read.

    Raises:
        InputError: the job states no epochs.
    """
    epochs = steps_to_accuracy(job) * job.global_batch / job.samples_per_epoch
    first, last = job.epochs[0][0], job.epochs[-1][0]
    outside = "" if first <= job.global_batch <= last else f", which is outside of {first:,} to {last:,}"
    source = f"; {job.epochs_source}" if job.epochs_source else ""
    return f"{epochs:.4g} at a batch of {job.global_batch:,}{outside}{source}"


_ALL = (
    Objective(
        name="time", title="step time", unit="s",
        value=lambda _, __, report: report.step_time_s,
        bound=_least_s, bound_name="work over peak",
        strategy_bound=lambda _, __, step_s, ___, ____: step_s,
    ),
    Objective(
        name="memory", title="worst memory", unit="bytes",
        value=lambda _, __, report: max(report.peak_memory_bytes),
        bound=_least_bytes, bound_name="weights over devices",
        strategy_bound=lambda _, __, ___, peak_bytes, ____: peak_bytes,
    ),
    Objective(
        name="devices", title="number of devices", unit="devices",
        value=lambda _, __, report: float(len(report.devices)),
        per_device=True, bound=_least_devices, bound_name="weights over memory",
        strategy_bound=lambda _, __, ___, ____, devices: float(len(devices)),
    ),
    Objective(
        name="cost", title="cost of a step", unit="dollars/step",
        value=lambda cluster, _, report: dollars(cluster, report.devices, report.step_time_s),
        per_device=True, bound=_least_dollars, bound_name="work at the least price",
        strategy_bound=lambda cluster, _, step_s, __, devices: (
            step_s * dollars_per_hour(cluster, devices) / SECONDS_PER_HOUR
        ),
    ),
    Objective(
        name="energy", title="energy of a step", unit="J/step",
        value=_joules, per_device=True, bound=_least_joules, bound_name="work at the least power",
        strategy_bound=_idle_joules,
    ),
    Objective(
        name="time_to_accuracy", title="time to accuracy", unit="s",
        value=lambda _, job, report: report.step_time_s * steps_to_accuracy(job),
        bound=lambda graph, job, pool: _least_s(graph, job, pool) * steps_to_accuracy(job),
        bound_name="work over peak",
        strategy_bound=lambda _, job, step_s, __, ___: step_s * steps_to_accuracy(job),
        needs=lambda job: bool(job.epochs and job.samples_per_epoch),
    ),
)  # fmt: skip

OBJECTIVES: dict[str, Objective] = {item.name: item for item in _ALL}
"""Objectives by name, all to be minimised."""

USUAL_AXES = ("time", "memory")
"""Axes of the frontier if none are named; a search for one objective keeps these as well."""


def frontier_axes(text: str) -> tuple[Objective, ...]:
    """Return the axes of the frontier that a search for an objective keeps.

    Raises:
        InputError: as `axes_of`.
    """
    axes = axes_of(text)
    return axes if len(axes) > 1 else tuple(OBJECTIVES[name] for name in USUAL_AXES)


def axes_of(text: str) -> tuple[Objective, ...]:
    """Return the axes of an objective as typed: one, or of `frontier:time,memory,cost` several.

    Raises:
        InputError: a name is unknown or given twice, or a frontier has fewer than two or more than three
            axes.
    """
    name, colon, rest = text.partition(":")
    names = tuple(part.strip() for part in rest.split(",")) if colon else (name,)
    if name == FRONTIER:
        names = names if colon else USUAL_AXES
        if not 2 <= len(names) <= 3 or len(set(names)) < len(names):
            raise InputError(
                f"a frontier of {rest!r}", key="objective", found=text,
                allowed=f"two or three different ones of {', '.join(OBJECTIVES)}",
            )  # fmt: skip
    unknown = [item for item in names if item not in OBJECTIVES]
    if unknown or (colon and name != FRONTIER):
        wrong = unknown[0] if unknown else text
        raise InputError(
            f"unknown objective {wrong!r}", key="objective", found=wrong,
            allowed=", ".join((*OBJECTIVES, FRONTIER, f"{FRONTIER}:NAME,NAME")),
        )  # fmt: skip
    return tuple(OBJECTIVES[item] for item in names)
