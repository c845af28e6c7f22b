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
from explorer.schedules.needs import Least
from explorer.schedules.pipelines import FloatArray, InFlight, IntArray, Pipelines, busy, with_path
from explorer.schedules.placements import BIDIRECTIONAL, Grid, Placement

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
    """Return the (P, N) spans: the work, in which pairs hide collectives behind the rest of it, or that
    behind collectives; one microbatch's way through all stages and back; and the ways to a lane and from it,
    with its work between.

    Rank r of R runs all but r + 1 weight gradients before its last input gradient, which those of the ranks
    before it follow, as their forwards came before its first. Of the M microbatches of a place M - R are
    `paired`.
    """
    gradient = np.minimum(of.backward_s, of.input_grad_s)
    once = of.forward_s + np.minimum(of.backward_s, of.input_grad_s + of.weight_grad_s)
    ranks, each = len(once) // 2, of.microbatches / of.grid.copies
    pairs = paired(of.grid, of.microbatches)
    ways = (of.forward_s + gradient)[: ranks - 1] + 2 * of.transfer_s[: ranks - 1]
    fill = np.concatenate([np.zeros((1, of.size)), np.cumsum(ways, axis=0)])
    found = np.empty((of.grid.positions, of.size))
    paths = np.zeros((of.grid.copies, of.size))
    for position, ((near, copy), (far, _)) in enumerate(of.held):
        both = once[near] + once[far]
        comm = 0.0 if of.comm_s is None else of.comm_s[near] + of.comm_s[far]
        found[position] = each * both - pairs * np.clip(both - comm, 0.0, comm)
        later = (near + 1) * np.maximum(of.weight_grad_s[near], of.weight_grad_s[far])
        np.maximum(paths[copy], fill[near] + found[position] - later, out=paths[copy])
    alone = (of.forward_s + gradient).sum(axis=0) + 2 * of.transfer_s.sum(axis=0)
    for copy, path in enumerate(np.maximum(paths, alone)):
        with_path(found, path, of.placement.position(0, copy, of.grid))
    return found


def paired(grid: Grid, microbatches: FloatArray) -> FloatArray:
    """Return the (N,) microbatches of a stage of which not both halves are alone."""
    ranks = grid.positions * grid.chunks / 2
    return np.maximum(0.0, microbatches / grid.copies - ranks)


def before_backwards(
    placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return the moments of a lane: before its first backward, and beside its first pair."""
    held, ranks = placement.held(grid), placement.stages(grid) // 2
    near = np.array([held[position][0][0] for position in at])[:, None]
    saved = np.stack([2.0 * ranks - near - 1, near + 1.0], axis=1)
    most = microbatches / grid.copies
    beside = saved + np.array([[1.0], [0.0]])
    return (
        InFlight(np.minimum(saved, most), again=1), InFlight(np.minimum(beside, most), again=1, sure=False)
    )  # fmt: skip


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
        paired=paired,
        in_flight=before_backwards,
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
