"""Simulated execution of a graph of nodes: each ready node goes where it is done first.

Every node runs once and whole. What it reads was made on its own device, or is sent there, once for all
readers on it; links are not shared. Nodes are taken as they become ready, so that time only moves on.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.planners._pieces.fleet import Fleet, room_bytes
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]


class Workers(NamedTuple):
    """D devices that nodes are put on."""

    kind: tuple[int, ...]
    """Per device: row of the seconds of nodes."""
    room_bytes: tuple[float, ...]
    """Per device: bytes that nodes may hold there."""
    latency_s: FloatArray
    """(D, D): seconds of every transfer."""
    s_per_byte: FloatArray
    """(D, D): seconds of a byte."""


class Placement(NamedTuple):
    """Where and when nodes run."""

    device: tuple[int, ...]
    """Per node."""
    start_s: tuple[float, ...]
    """Per node."""
    finish_s: tuple[float, ...]
    """Per node."""

    @property
    def makespan_s(self) -> float:
        """Seconds until the last node is done."""
        return max(self.finish_s, default=0.0)


def workers_of(problem: Problem, fleet: Fleet) -> Workers:
    """Return the groups of a fleet, each as fast as one device, joined by links of their first devices."""
    kind = tuple(k for k, own in enumerate(fleet.groups) for _ in own)
    ends = [group[0] for group in fleet.order]
    paths = [[fleet.cluster.path(a, b) for b in ends] for a in ends]
    return Workers(
        kind=kind,
        room_bytes=tuple(room_bytes(problem, fleet.kinds[k]) for k in kind),
        latency_s=np.array([[path.latency_s for path in row] for row in paths]),
        s_per_byte=np.array([[1.0 / path.bandwidth_bytes_per_s for path in row] for row in paths]),
    )


def as_priced(fleet: Fleet) -> Workers:
    """Return the groups of a fleet for work whose transfers are seconds already, the same on every link."""
    kind = tuple(k for k, own in enumerate(fleet.groups) for _ in own)
    count = len(kind)
    return Workers(kind, (math.inf,) * count, np.zeros((count, count)), np.ones((count, count)))


def earliest_finish(
    work: WorkGraph, workers: Workers, *, may: Callable[[int], Sequence[int]] | None = None
) -> Placement | None:
    """Return where each node is done first; None if one fits no device any more.

    Args:
        work: the graph; its transfers take a second a byte.
        workers: the devices.
        may: returns the devices that a node may go to, of which the first counts among equals; None for all.
    """
    run = _Run(work, workers)
    every = range(len(workers.kind))
    missing = [len(item) for item in run.reads]
    ready = [(0.0, v) for v in range(work.count) if not missing[v]]
    while ready:
        _, v = heapq.heappop(ready)
        if not run.placed(v, may(v) if may is not None else every):
            return None
        for reader in (reader for tensor in run.made[v] for reader in work.readers[tensor]):
            missing[reader] -= 1
            if not missing[reader]:
                known = max(run.finish[int(work.producer[t])] for t in run.reads[reader])
                heapq.heappush(ready, (known, reader))
    return Placement(tuple(run.device), tuple(run.start), tuple(run.finish))


def timed(work: WorkGraph, workers: Workers, device: Sequence[int], order: Sequence[int]) -> Placement | None:
    """Return when nodes run that are taken in a given order, each on its device; None if one does not fit.

    Args:
        work: the graph; its transfers take a second a byte.
        workers: the devices.
        device: of each node.
        order: all nodes, each after those that it needs.
    """
    run = _Run(work, workers)
    if not all(run.placed(v, (device[v],)) for v in order):
        return None
    return Placement(tuple(run.device), tuple(run.start), tuple(run.finish))


class _Run:
    """A simulated execution so far."""

    def __init__(self, work: WorkGraph, workers: Workers) -> None:
        self.work, self.workers = work, workers
        self.reads: list[list[int]] = [[] for _ in range(work.count)]
        self.made: list[list[int]] = [[] for _ in range(work.count)]
        for tensor, (maker, readers) in enumerate(zip(work.producer.tolist(), work.readers, strict=True)):
            self.made[maker].append(tensor)
            for reader in readers:
                self.reads[reader].append(tensor)
        self.device, self.start, self.finish = [-1] * work.count, [0.0] * work.count, [0.0] * work.count
        self.free, self.room = [0.0] * len(workers.kind), list(workers.room_bytes)
        self.arrived: dict[tuple[int, int], float] = {}  # (tensor, device): a copy is sent once

    def placed(self, v: int, devices: Sequence[int]) -> bool:
        """Put a node where it is done first; return whether it fits anywhere."""
        ends: list[tuple[float, int, float]] = []
        for place, d in enumerate(devices):
            seconds = float(self.work.seconds[self.workers.kind[d], v])
            if math.isfinite(seconds) and self.work.held_bytes[v] <= self.room[d]:
                begin = max([self.free[d], *(self.arrival(tensor, d) for tensor in self.reads[v])])
                ends.append((begin + seconds, place, begin))
        if not ends:
            return False
        self.finish[v], place, self.start[v] = min(ends)
        d = self.device[v] = devices[place]
        for tensor in self.reads[v]:
            self.arrived[tensor, d] = self.arrival(tensor, d)
        self.free[d] = self.finish[v]
        self.room[d] -= float(self.work.held_bytes[v])
        return True

    def arrival(self, tensor: int, d: int) -> float:
        """Return when a tensor is on a device, if it is sent as soon as it is made."""
        if (tensor, d) in self.arrived:
            return self.arrived[tensor, d]
        maker = int(self.work.producer[tensor])
        source = self.device[maker]
        if source == d:
            return self.finish[maker]
        rate = self.workers.s_per_byte[source, d]
        return self.finish[maker] + float(
            self.workers.latency_s[source, d] + self.work.transfer_s[tensor] * rate
        )
