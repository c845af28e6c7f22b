"""Changes worth trying, by kind; all keep the placement except moves and mends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from explorer.explain.names import block_name, counted
from explorer.explain.questions import MOST_ACTIONS, Asked, NamedChange, Tried, actions
from explorer.schedules import SCHEDULES
from explorer.strategies.bare_shape import bare_shape
from explorer.strategies.moves import DeviceGroup, groups_of, move_boundary, place_layers
from explorer.strategy import RECOMPUTES, ROUND_ROBIN, JobStrategy, Stage, Strategy


def everywhere(asked: Asked, **changes: Any) -> Strategy:
    """Return the strategy with some fields of all stages changed."""
    return asked.with_job(asked.job.with_stages(replace(stage, **changes) for stage in asked.job.stages))


def savings(asked: Asked) -> Iterator[NamedChange]:
    """Yield changes that save memory without moving layers: recomputation, ZeRO, microbatches of half the
    size.
    """
    job = asked.job
    now = RECOMPUTES.index(min((stage.recompute for stage in job.stages), key=RECOMPUTES.index))
    replicated = max(stage.meshes[0].replicas for stage in job.stages) > 1
    least = min(stage.zero for stage in job.stages)
    levels = [level for level in (1, 2, 3) if replicated and level > least]
    for choice in RECOMPUTES[now + 1 :]:
        yield f"use {choice} recomputation", partial(everywhere, asked, recompute=choice)
    for level in levels:
        yield f"use ZeRO-{level}", partial(everywhere, asked, zero=level)
        for choice in RECOMPUTES:
            if choice != job.stages[0].recompute:
                name = f"use ZeRO-{level} with {'no' if choice == 'none' else choice} recomputation"
                yield name, partial(everywhere, asked, recompute=choice, zero=level)
    yield from halves(asked)
    for choice in RECOMPUTES[now + 1 :]:
        for name, half in halves(asked):
            label = f"{name} with {choice} recomputation"
            yield label, partial(_recomputed, half, choice)


def _recomputed(make: Callable[[], Strategy], choice: str) -> Strategy:
    strategy = make()
    job = strategy.job
    return strategy.with_job(job.with_stages(replace(stage, recompute=choice) for stage in job.stages))


def halves(asked: Asked) -> Iterator[NamedChange]:
    """Yield half the microbatch."""
    if all(stage.microbatch_samples // 2 >= stage.meshes[0].replicas for stage in asked.job.stages):
        yield _size_words(asked, 0.5), partial(_sized, asked, 0.5)


def doubles(asked: Asked) -> Iterator[NamedChange]:
    """Yield two and four times the microbatch."""
    for factor in (2, 4):
        yield _size_words(asked, factor), partial(_sized, asked, factor)


def quarters(asked: Asked) -> Iterator[NamedChange]:
    """Yield a quarter of the microbatch."""
    if all(stage.microbatch_samples // 4 >= stage.meshes[0].replicas for stage in asked.job.stages):
        yield _size_words(asked, 0.25), partial(_sized, asked, 0.25)


def _size_words(asked: Asked, factor: float) -> str:
    """Name a change of size with the number that follows from it: half the size means twice as many."""
    first, samples = asked.job.stages[0], {stage.microbatch_samples for stage in asked.job.stages}
    if len(samples) > 1:
        return f"make every microbatch {factor:g} times as large"
    size = first.microbatch_samples // (1 if first.replicas == ROUND_ROBIN else first.meshes[0].replicas)
    many = counted(round(asked.batch / (first.microbatch_samples * factor)), "microbatch")
    return f"use microbatch size {size * factor:g} instead of {size} ({many})"


def _sized(asked: Asked, factor: float) -> Strategy:
    """Multiply every microbatch by a factor; whoever makes the stage refuses a size that is not whole."""
    sizes = [stage.microbatch_samples * factor for stage in asked.job.stages]
    whole = [int(size) if size.is_integer() else 0 for size in map(float, sizes)]
    pairs = zip(asked.job.stages, whole, strict=True)
    return asked.with_job(
        asked.job.with_stages(replace(stage, microbatch_samples=size) for stage, size in pairs)
    )


def schedules(asked: Asked) -> Iterator[NamedChange]:
    """Yield every other registered schedule that makes an order by itself, over the same stages.

    For long steps only schedules that train exactly are tried: the others would take seconds, only to be
    mentioned and never proposed.
    """
    long = actions(asked.job, asked.batch) > MOST_ACTIONS
    shape = bare_shape(asked.graph, asked.workload.job, asked.job)
    for entry in SCHEDULES:
        if not entry.tried or entry.name == asked.job.schedule or entry.unmet(shape):
            continue
        if long and (not entry.flush or entry.options):
            continue
        yield f"use schedule {entry.name}", partial(_scheduled, asked, entry.name)


def as_exact(asked: Asked, item: Tried) -> bool:
    """Tell whether a change trains on weights and values no older than the plan's."""
    own, its = (r.timeline.program.order for r in (asked.report, item.report))
    return max(item.report.delay) <= max(asked.report.delay) and len(its.lag) <= max(1, len(own.lag))


def _scheduled(asked: Asked, name: str) -> Strategy:
    return asked.with_job(replace(asked.job, schedule=name, options=()))


def zero_levels(asked: Asked) -> Iterator[NamedChange]:
    """Yield every other ZeRO level if there are replicas."""
    if max(stage.meshes[0].replicas for stage in asked.job.stages) < 2:
        return
    for level in range(4):
        label = f"use ZeRO-{level}" if level else "turn ZeRO off"
        yield label, partial(everywhere, asked, zero=level)


def moves(asked: Asked, binding: int) -> Iterator[NamedChange]:
    """Yield moves of one block over each boundary, both ways, and from the binding stage to every other."""
    last = len(asked.job.stages) - 1
    for before in range(last):
        for units in (1, -1):
            source, target = (before + 1, before) if units > 0 else (before, before + 1)
            label = f"move {edge_name(asked, asked.job, source, units)} to stage {target}"
            yield label, partial(_shifted, asked, before, units)
    for target in range(last + 1):
        if abs(target - binding) > 1:
            units = 1 if target < binding else -1
            name = edge_name(asked, asked.job, binding, units)
            label = f"move {name} out of stage {binding} and one block on to stage {target}"
            yield label, partial(_passed_on, asked, binding, target)


def _shifted(asked: Asked, before: int, units: int) -> Strategy:
    return asked.with_job(move_boundary(asked.graph, asked.job, before, before + 1, units))


def edge_name(asked: Asked, job: JobStrategy, stage: int, units: int) -> str:
    """Name the block that a stage would give: its first if `units` is above 0, else its last."""
    layers = job.stages[stage].layers
    return block_name(asked.graph, layers[0 if units > 0 else -1]) if layers else "nothing"


def _passed_on(asked: Asked, source: int, target: int) -> Strategy:
    """Move one block over every boundary between two stages, towards the target."""
    job = asked.job
    step = 1 if target > source else -1
    for stage in range(source, target, step):
        low = min(stage, stage + step)
        job = move_boundary(asked.graph, job, low, low + 1, -step)
    return asked.with_job(job)


def mends(asked: Asked, broken: Sequence[int]) -> Iterator[NamedChange]:
    """Yield merges of a stage that breaks a run into the stage before or after it."""
    groups = groups_of(asked.job)
    number = {group.meshes: i for i, group in enumerate(groups)}
    for stage in broken:
        own: Stage = asked.job.stages[stage]
        for other in (stage - 1, stage + 1):
            if not 0 <= other < len(asked.job.stages):
                continue
            lane = number[asked.job.stages[other].meshes]
            names = own.layers
            first, last = (
                (block_name(asked.graph, name) for name in (names[0], names[-1])) if names else ("", "")
            )
            what = first if first == last else f"{first} to {last}"
            yield f"put {what} with stage {other}", partial(_put, asked, names, lane, groups)


def _put(asked: Asked, names: Sequence[str], lane: int, groups: Sequence[DeviceGroup]) -> Strategy:
    return asked.with_job(place_layers(asked.graph, asked.job, dict.fromkeys(names, lane), groups))
