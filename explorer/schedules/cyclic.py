"""Cyclic data parallelism: workers run the whole model one after the other, evenly staggered."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from explorer.actions import BACKWARD, FORWARD, OP_CODE, UPDATE, Action, Actions, Edge, Order, Place, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._clock import Ticked, by_tick
from explorer.schedules._common import each_lane, numbers_of, per_copy
from explorer.schedules.pipelines import never
from explorer.schedules.placements import WORKERS

RULE = Option(
    name="rule",
    default="v1",
    help="v1: a step reads gradients up to two steps back everywhere; v2: one step back where they are in",
    choices=("v1", "v2"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cycle:
    """Slots of a worker, each a forward or backward of one stage, in ticks of half a slot.

    One step of a worker takes 2 p m/N slots (p stages, N workers, m microbatches a step): forwards down
    and backwards up for each of its m/N microbatches. Worker w starts w/N of a step after worker 0.
    """

    stages: int
    """Number of stages p."""
    workers: int
    """Number of workers N, one copy of the model each."""
    each: int
    """Microbatches per worker and step, m/N."""

    @property
    def period(self) -> int:
        """Slots of a step."""
        return 2 * self.stages * self.each

    def start(self, worker: int, step: int) -> int:
        """Return the first slot of a worker's step."""
        return step * self.period + worker * self.period // self.workers

    def slot(self, worker: int, step: int, op: str, stage: int, position: int) -> int:
        """Return the slot of an F or B of a worker's microbatch number `position` in the step."""
        within = stage if op == FORWARD else 2 * self.stages - 1 - stage
        return self.start(worker, step) + 2 * self.stages * position + within

    def action(self, worker: int, first_microbatch: int, slots: int) -> Action:
        """Return the action that a worker whose step starts with `first_microbatch` runs after so many
        slots.
        """
        position, within = divmod(slots, 2 * self.stages)
        forward = within < self.stages
        stage = within if forward else 2 * self.stages - 1 - within
        return Action(FORWARD if forward else BACKWARD, stage, first_microbatch + position, 1, worker)


def makespan(of: Pipeline) -> float | None:
    """Return the last worker's start, counted along the workers' actions, plus its own share of the step."""
    if of.m % of.p:
        return None
    chunks = of.chunks
    cycle = Cycle(stages=chunks, workers=of.p, each=of.m // of.p)
    starts = [cycle.start(worker, 0) for worker in range(of.p)]
    waited = 0.0
    for slots in (after - before for before, after in pairwise(starts)):
        rounds, rest = divmod(slots, 2 * chunks)
        waited += (rounds * chunks + min(rest, chunks)) * of.forward_s
        waited += (rounds * chunks + max(rest - chunks, 0)) * of.backward_s
    return waited + cycle.each * chunks * of.round_s


@SCHEDULES.add(
    Schedule(
        name="cyclic",
        title="Cyclic data parallelism: staggered workers, constant activation memory",
        paper="Cyclic Data Parallelism (Fournier and Oyallon, 2024)",
        options=(RULE,),
        flush=False,
        placement=WORKERS,
        needs=Needs(equal_microbatches=True),
        closed_form=ClosedForm(makespan=makespan),
        updates=never,
    )
)
def order(shape: Shape, *, steps: int, rule: str = "v1") -> Order:
    """Order copies as workers: copy w runs all stages of its part of each step, w/N of a step late.

    The stagger is kept by extra edges from worker to worker. A U names the samples of a whole step,
    whichever workers ran them. With v1 the gradients of step t - 1 are applied between a worker's
    steps t and t + 1: every read is one update old and one version is enough. With v2 a stage whose
    gradients of step t - 1 are all in before the worker's forward of step t applies them at once.
    """
    cycle = Cycle(stages=shape.stages, workers=shape.copies, each=per_copy(shape, 0))

    def lane(places: tuple[Place, ...]) -> Actions:
        parts = [_work(shape, cycle, place, step) for place in places for step in range(steps)]
        if shape.training:
            held = {(place.stage, place.copy) for place in places}
            parts += [
                _update(shape, stage, worker, step, _update_tick(cycle, stage, worker, step, steps, rule))
                for stage, worker in held
                for step in range(steps)
            ]
        return by_tick(parts)

    return Order(lanes=each_lane(shape, lane), steps=steps, flush=False, edges=_stagger(shape, cycle, steps))


def _work(shape: Shape, cycle: Cycle, place: Place, step: int) -> Ticked:
    """List the forwards and backwards of a place in one step, on even ticks."""
    stage, worker = place.stage, place.copy
    numbers = numbers_of(shape, place, step)
    position = numbers - step * shape.microbatches[stage] - worker * cycle.each
    ops = (FORWARD, BACKWARD) if shape.training else (FORWARD,)
    ticks = [2 * (cycle.slot(worker, step, op, stage, 0) + 2 * cycle.stages * position) for op in ops]
    op = np.repeat([OP_CODE[item] for item in ops], len(numbers))
    return Ticked(np.concatenate(ticks), Actions.spread(op, stage, np.tile(numbers, len(ops)), copy=worker))


def _update(shape: Shape, stage: int, worker: int, step: int, tick: int) -> Ticked:
    count = shape.microbatches[stage]
    actions = Actions.of([Action(UPDATE, stage, step * count, count, worker)])
    return Ticked(np.array([tick]), actions)


def _update_tick(cycle: Cycle, stage: int, worker: int, step: int, steps: int, rule: str) -> int:
    """Return the odd tick at which a worker applies a step, after the step's last backward anywhere."""
    if step == steps - 1:
        return 2 * cycle.start(cycle.workers, step + 1) + 1
    if rule == "v1":
        return 2 * cycle.start(worker, step + 2) - 1
    last = cycle.slot(cycle.workers - 1, step, BACKWARD, stage, cycle.each - 1)
    forward = cycle.slot(worker, step + 1, FORWARD, stage, 0)
    if last < forward:
        return 2 * forward - 1
    return 2 * cycle.slot(worker, step + 1, BACKWARD, stage, cycle.each - 1) + 1


def _stagger(shape: Shape, cycle: Cycle, steps: int) -> tuple[Edge, ...]:
    """Make a worker's step wait until the worker that starts before it has run the slots in between."""
    edges = []
    for step in range(steps):
        leader = 0  # the last worker with an earlier start: with N > 2 p some start together
        for worker in range(1, cycle.workers):
            if cycle.start(worker - 1, step) < cycle.start(worker, step):
                leader = worker - 1
            slots = cycle.start(worker, step) - cycle.start(leader, step)
            base = step * shape.microbatches[0]
            before = cycle.action(leader, base + leader * cycle.each, slots - 1) if slots else None
            if before and (shape.training or before.op == FORWARD):
                first = base + worker * cycle.each
                edges.append(Edge(before, Action(FORWARD, 0, first, 1, worker)))
    return tuple(edges)
