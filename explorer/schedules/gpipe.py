"""GPipe: all forwards of a step, then all backwards."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.actions import BACKWARD, FORWARD, Action, Order, Place, Shape
from explorer.schedules import SCHEDULES
from explorer.schedules._common import each_step, new_action, own, updates


def makespan(p: int, m: int, forward_s: float, backward_s: float, chunks: int = 1) -> float:
    """(m + p - 1)(F + B); with c chunks each of the first c - 1 rounds takes max(m, p) slots."""
    return ((chunks - 1) * max(m, p) + m + p - 1) * (forward_s + backward_s)


@SCHEDULES.add(
    "gpipe",
    title="All forwards, then all backwards",
    paper="GPipe (Huang et al., 2019)",
    flush=True,
    torch_name="GPipe",
    placement="line",
    closed_form=("exact", makespan),
)
def order(shape: Shape, *, steps: int) -> Order:
    """Stage by stage through the step, and back; a lane with several stages runs breadth-first.

    m microbatches in flight on every stage; bubble (p - 1)/(m + p - 1).
    """

    def lane(places: tuple[Place, ...], step: int) -> Iterable[Action]:
        actions = [
            new_action((FORWARD, place.stage, n, 1, place.copy, 0))
            for place in places
            for n in own(shape, place, step)
        ]
        if shape.training:
            actions += [
                new_action((BACKWARD, place.stage, n, 1, place.copy, 0))
                for place in sorted(places, key=lambda place: -place.stage)
                for n in own(shape, place, step)
            ]
        return [*actions, *updates(shape, places, step)]

    return Order(lanes=each_step(shape, steps, lane), steps=steps)
