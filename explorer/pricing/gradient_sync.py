"""Weights and gradients: seconds of updates, reductions and gathers, and the bytes they move.

Gradients that are partial sums inside a replica (norms under sequence parallelism, everything under context
parallelism) are added over lane and replicas at once, by one all-reduce over all those devices; the bytes it
moves count as its two halves: (n-1)/n around the lane, then the n-th part of it between replicas. If no
replica reduces, the lane's own part comes before the update.
"""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

import numpy as np

from explorer.base.caching import Hashed, remembered
from explorer.cluster import Cluster
from explorer.costs.algorithm_lines import CollectiveLines
from explorer.costs.collectives import (
    collective_lines,
    collective_seconds,
    lowest_line,
)
from explorer.costs.elementwise import larger
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.memory_counts import Counts
from explorer.graph import LayerGraph
from explorer.pricing.mesh_lines import Line, Lines, summed_with
from explorer.sharding import ShardedLayers

Sums = tuple[tuple[str, int], ...]
"""(mesh axis, devices along it) over which gradients have to be added; () if they are whole."""


class ReductionPrice(NamedTuple):
    """Price of a reduction or gather."""

    seconds: float
    bytes: float
    """Bytes of the buffer between replicas, on one device of each row."""
    lane_bytes: float
    """Bytes that each device sends around its own lane."""


def updated_elements(held: Counts, zero: int, replicas: int) -> float:
    """Return the scalars that one device updates; under ZeRO its share of those that its replicas hold."""
    return sum(item.updated / (item.replicas(replicas) if zero else 1.0) for item in held.weights)


@remembered(8192)
def gradient_parts(
    graph: LayerGraph, shards: ShardedLayers, held: Counts, parameters: tuple[int, ...], width: float
) -> tuple[tuple[Sums, float], ...]:
    """Return the bytes of the gradients of some parameters on one device, by the axes to add them over.

    Args:
        graph: the model.
        shards: how it is sharded.
        held: what the device holds.
        parameters: their positions.
        width: bytes of one gradient in the workload's precision.
    """
    table, chosen = graph_arrays(graph).weight, list(parameters)
    sizes = (table["compute"] * width + table["fixed"]) * table["density"] * held.held
    found: dict[Sums, float] = {}
    own = shards.holdings
    if not own.summed.any():
        return (((), float(sizes[chosen].sum())),)
    for p in chosen:
        sums = own.table[own.number[p]].sums if own.summed[p] else ()
        found[sums] = found.get(sums, 0.0) + float(sizes[p])
    return tuple(sorted(found.items()))


@remembered(8192)
def weight_bytes(graph: LayerGraph, held: Counts, parameters: tuple[int, ...], width: float) -> float:
    """Return the bytes of some parameters on one device.

    Args:
        graph: the model.
        held: what the device holds.
        parameters: their positions.
        width: bytes of one weight in the workload's precision.
    """
    table, chosen = graph_arrays(graph).weight, list(parameters)
    return float(((table["compute"] * width + table["fixed"]) * held.held)[chosen].sum())


@remembered(8192)
def reduce_price(
    cluster: Cluster,
    method: str,
    zero: int,
    servers: tuple[int, ...],
    rows: tuple[Line, ...],
    lines: tuple[Lines, ...],
    parts: tuple[tuple[Sums, float], ...],
    chunks: tuple[int, ...] = (),
) -> ReductionPrice:
    """Price a reduction over rows of devices that hold the same shards; its parts run one after another.

    Args:
        cluster: the links between them.
        method: all_reduce, or the name of a parameter server's method.
        zero: level of ZeRO; from 1 on each replica gets only its own shard of the sum.
        servers: devices of a parameter server.
        rows: the rows.
        lines: per row the devices along its axes; () if nothing is a partial sum.
        parts: bytes of one device by the axes they are partial over.
        chunks: per row its group of replicas, if ZeRO shards over fewer than all of them: a reduce-scatter
            inside each group, then an all-reduce of each shard over the groups (HSDP); () if there is one
            group.
    """
    seconds = moved = inside = 0.0
    for sums, size in parts:
        groups = summing_groups(rows, lines, sums)
        count = len(groups[0])
        if method == "all_reduce":
            seconds += reduction_steps(cluster, zero, len(rows[0]), groups, chunks).seconds(size)
        else:
            seconds += _server_seconds(cluster, servers, len(rows[0]), groups, size)
        moved += size / count
        inside += 2 * (count - 1) / count * size
    return ReductionPrice(seconds, moved, inside)


@remembered(1024)
def summing_groups(rows: tuple[Line, ...], lines: tuple[Lines, ...], sums: Sums) -> Hashed[Line]:
    """Return for the first device of each row the devices inside the row that have a part of its gradient."""
    if not sums:
        return Hashed((row[0],) for row in rows)
    return Hashed(summed_with(along, row[0], sums) for row, along in zip(rows, lines, strict=True))


def _server_seconds(
    cluster: Cluster, servers: tuple[int, ...], width: int, groups: tuple[Line, ...], size: float
) -> float:
    devices = devices_of(groups)
    if len(devices) == 1 and not servers:
        return 0.0
    concurrent = max(1, width // len(groups[0]))
    return collective_seconds(
        cluster, "parameter_server", devices, size, concurrent=concurrent, servers=servers
    )


class Steps(NamedTuple):
    """A reduction as collectives one after another, for any size."""

    steps: tuple[tuple[tuple[CollectiveLines, ...], float], ...]
    """Per step the lines of the groups that work side by side, and the part of the buffer that each has."""

    def seconds(self, size: float) -> float:
        """Return the seconds for a buffer of so many bytes; an array of sizes gives an array."""
        total = 0.0
        for groups, part in self.steps:
            slowest = 0.0
            for lines in groups:
                slowest = larger(slowest, lowest_line(lines, size * part))
            total += slowest
        return total


def reduction_steps(
    cluster: Cluster, zero: int, width: int, groups: tuple[Line, ...], chunks: tuple[int, ...] = ()
) -> Steps:
    """Return the steps of a reduction over replicas.

    Args:
        cluster: the links between the devices.
        zero: as `reduce_price`.
        width: devices of a row.
        groups: per row the devices that it adds up over (`summing_groups`).
        chunks: as `reduce_price`.
    """
    concurrent = max(1, width // len(groups[0]))
    if zero and len(set(chunks)) > 1:
        return _hybrid_steps(cluster, groups, chunks, concurrent)
    devices = devices_of(groups)
    lines = collective_lines(
        cluster, "reduce_scatter" if zero else "all_reduce", devices, concurrent=concurrent
    )
    return Steps((((lines,), 1.0),))


@remembered(1024)
def devices_of(groups: tuple[Line, ...]) -> Line:
    """Return the devices of some groups, each once: one object for equal groups, as spans are known by it."""
    return tuple(dict.fromkeys(chain.from_iterable(groups)))


def _hybrid_steps(
    cluster: Cluster, groups: tuple[Line, ...], chunks: tuple[int, ...], concurrent: int
) -> Steps:
    """Return a reduce-scatter inside each group of replicas, then all-reduces of the shards over groups."""
    members: dict[int, list[Line]] = {}
    for chunk, group in zip(chunks, groups, strict=True):
        members.setdefault(chunk, []).append(group)
    inside = []
    for held in members.values():
        devices = devices_of(tuple(held))
        beside = concurrent * len(members)
        inside.append(collective_lines(cluster, "reduce_scatter", devices, concurrent=beside))
    shards = min(map(len, members.values()))
    across = tuple(held[0][0] for held in members.values())
    outside = collective_lines(cluster, "all_reduce", across, concurrent=concurrent * shards)
    return Steps(((tuple(dict.fromkeys(inside)), 1.0), ((outside,), 1.0 / shards)))


@remembered(8192)
def gather_price(cluster: Cluster, groups: tuple[tuple[tuple[Line, ...], float], ...]) -> ReductionPrice:
    """Price gathers of shards over replicas, one after another.

    Args:
        cluster: the links between them.
        groups: rows that hold equal parameters, and the bytes of all of them that one device of a row needs;
            the first group has all rows of the section.

    Returns:
        The price; its `bytes` are as if everything went around the rows of the first group.
    """
    everyone = len(groups[0][0])
    seconds = moved = 0.0
    for rows, size in groups:
        if len(rows) > 1 and size:
            devices = tuple(row[0] for row in rows)
            seconds += lowest_line(gather_lines(cluster, devices, len(rows[0]), everyone), size)
            moved += size * (len(rows) - 1) / len(rows) * everyone / (everyone - 1)
    return ReductionPrice(seconds, moved, 0.0)


def gather_lines(cluster: Cluster, devices: Line, width: int, everyone: int) -> CollectiveLines:
    """Return the lines (`collective_lines`) of a gather of what rows hold shards of.

    Args:
        cluster: the links between them.
        devices: first device of each row that holds equal parameters.
        width: devices of a row.
        everyone: all rows of the section.
    """
    beside = width * max(1, everyone // len(devices))
    return collective_lines(cluster, "all_gather", devices, concurrent=beside)


def gathered_bytes(held: Counts, zero: int, width: float) -> tuple[tuple[float, float], ...]:
    """Return (factor by which the replicas are fewer, bytes) of the weights that a gather brings to a device.

    Levels 1 and 2 gather the updated weights, level 3 all that a forward reads; rows that no step touched
    come along.
    """
    return tuple(
        (item.carved, item.trained.bytes(width) + (item.frozen.bytes(width) if zero == 3 else 0.0))
        for item in held.weights
    )


def with_partial_sums(shards: ShardedLayers, held: Counts) -> tuple[int, ...]:
    """Return the parameters on a device whose gradients are partial sums inside a replica."""
    return tuple(np.flatnonzero((held.held != 0) & shards.holdings.summed).tolist())
