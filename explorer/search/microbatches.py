"""The microbatch size if nobody gave one: the fastest of 1, 2, 4, ... samples per replica that fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from explorer.base.errors import ExplorerError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import Workload

MOST_EVALUATIONS = 8
"""Most simulations."""
NEAR = 1.05
"""Bytes that may be missing, over those that one sample lacks, if not even one fits: memory is then missing
whatever the size, so sizes that lack hardly more are as good, and the fastest of them is taken."""

Rank = tuple[float, float]
"""(missing bytes, step time in seconds), the smaller the better; infinite if it cannot be simulated."""
_IMPOSSIBLE = (math.inf, math.inf)


def with_best_microbatch(
    graph: LayerGraph,
    cluster: Cluster,
    workload: Workload,
    degrees: Degrees,
    *,
    devices: Sequence[int] = (),
    most_actions: int = 0,
) -> Degrees:
    """Return the degrees with the microbatch size of least simulated step time among those that fit.

    Sizes are the powers of two that divide a replica's samples. Up to `MOST_EVALUATIONS` of them are all
    simulated; with more, a Fibonacci search assumes that the step time falls and then rises with the size,
    and that memory grows with it. If none fits, it is the fastest of those that lack hardly more than one
    sample a replica does (`NEAR`); if none can be simulated, 1.

    Args:
        graph: the model.
        cluster: the devices.
        workload: the workload of one job.
        degrees: all but the microbatch size.
        devices: device of every rank; () for 0, 1, 2, ....
        most_actions: stages times microbatches that a size may need at most, if a larger size needs fewer;
            0 for any number.
    """
    known: dict[int, Rank] = {}
    missing = 0.0  # bytes that are missing whatever the size

    def simulated(size: int) -> Rank:
        try:
            strategy = degrees.changed(microbatch_size=size).build(
                graph, cluster, workload.job, devices=devices
            )
            report = simulate(graph, cluster, workload, strategy)
        except ExplorerError:
            return _IMPOSSIBLE
        over = sum(item.over_bytes for item in report.overflows)
        return max(0.0, over - NEAR * missing), report.step_time_s

    def judge(size: int) -> Rank:
        if size not in known:
            known[size] = simulated(size)
        return known[size]

    share = workload.job.global_batch // degrees.replicas
    sizes = _sizes(share)
    if most_actions:
        sizes = [n for n in sizes if degrees.stages * share // n <= most_actions] or sizes[-1:]
    over, step_s = judge(sizes[0])
    if 0 < over < math.inf:
        missing, known[sizes[0]] = over, (0.0, step_s)
    if len(sizes) <= MOST_EVALUATIONS:
        _every(sizes, judge)
    else:
        _search(sizes, judge)
    best = min(known, key=lambda size: (known[size], size))
    return degrees.changed(microbatch_size=best if known[best] < _IMPOSSIBLE else 1)


def _sizes(share: int) -> list[int]:
    """Return the powers of two that divide the samples of a replica.

    >>> _sizes(24)
    [1, 2, 4, 8]
    """
    return [2**k for k in range(max(1, share & -share).bit_length())]


def _every(sizes: Sequence[int], judge: Callable[[int], Rank]) -> None:
    """Judge all sizes, up to the first that does not fit: larger ones lack more."""
    for size in sizes:
        if 0 < judge(size)[0] < math.inf:
            return


def _search(sizes: Sequence[int], judge: Callable[[int], Rank]) -> None:
    """Judge sizes around the best one by a Fibonacci search: one simulation shrinks the rest by 1.6."""
    lengths = [1, 1]
    while lengths[-1] <= len(sizes):
        lengths.append(lengths[-1] + lengths[-2])
    low = -1  # the best one lies between low and low + lengths[-1]
    while len(lengths) > 2:
        left, right = low + lengths[-3], low + lengths[-2]
        lengths.pop()
        if left == right:
            break
        first = judge(sizes[left])
        second = judge(sizes[right]) if right < len(sizes) else _IMPOSSIBLE
        # a size that cannot be simulated has too many microbatches: the best one is larger
        if first > second or (first == _IMPOSSIBLE and right < len(sizes)):
            low = left
    if 0 <= low + 1 < len(sizes):
        judge(sizes[low + 1])
