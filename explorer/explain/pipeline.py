"""Pipeline: which stage binds and what to move, what shrinks the bubble, and what broken runs cost."""

from __future__ import annotations

from dataclasses import replace

from explorer.base.units import format_seconds
from explorer.explain.changes import as_exact, doubles, halves, mends, moves, quarters, schedules
from explorer.explain.names import counted
from explorer.explain.neighbours import interleavings
from explorer.explain.questions import WORTH, Asked, Sentence, Steps, Tried, conclude, fastest, tries
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import ANY, LINE
from explorer.strategies.degrees_reading import regular_degrees
from explorer.strategies.moves import groups_of

LEAST_SAID = 0.005
"""Share above the mean that is said as a number: less would read as 0 %."""
MOST_MOVES = 6
"""Most moves made one after the other, as long as each helps."""


def balance(asked: Asked) -> Steps[Sentence | None]:
    """Say which device binds and which move of blocks helps most; None for a single stage."""
    report = asked.report
    if len(asked.job.stages) < 2:
        return None
    mean = sum(report.busy_s) / len(report.busy_s)
    lane = max(range(len(report.busy_s)), key=report.busy_s.__getitem__)
    device, stage = report.lanes[lane][0], binding_stage(asked)
    over = report.busy_s[lane] / mean - 1 if mean else 0.0
    lead = (
        f"**Device {device} binds** (stage {stage}): {format_seconds(report.busy_s[lane])} of work a step,"
        f" {above_mean(over)}."
    )
    tried = yield from _moved(asked)
    return conclude(asked, "balance", lead, tried, kind="move of a block")


def above_mean(over: float) -> str:
    """Say how far above the mean of all lanes the busiest one is.

    >>> above_mean(0.17), above_mean(0.003)
    ('17% above the mean', 'hardly more than the others')
    """
    return f"{over:.0%} above the mean" if over >= LEAST_SAID else "hardly more than the others"


def binding_stage(asked: Asked) -> int:
    """Return the stage on the busiest lane; of several, the one with most layers."""
    busy = asked.report.busy_s
    own = set(asked.report.lanes[max(range(len(busy)), key=busy.__getitem__)])
    stages = [
        i for i, stage in enumerate(asked.job.stages) if any(own & set(mesh.devices) for mesh in stage.meshes)
    ]
    return max(stages, key=lambda i: len(asked.job.stages[i].layers), default=0)


def _moved(asked: Asked) -> Steps[list[Tried]]:
    """Make the best single move, then the best after it, and so on while that helps."""
    found = yield from tries(asked, moves(asked, binding_stage(asked)))
    best, now = fastest(found), asked
    labels: list[str] = []
    while best is not None and len(labels) < MOST_MOVES and best.step_s < now.step_s * (1 - WORTH):
        labels.append(best.label.removeprefix("move "))
        if len(labels) > 1:
            found.append(replace(best, label=f"make {len(labels)} moves", detail="; ".join(labels)))
        now = replace(now, strategy=best.strategy, report=best.report)
        best = fastest((yield from tries(now, moves(now, binding_stage(now)))))
    return found


def bubble(asked: Asked) -> Steps[Sentence | None]:
    """Say how long devices stand idle, and which schedule, chunks or microbatches shrink the bubble."""
    if len(asked.job.stages) < 2:
        return None
    counts = {round(asked.batch / stage.microbatch_samples) for stage in asked.job.stages}
    lead = (
        f"Devices are idle for {asked.report.bubble_fraction:.0%} of the step"
        f" ({asked.job.schedule}, {counted(min(counts), 'microbatch')})."
    )
    degrees = regular_degrees(asked.job)
    tried = yield from tries(asked, halves(asked))
    tried += yield from tries(asked, schedules(asked))
    if degrees is not None:
        tried += yield from tries(asked, interleavings(asked, degrees))
    tried += yield from tries(asked, quarters(asked))
    tried += yield from tries(asked, doubles(asked))
    exact = [item for item in tried if as_exact(asked, item)]
    said = conclude(asked, "bubble", lead, exact, kind="other schedule or microbatch size")
    return _mention(asked, said, fastest(item for item in tried if item not in exact))


def _mention(asked: Asked, said: Sentence, stale: Tried | None) -> Sentence:
    """Add what an asynchronous schedule would reach; it is no equal choice, as it learns from old weights."""
    limit = min(asked.step_s, said.step_time_s or asked.step_s) * (1 - WORTH)
    if stale is None or stale.step_s >= limit:
        return said
    name = stale.strategy.job.schedule
    more = f" Schedule {name} would take {format_seconds(stale.step_s)}, but trains on older weights."
    return replace(said, text=said.text + more)


def runs(asked: Asked) -> Steps[Sentence | None]:
    """Say which device groups the model returns to; None if there are none or the schedule needs them."""
    job = asked.job
    groups = groups_of(job)
    wanted = SCHEDULES.get(job.schedule).with_options(dict(job.options)).placement not in (LINE, ANY)
    if len(groups) == len(job.stages) or wanted:
        return None
    broken = []
    for group in groups:
        own = [i for i, stage in enumerate(job.stages) if stage.meshes == group.meshes]
        if len(own) > 1:
            largest = max(own, key=lambda i: len(job.stages[i].layers))
            broken += [i for i in own if i != largest]
    extra = len(job.stages) - len(groups)
    times = {1: "once", 2: "twice"}.get(extra, f"{extra} times")
    lead = (
        f"**Out of order:** the model comes back to devices it has left {times},"
        f" so microbatches cross {len(job.stages) - 1} boundaries instead of {len(groups) - 1}."
    )
    tried = yield from tries(asked, mends(asked, broken))
    return conclude(asked, "runs", lead, tried, kind="way to mend it")
