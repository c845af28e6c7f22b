"""Differences between two plans in words: one line a subject, however many layers it concerns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Any

from explorer.strategies.differences import compare_plans
from explorer.strategies.keeping import keeping_words
from explorer.strategy import Stage
from widgets.session import Point

from .schedule_words import order_difference

_MOST_BLOCKS = 6
"""Most runs of blocks that a line names before it gives the number of the rest."""


def differences(a: Point, b: Point) -> list[str]:
    """List the changes from B to A, most general first; [] for the same plan.

    Whatever has no line of its own here is worded as on the command line.
    """
    said = [*_inputs(a, b), *_cut(a, b), *_placement(a, b), *_schedule(a, b), *_stages(a, b)]
    if (a.strategy.job.schedule, a.strategy.job.options) != (b.strategy.job.schedule, b.strategy.job.options):
        said += [text.rstrip(".") for text in order_difference(a, b)]
    return said or [text.replace(" -> ", " → ") for text in compare_plans(b.resolved(), a.resolved())]


def _inputs(a: Point, b: Point) -> list[str]:
    one, other = b.inputs, a.inputs
    rows = [("cluster", one.cluster_name, other.cluster_name)]
    rows += [
        (field.name.replace("_", " "), getattr(one.job, field.name), getattr(other.job, field.name))
        for field in fields(one.job)
    ]
    return [f"{name}: {was} → {now}" for name, was, now in rows if was != now]


def _cut(a: Point, b: Point) -> list[str]:
    was, now = (_degrees(p) for p in (b, a))
    return [f"cut: {was} → {now}"] if was != now else []


def _degrees(point: Point) -> str:
    stages = point.strategy.job.stages
    shapes = {(m.replicas, len(m.devices) // m.replicas) for s in stages for m in s.meshes}
    text = _many(len(stages), "stage")
    if len(shapes) > 1:
        return f"{text} of unequal shape"
    replicas, tensor = shapes.pop()
    text += f" × {_many(replicas, 'replica')}" if replicas > 1 else ""
    return text + (f" × {tensor}-way tensor" if tensor > 1 else "")


def _placement(a: Point, b: Point) -> list[str]:
    """Say how many layers run on other devices, and in which blocks."""
    was, now = _devices(b), _devices(a)
    layers = a.inputs.graph.layers
    moved = [layer for layer in layers if was.get(layer.name) != now.get(layer.name)]
    if not moved:
        return []
    blocks = list(dict.fromkeys(layer.block or layer.name for layer in layers))
    place = {name: i for i, name in enumerate(blocks)}
    runs = _runs(place[layer.block or layer.name] for layer in moved)
    named = [blocks[i] if i == j else f"{blocks[i]} to {blocks[j]}" for i, j in runs[:_MOST_BLOCKS]]
    more = f" and {_many(len(runs) - _MOST_BLOCKS, 'more run')}" if len(runs) > _MOST_BLOCKS else ""
    return [f"placement: {len(moved)} of {len(layers)} layers on other devices ({', '.join(named)}{more})"]


def _devices(point: Point) -> dict[str, frozenset[tuple[int, ...]]]:
    """Map each layer to the devices of each stage that holds all or part of it."""
    found: dict[str, frozenset[tuple[int, ...]]] = {}
    for stage in point.strategy.job.stages:
        meshes = frozenset(mesh.devices for mesh in stage.meshes)
        for name in stage.all_layers:
            found[name] = found.get(name, frozenset()) | meshes
    return found


def _schedule(a: Point, b: Point) -> list[str]:
    one, other = b.strategy.job, a.strategy.job
    said = [f"schedule: {one.schedule} → {other.schedule}"] if one.schedule != other.schedule else []
    was, now = dict(one.options), dict(other.options)
    return said + [
        f"{key.replace('_', ' ')} of the schedule: {was.get(key, 'none')} → {now.get(key, 'none')}"
        for key in sorted({*was, *now})
        if was.get(key) != now.get(key)
    ]


def _per_replica(stage: Stage) -> int:
    return max(1, stage.microbatch_samples // stage.meshes[0].replicas)


_SUBJECTS: tuple[tuple[str, Callable[[Stage], Any]], ...] = (
    ("microbatch of a replica", _per_replica),
    ("recomputation", lambda stage: stage.recompute),
    ("ZeRO level", lambda stage: stage.zero),
    ("shares of the replicas", lambda stage: stage.shares or "equal"),
    ("how replicas take microbatches", lambda stage: stage.replicas),
    ("exceptions to the sharding", lambda stage: len(stage.shardings)),
    ("layers kept otherwise", lambda stage: "; ".join(keeping_words([stage])) or "none"),
)
"""What is chosen for each stage, and how it is worded."""


def _stages(a: Point, b: Point) -> list[str]:
    said = []
    for name, tell in _SUBJECTS:
        was, now = ([tell(stage) for stage in p.strategy.job.stages] for p in (b, a))
        if set(was) == set(now) and len(set(was)) == 1:
            continue
        if len(was) == len(now):
            said += [f"{name}: {text}" for text in _by_stage(was, now)]
        elif set(was) != set(now):
            said.append(f"{name}: {_values(was)} → {_values(now)}")
    return said


def _by_stage(was: Sequence[Any], now: Sequence[Any]) -> list[str]:
    """List the changes of a subject, stages with the same change together."""
    changes: dict[tuple[Any, Any], list[int]] = {}
    for i, change in enumerate(zip(was, now, strict=True)):
        if change[0] != change[1]:
            changes.setdefault(change, []).append(i)
    return [
        f"{one} → {other}"
        + (
            ""
            if len(stages) == len(was)
            else f" in {'stages' if len(stages) > 1 else 'stage'} {_spans(stages)}"
        )
        for (one, other), stages in changes.items()
    ]


def _values(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in dict.fromkeys(values))


def _runs(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return numbers as (first, last) of consecutive ones.

    >>> _runs([3, 1, 2, 7])
    [(1, 3), (7, 7)]
    """
    runs: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _spans(numbers: Iterable[int]) -> str:
    """Write numbers in words.

    >>> _spans([0, 1, 2, 5])
    '0–2, 5'
    """
    return ", ".join(str(i) if i == j else f"{i}–{j}" for i, j in _runs(numbers))


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
