"""Neighbouring degrees of an even plan: stages, replicas, tensor parallelism and chunks exchanged.

Other degrees mean a new even cut that keeps all other choices and uses the plan's devices first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from explorer.cluster import Cluster
from explorer.explain.names import counted
from explorer.explain.questions import Asked, NamedChange
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import LOOP
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_neighbours import divisible, exchanges
from explorer.strategies.degrees_reading import ranks_of
from explorer.strategy import JobStrategy, Strategy
from explorer.workload import Job


def cut_anew(
    graph: LayerGraph, cluster: Cluster, work: Job, job: JobStrategy, degrees: Degrees
) -> JobStrategy:
    """Cut the model evenly for other degrees; of microbatches up to theirs, the largest that divides counts.

    Args:
        graph: the model.
        cluster: the devices.
        work: the job, for its global batch.
        job: the plan's strategy, whose other choices stay.
        degrees: the degrees to cut for.

    Raises:
        ExplorerError: no such cut exists.
    """
    own = ranks_of(job)
    used = set(own)
    devices = (*own, *(device for device in range(cluster.device_count) if device not in used))
    made = divisible(degrees, work).build(graph, cluster, work, devices=devices).job
    layout = next((stage.layout for stage in job.stages if stage.layout), ())
    kept = degrees.tensor > 1 and layout
    stages = [replace(stage, layout=layout) if kept else stage for stage in made.stages]
    return replace(
        made, stages=tuple(stages), sync=job.sync, updates=job.updates, job=job.job,
        checkpoint_period_s=job.checkpoint_period_s,
    )  # fmt: skip


def _cut(asked: Asked, degrees: Degrees) -> Strategy:
    return asked.with_job(cut_anew(asked.graph, asked.cluster, asked.workload.job, asked.job, degrees))


def neighbours(asked: Asked, degrees: Degrees, kinds: tuple[str, ...]) -> Iterator[NamedChange]:
    """Yield degrees on as many devices with one degree doubled and another halved; `kinds` names them."""
    for new in exchanges(degrees, kinds):
        yield f"cut into {new.words}", partial(_cut, asked, new)


def larger(asked: Asked, degrees: Degrees) -> Iterator[NamedChange]:
    """Yield degrees on twice the devices if there are that many."""
    if 2 * degrees.devices <= asked.cluster.device_count:
        for kind in ("replicas", "stages", "tensor"):
            new = degrees.changed(**{kind: 2 * getattr(degrees, kind)})
            yield f"use {counted(new.devices, 'device')}, {new.words}", partial(_cut, asked, new)


def interleavings(asked: Asked, degrees: Degrees) -> Iterator[NamedChange]:
    """Yield two and four chunks per device, or one again, under the schedules that take them."""
    names = [entry.name for entry in SCHEDULES if entry.placement is LOOP]
    if degrees.stages < 2:
        return
    for name in names:
        for chunks in (2, 4):
            if chunks != degrees.chunks:
                new = degrees.changed(chunks=chunks, schedule=name, options=())
                under = "" if name == names[0] else f" under {name}"
                yield f"interleave {chunks} chunks a device{under}", partial(_cut, asked, new)
    if degrees.chunks > 1:
        plain = degrees.changed(chunks=1, schedule="1f1b", options=())
        yield "use one chunk a device", partial(_cut, asked, plain)
