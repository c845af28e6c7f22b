"""Checks of a stage by itself; its result is kept, so that after a change only changed stages are checked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, Same, remembered, remembered_each
from explorer.cluster import Cluster, DeviceKind
from explorer.graph import LayerGraph
from explorer.sharding import layout_problems
from explorer.sharding.heads import HEADS, head_counts, head_pairs, held_once, parts_heads
from explorer.strategy import ON_HOST, REPLICA, Mesh, Stage
from explorer.tasks.placement import IntArray
from explorer.workload import Job

_FAR = 100_000
"""Largest distance at which a divisor is looked for."""


class CheckedStage(NamedTuple):
    """What is known of a stage by itself."""

    problems: tuple[str, ...]
    """Everything wrong with it, in words."""
    layers: IntArray | None
    """Positions of its layers; None if it cuts any, or the model lacks one."""
    kinds: tuple[tuple[int, DeviceKind, int], ...]
    """Kinds of its devices: lowest device, kind and number of devices."""


def check_stages(
    graph: LayerGraph, cluster: Cluster, job: Job, stages: tuple[Stage, ...], *, copies: int, dispatches: bool
) -> list[CheckedStage]:
    """Check every stage by itself.

    Args:
        graph: the model.
        cluster: the devices.
        job: for the global batch.
        stages: the stages.
        copies: copies that each stage has to have.
        dispatches: whether replicas take what is ready rather than turns.
    """
    return _check_stage(
        stages, ("",) * len(stages), graph, cluster, job, copies=copies, dispatches=dispatches
    )


@remembered_each(STAGES_KEPT)
def _check_stage(
    stage: Stage, _: str, graph: LayerGraph, cluster: Cluster, job: Job, *, copies: int, dispatches: bool
) -> CheckedStage:
    known, layers = graph.index, None
    if not stage.slices and all(name in known for name in stage.layers):
        layers = np.array([known[name] for name in stage.layers], dtype=np.int64)
    problems = _problems(graph, cluster, job, stage, copies=copies, dispatches=dispatches)
    return CheckedStage(tuple(problems), layers, kinds_of(cluster, stage))


def kinds_of(cluster: Cluster, stage: Stage) -> tuple[tuple[int, DeviceKind, int], ...]:
    """Return the kinds of devices of a stage: lowest device, kind and number of devices."""
    return _kinds_on(cluster, Same(stage.meshes))


@remembered(1024)
def _kinds_on(cluster: Cluster, meshes: Same[Mesh]) -> tuple[tuple[int, DeviceKind, int], ...]:
    return cluster.kinds_among([device for mesh in meshes for device in mesh.devices])


def _problems(
    graph: LayerGraph, cluster: Cluster, job: Job, stage: Stage, *, copies: int, dispatches: bool
) -> Iterator[str]:
    if len(stage.meshes) != copies:
        yield f"has {len(stage.meshes)} copies where the strategy has {copies}"
    axes = {mesh.axes for mesh in stage.meshes}
    if len(axes) > 1:
        yield f"its copies have different mesh axes {sorted(map(str, axes))}"
    count = cluster.device_count
    for mesh in (*stage.meshes, *(mesh for item in stage.shardings for mesh in item.meshes)):
        if min(mesh.devices) < 0 or max(mesh.devices) >= count:
            wrong = [device for device in mesh.devices if not 0 <= device < count]
            yield f"devices {some(wrong)} do not exist; cluster {cluster.name!r} has 0 to {count - 1}"
    size = stage.microbatch_samples
    if job.global_batch % size:
        yield (
            f"microbatches of {size} samples do not divide the global batch of {job.global_batch};"
            f" nearest that do: {_divisors(job.global_batch, size)}"
        )
    replicas = stage.meshes[0].replicas
    if stage.replicas == "split" and not stage.shares and size < replicas:
        yield (
            f"microbatches of {size} samples cannot be split over {replicas} replicas; use {replicas} or more"
        )
    if (
        stage.replicas == "round_robin"
        and not dispatches
        and (job.global_batch // size) % replicas
        and not job.global_batch % size
    ):
        yield f"{job.global_batch // size} microbatches do not go round {replicas} replicas; use a multiple"
    yield from _layouts(graph, stage)
    yield from _axis_shares(graph, stage)
    yield from _states(cluster, stage)
    yield from _keeping(stage)
    choosy = graph.memo("choosy", lambda: frozenset(i.name for i in graph.layers if i.device_kinds))
    if choosy:
        kinds = {kind.name for _, kind, _ in kinds_of(cluster, stage)}
        for name in choosy.intersection(stage.all_layers):
            allowed = graph.layer[name].device_kinds
            if not kinds <= set(allowed):
                yield f"layer {name} may run on {', '.join(allowed)}, not on {', '.join(sorted(kinds))}"


def _axis_shares(graph: LayerGraph, stage: Stage) -> Iterator[str]:
    """Check that some dimension is split over every axis with unequal shares."""
    known = graph.memo("dimension_names", lambda: {dim.name for item in graph.layers for dim in item.dims})
    for axis, _ in stage.axis_shares:
        if axis not in {name for dim, name in stage.layout if dim in known}:
            yield f"unequal shares along mesh axis {axis!r}, over which the layout splits nothing"


def _states(cluster: Cluster, stage: Stage) -> Iterator[str]:
    """Check sparse and offloaded states."""
    if stage.reshard and stage.zero < 2:
        yield f"reshard {stage.reshard} with ZeRO {stage.zero}: it concerns levels 2 and 3 only"
    if stage.density < 1 and stage.zero:
        yield f"a density of {stage.density:g} with ZeRO {stage.zero}: sparse states are not sharded"
    if stage.zero and len(stage.meshes) > 1 and (shared := _shared_in_group(stage)):
        yield (
            f"several copies on devices {some(shared)} under ZeRO {stage.zero}, which gives each device one"
            " part; put the copies on different devices, or take zero: 0"
        )
    moves = stage.offload or any(item.on == ON_HOST for item in stage.keeping)
    kinds = [kind for _, kind, _ in kinds_of(cluster, stage)] if moves else []
    for name in dict.fromkeys(kind.name for kind in kinds if not kind.host_bandwidth_bytes_per_s):
        yield f"offload from {name}, whose bandwidth to its host (host_bandwidth_bytes_per_s) is not known"


def _keeping(stage: Stage) -> Iterator[str]:
    """Check that exceptions of what is kept name layers of the stage."""
    for item in stage.keeping:
        if not any(item.covers(name) for name in stage.all_layers):
            yield f"keeping of {', '.join(item.layers)} matches no layer of the stage"


def _shared_in_group(stage: Stage) -> list[int]:
    """Return the devices that are several times in one of the groups over which ZeRO shards."""
    rows = [row for mesh in stage.meshes for row in mesh.rows]
    size = stage.zero_replicas or len(rows)
    groups = [rows[first : first + size] for first in range(0, len(rows), size)]
    counts = [Counter(device for row in group for device in row) for group in groups]
    return sorted({device for count in counts for device, times in count.items() if times > 1})


def _layouts(graph: LayerGraph, stage: Stage) -> Iterator[str]:
    yield from layout_problems(graph, stage.layout, dict(stage.meshes[0].axes))
    shares = dict(stage.axis_shares)
    yield from _heads(graph, stage.layout, stage.meshes[0], shares)
    split = {dim for dim, _ in stage.layout}
    known = graph.memo("dimension_names", lambda: {dim.name for item in graph.layers for dim in item.dims})
    if split and not split & known:
        yield f"layout {dict(stage.layout)} splits no layer of {graph.name!r}; every device would do all"
    own = [set(mesh.devices) for mesh in stage.meshes]
    everywhere = (*stage.meshes, *(mesh for item in stage.shardings for mesh in item.meshes))
    axes = {name for mesh in everywhere for name, _ in mesh.axes}
    for axis, _ in stage.overlap:
        if axis not in axes - {REPLICA}:
            allowed = ", ".join(sorted(axes - {REPLICA})) or "none"
            yield f"overlap names mesh axis {axis!r}; the stage has {allowed} beside {REPLICA}"
    for item in stage.shardings:
        meshes: tuple[Mesh, ...] = item.meshes or stage.meshes
        if len(meshes) != len(own):
            yield f"sharding of {', '.join(item.layers)} needs one mesh per copy"
            continue
        for mesh, devices in zip(meshes, own, strict=True):
            if not set(mesh.devices) <= devices:
                yield f"sharding of {', '.join(item.layers)} uses devices outside its stage"
        if not any(item.covers(name) for name in stage.all_layers):
            yield f"sharding of {', '.join(item.layers)} matches no layer of the stage"
        found = {name for name, _ in meshes[0].axes}
        for dim, axis in item.layout:
            if axis not in found:
                layers, axes_found = ", ".join(item.layers), ", ".join(sorted(found))
                yield f"sharding of {layers} splits {dim!r} over axis {axis!r}; it has {axes_found}"
        yield from _heads(graph, item.layout, meshes[0], shares)


def _heads(
    graph: LayerGraph,
    layout: Iterable[tuple[str, str]],
    mesh: Mesh,
    shares: Mapping[str, tuple[float, ...]],
) -> Iterator[str]:
    """Check that query heads find their key-value heads on their device, and that heads divide over several
    mesh axes, which are digits of a head's number, the slowest axis first.
    """
    pairs, sizes = set(layout), dict(mesh.axes)
    over = {dim: [a for a, n in mesh.axes if n > 1 and (dim, a) in pairs] for dim in HEADS}
    queries, keys = (over[dim] for dim in HEADS)
    if queries and keys[:1] == queries[:1]:
        yield from _parted(graph, queries[0], sizes[queries[0]], shares.get(queries[0], ()))
    if max(map(len, over.values())) < 2:
        return
    for dim, axes in over.items():
        parts = math.prod(sizes[axis] for axis in axes)
        for count in head_counts(graph)[dim] if len(axes) > 1 else ():
            if not held_once(dim, count, parts):
                yield (
                    f"{count} {dim!r} over mesh axes {' and '.join(axes)} of {parts} devices together; over"
                    " several axes heads are not held twice: take fewer devices, or one axis"
                )
    common = [axis for axis in queries if axis in keys]
    first = slice(len(common))
    parted = common != queries[first] or common != keys[first]
    if parted and any(count > 1 for count in head_counts(graph)["kv_heads"]):
        yield (
            f"'heads' over mesh axes {' and '.join(queries)} and 'kv_heads' over {' and '.join(keys)} would"
            " part query heads from their key-value heads; lay both over the slower axis first"
        )


def _parted(graph: LayerGraph, axis: str, n: int, shares: tuple[float, ...]) -> Iterator[str]:
    for heads, kv_heads in head_pairs(graph):
        if parts_heads(heads, kv_heads, n, shares):
            whole = f"a number of devices that divides {kv_heads}, or a multiple of it that divides {heads}"
            yield (
                f"{heads} 'heads' with {kv_heads} 'kv_heads' over {n} devices of mesh axis {axis!r} would"
                " part query heads from their key-value heads; take"
                f" {'shares that divide both alike' if shares else whole}"
            )


def _divisors(total: int, near: int) -> str:
    top = min(near, total)
    below = next((d for d in range(top, max(0, top - _FAR), -1) if total % d == 0), 1)
    above = next((d for d in range(near, min(total, near + _FAR) + 1) if total % d == 0), total)
    return f"{below}" if below == above else f"{below} and {above}"


def some(names: Iterable[object]) -> str:
    """Name a few of some things, and count the others."""
    found = [str(name) for name in names]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
