"""GPipe: all forwards of a step, then all backwards."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.actions import BACKWARD, FORWARD, OP_CODE, Action, Actions, Order, Place, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._bounds import one_way
from explorer.schedules._common import each_step, numbers_of, updates
from explorer.schedules._in_flight import all_at_once
from explorer.schedules._paths import breadth_first
from explorer.schedules.pipelines import FloatArray, Pipelines, chunk_by_chunk, with_path
from explorer.schedules.placements import LINE


def makespan(of: Pipeline) -> float | None:
    """Return (m + p - 1)(F + B) + 2 (p - 1) t; with c chunks each of the first c - 1 rounds takes max(m, p)
    slots.

    If transfers take time, only one chunk is covered.
    """
    if of.transfer_s and of.chunks > 1:
        return None
    slots = (of.chunks - 1) * max(of.m, of.p) + of.m + of.p - 1
    return slots * of.round_s + 2 * (of.p - 1) * of.transfer_s


def spans(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans; only bounds with several stages at a position."""
    return exact(of, one_way(of)) if of.grid.chunks == 1 else one_way(of)


def exact(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) spans: exact with one stage at a position."""
    return with_path(lower, breadth_first(of, of.backward_s))


@SCHEDULES.add(
    Schedule(
        name="gpipe",
        title="All forwards, then all backwards",
        paper="GPipe (Huang et al., 2019)",
        torch_name="GPipe",
        placement=LINE,
        closed_form=ClosedForm(makespan=makespan, transfers=True),
        lower=spans,
        split=False,
        estimate=exact,
        apart="backward",
        in_flight=all_at_once,
        stays=chunk_by_chunk,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Go stage by stage through the step and back; a lane with several stages runs breadth-first.

    m microbatches in flight on every stage; bubble (p - 1)/(m + p - 1).
    """

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        parts: list[Iterable[Action]] = [_all(FORWARD, shape, place, step) for place in places]
        if shape.training:
            back = sorted(places, key=lambda place: -place.stage)
            parts += [_all(BACKWARD, shape, place, step) for place in back]
        return Actions.joined([*parts, updates(shape, places, step)])

    return Order(lanes=each_step(shape, steps, lane), steps=steps)


def _all(op: str, shape: Shape, place: Place, step: int) -> Actions:
    """Run all of a step's microbatches of one place."""
    numbers = numbers_of(shape, place, step)
    return Actions.spread(OP_CODE[op], place.stage, numbers, copy=place.copy)
