"""BaPipe: 1F1B in three ways to send (beside all work, holding it up, beside it with more under way), and
with a forward and a backward at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from explorer.actions import BACKWARD, FORWARD, OVERLAP, Action, Actions, Order, Place, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._bounds import one_way
from explorer.schedules._clock import clock_of
from explorer.schedules._clocked_lanes import clocked_lanes
from explorer.schedules._common import each_step, own, updates
from explorer.schedules._in_flight import clocked
from explorer.schedules._paths import one_forward_one_backward
from explorer.schedules.dualpipe import spans
from explorer.schedules.one_f_one_b import makespan
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE

ASYNC, AT_ONCE, NO_OVERLAP, OVERLAPPED = VARIANTS = ("1F1B-AS", "FBP-AS", "1F1B-SNO", "1F1B-SO")
VARIANT = Option(
    name="variant",
    default=ASYNC,
    help="AS sends beside all work; FBP-AS also runs a forward and a backward at once; SNO waits for what it"
    " sends; SO hides it with twice the forwards ahead",
    choices=VARIANTS,
)


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: those of 1F1B, which waiting only lengthens; SO has more under way."""
    return one_way(of) if of.options.get("variant") == OVERLAPPED else one_forward_one_backward(of)


def at_once_makespan(of: Pipeline) -> float | None:
    """Return (m + p - 1)(F + B) + (m + 2 (p - 2)) x: pairs follow each other every F + B + x.

    What a pair made is sent when it ends, and the neighbour's next pair waits for it.
    """
    if of.chunks > 1 or of.p < 2 or of.m < of.p or of.transfer_s > min(of.forward_s, of.backward_s):
        return None
    return (of.m + of.p - 1) * of.round_s + (of.m + 2 * (of.p - 2)) * of.transfer_s


def guess_at_once(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: all work, and what neighbours send each other between two pairs."""
    x = of.longest_transfer_s
    return np.asarray(np.maximum(lower, one_way(of) + np.maximum(of.microbatches - 2, 0) * x))


def fields(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the variant with a forward and a backward at once needs, and how it is bounded."""
    if options["variant"] != AT_ONCE:
        return {}
    return {
        "needs": Needs(
            chain=True,
            copies=(1,),
            placed=True,
            equal_microbatches=True,
            split_microbatches=True,
            most_chunks=1,
        ),
        "closed_form": ClosedForm(makespan=at_once_makespan, transfers=True),
        "lower": spans,
        "estimate": guess_at_once,
        "in_flight": clocked(2, beside=1),
        "hides": True,
    }


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
        under=fields,
    )
)
def order(shape: Shape, *, steps: int, variant: str = ASYNC) -> Order:
    """Order as 1F1B, on any stage DAG; on a chain alone with a forward and a backward at once.

    With a transfer of x seconds each way, x no longer than F and B, a step of m microbatches takes

        1F1B-SNO    more than 1F1B-AS by the transfers that no other covers; p - s microbatches at stage s
        1F1B-SO     (m + p - 1)(F + B) + 2 (p - 1) x; 2 (p - s) - 1 microbatches at stage s
        FBP-AS      (m + p - 1)(F + B) + (m + 2 (p - 2)) x; 2 (p - s) microbatches at stage s

    FBP-AS runs a forward and a backward of two microbatches at once, each on a share of the device: as one
    action, which begins when both can and takes F + B (see `OVERLAP` in `explorer.actions`); a forward or a
    backward alone has all of the device.
    """
    if variant == AT_ONCE:
        return Order(
            lanes=each_step(shape, steps, lambda places, step: _pairs(shape, places, step)), steps=steps
        )
    clock = clock_of(shape).times_ahead(2 if variant == OVERLAPPED else 1)
    return Order(lanes=clocked_lanes(shape, clock, steps), steps=steps, blocking=variant == NO_OVERLAP)


def _pairs(shape: Shape, places: tuple[Place, ...], step: int) -> Actions:
    """Return a step of the one place of a lane, a forward and a backward at once where it has both."""
    return Actions.joined([_paired(shape, places[0], step) if places else (), updates(shape, places, step)])


def _paired(shape: Shape, place: Place, step: int) -> Iterator[Action]:
    numbers = own(shape, place, step)
    ahead = 2 * shape.depth_to_end[place.stage] + 1
    for at in range(len(numbers) + ahead):
        forward = Action(FORWARD, place.stage, numbers[at]) if at < len(numbers) else None
        backward = (
            Action(BACKWARD, place.stage, numbers[at - ahead]) if at >= ahead and shape.training else None
        )
        if forward is not None:
            yield forward
            if backward is not None:
                yield forward._replace(op=OVERLAP)
        if backward is not None:
            yield backward
