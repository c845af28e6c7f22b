"""DualPipe: two pipelines in opposite directions, whose forwards and backwards run as one action."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from explorer.actions import (
    BACKWARD,
    FORWARD,
    INPUT_GRAD,
    OVERLAP,
    WEIGHT_GRAD,
    Action,
    Actions,
    Order,
    Place,
    Shape,
)
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._common import each_step, own, updates
from explorer.schedules._in_flight import one_copy
from explorer.schedules.needs import Least
from explorer.schedules.pipelines import FloatArray, Pipelines, busy, with_path
from explorer.schedules.placements import BIDIRECTIONAL

PAPER = "DeepSeek-V3 Technical Report (DeepSeek-AI, 2024)"
Phase = tuple[int, tuple[str, ...]]
"""How many times, and what: an op and the number of the place (0 or 1) that it is of, a pair joined by a
plus; W is of whichever input gradient has waited longest."""


def phases(rank: int, ranks: int, microbatches: int) -> tuple[Phase, ...]:
    """Return what a lane runs that holds two places: at 0 microbatches come in at `rank`, at 1 they return.

    Args:
        rank: stages before it on the way of place 0.
        ranks: stages of that way.
        microbatches: of each place.
    """
    behind, here = ranks - 1 - rank, rank + 1
    ends = ("B1", "B0") * here
    return (
        (2 * behind, ("F0",)),
        (here, ("F0", "F1")),
        (behind, ("I1", "W", "F1")),
        # the last rank need not wait for both in its first pair
        (1, ("F0", "B1") if not behind else ("F0+B1",)),
        (1, ("F1+B0",)),
        (microbatches - 2 * ranks + here - 1, ("F0+B1", "F1+B0")),
        (behind, ("B1", "F1+B0")),
        (1, (*ends[:here], *(word.replace("B", "I") for word in ends[here:]))),
        (behind, ("W", "I0")),
        (here, ("W",)),
    )


def in_phases(
    found: tuple[Phase, ...], places: tuple[Place, Place], first: tuple[int, int]
) -> Iterator[Action]:
    """Yield the actions of phases, each place's microbatches in order from its first."""
    done = {(op, at): first[at] for op in (FORWARD, BACKWARD) for at in (0, 1)}
    waiting: list[Action] = []

    def act(word: str) -> Action:
        if word == WEIGHT_GRAD:
            return waiting.pop(0)._replace(op=WEIGHT_GRAD)
        op, at = word[0], int(word[1])
        key = (FORWARD if op == FORWARD else BACKWARD, at)
        made = Action(op, places[at].stage, done[key], copy=places[at].copy)
        done[key] += 1
        if op == INPUT_GRAD:
            waiting.append(made)
        return made

    for times, words in found:
        for word in words * times:
            forward, _, backward = word.partition("+")
            made = act(forward)
            yield made
            if backward:
                yield made._replace(op=OVERLAP)
                yield act(backward)


def makespan(of: Pipeline) -> float | None:
    """Return the makespan if a forward takes as long as an input gradient: m (F + B) and a bubble.

    The bubble is the authors' (p/2 - 1)(F&B + B - 3W), where F&B = F + B hides nothing: transfers are free
    and stages have no collectives.
    """
    if of.chunks > 1 or of.forward_s != of.input_grad_s:
        return None
    bubble = (of.p / 2 - 1) * (of.round_s + of.backward_s - 3 * of.weight_grad_s)
    return of.m * of.round_s + bubble


def spans(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: the work, of which pairs may hide collectives, but not more than half; and one
    microbatch's way through all stages and back.
    """
    gradient = np.minimum(of.backward_s, of.input_grad_s)
    alone = (of.forward_s + gradient).sum(axis=0) + 2 * of.transfer_s.sum(axis=0)
    least = np.minimum(of.backward_s, of.input_grad_s + of.weight_grad_s)
    work = of.work_s(of.forward_s + least)
    hidden = 0.0 if of.comm_s is None else np.minimum(of.work_s(of.comm_s), work / 2)
    return with_path(work - hidden, alone)


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: all the work, if nothing is hidden, the authors' bubble (less where input
    gradients are the longer), and transfers, which no pair hides: it begins when both of its inputs are
    there.
    """
    chunks, m = of.grid.chunks, of.microbatches
    half = of.grid.positions * chunks / 2
    forward, gradient, weight = (
        part.mean(axis=0) for part in (of.forward_s, of.backward_s - of.weight_grad_s, of.weight_grad_s)
    )
    bubble = np.maximum((half - 1) * (forward + 2 * gradient - weight), 0.0)
    bubble -= np.minimum(np.maximum((half - 1) * (gradient - forward), 0.0), forward)
    wires = m * (2 - 1 / half if chunks == 1 else 4 - 4 / half)
    wires += max(2 * half - 5, -1) if chunks == 1 else half - 5
    x = of.longest_transfer_s
    return np.asarray(np.maximum(lower, busy(of).max(axis=0) + bubble + wires * x))


TWICE = Least(
    text="twice as many microbatches as positions", of=lambda shape: (2 * shape.stages,) * shape.stages
)


@SCHEDULES.add(
    Schedule(
        name="dualpipe",
        title="Bidirectional, forwards and backwards of two microbatches as one action",
        paper=PAPER,
        placement=BIDIRECTIONAL,
        needs=Needs(
            copies=(2,),
            placed=True,
            equal_microbatches=True,
            split_microbatches=True,
            stage_multiple=2,
            most_chunks=1,
            least=TWICE,
        ),
        closed_form=ClosedForm(makespan=makespan),
        lower=spans,
        estimate=estimate,
        hides=True,
        in_flight=one_copy,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Run each half of the lanes as DualPipeV does, the two copies as the way there and the way back.

    Overlapped pairs take the longest of the work of both, the collectives of both and either alone, so that
    the all-to-all of experts passes beside the work of the other microbatch. A lane holds p + 1 microbatches
    of a stage at most; a first half of the backwards that end the step is whole, the second split.
    """
    half = shape.stages // 2

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        if not places:
            return Actions.of(())
        near, far = sorted(places, key=lambda place: (place.stage >= half, place.stage))
        numbers = [own(shape, place, step) for place in (near, far)]
        if not shape.training:
            return Actions.of(
                Action(FORWARD, p.stage, n, copy=p.copy)
                for p, r in zip((near, far), numbers, strict=True)
                for n in r
            )
        found = phases(near.stage, half, len(numbers[0]))
        made = in_phases(found, (near, far), (numbers[0].start, numbers[1].start))
        return Actions.joined([made, updates(shape, places, step)])

    return Order(lanes=each_step(shape, steps, lane), steps=steps)
