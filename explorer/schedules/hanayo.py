"""Hanayo: stages go back and forth over the lanes in waves, as Chimera's do, without a second copy."""

from __future__ import annotations

import numpy as np

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._assumed_costs import Caps, Costs, costs_of
from explorer.schedules._bounds import one_way
from explorer.schedules._common import LaneOrders, each_step_at_once
from explorer.schedules._in_flight import waves
from explorer.schedules._list_scheduler import list_schedule
from explorer.schedules.needs import positions_of
from explorer.schedules.pipelines import FloatArray, Pipelines, busy, with_path
from explorer.schedules.placements import SNAKE


def makespan(of: Pipeline) -> float | None:
    """Return (m v + p - 1)(F + B) for v = 2 W chunks, if F = B and m is a multiple of p: bubble (p - 1)/(v
    m).
    """
    if of.forward_s != of.backward_s or of.m % of.p:
        return None
    return (of.m * of.chunks + of.p - 1) * of.round_s


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses of the spans, fitted to even pipelines of 2 to 8 positions.

    Up to m = p a bubble of 2 (p - 1) max(F, B). Beyond, units block each other where F and B differ, by
    2 (1 - 1/p) |B - F| for every microbatch; units that m does not fill cost half of what they lack.
    """
    m, p, v = of.microbatches, of.grid.positions, of.grid.chunks
    forward, backward = of.forward_s.mean(axis=0), of.backward_s.mean(axis=0)
    x = of.longest_transfer_s
    whole = np.maximum(0, -(-m // p) * p - m) * v * (forward + backward) / 2
    short = 2 * (p - 1) * np.maximum(forward, backward)
    long = 2 * (p - 1) * forward + 2 * (1 - 1 / p) * m * np.abs(backward - forward) + whole
    wires = ((2 * v * (1 - 1 / p) - 2 / p) * m + 2 * (p - 1)) * x
    bubble = np.where(m > p, long, short) + wires
    return with_path(lower, busy(of).max(axis=0) + bubble)


@SCHEDULES.add(
    Schedule(
        name="hanayo",
        title="Waves: 2 W chunks a lane there and back, for W waves",
        paper="Hanayo (Liu et al., 2023)",
        placement=SNAKE,
        needs=Needs(copies=(1,), placed=True, equal_microbatches=True, chunk_multiple=2),
        reads=("seconds", "transfers"),
        closed_form=ClosedForm(makespan=makespan),
        lower=one_way,
        split=False,
        estimate=estimate,
        in_flight=waves,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Prefer on every lane a backward that can run, then the forward of the deepest stage.

    A lane holds at most p microbatches of each of its chunks together. When a wave turns round, the next
    stage is on the same lane, so nothing is sent. The clock counts the stages' seconds up to m = p, where the
    paper stops; for more microbatches it counts every action as one slot, since by seconds (p = 4, W = 2, B =
    2 F, m = 16) the units block each other: a bubble of 25 % for 13 %.
    """
    positions = len(positions_of(shape))
    chunks = shape.stages // positions
    one, none = (1.0,) * shape.stages, (0.0,) * shape.stages
    caps = Caps(held=one, room=(float(positions * chunks),) * len(shape.lanes))
    slots = Costs(forward_s=one, input_grad_s=one, weight_grad_s=none)
    costs = slots if shape.microbatches[0] > positions else costs_of(shape, split=False)

    def make(step: int) -> LaneOrders:
        return list_schedule(shape, costs, caps=caps, step=step).lanes

    lanes = each_step_at_once(shape, steps, make)
    return Order(lanes=lanes, steps=steps, options={"chunks": chunks})
