"""Collectives inside a lane (tensor, context, expert parallelism): counts by layer, seconds and bytes.

Which part of them is hidden behind work is told in `explorer.pricing.overlap`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from explorer.base.caching import remembered
from explorer.base.units import dtype_bytes, tensor_type
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds, passes_seconds
from explorer.graph import COMPUTE, LayerGraph
from explorer.pricing.mesh_lines import Line, Lines, lines_along
from explorer.sharding import ShardedLayers
from explorer.sharding.reshard import wire_factor
from explorer.sharding.result import Kind, Sends

FloatArray = npt.NDArray[np.float64]


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
    found = np.array([kind_cost(cluster, kind, lines, precision, samples) for kind in inside.kinds])
    return found.T.copy()


def kind_cost(
    cluster: Cluster, kind: Kind, lines: Lines, precision: str, samples: float
) -> tuple[float, float]:
    """Return the seconds of one kind of collective on a row, and the bytes that a device sends."""
    op, axis, size, elements, dtype = kind
    side_by_side = lines_along(lines, axis, size)
    if not side_by_side:
        return 0.0, 0.0
    buffer = elements * samples * dtype_bytes(tensor_type(precision) if dtype == COMPUTE else dtype)
    return _seconds(cluster, op, side_by_side, size, buffer), wire_factor(op, size) * buffer


def _seconds(cluster: Cluster, op: str, lines: tuple[Line, ...], size: int, buffer: float) -> float:
    if op == "halo":  # to both neighbours at once
        hops = tuple(hop for line in lines for a, b in pairwise(line) for hop in ((a, b), (b, a)))
        return passes_seconds(cluster, hops, buffer)
    if op in ("ring", "ring_gradient"):  # as many passes of one block, one after another
        hops = tuple(hop for line in lines for hop in zip(line, (*line[1:], line[0]), strict=True))
        passes = wire_factor(op, size) * size
        return passes * passes_seconds(cluster, hops, buffer / size)
    return max(collective_seconds(cluster, op, line, buffer, concurrent=len(lines)) for line in lines)
