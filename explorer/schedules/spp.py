"""SPP: the list scheduler PE, which orders microbatches on stages and on the wires between them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from explorer.actions import Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._assumed_costs import Caps, costs_of
from explorer.schedules._bounds import one_way
from explorer.schedules._common import LaneOrders, each_step_at_once
from explorer.schedules._list_scheduler import list_schedule
from explorer.schedules.pipelines import FloatArray, InFlight, IntArray, one_of_each
from explorer.schedules.placements import LINE, Grid, Placement


def makespan(of: Pipeline) -> float | None:
    """Return (m + p - 1)(F + B), as 1F1B; None for several chunks."""
    return (of.m + of.p - 1) * of.round_s if of.chunks == 1 else None


def moments(placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray) -> tuple[InFlight, ...]:
    """Return one microbatch for sure, and as a guess what runs ahead until the first gradient is back.

    With B = 2 F the first gradient comes back after 3 (p - r) forwards of position r.
    """
    (sure,) = one_of_each(placement, grid, microbatches, at)
    ahead = np.minimum(3.0 * (grid.positions - at)[:, None], microbatches)
    return (sure, InFlight(np.maximum(sure.saved, ahead[:, None] + 0 * sure.saved), again=0, sure=False))


@SCHEDULES.add(
    Schedule(
        name="spp",
        title="List schedule of microbatches on stages and wires, whatever is ready and deepest first",
        paper="Efficient Pipeline Planning for Expedited Distributed DNN Training (Luo et al., 2022), PE",
        placement=LINE,
        for_dags=True,
        reads=("seconds", "transfers", "memory"),
        closed_form=ClosedForm(makespan=makespan),
        lower=one_way,
        split=False,
        in_flight=moments,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run on every stage and wire, as soon as it is free, the block that has come furthest.

    A microbatch passes 4 p - 2 blocks, forwards and backwards of p stages and a transfer before each but the
    first: a wire is a stage of its own, whose blocks go in the order in which they were made. Backwards come
    before forwards. Nothing waits on purpose, so that a stage runs ahead until gradients return, or until
    the devices' memory (where the shape says it) is full.
    """
    costs = replace(costs_of(shape, split=False), wires=True)
    caps = (
        Caps(held=shape.activation_bytes, room=shape.memory_cap_bytes) if shape.memory_cap_bytes else Caps()
    )

    def make(step: int) -> LaneOrders:
        return list_schedule(shape, costs, caps=caps, step=step).lanes

    return Order(lanes=each_step_at_once(shape, steps, make), steps=steps)
