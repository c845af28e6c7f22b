"""BitPipe: two pipelines in opposite directions, each there and back over the lanes."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._assumed_costs import Caps, Costs
from explorer.schedules._bounds import opposed
from explorer.schedules._common import LaneOrders, each_step_at_once
from explorer.schedules._in_flight import turned_round
from explorer.schedules._list_scheduler import list_schedule
from explorer.schedules.needs import positions_of
from explorer.schedules.pipelines import FloatArray, Pipelines, busy
from explorer.schedules.placements import BIDIRECTIONAL_VEE


def makespan(of: Pipeline) -> float | None:
    """Return 2 m (F + B) + (p - 2) max(F, B) + l (F + B + min(F, B)), if l = 0 microbatches lack to m = p,
    or F = B and l to a multiple of p.

    With the seconds of both chunks together as F and B, the paper's (D - 2)(F + B)/4 where they are equal.
    """
    lack = -of.m % of.p
    if of.forward_s != of.backward_s and of.m > of.p:
        return None
    return float(of.m * of.chunks * of.round_s + _idle_s(of.p, lack, of.forward_s, of.backward_s))


def _idle_s(positions: int, lack: Any, forward_s: Any, backward_s: Any) -> Any:
    """Return the idle seconds of one unit of p microbatches, of which some lack."""
    longer, shorter = np.maximum(forward_s, backward_s), np.minimum(forward_s, backward_s)
    return (positions - 2) * longer + lack * (forward_s + backward_s + shorter)


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: the closed form of an even pipeline, transfers, and what every further unit
    of p microbatches idles where B and F differ: in its steady part lanes wait for the longer of the two.
    """
    p, m = of.grid.positions, of.microbatches
    forward, backward = of.forward_s.mean(axis=0), of.backward_s.mean(axis=0)
    units = np.ceil(m / p)
    again = np.maximum((units - 1) * (p - 2) - 1, 0)
    bubble = _idle_s(p, units * p - m, forward, backward)
    bubble += again * np.maximum(backward - forward, (forward - backward) / 2)
    wires = (5 * p - 7 + (units - 1) * (4 * p - 5)) * of.longest_transfer_s
    return np.asarray(np.maximum(lower, busy(of).max(axis=0) + bubble + wires))


@SCHEDULES.add(
    Schedule(
        name="bitpipe",
        title="Bidirectional and interleaved: two copies, each there and back",
        paper="BitPipe (Wu et al., 2024)",
        placement=BIDIRECTIONAL_VEE,
        needs=Needs(
            copies=(2,),
            placed=True,
            equal_microbatches=True,
            chunk_multiple=2,
            most_chunks=2,
            stage_multiple=4,
        ),
        closed_form=ClosedForm(makespan=makespan),
        lower=opposed,
        split=False,
        estimate=estimate,
        in_flight=turned_round,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Prefer on every lane a backward that can run, then the forward of the deepest stage.

    Every action counts as one slot, whatever it takes, so that both directions keep step: with B = 2F and D =
    8 that idles for 12 of 60 forwards, as in the paper, where a clock of seconds (forwards run
    ahead into the slots of backwards) idles for 13 of 61. A lane holds at most p microbatches of all its
    chunks together.
    """
    positions = len(positions_of(shape))
    chunks = shape.stages // positions
    one = (1.0,) * shape.stages
    caps = Caps(held=one, room=(float(positions * chunks),) * len(shape.lanes))
    slots = Costs(forward_s=one, input_grad_s=one, weight_grad_s=(0.0,) * shape.stages)

    def make(step: int) -> LaneOrders:
        return list_schedule(shape, slots, caps=caps, step=step).lanes

    return Order(lanes=each_step_at_once(shape, steps, make), steps=steps, options={"chunks": chunks})
