"""Seconds of a section on a row of devices: compute, collectives of the lane, and recomputation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.cluster import Cluster, DeviceKind
from explorer.costs.keeping import Recompute
from explorer.costs.measured import all_measured
from explorer.costs.memory import StageMemory, stage_memory
from explorer.costs.memory_arrays import core_layers
from explorer.costs.memory_counts import Counts, counts
from explorer.graph import LayerGraph
from explorer.pricing.lane_collectives import Inside, kind_costs
from explorer.pricing.layer_columns import (
    LaneColumns,
    LayerColumns,
    Sharded,
    devices_of,
    layer_columns,
)
from explorer.pricing.mesh_lines import Lines
from explorer.pricing.overlap import Beside, Hidden, beside_of, hidden_seconds
from explorer.sharding import ShardedLayers
from explorer.tasks.skeleton import FloatArray, IntArray

SECONDS = (
    "forward_s", "input_grad_s", "weight_grad_s", "forward_comm_s", "backward_comm_s", "recompute_s",
    "recompute_comm_s", "behind_weight_s",
)  # fmt: skip
"""Fields of `SectionTime` that are seconds."""
BoolArray = npt.NDArray[np.bool_]
Three: TypeAlias = tuple[float, float, float]
Ways: TypeAlias = tuple[Beside | None, Beside | None, Beside | None]


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


def slowed(time: SectionTime, factor: float) -> SectionTime:
    """Return the time of a section that takes so many times as long; the bytes stay."""
    if factor == 1.0:
        return time
    return time._replace(**{name: getattr(time, name) * factor for name in SECONDS})


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
    recompute: Recompute,
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
        recompute: none, selective or full; or a choice for each layer (`explorer.costs.keeping`).
        overlap: (mesh axis, how) of its collectives that run behind work.
        pieces: kinds of devices with the shards of each, if shares are unequal.
    """
    share = np.ones(len(layers)) if fractions is None else fractions
    again = share * made_again(graph, layers, recompute)
    inside = sharded.inside
    costs = None if inside is None else kind_costs(cluster, inside, lines, precision, samples)
    found = layer_columns(
        graph, cluster, sharded, costs, kinds=kinds, precision=precision, samples=samples, pieces=pieces
    )
    ways = (None, None, None) if inside is None else beside_of(graph, sharded.shards, inside, overlap)
    call = call_seconds(graph, devices_of(cluster, kinds), sharded.degree, layers)
    return summed(found, ways, layers, share, again, call)


def summed(
    found: LayerColumns, ways: Ways, layers: IntArray, share: FloatArray, again: FloatArray, call: float
) -> SectionTime:
    """Sum the columns of some layers.

    Args:
        found: the columns of all layers.
        ways: the collectives that work hides (`beside_of`).
        layers: positions of the layers.
        share: share of each of them.
        again: as `share`, the part that a backward recomputes.
        call: seconds of the framework's call (`call_seconds`).
    """
    compute = found.compute_s
    forward, input_grad, weight_grad = (compute[:, layers] @ share).tolist()
    comm, sent, behind = (0.0,) * 3, (0.0,) * 3, 0.0
    if found.lane is not None:
        comm, sent, behind = _lane(found.lane, ways, compute, layers, share, again)
    remade = float(found.again_s[layers] @ again)
    return SectionTime(
        forward + comm[0] + call, input_grad + comm[1] + call, weight_grad, comm[0], comm[1],
        remade + comm[2], comm[2], sent[0], sent[1], sent[2], min(behind, comm[1]),
    )  # fmt: skip


def _lane(
    lane: LaneColumns, ways: Ways, compute: FloatArray, layers: IntArray, share: FloatArray, again: FloatArray
) -> tuple[Three, Three, float]:
    """Sum collectives: seconds of forward, backward and recomputation, bytes of each, and seconds hidden."""
    comm, sent, slack = lane.comm_s[:, layers], lane.sent_bytes[:, layers], lane.slack_s[:, layers]
    hidden = Hidden()
    if any(way is not None for way in ways):
        here, made = np.zeros((2, len(lane.apart)))
        here[layers], made[layers] = share, again
        here, made = here * lane.apart, made * lane.apart
        hidden = hidden_seconds(ways, lane.kind_s, compute, here, made, lane.slowdown)

    def left(charged: float, saved: float, wait: float) -> float:
        """Take off what work hides, and what fits into the time in which the device waits for the host."""
        return max(0.0, charged - saved - wait)

    return (
        (
            left(float(comm[0] @ share), hidden.forward_s, float(slack[0] @ share)),
            left(float(comm[1] @ share), hidden.input_grad_s, float(slack[1] @ share)),
            left(float(comm[0] @ again), hidden.recompute_s, float(lane.again_slack_s[layers] @ again)),
        ),
        # gathers hidden behind the input gradient take no seconds of their own, but are sent
        (
            float(sent[0] @ share),
            float(sent[1] @ share + sent[2] @ (share - again)),
            float(sent[0] @ again),
        ),
        hidden.weight_grad_s + float(slack[2] @ share),
    )


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
    recompute: Recompute,
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


def made_again(graph: LayerGraph, layers: IntArray, recompute: Recompute) -> BoolArray:
    """Tell which layers a backward recomputes: those whose tensors `explorer.costs.memory` drops.

    A layer that chose `output` is made again wherever it is: what it writes is gone.
    """
    if not isinstance(recompute, str):
        chosen = np.array(recompute)[np.argsort(np.argsort(layers))]
        found = np.zeros(len(layers), dtype=bool)
        for choice in dict.fromkeys(recompute):
            again = choice == "output" or made_again(graph, layers, choice)
            found |= (chosen == choice) & again
        return found
    if recompute == "selective":
        return core_layers(graph)[layers]
    if recompute != "full":
        return np.zeros(len(layers), dtype=bool)
    inside: BoolArray = in_blocks(graph)[layers]
    return inside & ~made_once(graph)[layers] if inside.any() else np.ones(len(layers), dtype=bool)


def made_once(graph: LayerGraph) -> BoolArray:
    """Tell which layers no recomputation of their block comes to."""
    return graph.memo("made once", lambda: np.array([x.once for x in graph.layers], dtype=bool))


def in_blocks(graph: LayerGraph) -> BoolArray:
    """Tell which layers are in a block."""
    return graph.memo("in blocks", lambda: np.array([bool(x.block) for x in graph.layers], dtype=bool))


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
    recompute: Recompute,
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
