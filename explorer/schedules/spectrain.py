"""SpecTrain: PipeDream's order on one weight version, every read predicted instead of stashed."""

from __future__ import annotations

from dataclasses import replace

from explorer.actions import Order, ReadRule, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Schedule
from explorer.schedules._in_flight import clocked as clocked_in_flight
from explorer.schedules._paths import steady
from explorer.schedules.one_f_one_b import makespan
from explorer.schedules.pipedream import order as pipedream
from explorer.schedules.pipelines import every_microbatch
from explorer.schedules.placements import LINE


@SCHEDULES.add(
    Schedule(
        name="spectrain",
        title="Asynchronous 1F1B on predicted weights",
        paper="SpecTrain (Chen, Yang and Cheng, 2018)",
        flush=False,
        placement=LINE,
        needs=Needs(copies=(1,), split_microbatches=True),
        closed_form=ClosedForm(makespan=makespan),
        estimate=steady,
        updates=every_microbatch,
        in_flight=clocked_in_flight(versions=1),
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Order as PipeDream does, with an update after every backward.

    Forward and backward of a microbatch read weights predicted for one and the same update, floor(k / 2)
    after the backward's own on stage k of N:

        forward   s = floor(k / 2) + N - k - 1          backward   s = floor(k / 2)

    On a DAG of stages k counts from the first along the longest path. One version and one predicted copy.
    Replicas that take turns are refused: between them no number of updates ahead is fixed.
    """
    made = pipedream(shape, steps=steps)
    if not shape.training:
        return made
    deepest = max(shape.depth_to_end)
    horizons = tuple(((deepest - left) // 2 + left, (deepest - left) // 2) for left in shape.depth_to_end)
    return replace(made, read_rule=ReadRule(name="predicted", horizons=horizons))
