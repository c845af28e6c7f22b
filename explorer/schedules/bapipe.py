"""BaPipe: 1F1B in three ways to send: beside all work, holding it up, or beside it with more under way."""

from __future__ import annotations

from dataclasses import replace

from explorer.actions import Actions, Order, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Schedule
from explorer.schedules._bounds import one_way
from explorer.schedules._clock import clock_of, one_step
from explorer.schedules._common import each_step, updates
from explorer.schedules._in_flight import clocked
from explorer.schedules._paths import one_forward_one_backward
from explorer.schedules.one_f_one_b import makespan
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE

ASYNC, NO_OVERLAP, OVERLAP = VARIANTS = ("1F1B-AS", "1F1B-SNO", "1F1B-SO")
VARIANT = Option(
    name="variant",
    default=ASYNC,
    help="AS sends beside all work; SNO waits for what it sends; SO hides it with twice the forwards ahead",
    choices=VARIANTS,
)


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: those of 1F1B, which waiting only lengthens; SO has more under way."""
    return one_way(of) if of.options.get("variant") == OVERLAP else one_forward_one_backward(of)


@SCHEDULES.add(
    Schedule(
        name="bapipe",
        title="1F1B whose stages send beside their work, wait for what they send, or send ahead of it",
        paper="BaPipe (Zhao et al., 2020)",
        options=(VARIANT,),
        variant_of="1f1b",
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan),
        lower=lower,
        in_flight=clocked(),
    )
)
def order(shape: Shape, *, steps: int, variant: str = ASYNC) -> Order:
    """Order as 1F1B, on any stage DAG.

    With a transfer of x seconds each way, x no longer than F and B, a step of m microbatches takes

        1F1B-SNO    more than 1F1B-AS by the transfers that no other covers; p - s microbatches at stage s
        1F1B-SO     (m + p - 1)(F + B) + 2 (p - 1) x; 2 (p - s) - 1 microbatches at stage s

    """
    clock = clock_of(shape)
    if variant == OVERLAP:
        clock = replace(clock, ahead=tuple(2 * ahead for ahead in clock.ahead))
    lanes = each_step(
        shape,
        steps,
        lambda places, step: Actions.joined(
            [one_step(shape, clock, places, step), updates(shape, places, step)]
        ),
    )
    return Order(lanes=lanes, steps=steps, blocking=variant == NO_OVERLAP)
