"""Chimera: two pipelines in opposite directions over the same lanes fill each other's bubbles."""

from __future__ import annotations

from explorer.actions import Action, Order, Place, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._clock import by_tick, clock_of, ticked
from explorer.schedules._common import each_step, per_copy, updates
from explorer.schedules.placements import BIDIRECTIONAL

CONCATENATE = Option(
    name="concatenate",
    default=False,
    help="run units of D microbatches one after the other: fewer activations on the outer lanes, more idle",
)


def makespan(of: Pipeline) -> float | None:
    """Return m(F + B) + (p - 2) max(F, B) for m >= p; the paper gives B = F and B = 2F at m = p."""
    if of.chunks > 1 or of.m < of.p:
        return None
    return of.m * of.round_s + (of.p - 2) * max(of.forward_s, of.backward_s)


@SCHEDULES.add(
    Schedule(
        name="chimera",
        title="Bidirectional: two copies in opposite directions",
        paper="Chimera (Li and Hoefler, 2021)",
        options=(CONCATENATE,),
        placement=BIDIRECTIONAL,
        needs=Needs(copies=(2,), equal_microbatches=True, stage_multiple=2),
        closed_form=ClosedForm(makespan=makespan),
    )
)
def order(shape: Shape, *, steps: int, concatenate: bool = False) -> Order:
    """Run 1F1B in each copy on its half of the step; the clock merges both without conflict.

    For D stages, copy 0 of stage s and copy 1 of stage D-1-s share a lane: their ticks have different parity
    because D is even. Up to m = D that is the paper's order. For more microbatches both copies simply
    continue, with at most D in flight on a lane and idle time that does not grow with m; or, with
    `concatenate`, units of D microbatches follow each other 2 D ticks apart, when the first lanes have gone
    empty (the paper's direct concatenation: D/2 + 1 in flight on the outer lanes, but idle time in every unit
    where B is longer than F).
    """
    clock = clock_of(shape)
    unit = shape.stages // 2  # microbatches that each copy adds to a unit

    def lane(places: tuple[Place, ...], step: int) -> list[Action]:
        pairs = []
        for place in places:
            base = step * shape.microbatches[place.stage] + place.copy * per_copy(shape, place.stage)
            for tick, action in ticked(shape, clock, place, step, flush=True):
                # The plain clock advances by D ticks per unit; concatenation needs 2 D.
                late = (action.first_microbatch - base) // unit * shape.stages if concatenate else 0
                pairs.append((tick + late, action))
        return [*by_tick(pairs), *updates(shape, places, step)]

    return Order(lanes=each_step(shape, steps, lane), steps=steps)
