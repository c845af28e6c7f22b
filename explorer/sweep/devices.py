"""Plans on another number of devices: replicas follow, and nodes are added if devices are missing.

Nothing else changes: the devices of a lane, the microbatch of each replica and the schedule stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.strategy import REPLICA, SPLIT, JobStrategy, Mesh, Stage

MOST_DEVICES = 65_536
"""Most devices that a plan is varied up to; every one of them is a number in a mesh."""


def with_devices(cluster: Cluster, devices: int) -> Cluster:
    """Return the cluster with at least so many devices, adding whole nodes like its last ones to its network.

    Raises:
        InputError: its links are listed one by one, or no level joins all devices, so nothing says how new
            nodes would be connected; or far too many are asked for.
    """
    _refuse_too_many(devices)
    missing = devices - cluster.device_count
    if missing <= 0:
        return cluster
    if cluster.links or not cluster.levels or cluster.levels[-1].scope != "all":
        raise InputError(
            f"cluster {cluster.name!r} has {cluster.device_count} devices and no network to add nodes to",
            key="devices", found=devices, allowed=f"<= {cluster.device_count}",
        )  # fmt: skip
    last = cluster.nodes[-1]
    grown = replace(last, count=last.most + math.ceil(missing / last.devices_per_node), max_count=0)
    return replace(cluster, nodes=(*cluster.nodes[:-1], grown))


def scaled(job: JobStrategy, devices: int) -> JobStrategy:
    """Return the strategy on so many devices: stages get replicas in proportion, each with its microbatch.

    Devices are numbered anew, stage after stage, the devices of one replica next to each other.

    Raises:
        InputError: replicas would not be whole, or the plan's placement has no larger copy.
    """
    used = len(job.devices)
    if devices == used:
        return job
    _refuse_too_many(devices)
    _check(job, devices)
    factor = Fraction(devices, used)
    meshes: dict[Mesh, Mesh] = {}
    first = 0
    for mesh in sorted({m for stage in job.stages for m in stage.meshes}, key=lambda m: min(m.devices)):
        meshes[mesh] = _mesh(mesh, int(mesh.replicas * factor), first)
        first += len(meshes[mesh].devices)
    return job.with_stages(_stage(stage, meshes, factor) for stage in job.stages)


def scalable(job: JobStrategy, replicas: Iterable[int], batch: int) -> list[int]:
    """Return the numbers of devices of these numbers of replicas to which `scaled` can take a strategy, with
    microbatches that divide the batch. Nothing is built.
    """
    found: list[int] = []
    used = len(job.devices)
    try:
        unit = _check(job, used)
    except InputError:
        return found
    sizes = {(stage.microbatch_samples, stage.replicas == SPLIT) for stage in job.stages}
    for devices in (unit * count for count in replicas):
        factor = Fraction(devices, used)
        samples = [Fraction(size) * (factor if split else 1) for size, split in sizes]
        whole = all(size.denominator == 1 and batch % size == 0 for size in samples)
        if whole and devices <= MOST_DEVICES:
            found.append(devices)
    return found


def _refuse_too_many(devices: int) -> None:
    if devices > MOST_DEVICES:
        raise InputError(
            f"{devices} devices are more than can be simulated",
            key="devices", found=devices, allowed=f"<= {MOST_DEVICES}",
        )  # fmt: skip


def _check(job: JobStrategy, devices: int) -> int:
    """Return the devices of one replica; raise an error if replicas cannot follow."""
    meshes = {mesh for stage in job.stages for mesh in stage.meshes}
    sets = [set(mesh.devices) for mesh in meshes]
    apart = sum(map(len, sets)) == len(job.devices)
    own = any(stage.shares or any(part.meshes for part in stage.shardings) for stage in job.stages)
    servers = any(item.servers for item in job.sync)
    if not apart or own or servers:
        raise InputError(
            "replicas cannot follow: stages share some of their devices, or have shares, parts or servers of"
            " their own",
            key="devices", found=devices, allowed=str(len(job.devices)),
        )  # fmt: skip
    unit = len(job.devices) // math.gcd(*(mesh.replicas for mesh in meshes))
    if devices < unit or devices % unit:
        raise InputError(
            f"{devices} devices are not a whole number of replicas: one takes {unit}",
            key="devices", found=devices, allowed=f"a multiple of {unit}",
        )  # fmt: skip
    return unit


def _mesh(mesh: Mesh, replicas: int, first: int) -> Mesh:
    axes = tuple((name, replicas if name == REPLICA else size) for name, size in mesh.axes)
    count = math.prod(size for _, size in axes)
    return Mesh(devices=tuple(range(first, first + count)), axes=axes)


def _stage(stage: Stage, meshes: dict[Mesh, Mesh], factor: Fraction) -> Stage:
    samples = stage.microbatch_samples * (factor if stage.replicas == SPLIT else 1)
    if samples.denominator != 1:
        raise InputError(
            f"microbatches of {float(samples):g} samples", key="devices", found=float(samples),
            allowed="whole samples: replicas keep their share of a microbatch",
        )  # fmt: skip
    return replace(
        stage, meshes=tuple(meshes[mesh] for mesh in stage.meshes), microbatch_samples=int(samples)
    )
