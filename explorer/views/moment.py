"""Memory of one lane at one time: by part, and by its largest tensors.

Equal tensors of different blocks, and of microbatches in flight, are one row. The parts add up to what the
device holds then; the rows of tensors, with what is left of them, add up to the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.costs.memory_arrays import graph_arrays
from explorer.costs.memory_by_tensor import saved_by_tensor, states_by_parameter
from explorer.graph import LayerGraph
from explorer.passes.timing import FloatArray
from explorer.simulation.lane_memory import EVENT_COLUMNS, MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.tasks.program import REMADE, REMADE_IN_TURN, REMADE_REST, REMADE_WHOLE, SAVED, WAITING
from explorer.tasks.program_tables import derived
from explorer.views.scene import Scene
from explorer.views.timeline import lane_names

LARGEST = 10
"""Rows of tensors that are told one by one."""
_ACTIVATIONS = MEMORY_PARTS.index("activations")
_STATES = ("weights", "versions", "gradients", "optimizer")
_OTHER_EVENTS = {
    REMADE: "recomputed for the backward",
    REMADE_REST: "recomputed for the backward",
    REMADE_WHOLE: "recomputed for the backward",
    REMADE_IN_TURN: "recomputed for the backward",
    WAITING: "kept for the weight gradient",
}


class Held(NamedTuple):
    """Equal tensors that a device holds."""

    part: str
    """One of `MEMORY_PARTS`."""
    name: str
    """Name without its block."""
    number: int
    """How many: blocks times microbatches in flight."""
    bytes: float
    """Bytes of all of them."""


def memory_parts_at(report: Report, lane: int, time_s: float) -> FloatArray:
    """Return the bytes of one device of a lane at a time, by `MEMORY_PARTS`.

    Raises:
        InputError: no such lane.
    """
    if not 0 <= lane < len(report.memory_parts_bytes):
        last = len(report.memory_parts_bytes) - 1
        raise InputError(f"there is no lane {lane}", key="lane", found=lane, allowed=f"0 to {last}")
    parts = np.array(report.memory_parts_bytes[lane])
    live = _live_samples(report, lane, time_s) * _event_bytes(report)
    parts[_ACTIVATIONS] = max(0.0, float(live.sum()))
    return parts


def _event_bytes(report: Report) -> FloatArray:
    """Return the bytes of one sample by section and part of a memory event."""
    sizes: FloatArray = report.timeline.prices.memory_bytes[:, list(EVENT_COLUMNS)]
    return sizes


def _live_samples(report: Report, lane: int, time_s: float) -> FloatArray:
    """Return the samples that a lane holds at a time, by section and part of a memory event."""
    line = report.timeline
    events = line.program.memory
    found = np.zeros((len(line.prices.memory), len(EVENT_COLUMNS)))
    own = np.flatnonzero(events.lane == lane)
    task = events.task[own]
    at = np.where(events.at_end[own], line.timing.end_s[task], line.timing.start_s[task])
    own = own[at <= time_s]
    np.add.at(found, (events.section[own], events.part[own]), events.samples[own])
    return found


def held_at(scene: Scene, lane: int, time_s: float) -> list[Held]:
    """List what one device of a lane holds at a time, largest first; the bytes add up to its parts.

    Raises:
        InputError: no such lane.
    """
    report = scene.report
    parts = memory_parts_at(report, lane, time_s)
    live = _live_samples(report, lane, time_s)
    added: dict[tuple[str, str], tuple[int, float]] = {}
    for item in _items(scene, lane, live):
        count, size = added.get((item.part, item.name), (0, 0.0))
        added[item.part, item.name] = (count + item.number, size + item.bytes)
    found = [Held(part, name, count, size) for (part, name), (count, size) in added.items() if size > 0]
    return sorted(_filled_up(found, parts), key=lambda item: -item.bytes)


def _filled_up(found: list[Held], parts: FloatArray) -> Iterator[Held]:
    """Yield rows scaled to the parts of the report, which knows what is pruned or kept on the host; and one
    row for each part that is no tensors.
    """
    told: dict[str, float] = {}
    for item in found:
        told[item.part] = told.get(item.part, 0.0) + item.bytes
    for name, size in zip(MEMORY_PARTS, parts.tolist(), strict=True):
        if told.get(name):
            factor = size / told[name]
            yield from (item._replace(bytes=item.bytes * factor) for item in found if item.part == name)
        elif size > 0:
            yield Held(name, name, 1, size)


def _items(scene: Scene, lane: int, live: FloatArray) -> Iterator[Held]:
    program = scene.report.timeline.program
    sizes = _event_bytes(scene.report)
    for section, samples in derived(program).sections[lane]:
        yield from _states(scene, section, program.versions[section] - 1 + program.copies[section])
        saved = float(live[section, SAVED])
        if saved * sizes[section, SAVED] > 0:  # nothing of it is here if it is kept on the host
            yield from _saved(scene, section, saved, max(1, round(saved / samples)))
        for part, name in _OTHER_EVENTS.items():
            if live[section, part] > 0:
                yield Held("activations", name, 1, float(live[section, part] * sizes[section, part]))


def _states(scene: Scene, section: int, versions: float) -> Iterator[Held]:
    pricer = scene.report.timeline.prices.pricer
    placed = pricer.sections[section]
    states = states_by_parameter(
        scene.graph, pricer.held(section), pricer.shards(section), scene.job,
        zero=placed.zero if scene.job.training else 0, replicas=placed.shards,
    )  # fmt: skip
    names = _parameter_names(scene.graph)
    for part in _STATES:
        sizes = getattr(states, part) * (versions if part == "versions" else 1.0)
        for i in np.flatnonzero(sizes > 0).tolist():
            yield Held(part, names[i], 1, float(sizes[i]))


def _saved(scene: Scene, section: int, samples: float, microbatches: int) -> Iterator[Held]:
    pricer, graph = scene.report.timeline.prices.pricer, scene.graph
    layers, fractions = pricer.placement.layers[section], pricer.placement.fractions[section]
    shares = np.zeros(len(graph.layers))
    shares[layers] = 1.0 if fractions is None else fractions
    by_tensor, twice = saved_by_tensor(
        graph, pricer.shards(section), shares,
        precision=scene.job.precision, recompute=pricer.recompute(section),
    )  # fmt: skip
    names = _tensor_names(graph)
    for i in np.flatnonzero(by_tensor > 0).tolist():
        yield Held("activations", names[i], microbatches, float(by_tensor[i] * samples))
    for i in np.flatnonzero(twice > 0).tolist():
        name = f"{_inner(graph, i, graph.layers[i].name)}, its own copy"
        yield Held("activations", name, microbatches, float(twice[i] * samples))


def _inner(graph: LayerGraph, layer: int, name: str) -> str:
    """Return a name without that of the block of a layer, by position; of no layer (-1) as it is."""
    return name.removeprefix(f"{graph.layers[layer].block}.") if layer >= 0 else name


def _tensor_names(graph: LayerGraph) -> list[str]:
    def make() -> list[str]:
        writer = graph_arrays(graph).writer.tolist()
        return [_inner(graph, i, item.name) for i, item in zip(writer, graph.tensors, strict=True)]

    return graph.memo("views.names of tensors", make)


def _parameter_names(graph: LayerGraph) -> list[str]:
    def make() -> list[str]:
        user = {use.name: i for i, layer in reversed([*enumerate(graph.layers)]) for use in layer.parameters}
        return [_inner(graph, user.get(item.name, -1), item.name) for item in graph.parameters]

    return graph.memo("views.names of parameters", make)


def moment_view(scene: Scene, lane: int, time_s: float) -> dict[str, Any]:
    """Return `Timeline.moment` of one plan: the memory of one device of a lane at a time.

    Raises:
        InputError: no such lane.
    """
    report = scene.report
    parts = memory_parts_at(report, lane, time_s)
    held = held_at(scene, lane, time_s)
    first, rest = held[:LARGEST], held[LARGEST:]
    return {
        "lane": lane,
        "name": lane_names(scene)[lane][1],
        "time_s": time_s,
        "capacity_bytes": float(report.capacity_bytes[lane]),
        "parts": [
            {"name": _part_words(name), "bytes": float(size)}
            for name, size in zip(MEMORY_PARTS, parts.tolist(), strict=True)
            if size > 0 or name == "activations"
        ],
        "tensors": [
            {"name": item.name, "part": _part_words(item.part), "count": item.number, "bytes": item.bytes}
            for item in first
        ],
        "rest": {"count": len(rest), "bytes": float(sum(item.bytes for item in rest))} if rest else None,
    }


def _part_words(name: str) -> str:
    return "weight versions" if name == "versions" else name
