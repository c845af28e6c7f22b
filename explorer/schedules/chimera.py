"""Chimera: two pipelines in opposite directions over the same lanes fill each other's bubbles."""

from __future__ import annotations

from explorer.actions import Action, Order, Place, Shape
from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES
from explorer.schedules._clock import by_tick, clock_of, ticked
from explorer.schedules._common import (
    each_step,
    need_copies,
    need_equal_microbatches,
    per_copy,
    updates,
)

CONCATENATE = Option(
    name="concatenate",
    default=False,
    help="run units of D microbatches one after the other: fewer activations on the outer lanes, more idle",
)


def makespan(p: int, m: int, forward_s: float, backward_s: float, chunks: int = 1) -> float | None:
    """m(F + B) + (p - 2) max(F, B) from m = p on, of which the paper gives B = F and B = 2F at m = p."""
    if chunks > 1 or m < p:
        return None
    return m * (forward_s + backward_s) + (p - 2) * max(forward_s, backward_s)


@SCHEDULES.add(
    "chimera",
    title="Bidirectional: two copies in opposite directions",
    paper="Chimera (Li and Hoefler, 2021)",
    options=(CONCATENATE,),
    flush=True,
    torch_name="",
    placement="bidirectional",
    closed_form=("exact", makespan),
)
def order(shape: Shape, *, steps: int, concatenate: bool = False) -> Order:
    """Each copy runs 1F1B on its half of the step; the clock merges them without conflict.

    For D stages, copy 0 of stage s and copy 1 of stage D-1-s share a lane: their ticks have different
    parity because D is even. Up to m = D that is the paper's order. For more microbatches both copies
    simply go on, with at most D in flight on a lane and idle time that does not grow with m; or, with
    `concatenate`, units of D microbatches follow each other 2 D ticks apart, when the first lanes
    have gone empty (the paper's direct concatenation: D/2 + 1 in flight on the outer lanes, but idle
    time in every unit where B is longer than F).

    Raises:
        InputError: not two copies, an odd number of stages or microbatches, or several sizes.
    """
    need_copies(shape, "chimera", 2)
    need_equal_microbatches(shape, "chimera")
    if shape.stages % 2:
        raise InputError(
            f"chimera with {shape.stages} stages", key="stages", found=shape.stages, allowed="an even number"
        )
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
