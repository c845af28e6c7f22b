"""Interleaved 1F1B: every lane holds several chunks, so that a microbatch passes it more than once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from explorer.actions import BACKWARD, FORWARD, OP_CODE, Actions, IntArray, Order, Place, Shape
from explorer.base.registry import Option
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._common import each_step, numbers_of, turns, updates
from explorer.schedules._in_flight import all_at_once, in_rounds
from explorer.schedules._paths import rounds_of_chunks
from explorer.schedules.needs import PER_POSITION, Multiple, positions_of
from explorer.schedules.pipelines import BoolArray, FloatArray, InFlight, Pipelines
from explorer.schedules.placements import LOOP, Grid, Placement

OPTIONS = (
    Option(name="blocking", default=False, help="stages wait for what they send and receive, once a pair"),
)
NEEDS = Needs(
    copies=(1,),
    placed=True,
    equal_microbatches=True,
    equal_turns=True,
    multiple=Multiple(
        text="microbatches in equal rounds (a multiple of p will do)",
        of=lambda size: rounds(size.microbatches, size.positions),
    ),
)


def rounds(microbatches: int, positions: int) -> int:
    """Return the number of rounds in which microbatches pass: as many as keep every position busy."""
    return max(1, microbatches // positions)


def makespan(of: Pipeline) -> float | None:
    """Return (m v + p - 1)(F + B) for m a multiple of p: bubble (p - 1)/(v m) of the ideal."""
    return (of.m * of.chunks + of.p - 1) * of.round_s if of.m % of.p == 0 else None


def spans(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans: of paths, and mostly the longest."""
    m = of.microbatches
    return rounds_of_chunks(of, m / np.maximum(1, m // of.grid.positions))


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: the bounds, and what long transfers add while the pipeline is steady.

    Neighbours differ by two forwards under way, so a way from position i down to r and back comes round
    every 2 (r - i) + 1 chunks; one around all positions every p.
    """
    p, v, m = of.grid.positions, of.grid.chunks, of.microbatches
    if p == 1 or not of.transfer_s.any():
        return lower
    each: FloatArray = of.once_s.reshape(v, p, -1).mean(axis=0)
    across = np.concatenate([of.transfer_s, of.transfer_s[:1]]).reshape(v, p, -1)[:, :-1].mean(axis=0)
    slowest = each.max(axis=0)
    pairs = (each[1:] + each[:-1] + 2 * across).max(axis=0) / 3
    whole = (each.sum(axis=0) + 2 * across.sum(axis=0)) / (2 * p - 1)
    longer = np.maximum(np.maximum(pairs, whole), slowest)
    for part in (of.forward_s, of.backward_s):
        np.maximum(longer, (part.sum(axis=0) + of.transfer_s.sum(axis=0)) / (p * v), out=longer)
    return np.asarray(lower + m * v * (longer - slowest))


def stays(grid: Grid, microbatches: FloatArray) -> BoolArray:
    """Return whether there is one round, of several microbatches: only then do a forward and a backward that
    alternate belong to one chunk.
    """
    one_round = microbatches // grid.positions <= 1
    return one_round & (microbatches > 1) & (grid.chunks > 1)


def held(placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray) -> tuple[InFlight, ...]:
    """Return the moments with transfers that block: all forwards come first if m is p."""
    (before,) = in_rounds(placement, grid, microbatches, at)
    (whole,) = all_at_once(placement, grid, microbatches, at)
    saved = np.where(microbatches == grid.positions, whole.saved, before.saved)
    return (before._replace(saved=saved),)


def fields(options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what transfers that block change."""
    if not options["blocking"]:
        return {}
    return {"needs": replace(NEEDS, multiple=PER_POSITION), "in_flight": held}


@SCHEDULES.add(
    Schedule(
        name="interleaved_1f1b",
        title="1F1B over several chunks per lane",
        paper="Megatron-LM (Narayanan et al., 2021)",
        options=OPTIONS,
        torch_name="Interleaved1F1B",
        placement=LOOP,
        needs=NEEDS,
        closed_form=ClosedForm(makespan=makespan),
        lower=spans,
        split=False,
        estimate=estimate,
        in_flight=in_rounds,
        stays=stays,
        under=fields,
    )
)
def order(shape: Shape, *, steps: int, blocking: bool = False) -> Order:
    """Place stages r, r + p, ... on rank r of p; microbatches pass in rounds, chunk after chunk.

    With v chunks and rounds of q microbatches the k-th forward is of chunk (k mod q v) div q and of
    microbatch (k div q v) q + k mod q; backwards take the chunks from the last. Rank r runs
    2 (p - r - 1) + (v - 1) q forwards ahead. Megatron's q is p, with m a multiple of p; as in torch, m
    may also be any multiple of m div p (or less than p): then q = m / max(1, m div p).

    A stage DAG runs as the chain of its stage numbers, which keeps every dependency.

    With `blocking` transfers neighbours exchange after every forward that warms up, after every pair of a
    forward and a backward, and after every backward that is left, as Megatron-LM does where it does not
    overlap them: an exchange after each action of a pair would never end. As there, m is a multiple of p,
    and all forwards come first if it is p, since pairs would wait for each other in a circle.
    """
    ranks = len(positions_of(shape))
    first = blocking and shape.microbatches[0] // turns(shape, 0) == ranks

    def both(forwards: Actions, backwards: Actions, rank: int, later: int) -> Actions:
        return alternate(forwards, backwards, len(forwards) if first else 2 * (ranks - rank - 1) + later)

    found = in_rounds_of_chunks(shape, steps, BACKWARD, both)
    return replace(found, blocking=blocking, paired=blocking and not first)


def in_rounds_of_chunks(
    shape: Shape, steps: int, backward: str, both: Callable[[Actions, Actions, int, int], Actions]
) -> Order:
    """Return the order whose lanes pass microbatches in rounds, chunk after chunk, forward and backward.

    Args:
        shape: the pipeline.
        steps: number of training steps.
        backward: what brings gradients back: B, or I.
        both: function from a lane's forwards, its backwards, its rank, and the (v - 1) q forwards of all but
            its last chunk in a round, to its actions.
    """
    ranks = len(positions_of(shape))
    microbatches = shape.microbatches[0] // turns(shape, 0)
    per_round = microbatches // rounds(microbatches, ranks)

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        if not places:
            return Actions.of(())
        stages = [place.stage for place in places]
        numbers = numbers_of(shape, places[0], step)
        actions = passes(FORWARD, stages, numbers, per_round)
        if shape.training:
            backwards = passes(backward, stages[::-1], numbers, per_round)
            actions = both(actions, backwards, stages[0], (len(stages) - 1) * per_round)
        return Actions.joined([actions, updates(shape, places, step)])

    chunks = shape.stages // ranks
    return Order(lanes=each_step(shape, steps, lane), steps=steps, options={"chunks": chunks})


def passes(op: str, stages: Sequence[int], numbers: IntArray, per_round: int) -> Actions:
    """List the rounds of microbatches through the chunks in the given order."""
    chunk = np.repeat(np.arange(len(stages)), len(numbers))
    number = np.tile(np.arange(len(numbers)), len(stages))
    order = np.lexsort((number, chunk, number // per_round))
    stage = np.array(stages, dtype=np.int64)[chunk[order]]
    return Actions.spread(OP_CODE[op], stage, numbers[number[order]])


def alternate(forwards: Actions, backwards: Actions, ahead: int) -> Actions:
    """Warm up, then alternate one forward and one backward, then run the backwards that are left."""
    count = np.arange(len(forwards))
    both = Actions.joined([forwards, backwards]).columns
    return Actions(both[:, np.argsort(np.concatenate([2 * (count - ahead), 2 * count + 1]), kind="stable")])
