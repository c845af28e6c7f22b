"""2BP: GPipe and 1F1B whose weight gradients are left to the end of the step."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule, _in_flight, gpipe, one_f_one_b
from explorer.schedules._bounds import gradients
from explorer.schedules._in_flight import all_at_once, then_waiting
from explorer.schedules._paths import breadth_first, clocked
from explorer.schedules._split_backward import at_the_end, split_order
from explorer.schedules.pipelines import FloatArray, Pipelines, with_path
from explorer.schedules.placements import LINE

PAPER = "2BP: 2-Stage Backpropagation (Rae et al., 2024)"


def makespan(of: Pipeline) -> float | None:
    """Return (m + p - 1)(F + I) + m W: the weight gradients fill the drain if they are long enough.

    The first stage ends last: it runs its m W when its last I is done. With one microbatch this is the
    naive pipeline of the paper, idle for (p - 1)(F + I).
    """
    if of.chunks > 1:
        return None
    return (of.m + of.p - 1) * (of.forward_s + of.input_grad_s) + of.m * of.weight_grad_s


def lower_gpipe(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: every position runs its m W when its last I is done."""
    spans = gradients(of)
    if of.grid.chunks == 1:
        spans = with_path(spans, breadth_first(of, of.input_grad_s))
    return spans + of.work_s(of.weight_grad_s)


def lower_1f1b(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: every position runs its m W when its last I is done."""
    spans, p = gradients(of), of.grid.positions
    if of.grid.chunks == 1:
        spans = with_path(spans, clocked(of, of.input_grad_s, None, range(p, 0, -1), [0] * p))
    return spans + of.work_s(of.weight_grad_s)


@SCHEDULES.add(
    Schedule(
        name="gpipe_2bp",
        title="GPipe with the weight gradients at the end",
        paper=PAPER,
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan),
        lower=lower_gpipe,
        apart="weight",
        in_flight=then_waiting(all_at_once),
    )
)
def after_gpipe(shape: Shape, *, steps: int) -> Order:
    """Order forwards and input gradients as GPipe; every stage runs W once all m microbatches are through."""
    return split_order(gpipe.order(shape, steps=steps), at_the_end)


@SCHEDULES.add(
    Schedule(
        name="1f1b_2bp",
        title="1F1B with the weight gradients at the end",
        paper=PAPER,
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan),
        lower=lower_1f1b,
        apart="weight",
        in_flight=then_waiting(_in_flight.clocked()),
    )
)
def after_1f1b(shape: Shape, *, steps: int) -> Order:
    """Order forwards and input gradients as 1F1B; what W reads is kept for all m microbatches.

    The variant of the paper whose weight gradients fill idle time in the memory of 1F1B is `zb_h1`.
    """
    return split_order(one_f_one_b.order(shape, steps=steps), at_the_end)
