"""Uniform strategies from keywords: the public way to build a `Degrees`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.strategies.degrees import Degrees, chunks_or_default
from explorer.strategy import Strategy
from explorer.workload import Job


def uniform(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    *,
    stages: int = 1,
    replicas: int = 1,
    tensor: int = 1,
    context: int = 1,
    expert: int = 1,
    chunks: int | None = None,
    microbatches: int | None = None,
    microbatch_size: int | None = None,
    schedule: str = "",
    options: Mapping[str, Any] | None = None,
    recompute: str = "none",
    zero: int = 0,
    sequence_parallel: bool = False,
    context_exchange: str = "gather",
    bucket_bytes: float = 0.0,
    devices: Sequence[int] = (),
    weights: Sequence[float] | None = None,
    cuts: Sequence[int] | None = None,
) -> Strategy:
    """Return a strategy in which every stage has the same mesh shape.

    Args:
        graph: the model.
        cluster: the devices; the first stages x replicas x tensor x context of them are used.
        job: for the global batch.
        stages: pipeline positions p (groups of replicas x tensor x context devices).
        replicas: data-parallel replicas d.
        tensor: tensor-parallel size t.
        context: context-parallel size: devices that share the sequence of every sample.
        expert: expert-parallel size: devices that share the experts of every mixture.
        chunks: stages per position (virtual stages); None for what the schedule's placement has.
        microbatches: per step; or give `microbatch_size`.
        microbatch_size: samples per replica; 1 where neither is given.
        schedule: name; empty is 1f1b, or interleaved_1f1b where chunks > 1.
        options: of the schedule.
        recompute: none, selective or full.
        zero: ZeRO level.
        sequence_parallel: whether tensor parallelism also splits norms and additions along the sequence.
        context_exchange: how attention sees the whole sequence: gather, ring or all_to_all.
        bucket_bytes: size of the buckets in which gradients are reduced as they come; 0 waits for all.
        devices: device of every rank, in order; () is `cluster.order`: 0, 1, 2, ... without pools.
        weights: cost per layer that the cut balances; default forward + backward FLOPs.
        cuts: first layer index of every stage but the first, instead of balancing.

    Raises:
        InputError: too few devices or units, a batch that does not divide, a dimension the model lacks.
    """
    samples = None
    if microbatch_size is None and microbatches is not None:
        samples = _samples(job, microbatches)
        microbatch_size = max(1, samples // max(1, replicas))
    degrees = Degrees(
        stages=stages, replicas=replicas, tensor=tensor, context=context, expert=expert,
        chunks=chunks_or_default(chunks),
        microbatch_size=1 if microbatch_size is None else microbatch_size, recompute=recompute, zero=zero,
        schedule=schedule, options=tuple((options or {}).items()), sequence_parallel=sequence_parallel,
        context_exchange=context_exchange, bucket_bytes=bucket_bytes,
    )  # fmt: skip
    return degrees.build(
        graph, cluster, job, devices=devices, weights=weights, cuts=cuts, microbatch_samples=samples
    )


def _samples(job: Job, microbatches: int) -> int:
    """Return the samples of one microbatch over all replicas."""
    if microbatches < 1 or job.global_batch % microbatches:
        raise InputError(
            f"{microbatches} microbatches do not divide a global batch of {job.global_batch}",
            key="microbatches",
            found=microbatches,
            allowed="a divisor of the global batch",
        )
    return job.global_batch // microbatches
