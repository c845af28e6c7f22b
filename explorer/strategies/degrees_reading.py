"""Degrees of parallelism read back from a strategy: exactly, where it is regular, or the nearest."""

from __future__ import annotations

from dataclasses import replace

from explorer.schedules import SCHEDULES
from explorer.sharding.derive import RING
from explorer.strategies.degrees import ALL_TO_ALL, GATHER, RING_EXCHANGE, Degrees
from explorer.strategies.model_axes import CONTEXT, EXPERT, TENSOR
from explorer.strategy import REPLICA, ROUND_ROBIN, SPLIT, JobStrategy, Strategy, single


def read_degrees(strategy: Strategy) -> Degrees | None:
    """Return the degrees of which `build` makes this strategy, with some cuts and devices.

    None for any other: stages that differ, shares, offload, reductions of its own, ....
    """
    if len(strategy.jobs) != 1:
        return None
    job = strategy.job
    found = nearest_degrees(job)
    homes = found.homes
    if [len(stage.meshes) for stage in job.stages] != [len(positions) for positions in homes]:
        return None
    meshes = {
        position: mesh
        for positions, stage in zip(homes, job.stages, strict=True)
        for position, mesh in zip(positions, stage.meshes, strict=True)
    }
    devices = [device for _, mesh in sorted(meshes.items()) for device in mesh.devices]
    if len(set(devices)) != found.devices or len(devices) != found.devices:
        return None
    parts = [stage.layers for stage in job.stages]
    patterns = next((item.layers for stage in job.stages for item in stage.shardings), ())
    stages = found.stages_of(parts, devices, patterns)
    made = single(stages=stages, schedule=job.schedule, options=job.options, sync=found.sync, job=job.job)
    plain = job.with_stages(replace(stage, name="") if stage.name else stage for stage in job.stages)
    return found if made.job == plain else None


def regular_degrees(job: JobStrategy) -> Degrees | None:
    """Return the degrees of a strategy whose stages lie alike, whatever else is chosen; None for others.

    Equal meshes of known axes, one device group after the other, without slices, shares, shardings or
    exceptions of single layers, or replicas that take turns.
    """
    axes = {mesh.axes for stage in job.stages for mesh in stage.meshes}
    groups = {stage.meshes for stage in job.stages}
    plain = all(
        not (stage.slices or stage.shardings or stage.keeping or stage.shares or stage.axis_shares)
        and stage.replicas == SPLIT
        and len(stage.meshes) == 1
        for stage in job.stages
    )
    known = {name for found in axes for name, _ in found} <= {REPLICA, CONTEXT, TENSOR}
    alike = len(axes) == 1 and plain and known and len(job.stages) % len(groups) == 0
    return nearest_degrees(job) if alike else None


def nearest_degrees(job: JobStrategy, positions: int = 0) -> Degrees:
    """Return the degrees nearest to any strategy, as pickers show it: those of its first stage.

    Args:
        job: the strategy.
        positions: device groups along the pipeline; 0 counts those that hold layers.
    """
    first = job.stages[0]
    mesh = first.meshes[0]
    whole = SCHEDULES.get(job.schedule).with_options(dict(job.options)).placement.whole
    homes = {mesh for stage in job.stages for mesh in stage.meshes}
    stages = len(homes) if whole or not positions else positions
    context = mesh.size(CONTEXT)
    shared = 1 if first.replicas == ROUND_ROBIN else mesh.replicas
    own = (item.meshes[0] for stage in job.stages for item in stage.shardings if item.meshes)
    dims = {dim for dim, axis in first.layout if axis == CONTEXT}
    return Degrees(
        stages=stages,
        replicas=mesh.replicas,
        tensor=len(mesh.devices) // (mesh.replicas * context),
        context=context,
        expert=max((found.size(EXPERT) for found in own), default=1),
        chunks=len(job.stages) if whole else max(1, len(job.stages) // stages),
        microbatch_size=max(1, first.microbatch_samples // shared),
        recompute=first.recompute,
        zero=first.zero,
        schedule=job.schedule,
        options=job.options,
        sequence_parallel=("seq", TENSOR) in first.layout,
        context_exchange=RING_EXCHANGE if RING in dims else ALL_TO_ALL if "heads" in dims else GATHER,
        bucket_bytes=job.sync[0].bucket_bytes if job.sync else 0.0,
    )


def ranks_of(job: JobStrategy) -> tuple[int, ...]:
    """Return the devices of a strategy in the order of its stages."""
    return tuple(dict.fromkeys(d for stage in job.stages for mesh in stage.meshes for d in mesh.devices))
