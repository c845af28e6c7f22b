"""Seconds of a whole model on one row of devices for many microbatch sizes at once, as `StageTable` has them.

A planner that compares layouts asks for nothing but the whole model, for every size of a microbatch. Layers
that are alike are priced once, all sizes in one pass over an array.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from explorer.cluster import Cluster, DeviceKind
from explorer.costs.compute import device_costs, unwanted_gradients
from explorer.costs.graph_work import work_table
from explorer.costs.measured import measured_and_not
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.stragglers import lane_factor
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import kind_costs_of_sizes
from explorer.pricing.layer_columns import BoolArray, FloatArray, Sharded
from explorer.pricing.overlap import Beside, beside_of
from explorer.pricing.section_time import made_again
from explorer.sharding import ShardedLayers
from explorer.tables.stage_lanes import LaneRow
from explorer.tasks.skeleton import IntArray


class WholeSeconds(NamedTuple):
    """(sizes,): seconds of a microbatch of every size on all layers."""

    forward: FloatArray
    input_grad: FloatArray
    weight_grad: FloatArray
    comm: FloatArray
    """Part of these that is collectives."""
    behind_weight: FloatArray
    """Part of the input gradients that is hidden if the same backward makes the weight gradients."""
    again: FloatArray
    """Of forwards that are made again, with their collectives."""
    again_comm: FloatArray
    """Part of those that is collectives."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Alike:
    """Layers that are alike, and the blocks that they make."""

    example: IntArray
    """(classes,): one layer of each class."""
    own: IntArray
    """(layers,): class of each layer."""
    block: IntArray
    """(layers,): kind of block of each layer."""
    members: FloatArray
    """(kinds of blocks, classes): layers of each class in a block of each kind."""
    times: FloatArray
    """(kinds of blocks,): blocks of each kind."""


def whole_seconds(
    graph: LayerGraph,
    cluster: Cluster,
    row: LaneRow,
    sizes: tuple[int, ...],
    precision: str,
    recompute: str = "none",
) -> WholeSeconds | None:
    """Return the seconds of every size; None where layers have to be looked at one by one.

    They are those of `StageTable.seconds`. Seconds that a source measured, frozen weights, mixed devices and
    collectives behind weight gradients are left to that.
    """
    sharded = row.sharded
    ways = (None,) * 3 if sharded.inside is None else beside_of(graph, sharded.shards, sharded.inside, ())
    if sharded.shards.alike is None or ways[2] is not None or len(row.kinds) > 1:
        return None
    if unwanted_gradients(graph).any() or _is_measured(graph, row.kinds[0], sharded):
        return None
    alike = sharded.shards.memo("layers alike", lambda: _find_alike(graph, sharded.shards))
    again = made_again(graph, np.arange(len(graph.layers)), recompute)
    return _seconds(graph, cluster, row, alike, (ways[0], ways[1]), again, sizes, precision)


def _is_measured(graph: LayerGraph, kind: DeviceKind, sharded: Sharded) -> bool:
    return bool(measured_and_not(graph, kind.name, sharded.degree)[0].any())


def _find_alike(graph: LayerGraph, shards: ShardedLayers) -> _Alike:
    _, kinds = graph.memo("costs.table", lambda: work_table(graph))
    alike = shards.alike if shards.alike is not None else np.zeros(len(kinds), dtype=np.int64)
    pairs = kinds * (int(alike.max(initial=0)) + 1) + alike
    _, example, own = np.unique(pairs, return_index=True, return_inverse=True)
    _, block = np.unique(graph_arrays(graph).own_block, return_inverse=True)
    shape = int(block.max()) + 1, len(example)
    members = np.bincount(block * shape[1] + own, minlength=shape[0] * shape[1]).reshape(shape)
    different, place, times = np.unique(members, axis=0, return_inverse=True, return_counts=True)
    return _Alike(
        example=example, own=own, block=place.reshape(-1)[block], members=different.astype(float),
        times=times.astype(float),
    )  # fmt: skip


def _seconds(
    graph: LayerGraph,
    cluster: Cluster,
    row: LaneRow,
    alike: _Alike,
    ways: tuple[Beside | None, Beside | None],
    again: BoolArray,
    sizes: tuple[int, ...],
    precision: str,
) -> WholeSeconds:
    kind, sharded = row.kinds[0], row.sharded
    alone, work, relief = _work(graph, kind, sharded.shards, alike, sizes, precision)
    call = kind.software.action_overhead_s
    if sharded.inside is None:
        once, none = _all(alike, work), np.zeros(len(sizes))
        remade = _some(alike, work[0] - relief, again)
        return WholeSeconds(once[0] + call, once[1] + call, once[2], none, none, remade, none)
    waits = _all(alike, work - alone)
    waits_again = _some(alike, np.maximum(0.0, (work - alone)[0] - relief), again)
    factor = lane_factor(row.kinds, sharded.devices)
    work *= factor
    once = _all(alike, work)
    costs = kind_costs_of_sizes(cluster, sharded.inside.kinds, row.lines, precision, sizes)[0]
    hidden = np.array([_hidden(way, alike, costs, work) for way in ways]) * (1.0 - kind.overlap_slowdown)
    number = np.array([part.sum(axis=0) for part in (sharded.inside.forward, sharded.inside.backward)])
    comm = np.maximum(0.0, number @ costs - hidden - waits[:2])
    less = _hidden(ways[0], alike, costs, work, again) * (1.0 - kind.overlap_slowdown)
    comm_again = np.maximum(0.0, sharded.inside.forward[again].sum(axis=0) @ costs - less - waits_again)
    return WholeSeconds(
        once[0] + comm[0] + call, once[1] + comm[1] + call, once[2], comm.sum(axis=0),
        np.minimum(waits[2], comm[1]), _some(alike, work[0] - factor * relief, again) + comm_again,
        comm_again,
    )  # fmt: skip


def _work(
    graph: LayerGraph,
    kind: DeviceKind,
    shards: ShardedLayers,
    alike: _Alike,
    sizes: tuple[int, ...],
    precision: str,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the (3, kinds of blocks, classes, sizes) seconds of a layer on the device, and those that it
    takes where the host is slower to issue a block's kernels; last the (kinds of blocks, classes, sizes) part
    of the latter in a forward that a backward right behind it makes up for.
    """
    example, count = alike.example, len(sizes)
    device, host = device_costs(
        graph, kind, np.repeat(example, count), samples=np.tile(np.array(sizes, dtype=float), len(example)),
        precision=precision, work=np.repeat(shards.work[example], count),
        split=np.repeat(shards.split[:, example], count, axis=1),
    )  # fmt: skip
    device, host = (part.reshape(3, len(example), count) for part in (device, host))
    alone = np.broadcast_to(device[:, None], (3, len(alike.times), *device.shape[1:]))
    work, relief = np.array(alone), np.zeros(alone.shape[1:])
    if host.any():
        work_s, issue_s = (
            [alike.members @ part[way].sum(axis=0) for way in ([0], [1, 2])] for part in (device, host)
        )
        lag, ahead = np.maximum(0.0, issue_s[0] - work_s[0]), np.maximum(0.0, work_s[1] - issue_s[1])
        share = np.where(work_s[0] > 0, np.minimum(lag, ahead) / np.maximum(work_s[0], 1e-300), 0.0)
        relief = alone[0] * share[:, None, :]
        for way in ([0], [1, 2]):
            needs = alike.members @ device[way].sum(axis=0)
            stretch = np.maximum(1.0, alike.members @ host[way].sum(axis=0) / np.maximum(needs, 1e-300))
            work[way] *= np.where(needs > 0, stretch, 1.0)[:, None, :]
    return alone, work, relief


def _all(alike: _Alike, seconds: FloatArray) -> FloatArray:
    """Sum (3, kinds of blocks, classes, sizes) seconds of a layer over all layers."""
    number = (alike.members * alike.times[:, None]).reshape(-1)
    return np.array([number @ part.reshape(len(number), -1) for part in seconds])


def _some(alike: _Alike, seconds: FloatArray, which: BoolArray) -> FloatArray:
    """Sum (kinds of blocks, classes, sizes) seconds of a layer over some layers."""
    shape = seconds.shape[:2]
    number = np.bincount((alike.block * shape[1] + alike.own)[which], minlength=shape[0] * shape[1])
    found: FloatArray = number @ seconds.reshape(len(number), -1)
    return found


def _hidden(
    way: Beside | None, alike: _Alike, costs: FloatArray, work: FloatArray, which: BoolArray | None = None
) -> FloatArray:
    """Return the (sizes,) seconds of collectives that run behind the layer that waits for them.

    If only some layers count, they are those of collectives that these wait for, behind the work of these.
    """
    if way is None:
        return np.zeros(costs.shape[1])
    collective, layer = way.pairs
    if which is not None:
        mine = which[way.payer[collective]] & which[layer]
        collective, layer = collective[mine], layer[mine]
    rows = np.stack([way.kind[collective], alike.block[layer], alike.own[layer], way.work[collective]])
    different, first, count = np.unique(rows, axis=1, return_index=True, return_counts=True)
    kind, block, own, what = different
    example = collective[first]
    most = costs[kind] * way.hideable[example, None]
    return np.asarray(count @ np.minimum(most, work[what, block, own] * way.overlap[example, None]))
