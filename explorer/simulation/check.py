"""Checks of a strategy: everything wrong with it, in words, before anything is simulated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from operator import itemgetter

import numpy as np

from explorer.base.errors import ExplorerError, InputError
from explorer.cluster import Cluster, DeviceKind
from explorer.graph import LayerGraph
from explorer.schedules import SCHEDULES
from explorer.schedules.needs import NO_NEEDS
from explorer.simulation.stage_checks import CheckedStage, check_stages, some
from explorer.simulation.unpriced import unpriced
from explorer.simulation.update_problems import update_problems
from explorer.strategies.bare_shape import bare_shape
from explorer.strategy import JobStrategy, Slice, Strategy
from explorer.tasks.placement import IntArray, layer_edges, stage_layers
from explorer.workload import Job, Workload

MOST_ROUNDS = 500_000
"""Microbatches, added up over stages, that one step may have: their tasks take some 2 GB and a minute."""


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
    stages, dispatches = strategy.stages, _dispatches(strategy)
    checked = check_stages(graph, cluster, job, stages, copies=strategy.copies, dispatches=dispatches)
    layers = [found.layers for found in checked]
    problems = [] if _exact(graph, layers) else list(_coverage(graph, strategy))
    if job.mode == "decode":
        problems.append("mode decode is not priced yet (no key-value cache); allowed: train, infer, prefill")
    for s, found in enumerate(checked):
        if found.problems:
            problems += [f"{stages[s].name or f'stage {s}'}: {item}" for item in found.problems]
    rounds = sum([job.global_batch // stage.microbatch_samples for stage in stages])
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
    return [*problems, *schedule, *rules, *unpriced(graph, cluster, strategy, _kinds(checked))]


def _kinds(checked: Sequence[CheckedStage]) -> list[DeviceKind]:
    """Return the device kinds in use, by the lowest device of each."""
    lowest: dict[str, tuple[int, DeviceKind]] = {}
    for stage in checked:
        for device, kind, _ in stage.kinds:
            if kind.name not in lowest or device < lowest[kind.name][0]:
                lowest[kind.name] = (device, kind)
    return [kind for _, kind in sorted(lowest.values(), key=itemgetter(0))]


def _needs(graph: LayerGraph, job: Job, strategy: JobStrategy) -> list[str]:
    """List what the schedule needs and the strategy does not give it."""
    schedule = SCHEDULES.get(strategy.schedule).with_options(dict(strategy.options))
    if schedule.needs is NO_NEEDS and strategy.copies == 1:
        return []
    return [str(item) for item in schedule.unmet(bare_shape(graph, job, strategy))]


def _coverage(graph: LayerGraph, strategy: JobStrategy) -> Iterator[str]:
    whole = Counter(name for stage in strategy.stages for name in stage.layers)
    parts: dict[str, list[Slice]] = defaultdict(list)
    for stage in strategy.stages:
        for part in stage.slices:
            parts[part.layer].append(part)
    known = graph.index
    unknown = sorted((set(whole) | set(parts)) - set(known))
    if unknown:
        yield f"unknown layers {some(unknown)}; the model {graph.name!r} has {len(known)} others"
    missing = [name for name in known if name not in whole and name not in parts]
    if missing:
        yield f"layers in no stage: {some(missing)}"
    repeated = [name for name, count in whole.items() if count > 1 or name in parts]
    if repeated:
        yield f"layers in more than one stage: {some(repeated)}"
    for name, found in parts.items():
        if name in known:
            yield from _slices(graph, name, found)


def _exact(graph: LayerGraph, layers: Sequence[IntArray | None]) -> bool:
    """Tell quickly whether all layers are whole and each is in one stage, as usual."""
    known = [found for found in layers if found is not None]
    if len(known) < len(layers):
        return False
    held = np.bincount(np.concatenate(known), minlength=len(graph.layers))
    return bool((held == 1).all())


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


def _dispatches(strategy: JobStrategy) -> bool:
    """Tell whether replicas take what is ready rather than turns; an unknown schedule is reported
    elsewhere.
    """
    known = strategy.schedule in SCHEDULES.names()
    return known and SCHEDULES.get(strategy.schedule).dispatch


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


def _stage_numbers(graph: LayerGraph, strategy: JobStrategy) -> tuple[IntArray, IntArray]:
    """Return the first and last stage of every layer (they differ if a layer is cut)."""
    layers = [stage_layers(graph, stage) for stage in strategy.stages]
    every, counts = np.concatenate(layers), [len(found) for found in layers]
    stage = np.repeat(np.arange(len(layers)), counts)
    first = np.full(len(graph.layers), len(layers), dtype=np.int64)
    last = np.zeros(len(graph.layers), dtype=np.int64)
    if len(every) == len(graph.layers):  # each in one stage
        first[every] = last[every] = stage
        return first, last
    np.minimum.at(first, every, stage)
    np.maximum.at(last, every, stage)
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
        schedule = SCHEDULES.get(strategy.schedule)
        schedule.read_options(dict(strategy.options))
        schedule.with_options(dict(strategy.options))
    except ExplorerError as error:
        yield str(error)
    stages = len(strategy.stages)
    for item in strategy.boundaries:
        yield f"no codec {item.codec!r} (boundary {item.source} -> {item.target}): there are none yet"
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
