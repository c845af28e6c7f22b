"""Columns: seconds and bytes of every layer of a graph on one row of devices.

What a section takes is summed from them (`section_time`), and so are the tables of planners
(`explorer.tables`), which keep their prefix sums.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.base.caching import MEBIBYTE, STAGES_KEPT, remembered
from explorer.cluster import Cluster, DeviceKind
from explorer.costs.compute import LayerCosts, layer_costs
from explorer.costs.measured import with_collectives
from explorer.costs.stragglers import lane_factor
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import Inside, inside_of
from explorer.sharding import Override, ShardedLayers, Uneven, overrides_of, shard, uneven_of
from explorer.strategy import REPLICA, Stage

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

COLUMNS_KEPT, COLUMN_BYTES = 256, 32 * MEBIBYTE
"""Columns of whole graphs that are remembered, and their bytes: 150 KB each for 1,800 layers with
collectives.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sharded:
    """Sharding of a whole graph under one layout."""

    shards: ShardedLayers
    degree: int
    """Tensor-parallel size."""
    inside: Inside | None
    """Its collectives; None if it has none."""
    devices: int
    """Devices of a replica."""


@remembered(STAGES_KEPT)
def sharded_of(graph: LayerGraph, stage: Stage, place: int | None = None) -> Sharded:
    """Return the sharding of the whole graph under a stage's layout: its layers are summed by section later.

    If devices have unequal shares, it is that of the device at `place`, or of the one with the largest.
    """
    axes = tuple((name, size) for name, size in stage.meshes[0].axes if name != REPLICA and size > 1)
    return _sharded(graph, stage.layout, axes, overrides_of(stage), uneven_of(stage, place))


@remembered(256, most_bytes=COLUMN_BYTES)
def _sharded(
    graph: LayerGraph,
    layout: tuple[tuple[str, str], ...],
    axes: tuple[tuple[str, int], ...],
    overrides: tuple[Override, ...],
    uneven: Uneven,
) -> Sharded:
    names = graph.memo("names", lambda: tuple(layer.name for layer in graph.layers))
    shards = shard(graph, names, layout=layout, sizes=dict(axes), overrides=overrides, uneven=uneven)
    return Sharded(
        shards=shards, degree=dict(axes).get("tensor", 1), inside=inside_of(graph, shards),
        devices=math.prod(size for _, size in axes),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaneColumns:
    """Collectives of every layer on one row, inside the lane."""

    slack_s: FloatArray
    """(3, layers): part of the compute in which the device waits for the host, where collectives fit in."""
    again_slack_s: FloatArray
    """(layers,): the same in a forward made again before a backward."""
    comm_s: FloatArray
    """(2, layers): seconds of the collectives of forward and backward; 0 where measured seconds hold them."""
    sent_bytes: FloatArray
    """(3, layers): bytes that each device sends in forward and backward, and in gathers that the backward
    repeats unseen."""
    apart: BoolArray
    """Per layer whether its collectives take seconds of their own."""
    kind_s: FloatArray
    """Seconds of every kind of collective (`Inside.kinds`)."""
    slowdown: float
    """How much longer work takes while the device communicates."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerColumns:
    """Seconds of every layer of a graph on one row; where kinds of devices mix, on the slowest of each."""

    compute_s: FloatArray
    """(3, layers): seconds of forward, input gradient and weight gradient."""
    again_s: FloatArray
    """(layers,): seconds of a forward made again, right before the backward (`LayerCosts.relief`)."""
    lane: LaneColumns | None
    """Collectives; None if the lane has none."""


@remembered(COLUMNS_KEPT, most_bytes=COLUMN_BYTES)
def layer_columns(
    graph: LayerGraph,
    cluster: Cluster,
    sharded: Sharded,
    costs: FloatArray | None,
    *,
    kinds: tuple[str, ...],
    precision: str,
    samples: float,
    pieces: tuple[tuple[str, Sharded], ...] = (),
) -> LayerColumns:
    """Return the columns of a graph on a row; rows of equal kinds and collectives share them.

    Args:
        graph: the model.
        cluster: where it runs.
        sharded: its sharding.
        costs: (2, kinds) seconds of every kind of collective and bytes sent (`kind_costs`); None if the
            sharding has none.
        kinds: kinds of devices in the row.
        precision: data type of compute.
        samples: samples of one call.
        pieces: kinds of devices with the shards of each, if shares are unequal.
    """
    devices = devices_of(cluster, kinds)
    named = {kind.name: kind for kind in devices}
    found = [
        layer_costs(
            graph, named[name], samples=samples, precision=precision, work=own.shards.work,
            split=own.shards.split, tensor_degree=own.degree, alike=own.shards.alike,
        )
        for name, own in pieces or tuple((name, sharded) for name in named)
    ]  # fmt: skip
    compute, slack, again, again_slack = slowest(found)
    inside = sharded.inside
    if inside is None or costs is None:
        return LayerColumns(compute_s=compute, again_s=again, lane=None)
    # measured seconds may hold collectives: those are sent, but take no seconds of their own
    apart = ~with_collectives(graph, kinds, sharded.degree)
    number = np.stack([inside.forward, inside.backward, inside.regather])
    lane = LaneColumns(
        slack_s=slack,
        again_slack_s=again_slack,
        comm_s=(number[:2] @ costs[0]) * apart,
        sent_bytes=number @ costs[1],
        apart=apart,
        kind_s=costs[0],
        slowdown=max(kind.overlap_slowdown for kind in devices),
    )
    waits = np.where(apart, lane_factor(devices, sharded.devices), 1.0)
    return LayerColumns(compute_s=compute * waits, again_s=again * waits, lane=lane)


def slowest(found: Sequence[LayerCosts]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return seconds and slack of layers, then both of forwards made again, on the slowest of some kinds."""
    return (
        np.max([item.seconds for item in found], axis=0),
        np.min([item.slack for item in found], axis=0),
        np.max([item.seconds[0] - item.relief for item in found], axis=0),
        np.min([np.maximum(0.0, item.slack[0] - item.relief) for item in found], axis=0),
    )


def devices_of(cluster: Cluster, kinds: Sequence[str]) -> list[DeviceKind]:
    """Return the device kinds of these names, in the order of the cluster."""
    return [kind for kind in cluster.device_kinds if kind.name in kinds]
