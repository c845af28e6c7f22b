"""Chimera: two pipelines in opposite directions over the same lanes fill each other's bubbles."""

from __future__ import annotations

import numpy as np

from explorer.actions import FORWARD, OP_CODE, Actions, Order, Place, Shape
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._bounds import opposed
from explorer.schedules._clock import Clock, Ticked, by_tick, clock_of, ticked
from explorer.schedules._common import each_step, own, per_copy, turns, updates
from explorer.schedules._in_flight import opposed as opposed_in_flight
from explorer.schedules.pipelines import FloatArray, Pipelines, busy
from explorer.schedules.placements import BIDIRECTIONAL, BIDIRECTIONAL_4

OPTIONS = (
    Option(
        name="concatenate",
        default=False,
        help="run units of D microbatches one after the other: fewer activations on the outer lanes, more"
        " idle",
    ),
    Option(
        name="double",
        default=False,
        help="run two microbatches forward at once, so that a forward is as long as a backward: forward"
        " doubling, or backward halving with microbatches of half the size",
    ),
)


def makespan(of: Pipeline) -> float | None:
    """Return m(F + B) + (p - 2) max(F, B) for m >= p; the paper gives B = F and B = 2F at m = p."""
    if of.chunks > 1 or of.m < of.p:
        return None
    return of.m * of.round_s + (of.p - 2) * max(of.forward_s, of.backward_s)


def makespan_of_two_pairs(of: Pipeline) -> float | None:
    """Return m(F + B) + (p/2 - 2) max(F, B) for p a multiple of 4, and m of p (section 3.6)."""
    if of.chunks > 1 or of.p % 4 or of.m % of.p:
        return None
    return of.m * of.round_s + (of.p / 2 - 2) * max(of.forward_s, of.backward_s)


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: the closed form of an even pipeline, and (3 p - 4) transfers.

    Several pairs fill each other's bubbles only where the copies divide the positions.
    """
    p, copies = of.grid.positions, of.grid.copies
    pairs = 1 if p % copies else copies / 2
    forward, backward = of.forward_s.mean(axis=0), of.backward_s.mean(axis=0)
    x = of.longest_transfer_s
    bubble = max(p / pairs - 2, 0) * np.maximum(forward, backward) + (3 * p - 4) * x
    return np.asarray(np.maximum(lower, busy(of).max(axis=0) + bubble))


PAPER = "Chimera (Li and Hoefler, 2021)"


@SCHEDULES.add(
    Schedule(
        name="chimera",
        title="Bidirectional: copies in opposite directions, one pair or more",
        paper=PAPER,
        options=OPTIONS,
        placement=BIDIRECTIONAL,
        needs=Needs(copies=(2, 4, 6, 8), equal_microbatches=True, stage_multiple=2),
        closed_form=ClosedForm(makespan=makespan),
        lower=opposed,
        split=False,
        estimate=estimate,
        in_flight=opposed_in_flight,
    )
)
def order(shape: Shape, *, steps: int, concatenate: bool = False, double: bool = False) -> Order:
    """Run 1F1B in each copy on its part of the step; the clock merges all without conflict.

    For D stages, copy 0 of stage s and copy 1 of stage D-1-s share a lane: their ticks have different parity
    because D is even. Up to m = D that is the paper's order, for one pair of copies or more. For more
    microbatches the copies of one pair simply continue, with at most D in flight on a lane and idle time that
    does not grow with m; k pairs wait for each other after every D microbatches, as a lane has work for D
    ticks from them. With `concatenate`, units of D microbatches follow each other 2 D ticks apart, when the
    first lanes have gone empty (the paper's direct concatenation: D/2 + 1 in flight on the outer lanes, but
    idle time in every unit where B is longer than F).

    With `double` (section 3.5) forwards take two microbatches at once, each of which has its own backward: at
    B = 2F all slots are equally long, and no unit but the last idles. Twice as many are in flight.
    """
    clock = clock_of(shape)
    unit = max(1, shape.stages // shape.copies)  # microbatches, or pairs of them, a copy adds to a unit
    # ticks from unit to unit, beyond what the clock itself advances: work of a lane, two actions a tick
    apart = (2 if concatenate else 1) * unit * shape.copies - 2 * unit

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        parts = []
        for place in places:
            base = step * shape.microbatches[place.stage] + place.copy * per_copy(shape, place.stage)
            ticks, actions = (_doubled if double else ticked)(shape, clock, place, step, flush=True)
            late = (actions.columns[2] - base) // (2 * unit if double else unit) * apart
            late += place.copy // 2 * shape.stages // max(1, shape.copies // 2) % 2  # by an odd turn
            parts.append(Ticked(ticks + (2 * late if double else late), actions))
        return Actions.joined([by_tick(parts), updates(shape, places, step)])

    return Order(lanes=each_step(shape, steps, lane), steps=steps)


@SCHEDULES.add(
    Schedule(
        name="chimera_4",
        title="Bidirectional: four copies in two pairs, a quarter of the devices apart",
        paper=PAPER,
        options=OPTIONS,
        placement=BIDIRECTIONAL_4,
        needs=Needs(copies=(4,), equal_microbatches=True, stage_multiple=4),
        closed_form=ClosedForm(makespan=makespan_of_two_pairs),
        lower=opposed,
        estimate=estimate,
        in_flight=opposed_in_flight,
    )
)
def two_pairs(shape: Shape, *, steps: int, concatenate: bool = False, double: bool = False) -> Order:
    """Order two pairs of copies as `chimera` does, which takes any number of pairs."""
    return order(shape, steps=steps, concatenate=concatenate, double=double)


def _doubled(shape: Shape, clock: Clock, place: Place, step: int, *, flush: bool) -> Ticked:
    """List forwards of two microbatches and backwards of one, by a clock that counts pairs, in half ticks.

    Raises:
        InputError: replicas take microbatches in turn, so that no replica has two that follow each other.
    """
    if turns(shape, place.stage) > 1:
        raise InputError(
            f"forwards of two microbatches where replicas of stage {place.stage} take turns",
            key="double", found=True, allowed="replicas: split",
        )  # fmt: skip
    plain = ticked(shape, clock, place, step, flush=flush)
    columns = plain.actions.columns
    number = columns[2] - own(shape, place, step).start
    forward = columns[0] == OP_CODE[FORWARD]
    last = per_copy(shape, place.stage) - 1
    # the tick of microbatch n is that of pair n // 2: both advance by two ticks for each
    ticks = 2 * (plain.ticks - 2 * number + 2 * (number // 2)) + np.where(forward, 0, number % 2)
    kept = ~forward | (number % 2 == 0)
    count = np.where(forward & (number < last), 2, 1)
    made = columns[:, kept].copy()
    made[3] = count[kept]
    return Ticked(ticks[kept], Actions(made))
