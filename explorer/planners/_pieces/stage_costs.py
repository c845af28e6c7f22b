"""Stages as runs of nodes on any devices: seconds of a microbatch, of reductions, of what passes between."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster, DeviceKind
from explorer.costs.collectives import collective_lines, lowest_line
from explorer.planners._pieces.fleet import room_bytes
from explorer.planners._pieces.line import line_of
from explorer.planners._pieces.machines import sent_lines
from explorer.planners._pieces.work_graph import WorkGraph, work_graph
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]
Devices = tuple[int, ...]


class Load(NamedTuple):
    """(n + 1, n + 1) seconds of every run of nodes on some devices: of a microbatch there and back, of AR."""

    forward_s: FloatArray
    backward_s: FloatArray
    reduce_s: FloatArray
    allowed: npt.NDArray[np.bool_]
    """(n + 1, n + 1): whether they may run it, and hold it."""


class StageCosts(NamedTuple):
    """A line of n nodes under our costs; what was asked for is kept."""

    work: WorkGraph
    """The nodes, with the work of a whole microbatch."""
    load: Callable[[Devices], Load]
    """Returns the seconds of runs on some devices, which share every microbatch."""
    sent: Callable[[Devices, Devices], FloatArray]
    """Returns the (n + 1,) seconds in which each cut passes, one way, from some devices to others."""


def stage_costs(
    problem: Problem, cluster: Cluster, kinds: Sequence[DeviceKind], size: int, *, width: int = 1
) -> StageCosts:
    """Return the costs of microbatches of which every replica takes its share of whole samples.

    Args:
        problem: the search problem.
        cluster: the cluster under the software of the job.
        kinds: kinds of devices in use.
        size: samples of a microbatch.
        width: devices that are always taken together; as many may share a microbatch of fewer samples.
    """
    place = {kind.name: number for number, kind in enumerate(kinds)}
    both_ways, one_way = problem.job, replace(problem.job, mode="infer")
    whole = work_graph(problem.graph, kinds, both_ways, samples=size, bytes_per_s=1.0)
    line = line_of(whole)
    fits = [line.held_bytes <= room_bytes(problem, kind) for kind in kinds]

    @cache
    def seconds(share: int) -> tuple[FloatArray, FloatArray]:
        """Return (kinds, n + 1, n + 1) seconds of so many samples: in all, and forward."""
        found = [
            line_of(work_graph(problem.graph, kinds, job, samples=share, bytes_per_s=1.0)).seconds
            for job in (both_ways, one_way)
        ]
        return found[0], found[1]

    @cache
    def load(devices: Devices) -> Load:
        used = sorted({place[cluster.kind_of(device).name] for device in devices})
        both, forward = (item[used].max(axis=0) for item in seconds(math.ceil(size / len(devices))))
        runs = np.isfinite(both)
        both, forward = (np.where(runs, item, 0.0) for item in (both, forward))
        lines = collective_lines(cluster, "all_reduce", devices)
        reduced = np.asarray(lowest_line(lines, cast(float, line.reduced_bytes)))
        return Load(
            forward_s=forward, backward_s=both - forward,
            reduce_s=np.where(line.reduced_bytes, reduced, 0.0),
            allowed=np.all([fits[kind] for kind in used], axis=0) & runs & (len(devices) <= max(size, width)),
        )  # fmt: skip

    @cache
    def sent(senders: Devices, receivers: Devices) -> FloatArray:
        both = 2.0 if problem.job.training else 1.0
        ways = sent_lines(cluster, senders, receivers)
        found = np.max([alpha + beta * line.sent_bytes / both for alpha, beta in ways], axis=0)
        return np.where(line.sent_bytes, found, 0.0)

    return StageCosts(whole, load, sent)
