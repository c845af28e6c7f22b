"""Neighbours of degrees of parallelism: one change away, or nearest to what divides the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.strategies.degrees import GRID, RECOMPUTE, USUAL_BUCKET_BYTES, ZERO_LEVELS, Degrees
from explorer.strategies.model_axes import EXPERT
from explorer.workload import Job


def exchanges(degrees: Degrees, kinds: Iterable[str] = GRID) -> Iterator[Degrees]:
    """Yield degrees on as many devices: one of `kinds` doubled, another halved."""
    for more, less in permutations(kinds, 2):
        if getattr(degrees, less) % 2 == 0:
            yield degrees.changed(**{more: 2 * getattr(degrees, more), less: getattr(degrees, less) // 2})


def neighbouring_degrees(
    degrees: Degrees, graph: LayerGraph, cluster: Cluster, job: Job, devices: Sequence[int] = ()
) -> Iterator[Degrees]:
    """Yield the degrees one change away that can be built, on at most as many devices.

    One degree doubled and another halved, chunks or microbatches doubled or halved, other recomputation
    or ZeRO level, with or without buckets of gradients or sequence parallelism.
    """
    for found in _changes(degrees, job):
        try:
            found.check(graph, cluster, job, devices)
        except InputError:
            continue
        yield found


def _changes(degrees: Degrees, job: Job) -> Iterator[Degrees]:
    yield from exchanges(degrees)
    keys = ("microbatch_size", EXPERT, *(["chunks"] if degrees.stages > 1 else []))
    for key in keys:
        value = getattr(degrees, key)
        yield degrees.changed(**{key: 2 * value})
        if value % 2 == 0:
            yield degrees.changed(**{key: value // 2})
    if job.training:
        yield from (degrees.changed(recompute=word) for word in RECOMPUTE if word != degrees.recompute)
        if degrees.replicas > 1:
            yield from (degrees.changed(zero=level) for level in ZERO_LEVELS if level != degrees.zero)
            if not degrees.takes_turns:
                yield degrees.changed(bucket_bytes=0.0 if degrees.bucket_bytes else USUAL_BUCKET_BYTES)
    if degrees.tensor > 1:
        yield degrees.changed(sequence_parallel=not degrees.sequence_parallel)


def divisible(degrees: Degrees, job: Job) -> Degrees:
    """Return the degrees with the largest microbatch, up to their own, that divides the batch."""
    share, rest = divmod(job.global_batch, degrees.replicas)
    sizes = range(degrees.microbatch_size, 0, -1) if not rest else ()
    return degrees.changed(
        microbatch_size=next((n for n in sizes if share % n == 0), degrees.microbatch_size)
    )


def most_replicas(most: int, batch: int) -> int:
    """Return the most replicas, up to `most`, that divide a batch; 1 where none do.

    >>> most_replicas(3, 16)
    2
    """
    return next((count for count in range(min(most, batch), 1, -1) if batch % count == 0), 1)
