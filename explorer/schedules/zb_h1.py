"""ZB-H1: 1F1B with the backward split in two, so that weight gradients fill the drain."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._clock import clock_of
from explorer.schedules._in_flight import clocked
from explorer.schedules._paths import split_by_clock
from explorer.schedules._split_backward import levelled
from explorer.schedules.pipelines import FloatArray, Pipelines
from explorer.schedules.placements import LINE


def makespan(of: Pipeline) -> float | None:
    """Return m(F + I + W) + (p - 1)(F + I - W) if W is no longer than F and I (table 2 of the paper)."""
    if of.chunks > 1 or of.m < of.p or of.weight_grad_s > min(of.forward_s, of.input_grad_s):
        return None
    return of.m * of.round_s + (of.p - 1) * (of.forward_s + of.input_grad_s - of.weight_grad_s)


def lower(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: of paths, and mostly the longest."""
    return split_by_clock(of, 1)


@SCHEDULES.add(
    Schedule(
        name="zb_h1",
        title="1F1B with split backward: a third of its bubble in the memory of its first stage",
        paper="Zero Bubble Pipeline Parallelism (Qi et al., 2024)",
        placement=LINE,
        reads=("memory",),
        closed_form=ClosedForm(makespan=makespan),
        lower=lower,
        in_flight=clocked(),
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run p - s - 1 forwards on stage s of p, then F, I and the W of s microbatches before.

    With that lag every stage holds p microbatches at most, from F to W; if the bytes of stages differ, a
    stage lets fewer wait, down to none, before it holds more than 1F1B's fullest. The first stage, whose
    input gradients nothing waits for, runs whole backwards. Any stage DAG, as 1F1B.
    """
    return levelled(shape, clock_of(shape), steps=steps)
