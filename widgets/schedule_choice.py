"""Choice of a schedule: every registered one is offered, or says what it needs and what is nearest to it.

A schedule keeps the placement on the board if it can order it; otherwise the model is cut anew, evenly, as
the schedule's own placement wants its stages. No code here knows a schedule by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from explorer.actions import Shape
from explorer.base.caching import IdentityCache
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES, Schedule, make_order
from explorer.schedules.custom import lanes_text
from explorer.schedules.groups import grouped
from explorer.schedules.placements import ANY
from explorer.strategies.bare_shape import bare_shape
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_reading import nearest_degrees

from .option_fields import changed_options, option_fields
from .session import Point, make_point

MOST_SPELT = 4000
"""Most actions of a step that are spelt out for a literal schedule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One schedule as the picker shows it."""

    name: str
    """Registered name."""
    group: str
    """Name of its group."""
    title: str
    """One line, with what happens to the placement."""
    anew: bool
    """Whether it cuts the model anew."""
    problem: str
    """Its unmet needs, with the nearest values that would do; empty if it can be chosen."""


def degrees_shown(point: Point) -> Degrees:
    """Return the degrees nearest to a state; lanes without layers count as pipeline positions."""
    job = point.strategy.job
    whole = SCHEDULES.get(job.schedule).placement.whole
    return nearest_degrees(job, 0 if whole else len(point.groups))


def choices(point: Point) -> tuple[Choice, ...]:
    """Return every registered schedule, group by group, as a state can have it; kept with its prediction."""
    kept = point.outcome.kept
    if "schedules" not in kept:
        own, job = point.inputs, point.strategy.job
        shape = bare_shape(own.graph, own.job, job)
        # moving layers across a boundary changes none of these
        key = (own.workload, shape, degrees_shown(point), job.schedule, job.options, job.copies)
        made: IdentityCache = own.graph.memo("schedule choices", lambda: IdentityCache(8))
        kept["schedules"] = made.get(
            (own.cluster,),
            key,
            lambda: tuple(
                _choice(point, schedule, shape, group.name)
                for group, found in grouped()
                for schedule in found
            ),
        )
    known: tuple[Choice, ...] = kept["schedules"]
    return known


def choices_at_hand(point: Point, former: Point | None) -> tuple[Choice, ...]:
    """Return the choices of a state if they are known, else those of the state before: to ask what every
    schedule needs takes longer than all else that a gesture waits for. Without a state before they are made.
    """
    for state in (point, former):
        if state is not None and "schedules" in state.outcome.kept:
            return choices(state)
    return choices(point)


def _choice(point: Point, schedule: Schedule, shape: Shape, group: str) -> Choice:
    problem = ""
    try:
        anew = _anew(point, schedule, shape)
    except InputError as error:
        anew = False
        problem = f"{error.message}; {error.key}: {error.allowed}" if error.allowed else error.message
    title = f"{schedule.title}. {schedule.paper}" if schedule.paper else schedule.title
    if needs := schedule.needs.words():
        title += f". Needs {needs}"
    if anew:
        title += f". It cuts the model anew: {schedule.placement.text}"
    return Choice(name=schedule.name, group=group, title=title, anew=anew, problem=problem)


def _anew(point: Point, schedule: Schedule, shape: Shape) -> bool:
    """Tell whether the model is cut anew for a schedule.

    Raises:
        InputError: it needs something that an even cut of the state's degrees does not have.
    """
    if schedule.name == point.strategy.job.schedule:
        return False
    if schedule.literal:
        refuse_spelling(point, schedule, shape)
        return False
    if _keeps(point, schedule, shape):
        return False
    own = point.inputs
    _wanted(point, schedule).check(own.graph, own.cluster, own.job)
    return True


def with_schedule(point: Point, name: str) -> Point:
    """Return the state under another schedule.

    Raises:
        ExplorerError: no such schedule, or it needs what the state does not have.
    """
    schedule = SCHEDULES.get(name)
    own, job = point.inputs, point.strategy.job
    shape = bare_shape(own.graph, own.job, job)
    if schedule.literal and name != job.schedule:
        job = replace(job, schedule=name, options=_spelt(point, schedule, shape))
        note = f"schedule {name}, {point.strategy.job.schedule} spelt out"
        return make_point(point.inputs, point.strategy.with_job(job), point.groups, note=note)
    if not _anew(point, schedule, shape):
        job = replace(job, schedule=name, options=job.options if name == job.schedule else ())
        return make_point(point.inputs, point.strategy.with_job(job), point.groups, note=f"schedule {name}")
    wanted = _wanted(point, schedule)
    strategy = wanted.build(own.graph, own.cluster, own.job)
    return make_point(own, strategy, note=f"schedule {name}, cut anew")


def _keeps(point: Point, schedule: Schedule, shape: Shape) -> bool:
    """Tell whether a schedule can order the stages where they are, and they are placed as it intends."""
    job, placement = point.strategy.job, schedule.placement
    if placement is ANY:
        if SCHEDULES.get(job.schedule).placement.whole:
            return False
    else:
        now = degrees_shown(point)
        grid = placement.grid(now.stages)
        chunked = not placement.whole and now.chunks > 1
        made_for = placement.several and not placement.whole
        if job.copies != grid.copies or chunked != made_for:
            return False
    return not schedule.unmet(shape)


def _wanted(point: Point, schedule: Schedule) -> Degrees:
    """Return the state's degrees under another schedule, with as many chunks as its placement is made for."""
    now = degrees_shown(point)
    placement, needs = schedule.placement, schedule.needs
    chunks = 0
    if placement.several and not placement.whole and placement is not ANY:
        was = 1 if now.placement.whole else now.chunks
        chunks = max(2, was) + -max(2, was) % needs.chunk_multiple
        chunks = min(chunks, needs.most_chunks or chunks)
    return now.changed(schedule=schedule.name, options=(), chunks=chunks)


def _spelt(point: Point, schedule: Schedule, shape: Shape) -> tuple[tuple[str, Any], ...]:
    """Return the options of a literal schedule that spell out what the present one does in a step.

    Raises:
        InputError: there is too much to spell out, or no such order.
    """
    refuse_spelling(point, schedule, shape)
    job = point.strategy.job
    order = make_order(job.schedule, shape, options=dict(job.options))
    return (("lanes", lanes_text(order.lanes).replace("\n", "; ")),)


def literal_schedule() -> Schedule:
    """Return the schedule whose options spell an order out."""
    return next(schedule for schedule in SCHEDULES if schedule.literal)


def refuse_spelling(point: Point, schedule: Schedule, shape: Shape) -> None:
    """Raise if the present order cannot be spelt out.

    Raises:
        InputError: the present schedule decides while time runs, or its steps do not end with their updates.
    """
    job = point.strategy.job
    now = SCHEDULES.get(job.schedule)
    if now.dispatch or not now.flushes(dict(job.options)):
        raise InputError(
            f"{schedule.name} begins with the order of a step that ends with its updates",
            key="schedule",
            found=job.schedule,
            allowed=", ".join(item.name for item in SCHEDULES if item.flush and not item.dispatch),
        )
    count = sum(len(lane) * max(shape.microbatches) for lane in shape.lanes)
    if count > MOST_SPELT:
        raise InputError(
            f"{schedule.name} spells every action out, and a step has more than {count:,}",
            key="microbatch_size", found=count, allowed=f"at most {MOST_SPELT:,}",
        )  # fmt: skip


OPTION = "option."
"""Prefix of the keys of an option's field."""


def schedule_options(point: Point) -> Iterator[dict[str, Any]]:
    """Yield a field of the bar for every option of the schedule shown."""
    job = point.strategy.job
    yield from option_fields(SCHEDULES.get(job.schedule), dict(job.options), OPTION)


def with_option(point: Point, key: str, value: Any) -> Point:
    """Return the state with an option of its schedule set.

    Raises:
        ExplorerError: no such option, or an impossible value.
    """
    job, name = point.strategy.job, key.removeprefix(OPTION)
    options = changed_options(SCHEDULES.get(job.schedule), dict(job.options), name, value)
    strategy = point.strategy.with_job(replace(job, options=options))
    shown = value if len(str(value)) < 40 else "changed"
    return make_point(point.inputs, strategy, point.groups, note=f"{job.schedule} {name} {shown}")
