"""Neighbouring parallel shapes of an even plan: stages, replicas, tensor parallelism and chunks exchanged.

A new shape is a new even cut that keeps the devices in number and all else that was chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import permutations

from explorer.cluster import Cluster
from explorer.explain.questions import Asked, Change
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import LOOP
from explorer.strategies.uniform import uniform
from explorer.strategy import REPLICA, SPLIT, JobStrategy, Strategy
from explorer.workload import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many devices work together, in which way."""

    stages: int
    """Device groups along the pipeline."""
    replicas: int
    """Data-parallel replicas."""
    tensor: int
    """Devices that share each layer."""
    chunks: int = 1
    """Stages per device group."""

    @property
    def devices(self) -> int:
        """Devices used."""
        return self.stages * self.replicas * self.tensor

    def __str__(self) -> str:
        words = [f"{self.stages} stage{'s' * (self.stages > 1)}"]
        words.append(f"{self.replicas} replica{'s' * (self.replicas > 1)}")
        return " × ".join([*words, f"{self.tensor}-way tensor"] if self.tensor > 1 else words)


def shape_of(job: JobStrategy) -> Shape | None:
    """The shape of a plan whose stages are all alike; None for any other."""
    groups = {stage.meshes for stage in job.stages}
    axes = {mesh.axes for stage in job.stages for mesh in stage.meshes}
    alike = len(axes) == 1 and all(len(stage.meshes) == 1 for stage in job.stages)
    plain = all(
        not (stage.slices or stage.shardings or stage.shares) and stage.replicas == SPLIT
        for stage in job.stages
    )
    sizes = dict(next(iter(axes)))
    if not (alike and plain and sizes.keys() <= {REPLICA, "tensor"}) or len(job.stages) % len(groups):
        return None
    return Shape(
        stages=len(groups), replicas=sizes.get(REPLICA, 1), tensor=sizes.get("tensor", 1),
        chunks=len(job.stages) // len(groups),
    )  # fmt: skip


def recut(
    graph: LayerGraph,
    cluster: Cluster,
    work: Job,
    job: JobStrategy,
    old: Shape,
    new: Shape,
    *,
    schedule: str = "",
) -> JobStrategy:
    """An even cut of another shape; the largest microbatch a replica, up to the present one, that divides.

    Args:
        graph: the model.
        cluster: the devices.
        work: what is asked; for the global batch.
        job: the plan's strategy, whose other choices stay.
        old: its shape.
        new: the wanted one.
        schedule: name; empty keeps the present one with its options.

    Raises:
        ExplorerError: it cannot be.
    """
    first = job.stages[0]
    share, own = work.global_batch // new.replicas, first.microbatch_samples // old.replicas
    size = next((n for n in range(own, 0, -1) if share % n == 0), 1)
    made = uniform(
        graph, cluster, work, stages=new.stages, replicas=new.replicas, tensor=new.tensor,
        chunks=new.chunks, microbatch_size=size, schedule=schedule or job.schedule,
        recompute=first.recompute, zero=first.zero,
    ).job  # fmt: skip
    layout = next((stage.layout for stage in job.stages if stage.layout), ())
    stages = [replace(stage, layout=layout) if new.tensor > 1 and layout else stage for stage in made.stages]
    return replace(
        made, stages=tuple(stages), options=() if schedule else job.options, sync=job.sync, job=job.job,
        checkpoint_period_s=job.checkpoint_period_s,
    )  # fmt: skip


def _cut(asked: Asked, old: Shape, new: Shape, schedule: str = "") -> Strategy:
    job = asked.workload.job
    return asked.with_job(recut(asked.graph, asked.cluster, job, asked.job, old, new, schedule=schedule))


def neighbours(asked: Asked, shape: Shape, kinds: tuple[str, ...]) -> Iterator[Change]:
    """Shapes on as many devices with one number doubled and another halved; `kinds`: names of the numbers."""
    for more, less in permutations(kinds, 2):
        if getattr(shape, less) % 2 == 0:
            doubled = {more: 2 * getattr(shape, more), less: getattr(shape, less) // 2}
            new = replace(shape, **doubled)
            yield f"cut into {new}", partial(_cut, asked, shape, new)


def larger(asked: Asked, shape: Shape) -> Iterator[Change]:
    """Shapes on twice the devices, where so many are there."""
    if 2 * shape.devices <= asked.cluster.device_count:
        for kind in ("replicas", "stages", "tensor"):
            new = replace(shape, **{kind: 2 * getattr(shape, kind)})
            yield f"use {new.devices} devices, {new}", partial(_cut, asked, shape, new)


def interleavings(asked: Asked, shape: Shape) -> Iterator[Change]:
    """Two and four chunks a device, or none again, under the schedules that take them."""
    names = [entry.name for entry in SCHEDULES if entry.placement is LOOP]
    if shape.stages < 2:
        return
    for name in names:
        for chunks in (2, 4):
            if chunks != shape.chunks:
                new = replace(shape, chunks=chunks)
                yield f"interleave {chunks} chunks a device", partial(_cut, asked, shape, new, schedule=name)
    if shape.chunks > 1:
        plain = replace(shape, chunks=1)
        yield "use one chunk a device", partial(_cut, asked, shape, plain, schedule="1f1b")
