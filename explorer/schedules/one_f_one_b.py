"""1F1B with a flush: forwards until the first gradient is back, then one forward, one backward."""

from __future__ import annotations

from explorer.actions import Order, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._clock import clock_of
from explorer.schedules._clocked_lanes import clocked_lanes
from explorer.schedules._in_flight import clocked
from explorer.schedules._paths import one_forward_one_backward
from explorer.schedules.placements import LINE

OPTIONS = (Option(name="blocking", default=False, help="stages wait for what they send and receive"),)


def makespan(of: Pipeline) -> float | None:
    """Return (m + p - 1)(F + B), as GPipe; the gain is memory. None for several chunks."""
    return (of.m + of.p - 1) * of.round_s if of.chunks == 1 else None


@SCHEDULES.add(
    Schedule(
        name="1f1b",
        title="Early backward, flush at the end of the step (PipeDream-Flush, DAPPLE)",
        paper="DAPPLE (Fan et al., 2021); PipeDream-2BW (Narayanan et al., 2021)",
        options=OPTIONS,
        torch_name="1F1B",
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan),
        lower=one_forward_one_backward,
        split=False,
        in_flight=clocked(),
    )
)
def order(shape: Shape, *, steps: int, blocking: bool = False) -> Order:
    """Keep at most 1 + (stages on the longest path behind) microbatches in flight on a stage.

    Any stage DAG (GraphPipe: depth counts, not the number of stages), microbatch sizes that differ
    between stages, and any number of stages on a lane: see `_clock`. With `blocking` transfers the exchange
    of activations and gradients between two neighbours takes time of both (Narayanan et al., 2021, whose
    stages send and receive in one call).
    """
    return Order(lanes=clocked_lanes(shape, clock_of(shape), steps), steps=steps, blocking=blocking)
