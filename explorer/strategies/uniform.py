"""Uniform strategies: p stages x d replicas x t-way tensor parallelism, as command lines and searchers ask.

Devices are numbered as Megatron does it: tensor innermost (so that it stays inside a node), then
replicas, then pipeline positions outermost. The schedule's placement says which stages and copies run at
which position (see `explorer.schedules.placements`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.sharding.layouts import megatron_layout
from explorer.strategy import REPLICA, Mesh, Stage, Strategy, single
from explorer.workload import Job


def uniform(
    graph: LayerGraph,
    cluster: Cluster,
    job: Job,
    *,
    stages: int = 1,
    replicas: int = 1,
    tensor: int = 1,
    chunks: int | None = None,
    microbatches: int | None = None,
    microbatch_size: int | None = None,
    schedule: str = "",
    options: Mapping[str, Any] | None = None,
    recompute: str = "none",
    zero: int = 0,
    weights: Sequence[float] | None = None,
    cuts: Sequence[int] | None = None,
) -> Strategy:
    """A strategy in which every stage has the same mesh shape.

    Args:
        graph: the model.
        cluster: the devices; the first stages x replicas x tensor of them are used.
        job: for the global batch.
        stages: pipeline positions p (groups of replicas x tensor devices).
        replicas: data-parallel replicas d.
        tensor: tensor-parallel size t.
        chunks: stages per position (virtual stages); None for what the schedule's placement has.
        microbatches: per step; or give `microbatch_size`.
        microbatch_size: samples per replica.
        schedule: name; empty is 1f1b, or interleaved_1f1b where chunks > 1.
        options: of the schedule.
        recompute: none, selective or full.
        zero: ZeRO level.
        weights: cost per layer that the cut balances; default forward + backward FLOPs.
        cuts: first layer index of every stage but the first, instead of balancing.

    Raises:
        InputError: the cluster is too small, there are fewer units than stages, or an unknown schedule.
    """
    name = schedule or ("interleaved_1f1b" if (chunks or 1) > 1 else "1f1b")
    placement = SCHEDULES.get(name).placement
    _check_counts(
        cluster, stages=stages, replicas=replicas, tensor=tensor, chunks=1 if chunks is None else chunks
    )
    size = _microbatch_samples(job, replicas, microbatches, microbatch_size)
    grid = placement.grid(stages, chunks)
    count = placement.stages(grid)
    homes = [stage_mesh(position, replicas, tensor) for position in range(stages)]
    if cuts is None:
        cuts = balanced_cuts(graph, count, weights)
    bounds = [0, *cuts, len(graph.layers)]
    names = [layer.name for layer in graph.layers]
    layout = megatron_layout() if tensor > 1 else ()
    made = tuple(
        Stage(
            layers=tuple(names[bounds[i] : bounds[i + 1]]),
            meshes=tuple(homes[placement.position(i, copy, grid)] for copy in range(grid.copies)),
            microbatch_samples=size,
            layout=layout,
            recompute=recompute,
            zero=zero,
        )
        for i in range(count)
    )
    return single(stages=made, schedule=name, options=dict(options or {}), job=job.name)


def stage_mesh(position: int, replicas: int, tensor: int) -> Mesh:
    """Mesh of the pipeline position: a contiguous run of devices, tensor innermost."""
    first = position * replicas * tensor
    axes = ((REPLICA, replicas), ("tensor", tensor)) if tensor > 1 else ((REPLICA, replicas),)
    return Mesh(devices=tuple(range(first, first + replicas * tensor)), axes=axes)


def _check_counts(cluster: Cluster, **counts: int) -> None:
    for key, value in counts.items():
        if value < 1:
            raise InputError(f"{key} is {value}", key=key, found=value, allowed=">= 1")
    needed = counts["stages"] * counts["replicas"] * counts["tensor"]
    if needed > cluster.device_count:
        raise InputError(
            f"{counts['stages']} stages x {counts['replicas']} replicas x {counts['tensor']} tensor need"
            f" {needed} devices; cluster {cluster.name!r} has {cluster.device_count}",
            key="stages",
            found=needed,
            allowed=f"<= {cluster.device_count}",
        )


def _microbatch_samples(
    job: Job, replicas: int, microbatches: int | None, microbatch_size: int | None
) -> int:
    if microbatch_size is not None:
        size = microbatch_size * replicas
    elif microbatches is not None:
        if microbatches < 1 or job.global_batch % microbatches:
            raise InputError(
                f"{microbatches} microbatches do not divide a global batch of {job.global_batch}",
                key="microbatches",
                found=microbatches,
                allowed="a divisor of the global batch",
            )
        size = job.global_batch // microbatches
    else:
        size = replicas
    if size < 1 or job.global_batch % size:
        raise InputError(
            f"microbatches of {size} samples ({size // max(1, replicas)} x {replicas} replicas) do not"
            f" divide the global batch of {job.global_batch}",
            key="microbatch_size",
            found=size,
            allowed="a divisor of the global batch",
        )
    return size


def units(graph: LayerGraph) -> list[tuple[int, int]]:
    """Index ranges [start, stop) that a cut never divides: blocks, and layers outside of them.

    Where the model has no blocks every layer is a unit.
    """

    def make() -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for i, layer in enumerate(graph.layers):
            if found and layer.block and graph.layers[i - 1].block == layer.block:
                found[-1] = (found[-1][0], i + 1)
            else:
                found.append((i, i + 1))
        return found

    return graph.memo("units", make)


def balanced_cuts(graph: LayerGraph, stages: int, weights: Sequence[float] | None = None) -> list[int]:
    """Cuts that minimise the heaviest stage: exact, by parametric search over prefix sums of the units.

    Raises:
        InputError: more stages than units.
    """
    spans = units(graph)
    if stages > len(spans):
        spans = [(i, i + 1) for i in range(len(graph.layers))]
    if stages > len(spans):
        raise InputError(
            f"{stages} stages for {len(spans)} layers", key="stages", found=stages, allowed=f"<= {len(spans)}"
        )
    cost = list(weights) if weights is not None else default_weights(graph)
    loads = [sum(cost[a:b]) for a, b in spans]
    low, high = max(*loads, sum(loads) / stages), sum(loads)
    for _ in range(60):
        middle = (low + high) / 2
        if _groups_needed(loads, middle) <= stages:
            high = middle
        else:
            low = middle
    return [spans[i][0] for i in _cut_at(loads, high * (1 + 1e-12), stages)]


def default_weights(graph: LayerGraph) -> list[float]:
    """What a cut balances by default: FLOPs of each layer, measured seconds, and a little per element."""
    return graph.memo(
        "weights",
        lambda: [
            layer.forward.flops + layer.input_grad.flops + layer.weight_grad.flops
            + 1e-9 * (layer.forward.moved_elements + 1)
            + (layer.measured[0].forward_s + layer.measured[0].input_grad_s + layer.measured[0].weight_grad_s
               if layer.measured else 0.0)
            for layer in graph.layers
        ],
    )  # fmt: skip


def _groups_needed(loads: Sequence[float], limit: float) -> int:
    count, filled = 1, 0.0
    for load in loads:
        if filled + load > limit:
            count, filled = count + 1, 0.0
        filled += load
    return count


def _cut_at(loads: Sequence[float], limit: float, stages: int) -> list[int]:
    """First unit of every stage but the first: none above `limit`, none empty, as even as greedy allows."""
    cuts: list[int] = []
    filled, left = 0.0, sum(loads)
    for i, load in enumerate(loads):
        remaining = stages - len(cuts) - 1
        must = len(loads) - i <= remaining
        # close a stage at its fair share of what is left, if the rest still fits
        fair = remaining and filled >= (left + filled) / (remaining + 1) - load / 2
        fits = remaining and _groups_needed(loads[i:], limit) <= remaining
        if i and remaining and (must or filled + load > limit or (fair and fits and filled)):
            cuts.append(i)
            filled = 0.0
        filled += load
        left -= load
    return cuts
