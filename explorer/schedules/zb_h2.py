"""ZB-H2: twice the forwards ahead of 1F1B, so that no stage waits for gradients once it has begun."""

from __future__ import annotations

from dataclasses import replace

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._clock import clock_of
from explorer.schedules._in_flight import clocked as clocked_in_flight
from explorer.schedules._paths import split_by_clock
from explorer.schedules._split_backward import levelled
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE


def makespan(of: Pipeline) -> float | None:
    """Return (p - 1) F until the last stage begins, and m(F + I + W) without a gap, if F = I = W."""
    even = of.forward_s == of.input_grad_s == of.weight_grad_s
    if of.chunks > 1 or of.m < 2 * of.p - 1 or not even:
        return None
    return of.m * of.round_s + (of.p - 1) * of.forward_s


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: of paths, and mostly the longest."""
    return split_by_clock(of, 2)


@SCHEDULES.add(
    Schedule(
        name="zb_h2",
        title="Split backward with twice the forwards ahead: no bubble at F = I = W",
        paper="Zero Bubble Pipeline Parallelism (Qi et al., 2024)",
        placement=LINE,
        reads=("memory",),
        closed_form=ClosedForm(makespan=makespan),
        lower=lower,
        in_flight=clocked_in_flight(2),
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run 2(p - s - 1) forwards on stage s of p, then F, I and the W of 2s microbatches before.

    Every stage holds at most 2p - 1 microbatches. The steps of the paper follow each other without a
    flush (its optimizer takes an update back if it was wrong); here the flush costs (p - 1) F a step.
    """
    plain = clock_of(shape)
    clock = replace(plain, ahead=tuple(2 * ahead for ahead in plain.ahead))
    return levelled(shape, clock, steps=steps)
