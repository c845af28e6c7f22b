"""Seconds of transfers and collectives: alpha-beta over the real path of the devices.

Conventions. `bytes_count` = S is the full buffer: each rank's contribution to an all-reduce, the ranks'
shards together (reduce-scatter, all-gather), each rank's whole local buffer (all-to-all), the message
(broadcast, reduce), all of the parameters (parameter server). alpha is the start-up time of one message,
B the bytes that one device (beyond a node: one node) sends per second. `concurrent` groups of the same
shape run at the same time and share the links of their nodes. With n ranks and all links alike:

    ring            all-reduce 2 (n-1) alpha + 2 (n-1)/n S/B; reduce-scatter, all-gather: half of it
    tree            all-reduce 2 log2(n) alpha + 2 S/B, double binary tree; broadcast, reduce: half of it
    halving         all-reduce 2 log2(n) alpha + 2 (n-1)/n S/B, recursive halving and doubling
    hierarchical    reduce-scatter in the node, all-reduce of the shards between nodes, all-gather in the node
    direct          all-to-all (n-1) alpha + (n-1)/n S/B; parameter server 2 alpha + 2 max(worker, server)/B

Each also takes its level's `collective_overhead_s` (launch, waiting for the last to arrive) once, the
largest of the levels it crosses, and reaches `operation_efficiency` of a level's bandwidth if that is
known, else `collective_efficiency`. So small messages are bound by the overhead and the start-ups of the
steps: `auto` takes a tree for them, and a ring or the hierarchy for large ones.

Levels with `protocols` price steps and slices by protocol (`algorithm_lines`); the fastest counts.

With unlike links, start-ups add up along the way of the message and the slowest tier gives B. A node with
several devices of the group runs as many rings as it has devices there, each over an adapter of its own,
until its uplink is full. Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations
in MPICH, 2005; Sanders, Speck, Traff: Two-tree algorithms for full bandwidth broadcast, 2009.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.cluster import Cluster, Level, Path
from explorer.costs.algorithm_lines import ALGORITHMS, CollectiveLines, algorithm_lines
from explorer.costs.explicit_links import spread_s_per_byte
from explorer.costs.group_tiers import Span, level_groups, span_of

MADE_OF_LINES = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")
"""Operations all of whose algorithms are lines."""


def transfer_seconds(path: Path, bytes_count: float) -> float:
    """Return the seconds of one message alone on its path: alpha + S / B, B capped by shared resources."""
    bandwidth = min((path.bandwidth_bytes_per_s, *(capacity for _, capacity in path.resources)))
    return path.latency_s + bytes_count / bandwidth


def passes_seconds(cluster: Cluster, hops: tuple[tuple[int, int], ...], bytes_count: float) -> float:
    """Return the seconds until every hop (sender, receiver) has carried a message, all at the same time.

    Hops through one shared resource divide its capacity: alpha + S max(1/B, hops through it / capacity).
    """
    return max((alpha + bytes_count * beta for alpha, beta in passes_lines(cluster, hops)), default=0.0)


def passes_lines(cluster: Cluster, hops: tuple[tuple[int, int], ...]) -> tuple[tuple[float, float], ...]:
    """Return the different (seconds, seconds per byte) of hops that are used at the same time.

    All of them have carried messages of S bytes after the largest alpha + S beta.
    """
    paths = [cluster.path(*hop) for hop in hops]
    users = Counter(name for path in paths for name, _ in path.resources)
    found: dict[tuple[float, float], None] = {}
    for path in paths:
        shared = [users[name] / room for name, room in path.resources]
        found[path.latency_s, max(1 / path.bandwidth_bytes_per_s, *shared, 0.0)] = None
    return tuple(found)


def collective_seconds(
    cluster: Cluster,
    op: str,
    devices: tuple[int, ...],
    bytes_count: float,
    *,
    algorithm: str = "auto",
    concurrent: int = 1,
    servers: tuple[int, ...] = (),
) -> float:
    """Return the seconds of a collective over `devices`; 0 for a single one.

    Args:
        cluster: the links between the devices.
        op: a key of `ALGORITHMS`.
        devices: the group, in any order; rings go through it in node order.
        bytes_count: S, by the conventions above.
        algorithm: one of the operation's, or `auto` for the cheapest.
        concurrent: groups of this shape that run at once, this one included.
        servers: for `parameter_server`: devices that hold equal shards; () for the workers themselves.

    Raises:
        InputError: the operation or algorithm is unknown, `hierarchical` runs over uneven nodes, or the group
            is wrong.
    """
    if op not in ALGORITHMS:
        raise InputError(f"unknown collective {op!r}", key="op", found=op, allowed=", ".join(ALGORITHMS))
    if algorithm != "auto" and algorithm not in ALGORITHMS[op]:
        allowed = ", ".join(("auto", *ALGORITHMS[op]))
        raise InputError(f"{op} has no {algorithm!r}", key="algorithm", found=algorithm, allowed=allowed)
    if op == "parameter_server":
        return _parameter_server(cluster, devices, servers or devices, bytes_count, concurrent)
    span = span_of(cluster, devices)
    if span.size == 1:
        return 0.0
    lines = _known_lines(span, op, algorithm, concurrent)
    seconds = lowest_line(lines, bytes_count)
    if op in ("broadcast", "reduce") and algorithm != "tree":
        seconds = min(seconds, span.overhead_s + _chain(span, op, bytes_count, concurrent))
    return seconds


def collective_lines(
    cluster: Cluster, op: str, devices: tuple[int, ...], *, concurrent: int = 1
) -> CollectiveLines:
    """Return the lines of a collective's algorithms and protocols: it takes the lowest of them.

    So a planner looks a group up once, and prices many sizes by `lowest_line`.

    Args:
        cluster: the links between the devices.
        op: all_reduce, reduce_scatter, all_gather or all_to_all, whose algorithms are all lines.
        devices: the group.
        concurrent: groups of this shape that run at once, this one included.

    Raises:
        InputError: the operation is no such one, or the group is wrong.
    """
    if op not in MADE_OF_LINES:
        raise InputError(f"{op} is not made of lines", key="op", found=op, allowed=", ".join(MADE_OF_LINES))
    span = span_of(cluster, devices)
    if span.size == 1:
        return ((0.0, 0.0, 0.0),)
    return _known_lines(span, op, "auto", concurrent)


def lowest_line(lines: CollectiveLines, bytes_count: float) -> float:
    """Return the seconds of the cheapest line for a size, or an array for many.

    >>> lowest_line(((1.0, 2.0, 0.0), (3.0, 1.0, 0.0), (0.0, 0.0, 9.0)), 4.0)
    7.0
    """
    scalar = np.isscalar(bytes_count)
    root = math.sqrt(bytes_count) if scalar else np.sqrt(bytes_count)
    found = [alpha + beta * bytes_count + gamma * root for alpha, beta, gamma in lines]
    return min(found, default=math.inf) if scalar else np.min(found, axis=0, initial=math.inf)


def collective_wire_bytes(op: str, n: int, bytes_count: float) -> float:
    """Return the bytes that each of `n` ranks sends, averaged over the ranks; independent of the algorithm.

    The parameter server has equal shards on the workers themselves. With k servers of its own, a worker sends
    S and receives S, a server n S / k each way.

    >>> collective_wire_bytes("all_reduce", 4, 100.0)
    150.0

    Raises:
        InputError: the operation is unknown.
    """
    if op not in ALGORITHMS:
        raise InputError(f"unknown collective {op!r}", key="op", found=op, allowed=", ".join(ALGORITHMS))
    passes = 2 if op in ("all_reduce", "parameter_server") else 1
    return passes * (n - 1) / n * bytes_count


def _known_lines(span: Span, op: str, algorithm: str, concurrent: int) -> CollectiveLines:
    key = (op, algorithm, concurrent)
    lines = span.lines.get(key)
    if lines is None:
        lines = span.lines[key] = algorithm_lines(span, op, algorithm, concurrent)
    return lines


def _chain(span: Span, op: str, size: float, concurrent: int) -> float:
    """Time a pipelined chain of n-1 hops in the best number K of pieces: (n-1+K-1) (alpha + S / (K B))."""
    hops, bandwidth = span.size - 1, span.rate(concurrent, op)
    slowest = max(tier.latency_s for tier in span.tiers)
    if not slowest:
        return size / bandwidth
    pieces = max(1.0, math.sqrt((hops - 1) * size / (bandwidth * slowest)))
    start = span.ring_latency_s + (pieces - 1) * slowest
    return start + (hops + pieces - 1) / pieces * size / bandwidth


def _parameter_server(
    cluster: Cluster, workers: tuple[int, ...], servers: tuple[int, ...], size: float, concurrent: int
) -> float:
    """Time a push and a pull: each worker exchanges S/k with each of k servers, with itself for free."""
    alpha, beta = server_line(cluster, workers, servers, concurrent)
    everyone = span_of(cluster, tuple(sorted({*workers, *servers})))
    return everyone.overhead_s + 2 * (alpha + size * beta)


@remembered(4096)
def server_line(
    cluster: Cluster, workers: tuple[int, ...], servers: tuple[int, ...], concurrent: int
) -> tuple[float, float]:
    """Return (seconds, seconds per byte of S) of one direction: the slowest sending or receiving unit.

    Raises:
        InputError: the workers or the servers are not a valid group of devices.
    """
    span_of(cluster, workers), span_of(cluster, servers)  # say what is wrong with either
    both = span_of(cluster, tuple(sorted({*workers, *servers})))
    if both.size == 1:
        return 0.0, 0.0
    count = cluster.device_count
    sends = np.bincount(np.asarray(workers), minlength=count).astype(float)
    holds = np.bincount(np.asarray(servers), minlength=count) / len(servers)
    slowest, units = 0.0, np.arange(count)
    if cluster.links:
        units = level_groups(cluster, 0) if cluster.levels else np.zeros(count, dtype=np.int64)
        slowest = _linked_beta(cluster, workers, servers, units)
    for depth, level in enumerate(cluster.levels):
        groups = level_groups(cluster, depth)
        slowest = max(slowest, _tier_beta(level, depth, units, groups, sends, holds, concurrent))
        units = groups
    return max(tier.latency_s for tier in both.tiers), slowest


def _linked_beta(
    cluster: Cluster, workers: tuple[int, ...], servers: tuple[int, ...], units: NDArray[np.int64]
) -> float:
    """Return the seconds per byte inside the innermost groups of a cluster with links of its own."""
    slowest = 0.0
    for ours, theirs in ((workers, servers), (servers, workers)):
        for device in ours:
            peers = [peer for peer in theirs if peer != device and units[peer] == units[device]]
            slowest = max(slowest, spread_s_per_byte(cluster, device, peers) / len(servers))
    return slowest


def _tier_beta(
    level: Level,
    depth: int,
    units: NDArray[Any],
    groups: NDArray[Any],
    sends: NDArray[Any],
    holds: NDArray[Any],
    concurrent: int,
) -> float:
    """Return the seconds per byte over one level: workers reach other units' shards in their group."""
    unit_group = np.zeros(units.max() + 1, dtype=np.int64)
    unit_group[units] = groups
    sending, holding = np.bincount(units, weights=sends), np.bincount(units, weights=holds)
    present = np.bincount(units, weights=holds > 0)
    all_sending = np.bincount(unit_group, weights=sending)[unit_group]
    all_holding = np.bincount(unit_group, weights=holding)[unit_group]
    device = level.device_bytes_per_s or level.bandwidth_bytes_per_s
    uplink = level.uplink_bytes_per_s if depth and level.uplink_bytes_per_s else math.inf
    slowest = 0.0
    for load, devices in (
        (sending * (all_holding - holding), sending),
        (holding * (all_sending - sending), present),
    ):
        busy = load > 0
        if busy.any():
            rate = np.minimum(devices[busy] * device, uplink / concurrent)
            rate = rate * level.efficiency_of("parameter_server")
            slowest = max(slowest, float((load[busy] / rate).max()))
    return slowest
