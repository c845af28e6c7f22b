"""Checks of a strategy: everything wrong with it, in words, before anything is simulated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import numpy as np
import numpy.typing as npt

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.base.errors import ExplorerError, InputError
from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.needs import NO_NEEDS
from explorer.sharding import layout_problems
from explorer.simulation.unpriced import unpriced
from explorer.simulation.update_problems import update_problems
from explorer.strategies.bare_shape import bare_shape
from explorer.strategy import REPLICA, JobStrategy, Mesh, Slice, Stage, Strategy
from explorer.tasks.placement import layer_edges, stage_layers
from explorer.workload import Job, Workload

MOST_ROUNDS = 500_000
"""Microbatches, added up over stages, that one step may have: their tasks take some 2 GB and a minute."""
_FAR = 100_000
"""Largest distance at which a divisor is looked for."""


def graph_of(graphs: LayerGraph | Mapping[str, LayerGraph], job: Job) -> LayerGraph:
    """Return the graph that a job names, or the only one.

    Raises:
        InputError: `job` names none of them.
    """
    if isinstance(graphs, LayerGraph):
        return graphs
    if job.graph in graphs:
        return graphs[job.graph]
    if len(graphs) == 1:
        return next(iter(graphs.values()))
    raise InputError(
        f"job {job.name!r} names no model", key="jobs.graph", found=job.graph, allowed=", ".join(graphs)
    )


def check(
    graphs: LayerGraph | Mapping[str, LayerGraph], cluster: Cluster, workload: Workload, strategy: Strategy
) -> list[str]:
    """List everything wrong with a strategy; [] if it can be lowered.

    Deadlocks and reads of missing weight versions show only in lowering (`explorer.simulate`).
    """
    parts = {part.job: part for part in strategy.jobs}
    named = {job.name for job in workload.jobs}
    problems = [f"the strategy has a part for an unknown job {name!r}" for name in parts if name not in named]
    for job in workload.jobs:
        if job.name not in parts:
            problems.append(f"the strategy has no part for job {job.name!r}")
            continue
        try:
            graph = graph_of(graphs, job)
        except InputError as error:
            problems.append(str(error))
            continue
        prefix = f"job {job.name!r}: " if len(workload.jobs) > 1 else ""
        if prefix and parts[job.name].checkpoint_period_s:
            problems.append(
                f"{prefix}checkpoints beside other jobs are not priced; set checkpoint_period_s: 0"
            )
        problems += [prefix + item for item in check_job(graph, cluster, job, parts[job.name])]
    return problems


def check_job(graph: LayerGraph, cluster: Cluster, job: Job, strategy: JobStrategy) -> list[str]:
    """List everything wrong with one job's part."""
    problems = list(_coverage(graph, strategy))
    if job.mode == "decode":
        problems.append("mode decode is not priced yet (no key-value cache); allowed: train, infer, prefill")
    dispatches = _dispatches(strategy)
    for s, stage in enumerate(strategy.stages):
        found = _stage_problems(graph, cluster, job, stage, copies=strategy.copies, dispatches=dispatches)
        problems += [f"{stage.name or f'stage {s}'}: {item}" for item in found]
    rounds = sum(job.global_batch // stage.microbatch_samples for stage in strategy.stages)
    if rounds > MOST_ROUNDS:
        problems.append(
            f"one step has {rounds:,} microbatches over all stages, more than can be laid out"
            f" ({MOST_ROUNDS:,}); use larger microbatches, a smaller global batch or fewer stages"
        )
    if not problems:
        problems += _stage_order(graph, strategy)
        problems += _colocation(graph, strategy)
    schedule = list(_schedule(graph, strategy))
    if not problems and not schedule:
        schedule = _needs(graph, job, strategy)
    rules = update_problems(graph, strategy, dispatches=dispatches)
    return [*problems, *schedule, *rules, *unpriced(graph, cluster, strategy)]


def _needs(graph: LayerGraph, job: Job, strategy: JobStrategy) -> list[str]:
    """List what the schedule needs and the strategy does not give it."""
    schedule = SCHEDULES.get(strategy.schedule)
    if schedule.needs is NO_NEEDS and strategy.copies == 1:
        return []
    return [str(item) for item in schedule.unmet(bare_shape(graph, job, strategy))]


@remembered(STAGES_KEPT)
def _stage_problems(
    graph: LayerGraph, cluster: Cluster, job: Job, stage: Stage, *, copies: int, dispatches: bool
) -> tuple[str, ...]:
    return tuple(_stage(graph, cluster, job, stage, copies=copies, dispatches=dispatches))


def _coverage(graph: LayerGraph, strategy: JobStrategy) -> Iterator[str]:
    if _exact(graph, strategy):
        return
    whole = Counter(name for stage in strategy.stages for name in stage.layers)
    parts: dict[str, list[Slice]] = defaultdict(list)
    for stage in strategy.stages:
        for part in stage.slices:
            parts[part.layer].append(part)
    known = graph.index
    unknown = sorted((set(whole) | set(parts)) - set(known))
    if unknown:
        yield f"unknown layers {_some(unknown)}; the model {graph.name!r} has {len(known)} others"
    missing = [name for name in known if name not in whole and name not in parts]
    if missing:
        yield f"layers in no stage: {_some(missing)}"
    repeated = [name for name, count in whole.items() if count > 1 or name in parts]
    if repeated:
        yield f"layers in more than one stage: {_some(repeated)}"
    for name, found in parts.items():
        if name in known:
            yield from _slices(graph, name, found)


def _exact(graph: LayerGraph, strategy: JobStrategy) -> bool:
    """Tell quickly whether all layers are whole and each is in one stage, as usual."""
    names: set[str] = set()
    count = 0
    for stage in strategy.stages:
        if stage.slices:
            return False
        names.update(stage.layers)
        count += len(stage.layers)
    return count == len(names) == len(graph.layers) and names == graph.index.keys()


def _slices(graph: LayerGraph, name: str, found: list[Slice]) -> Iterator[str]:
    dims = {item.dim for item in found}
    own = {dim.name for dim in graph.layer[name].dims if dim.splittable}
    if len(dims) > 1 or not dims <= own:
        yield f"layer {name} is cut along {sorted(dims)}; allowed: one of {sorted(own)}"
    ordered = sorted((item.start, item.stop) for item in found)
    reached = 0.0
    for start, stop in ordered:
        if abs(start - reached) > 1e-9:
            low, high = sorted((start, reached))
            yield f"slices of layer {name} leave or repeat the part from {low} to {high}"
        reached = stop
    if abs(reached - 1.0) > 1e-9:
        yield f"slices of layer {name} end at {reached}, not at 1"


def _stage(
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
            yield f"devices {_some(wrong)} do not exist; cluster {cluster.name!r} has 0 to {count - 1}"
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
    choosy = graph.memo("choosy", lambda: frozenset(i.name for i in graph.layers if i.device_kinds))
    if choosy:
        kinds = {cluster.kind_of(d).name for m in stage.meshes for d in m.devices if 0 <= d < count}
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
        yield f"reshard {stage.reshard} with ZeRO {stage.zero}: only levels 2 and 3 have what it speaks of"
    if stage.density < 1 and stage.zero:
        yield f"a density of {stage.density:g} with ZeRO {stage.zero}: sparse states are not sharded"
    devices = [d for mesh in stage.meshes for d in mesh.devices if 0 <= d < cluster.device_count]
    kinds = [cluster.kind_of(device) for device in devices if stage.offload]
    for name in dict.fromkeys(kind.name for kind in kinds if not kind.host_bandwidth_bytes_per_s):
        yield f"offload from {name}, whose bandwidth to its host (host_bandwidth_bytes_per_s) is not known"


def _dispatches(strategy: JobStrategy) -> bool:
    """Tell whether replicas take what is ready rather than turns; an unknown schedule is reported
    elsewhere.
    """
    known = strategy.schedule in SCHEDULES.names()
    return known and SCHEDULES.get(strategy.schedule).dispatch


def _layouts(graph: LayerGraph, stage: Stage) -> Iterator[str]:
    yield from layout_problems(graph, stage.layout, dict(stage.meshes[0].axes))
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


def _stage_order(graph: LayerGraph, strategy: JobStrategy) -> Iterator[str]:
    """Check that stages are listed so that every tensor flows forward."""
    writer, reader, tensor = layer_edges(graph)
    first, last = _stage_numbers(graph, strategy)
    wrong = np.flatnonzero((first[writer] > last[reader]) & (writer != reader))
    if len(wrong):
        edge = int(wrong[0])
        source, target = int(first[writer[edge]]), int(last[reader[edge]])
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        yield (
            f"stage {source} feeds the earlier stage {target}"
            f" (tensor {graph.tensors[int(tensor[edge])].name!r}{more}); list stages in the order of"
            " the model, or let them be derived from layer placements"
        )


def _stage_numbers(
    graph: LayerGraph, strategy: JobStrategy
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the first and last stage of every layer (they differ if a layer is cut)."""
    first = np.full(len(graph.layers), len(strategy.stages), dtype=np.int64)
    last = np.zeros(len(graph.layers), dtype=np.int64)
    for s, stage in enumerate(strategy.stages):
        layers = stage_layers(graph, stage)
        first[layers] = np.minimum(first[layers], s)
        last[layers] = np.maximum(last[layers], s)
    return first, last


def _colocation(graph: LayerGraph, strategy: JobStrategy) -> Iterator[str]:
    labelled = graph.memo("labelled", lambda: frozenset(i.name for i in graph.layers if i.colocation))
    if not labelled:
        return
    classes: dict[str, set[tuple[int, ...]]] = defaultdict(set)
    for stage in strategy.stages:
        for name in labelled.intersection(stage.all_layers):
            classes[graph.layer[name].colocation].add(stage.meshes[0].devices)
    for label, found in classes.items():
        if len(found) > 1:
            yield f"layers of class {label!r} must share a device but are on {sorted(found)}"


def _schedule(graph: LayerGraph, strategy: JobStrategy) -> Iterator[str]:
    try:
        SCHEDULES.get(strategy.schedule).read_options(dict(strategy.options))
    except ExplorerError as error:
        yield str(error)
    stages = len(strategy.stages)
    for item in strategy.boundaries:
        yield f"no codec {item.codec!r} (boundary {item.source} -> {item.target}): none is known yet"
        if not (0 <= item.source < stages and 0 <= item.target < stages):
            yield f"boundary {item.source} -> {item.target} names a missing stage (0 to {stages - 1})"
    for sync in strategy.sync:
        if not any(fnmatchcase(name, pattern) for pattern in sync.parameters for name in graph.parameter):
            yield f"sync of {', '.join(sync.parameters)} matches no parameter of {graph.name!r}"
        names = ", ".join(sync.parameters)
        if sync.bucket_bytes < 0:
            yield f"sync of {names} in buckets of {sync.bucket_bytes:g} bytes; allowed: 0 or more"
        if sync.bucket_bytes and sync.method != "all_reduce":
            yield f"sync of {names} by {sync.method} has no buckets: all_reduce only"
        if sync.method not in ("all_reduce", "parameter_server", "sharded_table"):
            yield f"unknown sync method {sync.method!r}; allowed: all_reduce, parameter_server, sharded_table"


def _divisors(total: int, near: int) -> str:
    top = min(near, total)
    below = next((d for d in range(top, max(0, top - _FAR), -1) if total % d == 0), 1)
    above = next((d for d in range(near, min(total, near + _FAR) + 1) if total % d == 0), total)
    return f"{below}" if below == above else f"{below} and {above}"


def _some(names: Iterable[object]) -> str:
    found = [str(name) for name in names]
    return ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
