"""Seconds of a section on a row of devices: compute, collectives of the lane, and recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.cluster import Cluster, DeviceKind
from explorer.costs.compute import LayerCosts, layer_costs
from explorer.costs.measured import all_measured, with_collectives
from explorer.costs.memory import StageMemory, stage_memory
from explorer.costs.memory_arrays import core_layers
from explorer.costs.memory_counts import Counts, counts
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import Inside, inside_of, kind_costs
from explorer.pricing.mesh_lines import Lines
from explorer.pricing.overlap import beside_of, hidden_seconds
from explorer.sharding import Override, ShardedLayers, Uneven, overrides_of, shard, uneven_of
from explorer.strategy import REPLICA, Stage
from explorer.tasks.skeleton import FloatArray, IntArray

BoolArray = npt.NDArray[np.bool_]


class SectionTime(NamedTuple):
    """Seconds of one section for some samples on one row of devices, and bytes each device sends meanwhile.

    If a row mixes kinds of devices, each layer takes as long as on the slowest: the row continues together.
    """

    forward_s: float
    input_grad_s: float
    weight_grad_s: float
    forward_comm_s: float
    """Part of `forward_s` that is collectives inside the lane (tensor parallelism, experts)."""
    backward_comm_s: float
    """Part of `input_grad_s` that is collectives inside the lane."""
    recompute_s: float
    """Recomputed before the backward: blocks (everything if there are none), or the cores of attentions."""
    recompute_comm_s: float
    """Part of `recompute_s` that is collectives inside the lane."""
    forward_bytes: float
    """Bytes that each device sends along the axes of the lane in a forward."""
    backward_bytes: float
    """Bytes that it sends in the input gradient."""
    recompute_bytes: float
    """Bytes that it sends in the recomputation."""
    behind_weight_s: float = 0.0
    """Part of `backward_comm_s` that is hidden if the same backward makes the weight gradients."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sharded:
    """Sharding of a whole graph under one layout."""

    shards: ShardedLayers
    degree: int
    """Tensor-parallel size."""
    inside: Inside | None
    """Its collectives; None if it has none."""


@remembered(STAGES_KEPT)
def sharded_of(graph: LayerGraph, stage: Stage, place: int | None = None) -> Sharded:
    """Return the sharding of the whole graph under a stage's layout: its layers are summed by section later.

    If devices have unequal shares, it is that of the device at `place`, or of the one with the largest.
    """
    axes = tuple((name, size) for name, size in stage.meshes[0].axes if name != REPLICA and size > 1)
    return _sharded(graph, stage.layout, axes, overrides_of(stage), uneven_of(stage, place))


@remembered(256)
def _sharded(
    graph: LayerGraph,
    layout: tuple[tuple[str, str], ...],
    axes: tuple[tuple[str, int], ...],
    overrides: tuple[Override, ...],
    uneven: Uneven,
) -> Sharded:
    names = graph.memo("names", lambda: tuple(layer.name for layer in graph.layers))
    shards = shard(graph, names, layout=layout, sizes=dict(axes), overrides=overrides, uneven=uneven)
    return Sharded(shards=shards, degree=dict(axes).get("tensor", 1), inside=inside_of(graph, shards))


@remembered(STAGES_KEPT)
def section_time(
    graph: LayerGraph,
    cluster: Cluster,
    sharded: Sharded,
    layers: IntArray,
    fractions: FloatArray | None,
    *,
    kinds: tuple[str, ...],
    lines: Lines,
    samples: float,
    precision: str,
    recompute: str,
    overlap: tuple[tuple[str, str], ...] = (),
    pieces: tuple[tuple[str, Sharded], ...] = (),
) -> SectionTime:
    """Sum the seconds of some layers.

    Args:
        graph: the model.
        cluster: where they run.
        sharded: sharding of the stage.
        layers: positions of the layers.
        fractions: share of each layer; None if all are whole.
        kinds: kinds of devices in the row.
        lines: devices along its axes.
        samples: samples of one call.
        precision: data type of compute.
        recompute: none, selective or full.
        overlap: (mesh axis, how) of its collectives that run behind work.
        pieces: kinds of devices with the shards of each, if shares are unequal.
    """
    share = np.ones(len(layers)) if fractions is None else fractions
    again = share * made_again(graph, layers, recompute)
    devices = [kind for kind in cluster.device_kinds if kind.name in kinds]
    named = {kind.name: kind for kind in devices}
    owned = pieces or tuple((name, sharded) for name in named)
    found = [_layer_costs(graph, named[name], precision, own, samples) for name, own in owned]
    compute = np.max([item.seconds for item in found], axis=0)
    if sharded.inside is not None:
        compute = compute * (1.0 + max(kind.lockstep_wait for kind in devices))
    slack = np.min([item.slack for item in found], axis=0)
    forward, input_grad, weight_grad = (compute[:, layers] @ share).tolist()
    comm, sent, behind = [0.0] * 3, [0.0] * 3, 0.0
    if sharded.inside is not None:
        costs = kind_costs(cluster, sharded.inside, lines, precision, samples)
        forward_n, backward_n, again_n, hidden_n = _collectives(sharded.inside, layers, share, again)
        # measured seconds may hold collectives: those are sent, but take no seconds of their own
        apart = ~with_collectives(graph, kinds, sharded.degree)[layers]
        charged = _collectives(sharded.inside, layers, share * apart, again * apart)[:3]
        # the host issues collectives ahead like everything else: they fill the time in which the device waits
        # for it
        waits = (slack[0, layers] @ share, slack[1, layers] @ share, slack[0, layers] @ again)
        # gathers hidden behind the input gradient take no seconds of their own, but are sent
        sent = [float(costs[1] @ number) for number in (forward_n, backward_n + hidden_n, again_n)]
        here, made = np.zeros((2, len(graph.layers)))
        here[layers], made[layers] = share * apart, again * apart
        ways = beside_of(graph, sharded.shards, sharded.inside, overlap)
        slowdown = max(kind.overlap_slowdown for kind in devices)
        hidden = hidden_seconds(ways, costs[0], compute, here, made, slowdown)
        comm = [
            max(0.0, float(costs[0] @ number) - saved - float(wait))
            for number, saved, wait in zip(charged, hidden[:3], waits, strict=True)
        ]
        behind = hidden.weight_grad_s + float(slack[2, layers] @ share)
    remade = float(compute[0, layers] @ again)
    call = call_seconds(graph, devices, sharded.degree, layers)
    return SectionTime(
        forward + comm[0] + call, input_grad + comm[1] + call, weight_grad, comm[0], comm[1],
        remade + comm[2], comm[2], sent[0], sent[1], sent[2], min(behind, comm[1]),
    )  # fmt: skip


def call_seconds(graph: LayerGraph, devices: Sequence[DeviceKind], degree: int, layers: IntArray) -> float:
    """Return what a framework's call of some layers costs besides their kernels, on a row's slowest kind.

    Measured seconds hold it already: the kinds on which all of the layers were measured add nothing.
    """
    return max(
        (
            kind.software.action_overhead_s
            for kind in devices
            if not all_measured(graph, kind.name, degree, layers)
        ),
        default=0.0,
    )


def _collectives(
    inside: Inside, layers: IntArray, share: FloatArray, again: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Count by kind the collectives of forward, backward and recomputation, and those hidden in it."""
    forward, backward = inside.forward[layers], inside.backward[layers]
    return share @ forward, share @ backward, again @ forward, (share - again) @ inside.regather[layers]


def lane_sends(
    cluster: Cluster,
    precision: str,
    recompute: str,
    graph: LayerGraph,
    sharded: Sharded,
    layers: IntArray,
    fractions: FloatArray | None,
    lines: Lines,
    samples: float,
    *,
    backward: bool,
) -> dict[tuple[str, int], float]:
    """Return the bytes that each device of a row sends along each (axis, size) in one forward or backward."""
    if sharded.inside is None:
        return {}
    share = np.ones(len(layers)) if fractions is None else fractions
    again = share * made_again(graph, layers, recompute)
    forward_n, backward_n, again_n, hidden_n = _collectives(sharded.inside, layers, share, again)
    number = backward_n + again_n + hidden_n if backward else forward_n
    sent = kind_costs(cluster, sharded.inside, lines, precision, samples)[1] * number
    found: dict[tuple[str, int], float] = {}
    for (_, axis, size, _, _), part in zip(sharded.inside.kinds, sent.tolist(), strict=True):
        found[axis, size] = found.get((axis, size), 0.0) + part
    return found


def _layer_costs(
    graph: LayerGraph, kind: DeviceKind, precision: str, sharded: Sharded, samples: float
) -> LayerCosts:
    return layer_costs(
        graph, kind, samples=samples, precision=precision,
        work=sharded.shards.work, split=sharded.shards.split, tensor_degree=sharded.degree,
    )  # fmt: skip


def made_again(graph: LayerGraph, layers: IntArray, recompute: str) -> BoolArray:
    """Tell which layers a backward recomputes: those whose tensors `explorer.costs.memory` drops."""
    if recompute == "selective":
        return core_layers(graph)[layers]
    if recompute != "full":
        return np.zeros(len(layers), dtype=bool)
    inside = graph.memo("in blocks", lambda: np.array([bool(x.block) for x in graph.layers]))[layers]
    return inside if inside.any() else np.ones(len(layers), dtype=bool)


@remembered(STAGES_KEPT)
def section_counts(
    graph: LayerGraph,
    shards: ShardedLayers,
    layers: IntArray,
    fractions: FloatArray | None,
    whole: tuple[int, ...],
) -> Counts:
    """Count what one device holds of some layers."""
    names, shares = _named(graph, layers, fractions)
    return counts(graph, names, shards, tuple(shares.items()), whole)


@remembered(STAGES_KEPT)
def section_memory(
    graph: LayerGraph,
    shards: ShardedLayers,
    layers: IntArray,
    fractions: FloatArray | None,
    whole: tuple[int, ...],
    *,
    precision: str,
    gradient_precision: str,
    optimizer: str,
    training: bool,
    zero: int,
    replicas: int,
    recompute: str,
    dummy_gradients: bool,
) -> StageMemory:
    """Return the memory of one device of a section; the arguments are those of `stage_memory`."""
    names, shares = _named(graph, layers, fractions)
    return stage_memory(
        graph, names, shards, precision=precision, optimizer=optimizer, zero=zero, replicas=replicas,
        recompute=recompute, training=training, gradient_precision=gradient_precision,
        dummy_gradients=dummy_gradients, fractions=shares, whole=whole,
    )  # fmt: skip


def _named(
    graph: LayerGraph, layers: IntArray, fractions: FloatArray | None
) -> tuple[tuple[str, ...], dict[str, float]]:
    names = tuple(graph.layers[i].name for i in layers.tolist())
    return names, {} if fractions is None else dict(zip(names, fractions.tolist(), strict=True))
