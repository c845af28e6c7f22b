"""PipeDream-2BW: 1F1B for ever, one update per step, two buffered weight versions."""

from __future__ import annotations

import numpy as np

from explorer.actions import UPDATE, Action, Actions, Order, Place, ReadRule, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Schedule
from explorer.schedules._clock import Clock, Ticked, by_tick, clock_of, ticked
from explorer.schedules._common import each_lane
from explorer.schedules._in_flight import clocked as clocked_in_flight
from explorer.schedules._paths import steady
from explorer.schedules.needs import Least
from explorer.schedules.one_f_one_b import makespan
from explorer.schedules.pipelines import never
from explorer.schedules.placements import LINE


def in_flight(shape: Shape) -> list[int]:
    """Return the most microbatches in flight on every stage."""
    return [ahead + 1 for ahead in clock_of(shape).ahead]


NEEDS = Needs(copies=(1,), least=Least(text="as many microbatches as are in flight", of=in_flight))


@SCHEDULES.add(
    Schedule(
        name="pipedream_2bw",
        title="Asynchronous 1F1B with double-buffered weights",
        paper="PipeDream-2BW (Narayanan et al., 2021)",
        flush=False,
        placement=LINE,
        needs=NEEDS,
        closed_form=ClosedForm(makespan=makespan),
        estimate=steady,
        updates=never,
        in_flight=clocked_in_flight(versions=1),
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Apply the gradients of a step's m microbatches by one U.

    Step t reads the weights made by the U of step t - 2, so delay is 1 and two versions live. That
    version must exist when the step's first forward runs: m at least the microbatches in flight.

    The U of step t comes after the step's last B; if replicas reduce its gradients first, it comes before the
    first F of step t + 2, which is the first to read what it makes, so that the reduction of r seconds
    overlaps with the work on step t + 1. With a microbatches in flight after a stage's forward

        step = max(m (F + B), r + a (F + B)): the longer of compute and reduction on the last stage
    """
    clock = clock_of(shape)

    def lane(places: tuple[Place, ...]) -> Actions:
        parts: list[Ticked] = []
        for step in range(steps):
            parts += [ticked(shape, clock, place, step, flush=False) for place in places]
            if shape.training:
                held = {place.stage for place in places}
                parts += [_update(shape, clock, stage, step) for stage in held]
        return by_tick(parts)

    rule = ReadRule(name="buffered", parameter=1) if shape.training else ReadRule()
    return Order(lanes=each_lane(shape, lane), steps=steps, read_rule=rule, flush=False)


def _update(shape: Shape, clock: Clock, stage: int, step: int) -> Ticked:
    """Return the U of a step with the tick of the B behind which it sorts."""
    count = shape.microbatches[stage]
    tick = clock.backward(stage, (step + 1) * count - 1)
    if shape.replicas and shape.replicas[stage] > 1:
        tick = clock.forward(stage, (step + 2) * count) - 1
    return Ticked(np.array([tick]), Actions.of([Action(UPDATE, stage, step * count, count)]))
