"""Eager 1F1B: twice the forwards ahead of 1F1B, so that transfers between stages pass beside the work."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._bounds import one_way
from explorer.schedules._clock import clock_of
from explorer.schedules._clocked_lanes import clocked_lanes
from explorer.schedules._in_flight import clocked as clocked_in_flight
from explorer.schedules._paths import clocked
from explorer.schedules.pipelines import FloatArray, Pipelines, with_path
from explorer.schedules.placements import LINE


def makespan(of: Pipeline) -> float | None:
    """Return (m + p - 1)(F + B) + 2 (p - 1) x, if both transfers of a microbatch fit beside its F + B.

    Each way is passed once, however many microbatches follow; 1F1B pays for transfers all the way through.
    """
    if of.chunks > 1 or 2 * of.transfer_s > of.round_s or of.transfer_s > min(of.forward_s, of.backward_s):
        return None
    return (of.m + of.p - 1) * of.round_s + 2 * (of.p - 1) * of.transfer_s


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: of paths, and mostly the longest."""
    spans, p = one_way(of), of.grid.positions
    if of.grid.chunks > 1:
        return spans
    under_way = [2 * (p - s) - 1 for s in range(p)]
    return with_path(spans, clocked(of, of.backward_s, None, under_way, [0] * p))


@SCHEDULES.add(
    Schedule(
        name="eager_1f1b",
        title="1F1B with twice the forwards ahead, to hide transfers",
        paper="AlpaComm (Zhuang et al., 2023)",
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan, transfers=True),
        lower=lower,
        split=False,
        in_flight=clocked_in_flight(2),
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run 2 d + 1 forwards before the first backward on a stage with d stages behind it.

    At most so many microbatches are in flight there (1F1B: d + 1). Between neighbours there are then two
    microbatches for a round trip instead of one, time for both transfers. As 1F1B, it orders any stage
    DAG and microbatch sizes that differ between stages.
    """
    return Order(lanes=clocked_lanes(shape, clock_of(shape).times_ahead(2), steps), steps=steps)
