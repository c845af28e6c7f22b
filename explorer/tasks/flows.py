"""Flows: the tensors that cross sections, one transfer per tensor and device."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np

from explorer.base.caching import Same, remembered
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Slice
from explorer.tasks.sections import LayerRun
from explorer.tasks.skeleton import Flow, IntArray, SectionShape

Flows: TypeAlias = tuple[tuple[Flow, ...], tuple[tuple[tuple[int, float], ...], ...]]
"""Flows in order, and for each the (tensor, fraction) pairs it carries."""


def layer_edges(graph: LayerGraph) -> tuple[IntArray, IntArray, IntArray]:
    """Return, for every (tensor, reader), the writer, the reader and the tensor, as indices."""

    def make() -> tuple[IntArray, IntArray, IntArray]:
        index, producer = graph.index, graph.producer
        rows = [
            (index[producer[tensor.name]], index[reader], t)
            for t, tensor in enumerate(graph.tensors)
            if tensor.name in producer
            for reader in graph.consumers.get(tensor.name, ())
        ]
        table = np.array(rows, dtype=np.int64).reshape(-1, 3)
        return table[:, 0].copy(), table[:, 1].copy(), table[:, 2].copy()

    return graph.memo("edges", make)


def find_flows(
    graph: LayerGraph,
    strategy: JobStrategy,
    runs: list[LayerRun],
    shapes: tuple[SectionShape, ...],
    *,
    sliced: bool,
    training: bool,
) -> Flows:
    """Return the flows in order, and for each the (tensor, fraction) pairs it carries.

    Equal flows are the same object, so that skeletons are told apart by identity.
    """
    if sliced:
        return _grouped(graph, shapes, _sliced_crossings(graph, strategy, runs), training=training)
    return _whole_flows(graph, Same(shapes), *_whole_crossings(graph, runs), training=training)


@remembered(256)
def _whole_flows(
    graph: LayerGraph,
    shapes: Same[SectionShape],
    source: IntArray,
    target: IntArray,
    tensor: IntArray,
    *,
    training: bool,
) -> Flows:
    rows = zip(source.tolist(), target.tolist(), tensor.tolist(), repeat(1.0))
    return _grouped(graph, shapes, rows, training=training)


def _grouped(
    graph: LayerGraph,
    shapes: tuple[SectionShape, ...],
    crossing: Iterable[tuple[int, int, int, float]],
    *,
    training: bool,
) -> Flows:
    readers: dict[tuple[int, int], dict[int, float]] = {}
    for source, target, tensor, fraction in crossing:
        found = readers.setdefault((source, tensor), {})
        found[target] = max(found.get(target, 0.0), fraction)
    needs = graph.needs_gradient
    grouped: dict[Flow, list[tuple[int, float]]] = {}
    for (source, tensor), targets in readers.items():
        gradient = training and graph.tensors[tensor].name in needs
        for together in _same_place(shapes, tuple(targets)):
            flow = Flow(source, together, gradient)
            share = max(targets[target] for target in together)
            grouped.setdefault(flow, []).append((tensor, share))
    ordered = sorted(grouped)
    return _interned(tuple(ordered)), tuple(tuple(grouped[flow]) for flow in ordered)


@lru_cache(maxsize=1024)
def _interned(flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """Return the same object for equal flows."""
    return flows


def _same_place(shapes: tuple[SectionShape, ...], targets: tuple[int, ...]) -> Iterable[tuple[int, ...]]:
    """Group readers by equal devices and samples: one transfer per tensor and device serves each group."""
    if len(targets) == 1:
        return (targets,)
    groups: dict[tuple[object, ...], list[int]] = {}
    for target in sorted(targets):
        shape = shapes[target]
        where = (shape.rows, shape.microbatch_samples, shape.round_robin, shape.offsets)
        groups.setdefault(where, []).append(target)
    return [tuple(group) for group in groups.values()]


def _whole_crossings(graph: LayerGraph, runs: list[LayerRun]) -> tuple[IntArray, IntArray, IntArray]:
    """Return the source section, the target section and the tensor of every crossing."""
    section = np.empty(len(graph.layers), dtype=np.int64)
    layers = [run.layers for run in runs]
    section[np.concatenate(layers)] = np.repeat(np.arange(len(runs)), [len(found) for found in layers])
    writer, reader, tensor = layer_edges(graph)
    source, target = section[writer], section[reader]
    across = np.flatnonzero(source != target)
    return source[across], target[across], tensor[across]


def _sliced_crossings(
    graph: LayerGraph, strategy: JobStrategy, runs: list[LayerRun]
) -> Iterable[tuple[int, int, int, float]]:
    """Yield the crossings of cut layers: a slice writes its range and reads what its range needs."""
    sections_of: dict[int, list[int]] = {}
    for i, run in enumerate(runs):
        for layer, _ in run.members:
            sections_of.setdefault(layer, []).append(i)
    cut = {(s, part.layer): part for s, stage in enumerate(strategy.stages) for part in stage.slices}

    def part_of(section: int, layer: int) -> Slice | None:
        return cut.get((runs[section].stage, graph.layers[layer].name))

    found = []
    for writer, reader, tensor in zip(*(column.tolist() for column in layer_edges(graph)), strict=True):
        for source in sections_of[writer]:
            for target in sections_of[reader]:
                made = _range(graph, tensor, writer, part_of(source, writer), "writes")
                need = _range(graph, tensor, reader, part_of(target, reader), "reads")
                share = _overlap(made, need)
                if source != target and share > 0:
                    found.append((source, target, tensor, share))
    return found


class _Range(NamedTuple):
    """Part of a tensor along one of its axes."""

    axis: int
    start: float
    stop: float


def _range(graph: LayerGraph, tensor: int, layer: int, part: Slice | None, way: str) -> _Range | None:
    """Return the part of a tensor that a slice of a layer touches; None for all of it."""
    if part is None:
        return None
    item = graph.layers[layer]
    uses = item.writes if way == "writes" else item.reads
    use = next(found for found in uses if found.name == graph.tensors[tensor].name)
    if part.dim not in use.dims:
        return None
    return _Range(use.dims.index(part.dim), part.start, part.stop)


def _overlap(made: _Range | None, need: _Range | None) -> float:
    """Return the share of a tensor that lies in both ranges."""
    if made is not None and need is not None:
        if made.axis == need.axis:
            return max(0.0, min(made.stop, need.stop) - max(made.start, need.start))
        return (made.stop - made.start) * (need.stop - need.start)
    part = made or need
    return 1.0 if part is None else part.stop - part.start
