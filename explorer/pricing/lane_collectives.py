"""Collectives inside a lane (tensor, context, expert parallelism): counts by layer, seconds and bytes.

Which part of them is hidden behind work is told in `explorer.pricing.overlap`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np
import numpy.typing as npt

from explorer.base.caching import remembered
from explorer.base.units import dtype_bytes, tensor_type
from explorer.cluster import Cluster
from explorer.costs.collectives import (
    MADE_OF_LINES,
    collective_lines,
    collective_seconds,
    lowest_line,
    passes_lines,
)
from explorer.costs.group_tiers import alike_groups
from explorer.graph import COMPUTE, LayerGraph
from explorer.pricing.mesh_lines import Line, Lines, lines_along
from explorer.sharding import ShardedLayers
from explorer.sharding.reshard import wire_factor
from explorer.sharding.result import Kind, Sends

FloatArray = npt.NDArray[np.float64]
FEW_LINES = 8
"""Lines below which each is asked for by itself."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inside:
    """Collectives of a graph under one layout, equal ones counted together."""

    kinds: tuple[Kind, ...]
    """The different kinds."""
    forward: FloatArray
    """(layers, kinds): number of each kind in each layer's forward."""
    backward: FloatArray
    """(layers, kinds): number of each kind in each layer's backward."""
    regather: FloatArray
    """(layers, kinds): gathers that the backward repeats unseen, behind other work."""


def inside_of(graph: LayerGraph, shards: ShardedLayers) -> Inside | None:
    """Return the collectives of a sharding of the whole graph; None if it has none."""
    return shards.memo("collectives", lambda: _count(graph, shards))


def _count(graph: LayerGraph, shards: ShardedLayers) -> Inside | None:
    if not shards.kinds:
        return None
    shape = len(graph.layers), len(shards.kinds)

    def table(sends: Sends) -> FloatArray:
        found = np.bincount(sends.layer * shape[1] + sends.kind, minlength=shape[0] * shape[1])
        return found.reshape(shape).astype(np.float64)

    forward, backward, regather = map(table, shards.sends)
    return Inside(kinds=shards.kinds, forward=forward, backward=backward, regather=regather)


@remembered(8192)
def kind_costs(cluster: Cluster, inside: Inside, lines: Lines, precision: str, samples: float) -> FloatArray:
    """Return (2, kinds): seconds of each kind of collective on a row, and bytes that a device sends.

    The lines of an axis run at the same time and share the links of their nodes; the slowest counts, since
    the row continues together.
    """
    return kind_costs_of_sizes(cluster, inside.kinds, lines, precision, (samples,))[:, :, 0].copy()


def kind_cost(
    cluster: Cluster, kind: Kind, lines: Lines, precision: str, samples: float
) -> tuple[float, float]:
    """Return the seconds of one kind of collective on a row, and the bytes that a device sends."""
    seconds, sent = kind_costs_of_sizes(cluster, (kind,), lines, precision, (samples,))[:, 0, 0].tolist()
    return seconds, sent


def kind_costs_of_sizes(
    cluster: Cluster, kinds: Sequence[Kind], lines: Lines, precision: str, sizes: Sequence[float]
) -> FloatArray:
    """Return (2, kinds, sizes): what `kind_costs` says of microbatches of so many samples each.

    Kinds that differ in bytes alone meet the links of their group once.
    """
    found, samples = np.zeros((2, len(kinds), len(sizes))), np.array(sizes, dtype=np.float64)
    alike: dict[tuple[str, str, int], list[int]] = {}
    for number, kind in enumerate(kinds):
        alike.setdefault(kind[:3], []).append(number)
    for (op, axis, size), members in alike.items():
        side_by_side = lines_along(lines, axis, size)
        if not side_by_side:
            continue
        per_sample = [
            (elements, dtype_bytes(tensor_type(precision) if dtype == COMPUTE else dtype))
            for *_, elements, dtype in (kinds[number] for number in members)
        ]
        elements, widths = np.array(per_sample, dtype=np.float64).T[:, :, None]
        buffer = elements * samples * widths
        found[0, members] = _seconds(cluster, op, side_by_side, size, buffer)
        found[1, members] = wire_factor(op, size) * buffer
    return found


def _seconds(cluster: Cluster, op: str, lines: tuple[Line, ...], size: int, buffer: FloatArray) -> FloatArray:
    """Return the seconds of buffers of any number of bytes, in the shape of these."""
    if op == "halo":  # to both neighbours at once
        hops = tuple(hop for line in lines for a, b in pairwise(line) for hop in ((a, b), (b, a)))
        return _passes(cluster, hops, buffer)
    if op in ("ring", "ring_gradient"):  # as many passes of one block, one after another
        hops = tuple(hop for line in lines for hop in zip(line, (*line[1:], line[0]), strict=True))
        return wire_factor(op, size) * size * _passes(cluster, hops, buffer / size)
    count = len(lines)
    if op in MADE_OF_LINES:
        different = {
            collective_lines(cluster, op, line, concurrent=count) for line in _unlike(cluster, lines)
        }
        size_s = [np.asarray(lowest_line(each, cast(float, buffer))) for each in different]
        return _largest(size_s, buffer)
    one_by_one = [
        max(collective_seconds(cluster, op, line, one, concurrent=count) for line in lines)
        for one in buffer.ravel().tolist()
    ]
    return np.array(one_by_one).reshape(buffer.shape)


def _unlike(cluster: Cluster, lines: tuple[Line, ...]) -> list[Line]:
    """Return one of each kind of lines of one length, where many may be alike; all where links of their own
    join devices.
    """
    if len(lines) < FEW_LINES or cluster.links:
        return list(lines)
    numbers = alike_groups(cluster, np.array(lines, dtype=np.int64))
    return [lines[first] for first in np.unique(numbers, return_index=True)[1].tolist()]


def _passes(cluster: Cluster, hops: tuple[tuple[int, int], ...], buffer: FloatArray) -> FloatArray:
    return _largest([alpha + buffer * beta for alpha, beta in passes_lines(cluster, hops)], buffer)


def _largest(parts: list[FloatArray], buffer: FloatArray) -> FloatArray:
    return np.asarray(np.maximum.reduce(parts)) if parts else np.zeros(buffer.shape)
