"""Flows: the tensors that cross sections, one transfer per tensor and device."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache, reduce
from itertools import repeat
from typing import NamedTuple, TypeAlias

import numpy as np

from explorer.base.caching import Same, remembered
from explorer.graph import LayerGraph
from explorer.strategy import JobStrategy, Slice
from explorer.tasks.sections import LayerRun
from explorer.tasks.skeleton import Flow, IntArray, SectionShape

Ranges: TypeAlias = tuple[tuple[int, float, float], ...]
"""A part of a tensor: (axis, start, stop) of every axis of which it is a fraction, in order; () is all."""
DUST = 1e-9
"""Shares below are none: fractions of slices are rounded."""


class Flows(NamedTuple):
    """What crosses sections."""

    flows: tuple[Flow, ...]
    """Flows in order."""
    tensors: tuple[tuple[tuple[int, float], ...], ...]
    """Per flow: the (tensor, fraction) pairs that it carries."""
    ranges: tuple[tuple[Ranges, ...], ...]
    """Per flow and tensor: the part of it, where some layer is cut; else ()."""


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
    """Return the flows in order, and what each carries.

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
    rows = zip(source.tolist(), target.tolist(), tensor.tolist(), repeat(()))
    return _grouped(graph, shapes, rows, training=training)._replace(ranges=())


def _grouped(
    graph: LayerGraph,
    shapes: tuple[SectionShape, ...],
    crossing: Iterable[tuple[int, int, int, Ranges]],
    *,
    training: bool,
) -> Flows:
    """Group crossings by flow: one message holds all that its readers need of a tensor, in one block."""
    readers: dict[tuple[int, int], dict[int, Ranges]] = {}
    for source, target, tensor, part in crossing:
        found = readers.setdefault((source, tensor), {})
        found[target] = _hull(found[target], part) if target in found else part
    needs = graph.needs_gradient
    grouped: dict[Flow, list[tuple[int, Ranges]]] = {}
    for (source, tensor), targets in readers.items():
        gradient = training and graph.tensors[tensor].name in needs
        for together in _same_place(shapes, tuple(targets)):
            flow = Flow(source, together, gradient)
            part = reduce(_hull, (targets[target] for target in together))
            grouped.setdefault(flow, []).append((tensor, part))
    ordered = sorted(grouped)
    return Flows(
        _interned(tuple(ordered)),
        tuple(tuple([(t, _share(part)) for t, part in grouped[flow]]) for flow in ordered),
        tuple(tuple([part for _, part in grouped[flow]]) for flow in ordered),
    )


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
) -> Iterable[tuple[int, int, int, Ranges]]:
    """Yield the crossings of cut layers: a slice writes its range and reads what its range needs."""
    sections_of: dict[int, list[int]] = {}
    for i, run in enumerate(runs):
        for layer, _ in run.members:
            sections_of.setdefault(layer, []).append(i)
    cut = {(s, part.layer): part for s, stage in enumerate(strategy.stages) for part in stage.slices}

    def part_of(section: int, layer: int) -> Slice | None:
        return cut.get((runs[section].stage, graph.layers[layer].name))

    for writer, reader, tensor in zip(*(column.tolist() for column in layer_edges(graph)), strict=True):
        for source in sections_of[writer]:
            for target in sections_of[reader]:
                made = touched(graph, tensor, writer, part_of(source, writer), "writes")
                need = touched(graph, tensor, reader, part_of(target, reader), "reads")
                both = overlap(made, need)
                if source != target and both is not None:
                    yield source, target, tensor, both


def touched(graph: LayerGraph, tensor: int, layer: int, part: Slice | None, way: str) -> Ranges:
    """Return the part of a tensor that a slice of a layer touches.

    Args:
        graph: the model.
        tensor: index of the tensor.
        layer: index of a layer that touches it.
        part: slice of that layer; None for all of it.
        way: `reads` or `writes`.
    """
    if part is None:
        return ()
    item = graph.layers[layer]
    uses = item.writes if way == "writes" else item.reads
    use = next(found for found in uses if found.name == graph.tensors[tensor].name)
    return ((use.dims.index(part.dim), part.start, part.stop),) if part.dim in use.dims else ()


def overlap(first: Ranges, second: Ranges) -> Ranges | None:
    """Return the part of a tensor that lies in both of two; None if nothing does.

    >>> overlap(((0, 0.0, 0.5),), ((0, 0.25, 1.0),)), overlap(((0, 0.0, 0.5),), ((0, 0.5, 1.0),))
    (((0, 0.25, 0.5),), None)
    """
    found = {axis: (start, stop) for axis, start, stop in first}
    for axis, start, stop in second:
        low, high = found.get(axis, (0.0, 1.0))
        found[axis] = (max(low, start), min(high, stop))
    if any(stop - start <= DUST for start, stop in found.values()):
        return None
    return tuple((axis, *found[axis]) for axis in sorted(found))


def _hull(first: Ranges, second: Ranges) -> Ranges:
    """Return the smallest block of a tensor that holds two parts of it."""
    if first == second:
        return first
    others = {axis: (start, stop) for axis, start, stop in second}
    both = [(axis, start, stop, *others[axis]) for axis, start, stop in first if axis in others]
    found = [(axis, min(a, c), max(b, d)) for axis, a, b, c, d in both]
    return tuple(item for item in found if item[1:] != (0.0, 1.0))


def _share(part: Ranges) -> float:
    """Return how much of a tensor a part is."""
    return math.prod((stop - start for _, start, stop in part), start=1.0)
