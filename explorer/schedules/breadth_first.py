"""Breadth-first: all microbatches through one chunk of every lane, then through the next."""

from __future__ import annotations

import numpy as np

from explorer.actions import BACKWARD, FORWARD, OP_CODE, Actions, Order, Place, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._common import each_step, numbers_of, updates
from explorer.schedules._in_flight import all_at_once
from explorer.schedules._paths import breadth_first, rounds_of_chunks
from explorer.schedules.needs import positions_of
from explorer.schedules.pipelines import FloatArray, Pipelines, chunk_by_chunk, with_path
from explorer.schedules.placements import LOOP


def makespan(of: Pipeline) -> float | None:
    """Return (m v + p - 1)(F + B) for m >= p: bubble (p - 1)/(v m) of the ideal, as interleaved 1F1B.

    With fewer microbatches each of the first v - 1 rounds takes p slots.
    """
    slots = (of.chunks - 1) * max(of.m, of.p) + of.m + of.p - 1
    return slots * of.round_s


def spans(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: of paths, and mostly the longest."""
    return rounds_of_chunks(of, of.microbatches)


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: the bounds, and all rounds through the slowest position and wire."""
    return with_path(lower, breadth_first(of, of.backward_s))


@SCHEDULES.add(
    Schedule(
        name="breadth_first",
        title="All microbatches chunk by chunk: sharded weights are gathered once a chunk",
        paper="Breadth-First Pipeline Parallelism (Lamy-Poirier, 2023)",
        torch_name="LoopedBFS",
        placement=LOOP,
        needs=Needs(copies=(1,), placed=True, equal_microbatches=True),
        closed_form=ClosedForm(makespan=makespan),
        lower=spans,
        split=False,
        estimate=estimate,
        apart="backward",
        in_flight=all_at_once,
        stays=chunk_by_chunk,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run stages r, r + p, ... of rank r of p forward one after the other, then backward from the last.

    A chunk's weights are needed in one stretch of its forwards and one of its backwards, and its gradients
    are whole before those of the next one begin: ZeRO 2 and 3 gather and reduce once a chunk, beside the work
    on others. All m microbatches of every chunk are in flight. Backwards take the last microbatch
    first, as torch does: what was saved last is freed first.
    """

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        parts = [_all(FORWARD, shape, place, step) for place in places]
        if shape.training:
            parts += [_all(BACKWARD, shape, place, step) for place in reversed(places)]
        return Actions.joined([*parts, updates(shape, places, step)])

    chunks = shape.stages // len(positions_of(shape))
    return Order(lanes=each_step(shape, steps, lane), steps=steps, options={"chunks": chunks})


def _all(op: str, shape: Shape, place: Place, step: int) -> Actions:
    """Run all of a step's microbatches of one stage."""
    numbers = numbers_of(shape, place, step)
    return Actions.spread(OP_CODE[op], place.stage, np.flip(numbers) if op == BACKWARD else numbers)
