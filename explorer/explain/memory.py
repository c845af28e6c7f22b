"""Memory: what fills the fullest device, the cheapest change that frees some, and where not to recompute."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from explorer.base.units import format_bytes, format_seconds
from explorer.cluster.memory_room import MAY_FIT, MemoryRoom
from explorer.costs.keeping import recompute_of
from explorer.costs.memory import stage_memory
from explorer.explain.changes import as_exact, savings, schedules
from explorer.explain.questions import (
    WORTH,
    Asked,
    NamedChange,
    Sentence,
    Steps,
    Tried,
    capital,
    conclude,
    fastest,
    over_bytes,
    proposal,
    tries,
)
from explorer.sharding import shard
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.strategy import RECOMPUTES, Stage, Strategy
from explorer.tasks.sections import stage_layers

FREES = 0.05
"""Share of a device's memory that a change must free to count."""
_BIG = 0.1
"""Share of the used memory above which a part is named."""


def fullest(report: Report) -> tuple[int, float]:
    """Return (lane, share of its memory in use) of the fullest lane."""
    shares = [u / c for u, c in zip(report.peak_memory_bytes, report.capacity_bytes, strict=True)]
    lane = max(range(len(shares)), key=shares.__getitem__)
    return lane, shares[lane]


class Tight(NamedTuple):
    """The device of a plan that is nearest to not fitting."""

    lane: int
    device: int
    peak_bytes: float
    capacity_bytes: float
    room: MemoryRoom

    @property
    def words(self) -> str:
        """The borders in words."""
        peak, size, sure, most = map(
            format_bytes,
            (self.peak_bytes, self.capacity_bytes, self.room.fits_bytes, self.room.may_fit_bytes),
        )
        return f"device {self.device} needs about {peak} of {size}; up to {sure} fits, above {most} does not"


def tightest(report: Report) -> Tight | None:
    """Return the device that may fit, but is not sure to, and has least room; None if there is none."""
    rows = zip(report.peak_memory_bytes, report.capacity_bytes, report.rooms, strict=True)
    found = [
        Tight(lane, report.lanes[lane][0], *row)
        for lane, (row, verdict) in enumerate(zip(rows, report.memory_verdicts, strict=True))
        if verdict == MAY_FIT
    ]
    return max(found, key=lambda item: item.peak_bytes / item.room.fits_bytes, default=None)


def parts_of(report: Report, lane: int) -> str:
    """List a device's large parts of memory, largest first: "51.2 GiB activations, 12.1 GiB optimizer"."""
    parts = sorted(zip(report.memory_parts_bytes[lane], MEMORY_PARTS, strict=True), reverse=True)
    used = report.peak_memory_bytes[lane]
    return ", ".join(f"{format_bytes(size)} {name}" for size, name in parts if size > _BIG * used)


def memory(asked: Asked) -> Steps[Sentence]:
    """Say whether the plan fits, and the cheapest change that makes it fit or frees memory."""
    report = asked.report
    if not report.feasible:
        return (yield from _overflow(asked))
    lane, used = fullest(report)
    said = f"**Fits.** Device {report.lanes[lane][0]} is fullest, at {used:.0%} of its memory"
    if (tight := tightest(report)) is not None:
        lane, used = tight.lane, tight.peak_bytes / tight.capacity_bytes
        said = f"**May fit.** {capital(tight.words)}"
    lead = f"{said}: {parts_of(report, lane)}."
    tried = yield from tries(asked, savings(asked))
    frees = [item for item in tried if fullest(item.report)[1] <= used - FREES]
    best = fastest(frees)
    if best is None:
        return _nothing_frees(lead, tried, used)
    freed = format_bytes((used - fullest(best.report)[1]) * report.capacity_bytes[lane])
    cost = _cost(asked, best)
    return proposal(asked, "memory", f"{lead} **{capital(best.label)}** to free **{freed}**{cost}", best)


def _nothing_frees(lead: str, tried: list[Tried], used: float) -> Sentence:
    said = f"{lead} No change of recomputation, ZeRO or microbatches frees {FREES:.0%} of it"
    most = min(tried, key=lambda item: fullest(item.report)[1], default=None)
    if most is None:
        return Sentence(topic="memory", text=f"{said}.")
    freed, step = max(0.0, used - fullest(most.report)[1]), format_seconds(most.step_s)
    best = f"best tried: {most.label}, {freed:.1%} in {step} a step"
    return Sentence(topic="memory", text=f"{said}; {best}.", step_time_s=most.step_s)


def _cost(asked: Asked, best: Tried) -> str:
    more = best.step_s - asked.step_s
    if abs(more) <= WORTH * asked.step_s:
        return f" in the same {format_seconds(best.step_s)} a step."
    word = "for" if more > 0 else "and save"
    return f" {word} {format_seconds(abs(more))} a step ({asked.share(abs(more)):.1%})."


def _overflow(asked: Asked) -> Steps[Sentence]:
    report = asked.report
    worst = max(report.overflows, key=lambda item: item.over_bytes)
    over = f"Device {worst.device} needs {format_bytes(worst.over_bytes)} more than it has"
    said = "Does not fit"
    if report.memory_verdict == MAY_FIT:  # refused, since only what fits for sure is taken
        over = f"Device {worst.device} needs {format_bytes(worst.over_bytes)} more than fits for sure"
        said = "May fit"
    where = f"**{said}.** {over} ({parts_of(report, worst.lane)})"
    tried = yield from tries(asked, savings(asked))
    if len(asked.job.stages) > 1:
        others = yield from tries(asked, schedules(asked))
        tried += [item for item in others if as_exact(asked, item)]
    best = fastest(tried)
    if best is not None:
        said = f"{where}. Cheapest change that fits: {best.label}, {format_seconds(best.step_s)} a step."
        return proposal(asked, "memory", said, best)
    said = (
        f"{where}; recomputation, ZeRO, smaller microbatches or another schedule do not suffice:"
        f" {_way_out(asked)}."
    )
    if not tried:
        return Sentence(topic="memory", text=said)
    near = min(tried, key=lambda item: over_bytes(item.report))
    lacks = format_bytes(over_bytes(near.report))
    return Sentence(
        topic="memory", text=f"{said} Nearest: {near.label}, {lacks} over.", step_time_s=near.step_s
    )


def _way_out(asked: Asked) -> str:
    """Say what helps if no small change does: only other devices if these cannot hold what has to be kept."""
    kept, room = _kept_once(asked), _all_room(asked)
    if any(stage.offload or stage.density < 1 for stage in asked.job.stages) or kept <= room:
        return "use more stages, tensor parallelism or devices"
    count = asked.cluster.device_count
    least = math.ceil(count * kept / room)
    said = f"weights, gradients and optimizer states need {format_bytes(kept)}, however they are divided"
    return (
        f"{said}, and all {count} devices together have {format_bytes(room)}; use larger devices, or"
        f" {least} of them or more"
    )


def _kept_once(asked: Asked) -> float:
    """Return the bytes of the model's weights, gradients and optimizer states without any copy."""
    graph, job = asked.graph, asked.workload.job
    layers = tuple(layer.name for layer in graph.layers)
    whole = stage_memory(
        graph, layers, shard(graph, layers),
        precision=job.precision, gradient_precision=job.gradient_precision, optimizer=job.optimizer,
        zero=0, replicas=1, recompute="full", training=job.training,
    )  # fmt: skip
    return whole.weight_bytes + whole.gradient_bytes + whole.optimizer_bytes


def _all_room(asked: Asked) -> float:
    """Return the bytes that all devices of the cluster have for tensors."""
    kinds = (asked.cluster.kind_of(device) for device in range(asked.cluster.device_count))
    return sum(kind.memory_bytes - kind.reserved_bytes for kind in kinds)


def recompute(asked: Asked) -> Steps[Sentence | None]:
    """Say where recomputation can be turned off and what that saves; None if nothing is recomputed."""
    stages = [i for i, stage in enumerate(asked.job.stages) if _recomputes(asked, stage)]
    if not stages:
        return None
    every = len(stages) == len(asked.job.stages)
    lead = f"{'All stages' if every else _stages(stages)} recompute activations."
    tried = yield from tries(asked, _everywhere(asked))
    tried += yield from _one_by_one(asked, stages)
    return conclude(asked, "recompute", lead, tried, kind="less recomputation")


def _everywhere(asked: Asked) -> Iterator[NamedChange]:
    most = max(RECOMPUTES.index(stage.recompute) for stage in asked.job.stages)
    single = any(item.recompute for stage in asked.job.stages for item in stage.keeping)
    for choice in RECOMPUTES[: max(most, int(single))]:
        label = "turn recomputation off" if choice == "none" else f"use {choice} recomputation"
        yield label, partial(_all_alike, asked, choice)


def _all_alike(asked: Asked, choice: str) -> Strategy:
    """Return the strategy in which all layers recompute alike, those that were exceptions as well."""
    return asked.with_job(asked.job.with_stages(_alike(stage, choice) for stage in asked.job.stages))


def _alike(stage: Stage, choice: str) -> Stage:
    """Return a stage whose layers recompute alike; where they keep their tensors stays."""
    kept = tuple(replace(item, recompute="") for item in stage.keeping if item.on)
    return replace(stage, recompute=choice, keeping=kept)


def _recomputes(asked: Asked, stage: Stage) -> bool:
    """Tell whether a stage makes anything again, if only of single layers."""
    return recompute_of(asked.graph, stage, stage_layers(asked.graph, stage)) != "none"


def _one_by_one(asked: Asked, stages: list[int]) -> Steps[list[Tried]]:
    """Turn recomputation off stage by stage, last first (it keeps fewest microbatches), while all fits."""
    kept = list(asked.job.stages)
    found: list[Tried] = []
    off: list[int] = []
    for stage in reversed(stages):
        changed = [*kept]
        changed[stage] = _alike(kept[stage], "none")
        label = f"turn recomputation off on {_stages(sorted([*off, stage])).lower()}"
        make = partial(asked.with_job, asked.job.with_stages(changed))
        tried = yield from tries(asked, [(label, make)])
        if tried and tried[0].report.feasible:
            kept, found = changed, [*found, tried[0]]
            off.append(stage)
    return found


def _stages(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"Stage {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1 and len(numbers) > 2:
        return f"Stages {numbers[0]} to {numbers[-1]}"
    return f"Stages {', '.join(map(str, numbers))}"
