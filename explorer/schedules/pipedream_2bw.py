"""PipeDream-2BW: 1F1B for ever, one update per step, two buffered weight versions."""

from __future__ import annotations

from explorer.actions import UPDATE, Action, Order, Place, ReadRule, Shape
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES
from explorer.schedules._clock import Clock, Ticked, by_tick, clock_of, ticked
from explorer.schedules._common import each_lane, need_copies
from explorer.schedules.one_f_one_b import makespan


@SCHEDULES.add(
    "pipedream_2bw",
    title="Asynchronous 1F1B with double-buffered weights",
    paper="PipeDream-2BW (Narayanan et al., 2021)",
    flush=False,
    torch_name="",
    placement="line",
    closed_form=("exact", makespan),
)
def order(shape: Shape, *, steps: int) -> Order:
    """Gradients of a step's m microbatches are applied by one U behind the step's last B.

    Step t reads the weights made by the U of step t - 2, so delay is 1 and two versions live. That
    version must exist when the step's first forward runs: m at least the microbatches in flight.

    Raises:
        InputError: fewer microbatches than that, or several copies.
    """
    need_copies(shape, "pipedream_2bw", 1)
    clock = clock_of(shape)
    _need_enough(shape, clock)

    def lane(places: tuple[Place, ...]) -> list[Action]:
        pairs: list[Ticked] = []
        for step in range(steps):
            for place in places:
                pairs += ticked(shape, clock, place, step, flush=False)
            if shape.training:
                pairs += [_update(shape, clock, stage, step) for stage in {place.stage for place in places}]
        return by_tick(pairs)

    rule = ReadRule(name="buffered", parameter=1) if shape.training else ReadRule()
    return Order(lanes=each_lane(shape, lane), steps=steps, read_rule=rule, flush=False)


def _update(shape: Shape, clock: Clock, stage: int, step: int) -> Ticked:
    """The U of a step at the tick of its last B, behind which it sorts."""
    count = shape.microbatches[stage]
    return clock.backward(stage, (step + 1) * count - 1), Action(UPDATE, stage, step * count, count)


def _need_enough(shape: Shape, clock: Clock) -> None:
    for stage, count in enumerate(shape.microbatches):
        in_flight = clock.ahead[stage] + 1
        if shape.training and count < in_flight:
            raise InputError(
                f"pipedream_2bw with {count} microbatches has {in_flight} in flight on stage {stage}",
                key="microbatches",
                found=count,
                allowed=f"{in_flight} or more microbatches per step",
            )
