"""PipeDream: 1F1B for ever, an update after every backward, weights stashed per microbatch."""

from __future__ import annotations

import numpy as np

from explorer.actions import BACKWARD, OP_CODE, UPDATE, Actions, Order, Place, ReadRule, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Schedule
from explorer.schedules._clock import Clock, Ticked, by_tick, clock_of, ticked
from explorer.schedules._common import each_lane, turns
from explorer.schedules._in_flight import clocked as clocked_in_flight
from explorer.schedules._paths import steady
from explorer.schedules.one_f_one_b import makespan
from explorer.schedules.pipelines import every_microbatch
from explorer.schedules.placements import LINE

TOGETHER = Option(
    name="together",
    default=False,
    help="replicas that take turns apply a round's gradients together, so each waits for all of them",
)


@SCHEDULES.add(
    Schedule(
        name="pipedream",
        title="Asynchronous 1F1B with weight stashing",
        paper="PipeDream (Harlap et al., 2018; Narayanan et al., 2019)",
        options=(TOGETHER,),
        flush=False,
        placement=LINE,
        needs=Needs(copies=(1,)),
        closed_form=ClosedForm(makespan=makespan),
        estimate=steady,
        updates=every_microbatch,
        in_flight=clocked_in_flight(versions=None),
    )
)
def order(shape: Shape, *, steps: int, together: bool = False) -> Order:
    """Run 1F1B without a flush between steps; the pipeline fills once and drains once, after the last step.

    Start-up admits NOAM = ceil(replicas of all stages / replicas of the first) microbatches per
    replica of the first stage, and likewise further down (see `_clock`). Stage s of p holds p - s
    weight versions, p - s - 1 updates lie between an F and its B.

    Replicas that take turns: by default the U after a B names that one microbatch, and no replica
    waits for another (the gradient reaches the others when it does). With `together` the U names the
    whole round of R microbatches on every replica and waits for all R backwards. Replicas that split
    each microbatch always apply it together.
    """
    clock = clock_of(shape)

    def lane(places: tuple[Place, ...]) -> Actions:
        parts: list[Ticked] = []
        for place in places:
            own = [ticked(shape, clock, place, step, flush=False) for step in range(steps)]
            parts += own
            if shape.training and together and turns(shape, place.stage) > 1:
                parts.append(_after_each_round(shape, clock, place.stage, steps))
            else:
                parts += map(_after_each_backward, own)
        return by_tick(parts)

    rule = ReadRule(name="stash") if shape.training else ReadRule()
    return Order(lanes=each_lane(shape, lane), steps=steps, read_rule=rule, flush=False)


def _after_each_backward(part: Ticked) -> Ticked:
    """Put a U at the tick of each B, after which it sorts."""
    op, stage, number, *_ = part.actions.columns
    backward = np.flatnonzero(op == OP_CODE[BACKWARD])
    actions = Actions.spread(OP_CODE[UPDATE], stage[backward], number[backward])
    return Ticked(part.ticks[backward], actions)


def _after_each_round(shape: Shape, clock: Clock, stage: int, steps: int) -> Ticked:
    """Put a U at the tick of the last B of each round, which another lane may run."""
    in_turn, total = turns(shape, stage), steps * shape.microbatches[stage]
    starts = np.arange(0, total, in_turn)
    counts = np.minimum(in_turn, total - starts)
    ticks = [clock.backward(stage, last) for last in (starts + counts - 1).tolist()]
    return Ticked(np.array(ticks, dtype=np.int64), Actions.spread(OP_CODE[UPDATE], stage, starts, counts))
