"""Variations: one plan with some of its numbers changed, for the values of a sweep or for sliders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.explain.neighbours import cut_anew
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.plan import Resolved, located
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees_reading import regular_degrees
from explorer.strategy import Strategy
from explorer.sweep.devices import scaled, with_devices
from explorer.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Variation:
    """Arguments of `simulate`."""

    graph: LayerGraph
    """Model."""
    cluster: Cluster
    """Devices."""
    workload: Workload
    """Workload of one job."""
    strategy: Strategy
    """Strategy of the plan."""

    def report(self) -> Report:
        """Predict the variation."""
        return simulate(self.graph, self.cluster, self.workload, self.strategy)


def vary(resolved: Resolved, changes: Mapping[str, float], *, weak: bool = False) -> Variation:
    """Return the plan with some numbers changed.

    Args:
        resolved: the plan.
        changes: new value per key (see `KEYS`).
        weak: weak scaling: with more devices the global batch grows in proportion; else it stays.

    Raises:
        InputError: an unknown key, a value that is impossible, or a plan that cannot be varied so.
    """
    plan = resolved.plan
    case = Variation(
        graph=resolved.graph, cluster=resolved.cluster, workload=plan.workload, strategy=plan.strategy
    )
    unknown = [key for key in changes if key not in KEYS]
    if unknown:
        raise InputError(
            f"cannot vary {unknown[0]!r}", key=unknown[0], found=unknown[0], allowed=", ".join(KEYS)
        )
    for key, make in KEYS.items():  # in this order: the model first, then the batch, then who works on it
        if key in changes:
            used = len(case.strategy.job.devices)
            case = make(resolved, case, changes[key])
            grown = len(case.strategy.job.devices)
            if weak and grown != used:
                case = _weak(case, used, grown)
    return case


def _weak(case: Variation, used: int, grown: int) -> Variation:
    batch = case.workload.job.global_batch * grown / used
    return replace(case, workload=case.workload.with_job(global_batch=_whole("global_batch", batch)))


def _sequence_length(resolved: Resolved, case: Variation, value: float) -> Variation:
    if not case.workload.job.sequence_length:
        raise InputError(
            f"samples of {case.graph.name} are no sequences", key="sequence_length", found=value,
            allowed="a model of sequences",
        )  # fmt: skip
    length = _whole("sequence_length", value)
    item = resolved.plan.models[0][1]
    graph = load_model(
        located(item.reference, resolved.folder), sequence_length=length, settings=dict(item.settings),
        framework=load_framework(case.workload.job.framework),
    )  # fmt: skip
    return replace(case, graph=graph, workload=case.workload.with_job(sequence_length=length))


def _global_batch(_: Resolved, case: Variation, value: float) -> Variation:
    batch = _whole("global_batch", value)
    return replace(case, workload=case.workload.with_job(global_batch=batch))


def _devices(_: Resolved, case: Variation, value: float) -> Variation:
    devices = _whole("devices", value)
    job = scaled(case.strategy.job, devices)
    cluster = with_devices(case.cluster, max(job.devices) + 1)
    return replace(case, cluster=cluster, strategy=case.strategy.with_job(job))


def _stages(_: Resolved, case: Variation, value: float) -> Variation:
    stages, job = _whole("stages", value), case.strategy.job
    degrees = regular_degrees(job)
    if degrees is None:
        raise InputError(
            "the pipeline can only be cut anew where all stages have the same devices and layout",
            key="stages", found=value, allowed=str(len(job.stages)),
        )  # fmt: skip
    if stages == degrees.stages:
        return case
    new = degrees.changed(stages=stages)
    cluster = with_devices(case.cluster, new.devices)
    made = cut_anew(case.graph, cluster, case.workload.job, job, new)
    return replace(case, cluster=cluster, strategy=case.strategy.with_job(made))


def _microbatch_samples(_: Resolved, case: Variation, value: float) -> Variation:
    samples, job = _whole("microbatch_samples", value), case.strategy.job
    stages = (replace(stage, microbatch_samples=samples) for stage in job.stages)
    return replace(case, strategy=case.strategy.with_job(job.with_stages(stages)))


SLOWEST, FASTEST = 1e-6, 1e6
"""Limits of a factor of bandwidth."""


def _bandwidth(_: Resolved, case: Variation, value: float) -> Variation:
    if not SLOWEST <= value <= FASTEST:
        raise InputError(
            f"{value:g} times the bandwidth",
            key="bandwidth",
            found=value,
            allowed=f"{SLOWEST:g} to {FASTEST:g}",
        )
    return replace(case, cluster=faster(case.cluster, value))


def _whole(key: str, value: float) -> int:
    if value < 1 or value != round(value):
        raise InputError(f"{value:g} {key}", key=key, found=value, allowed="a whole number of 1 or more")
    return round(value)


def faster(cluster: Cluster, factor: float) -> Cluster:
    """Multiply the bandwidth of every link by a factor; latencies stay."""
    if factor == 1:
        return cluster
    levels = tuple(
        replace(
            level,
            bandwidth_bytes_per_s=level.bandwidth_bytes_per_s * factor,
            device_bytes_per_s=level.device_bytes_per_s * factor,
            uplink_bytes_per_s=level.uplink_bytes_per_s * factor,
        )
        for level in cluster.levels
    )
    links = tuple(
        replace(link, bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * factor) for link in cluster.links
    )
    shared = tuple((name, capacity * factor) for name, capacity in cluster.shared)
    return replace(cluster, levels=levels, links=links, shared=shared)


KEYS: dict[str, Callable[[Resolved, Variation, float], Variation]] = {
    "sequence_length": _sequence_length,
    "global_batch": _global_batch,
    "devices": _devices,
    "stages": _stages,
    "microbatch_samples": _microbatch_samples,
    "bandwidth": _bandwidth,
}
"""Numbers that can be varied. `devices`: replicas follow, each keeps its microbatch; `stages`: an even cut
into that many stages, on as many device groups; nodes are added if devices are missing. `bandwidth`: one
factor for all links."""
