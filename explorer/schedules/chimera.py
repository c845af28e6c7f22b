"""Chimera: two pipelines in opposite directions over the same lanes fill each other's bubbles."""

from __future__ import annotations

import numpy as np

from explorer.actions import Actions, Order, Place, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._bounds import opposed
from explorer.schedules._clock import Ticked, by_tick, clock_of, ticked
from explorer.schedules._common import each_step, per_copy, updates
from explorer.schedules._in_flight import opposed as opposed_in_flight
from explorer.schedules.pipelines import FloatArray, Pipelines, busy
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


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: the closed form of an even pipeline, and (3 p - 4) transfers."""
    p = of.grid.positions
    forward, backward = of.forward_s.mean(axis=0), of.backward_s.mean(axis=0)
    x = of.transfer_s.max(axis=0, initial=0.0)
    bubble = (p - 2) * np.maximum(forward, backward) + (3 * p - 4) * x
    return np.asarray(np.maximum(lower, busy(of).max(axis=0) + bubble))


@SCHEDULES.add(
    Schedule(
        name="chimera",
        title="Bidirectional: two copies in opposite directions",
        paper="Chimera (Li and Hoefler, 2021)",
        options=(CONCATENATE,),
        placement=BIDIRECTIONAL,
        needs=Needs(copies=(2,), equal_microbatches=True, stage_multiple=2),
        closed_form=ClosedForm(makespan=makespan),
        lower=opposed,
        split=False,
        estimate=estimate,
        in_flight=opposed_in_flight,
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

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        parts = []
        for place in places:
            base = step * shape.microbatches[place.stage] + place.copy * per_copy(shape, place.stage)
            ticks, actions = ticked(shape, clock, place, step, flush=True)
            # The plain clock advances by D ticks per unit; concatenation needs 2 D.
            late = (actions.columns[2] - base) // unit * shape.stages if concatenate else 0
            parts.append(Ticked(ticks + late, actions))
        return Actions.joined([by_tick(parts), updates(shape, places, step)])

    return Order(lanes=each_step(shape, steps, lane), steps=steps)
