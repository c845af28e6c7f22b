"""Shares of samples by speed: replicas on slower devices take fewer samples of each microbatch."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import replace

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.costs.compute import layer_times
from explorer.graph import LayerGraph
from explorer.strategy import ROUND_ROBIN, SPLIT, JobStrategy, Stage

EVEN, SPEED, TURNS = SHARINGS = ("even", "speed", "turns")
"""Ways to share a stage's samples among its replicas: equal parts of each microbatch, parts by speed, or
whole microbatches in turn.
"""


def sharing_of(stage: Stage) -> str:
    """Return which of `SHARINGS` a stage has; unequal shares of any origin count as by speed."""
    if stage.replicas == ROUND_ROBIN:
        return TURNS
    return SPEED if len(set(stage.shares)) > 1 else EVEN


def with_sharing(
    graph: LayerGraph, cluster: Cluster, precision: str, job: JobStrategy, stages: Collection[int], how: str
) -> JobStrategy:
    """Return the strategy with the samples of some stages shared otherwise among their replicas.

    Args:
        graph: the model.
        cluster: the devices.
        precision: of compute.
        job: the strategy.
        stages: numbers of the stages.
        how: one of `SHARINGS`.

    Raises:
        InputError: another word for it, or shares by speed where all replicas are equally fast or too few
            samples leave them equal.
    """
    if how not in SHARINGS:
        raise InputError(f"unknown sharing {how!r}", key="sharing", found=how, allowed=", ".join(SHARINGS))
    made = list(job.stages)
    for number in stages:
        plain = replace(made[number], replicas=ROUND_ROBIN if how == TURNS else SPLIT, shares=())
        made[number] = _shared(graph, cluster, precision, plain) if how == SPEED else plain
        if how == SPEED and sharing_of(made[number]) != SPEED:
            fast = "equally fast" if not made[number].shares else "too few samples for unequal"
            raise InputError(
                f"stage {number} has {fast} replicas", key="sharing", found=how,
                allowed="equal shares, larger microbatches, or replicas on devices of several kinds",
            )  # fmt: skip
    return job.with_stages(made)


def shared_by_speed(graph: LayerGraph, cluster: Cluster, precision: str, job: JobStrategy) -> JobStrategy:
    """Return the strategy with the samples of each microbatch dealt out so that no replica is late.

    Stages whose replicas lie on devices that take equally long stay as they are, and so do those whose
    replicas take whole microbatches.

    Args:
        graph: the model.
        cluster: the devices.
        precision: of compute.
        job: the strategy.
    """
    if len(cluster.device_kinds) == 1:
        return job
    stages = tuple(_shared(graph, cluster, precision, stage) for stage in job.stages)
    return job if stages == job.stages else job.with_stages(stages)


def _shared(graph: LayerGraph, cluster: Cluster, precision: str, stage: Stage) -> Stage:
    replicas = stage.meshes[0].replicas
    if stage.replicas != SPLIT or replicas == 1 or stage.microbatch_samples < replicas:
        return stage
    seconds = [0.0] * replicas
    for mesh in stage.meshes:  # a replica's share is one for all copies: its slowest row counts
        for replica, row in enumerate(mesh.rows):
            each = [_sample_seconds(graph, cluster, precision, stage, device) for device in row]
            seconds[replica] = max(seconds[replica], *each)
    if max(seconds) == min(seconds):
        return replace(stage, shares=()) if stage.shares else stage
    return replace(stage, shares=tuple(map(float, least_makespan(seconds, stage.microbatch_samples))))


def _sample_seconds(graph: LayerGraph, cluster: Cluster, precision: str, stage: Stage, device: int) -> float:
    """Seconds of the stage's layers for one sample of a fair share on a device alone."""
    samples = max(1.0, stage.microbatch_samples / stage.meshes[0].replicas)
    times = layer_times(graph, cluster.kind_of(device), samples=samples, precision=precision).sum(axis=0)
    layers = [graph.index[name] for name in stage.all_layers]
    return float(times[layers].sum()) / samples


def least_makespan(seconds: Sequence[float], count: int) -> tuple[int, ...]:
    """Return how many of `count` equal items each worker takes so that the last is done soonest.

    One item after the other goes to the worker that would be done with it first, which is optimal for equal
    items.

    Args:
        seconds: of one item, by worker.
        count: items.

    >>> least_makespan((1.0, 3.0), 8)
    (6, 2)
    """
    taken = [0] * len(seconds)
    queue = [(each, worker) for worker, each in enumerate(seconds)]
    heapq.heapify(queue)
    for _ in range(count):
        _, worker = queue[0]
        taken[worker] += 1
        heapq.heapreplace(queue, (seconds[worker] * (taken[worker] + 1), worker))
    return tuple(taken)
