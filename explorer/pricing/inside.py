"""Collectives inside a lane (tensor, context, expert parallelism): counts by layer, seconds and bytes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds, transfer_seconds
from explorer.graph import COMPUTE, LayerGraph
from explorer.identity import remembered
from explorer.pricing.lines import Lines, lines_along
from explorer.sharding import Collective, ShardedLayers
from explorer.sharding.reshard import wire_factor
from explorer.units import dtype_bytes

FloatArray = npt.NDArray[np.float64]

Kind = tuple[str, str, int, float, str]
"""(op, axis, devices along it, elements per sample, data type)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inside:
    """Collectives of a graph under one layout, equal ones counted together."""

    kinds: tuple[Kind, ...]
    """The different ones."""
    forward: FloatArray
    """(layers, kinds): how many each layer's forward has."""
    backward: FloatArray
    """As `forward`, of the backward."""
    regather: FloatArray
    """As `forward`: gathers that the backward repeats unseen, behind other work."""


def inside_of(graph: LayerGraph, shards: ShardedLayers) -> Inside | None:
    """The collectives of a sharding of the whole graph; None if it has none."""
    return shards.memo("collectives", lambda: _count(graph, shards))


def _count(graph: LayerGraph, shards: ShardedLayers) -> Inside | None:
    ways = (shards.forward, shards.backward, shards.regather)
    kinds: dict[Kind, int] = {}
    for way in ways:
        for item in way:
            kinds.setdefault(_kind(item), len(kinds))
    if not kinds:
        return None
    tables = []
    for way in ways:
        table = np.zeros((len(graph.layers), len(kinds)))
        for item in way:
            table[graph.index[item.layer], kinds[_kind(item)]] += 1.0
        tables.append(table)
    return Inside(kinds=tuple(kinds), forward=tables[0], backward=tables[1], regather=tables[2])


def _kind(item: Collective) -> Kind:
    return (item.op, item.axis, item.size, item.elements_per_sample, item.dtype)


@remembered(8192)
def kind_costs(cluster: Cluster, inside: Inside, lines: Lines, precision: str, samples: float) -> FloatArray:
    """(2, kinds): seconds of each kind of collective on a row, and bytes that one of its devices sends.

    The lines of an axis run side by side and share what their nodes share; the slowest counts, since the
    row goes on together.
    """
    found = np.zeros((2, len(inside.kinds)))
    for k, (op, axis, size, elements, dtype) in enumerate(inside.kinds):
        buffer = elements * samples * dtype_bytes(precision if dtype == COMPUTE else dtype)
        side_by_side = lines_along(lines, axis, size)
        if side_by_side:
            found[0, k] = max(_seconds(cluster, op, line, buffer, len(side_by_side)) for line in side_by_side)
            found[1, k] = wire_factor(op, size) * buffer
    return found


def _seconds(cluster: Cluster, op: str, line: tuple[int, ...], buffer: float, concurrent: int) -> float:
    if op == "halo":  # both neighbours at once, on wires of their own
        return max(transfer_seconds(cluster.path(a, b), buffer) for a, b in pairwise(line))
    return collective_seconds(cluster, op, line, buffer, concurrent=concurrent)
