"""ZB-V: two chunks a lane, there and back, so that split backwards leave no bubble in the memory of 1F1B."""

from __future__ import annotations

import numpy as np

from explorer.actions import FORWARD, INPUT_GRAD, OP_CODE, WEIGHT_GRAD, Actions, Order, Place, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Needs, Pipeline, Schedule
from explorer.schedules._bounds import one_way_split
from explorer.schedules._common import each_step, numbers_of, updates
from explorer.schedules.needs import positions_of
from explorer.schedules.pipelines import FloatArray, InFlight, IntArray, Pipelines, with_path
from explorer.schedules.placements import VEE, Grid, Placement

NEEDS = Needs(
    copies=(1,),
    placed=True,
    equal_microbatches=True,
    equal_turns=True,
    chunk_multiple=2,
    most_chunks=2,
)
"""What an order there and back asks of a shape."""

_OPS = {letter: OP_CODE[op] for letter, op in (("F", FORWARD), ("I", INPUT_GRAD), ("W", WEIGHT_GRAD))}


def makespan(of: Pipeline) -> float | None:
    """Return (p - 1) F until the last lane begins, and 2 m (F + I + W) without a gap, if F = I = W."""
    even = of.forward_s == of.input_grad_s == of.weight_grad_s
    if of.chunks != VEE.chunks or of.m < 2 * of.p - 1 or not even:
        return None
    return 2 * of.m * of.round_s + (of.p - 1) * of.forward_s


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: work and the longest of the waits of equal stages, found on such pipelines.

    From 2 p - 1 microbatches on it waits for input gradients longer than F or W, for forwards longer than I
    and W, and for transfers; with fewer also for what is not there to fill the drain.
    """
    m, p = of.microbatches, of.grid.positions
    forward, inputs, weights = (
        part.mean(axis=0) for part in (of.forward_s, of.input_grad_s, of.weight_grad_s)
    )
    x = of.longest_transfer_s
    short, filled = np.maximum(p - m, 0.0), np.clip(m - p, 0.0, p - 1.0)
    around = 2 * short * forward + 2 * (p - 1) * inputs - 2 * filled * weights
    around += (4 * (p - 1) + 2 * np.maximum(filled - 1, 0)) * x
    ahead = (p - 1 + short + filled) * forward + (p - 1 + short - 2 * filled) * inputs - filled * weights
    ahead += 2 * (p - 1 + short) * x
    steady = (p - 1) * (inputs - forward) + (4 * p - 6) * x
    wait = np.maximum(np.maximum(around, ahead), np.where(filled == p - 1, steady, 0.0))
    return with_path(lower, of.work_s(of.once_s).max(axis=0) + np.maximum(wait, 0.0))


def in_flight(
    _placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return the two moments with most chunks: before the first I of the way back, and of the way there.

    Rank r of p then holds 2 p - r - 1 and r + 1 chunks, and 2 p - r and r, if there are so many.
    """
    p, m, rank = grid.positions, microbatches, at[:, None]
    there = np.minimum(2 * p - rank - 1.0, m), np.minimum(2.0 * p - rank, m)
    back = np.minimum(rank + 1.0, m), np.minimum(p, m) - np.minimum(p - rank, m)
    first, second = (np.stack(pair, axis=1) for pair in zip(there, back, strict=True))
    return (InFlight(first, again=1), InFlight(second, again=0))


def phases(rank: int, ranks: int, microbatches: int) -> str:
    """Return the ops of one lane in order, of at least 2 p - 1 microbatches; a capital is of the way there.

    Rank r of p begins with 2 (p - r) - 1 forwards there, which is as long as the first microbatch takes to
    the end and back to r. Each then runs alternately forwards of both ways, until the first gradient is here:
    from then on F, I, W there and F, I, W back, three units in the time of three. At the end input gradients
    of both ways come first, since others wait for them, and weight gradients fill what would be the drain.

    >>> phases(0, 2, 3), phases(1, 2, 3)
    ('FFFfiwfiwIWfiwIWIW', 'FfFfiwFIWfiwIiIWwW')
    """
    rounds, behind = max(microbatches, 2 * ranks - 1), ranks - rank
    return "".join(
        ops * times
        for ops, times in (
            ("F", 2 * behind - 1),
            ("fF", rank),
            ("fiw", behind),
            ("FIWfiw", rounds - ranks - behind + 1),
            ("IWfiw", behind - 1),
            ("Ii", rank),
            ("IW", behind),
            ("w", rank),
            ("W", rank),
        )
    )


@SCHEDULES.add(
    Schedule(
        name="zb_v",
        title="Split backward, chunks there and back: no bubble at F = I = W in the memory of 1F1B",
        paper="Zero Bubble Pipeline Parallelism (Qi et al., 2024), section 6",
        torch_name="ZBVZeroBubble",
        placement=VEE,
        needs=NEEDS,
        closed_form=ClosedForm(makespan=makespan),
        lower=one_way_split,
        estimate=estimate,
        in_flight=in_flight,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Repeat F, I and W of one chunk, then of the other; a lane holds at most 2 p chunks, as many bytes as
    p microbatches of 1F1B.

    The order does not depend on the seconds (`zb_auto` orders by them): with other than equal F, I and W it
    has bubbles. A stage DAG runs as the chain of its stage numbers, which keeps every dependency.
    """
    ranks = len(positions_of(shape))

    def lane(places: tuple[Place, ...], step: int) -> Actions:
        if not places:
            return Actions.of(())
        numbers = numbers_of(shape, places[0], step)
        there, back = places[0].stage, places[-1].stage
        letters = np.array(list(phases(there, ranks, len(numbers))))
        if not shape.training:
            letters = letters[np.isin(letters, ("F", "f"))]
        at = np.zeros(len(letters), dtype=np.int64)
        for letter in np.unique(letters):
            same = letters == letter
            at[same] = np.arange(same.sum())
        letters, at = letters[at < len(numbers)], at[at < len(numbers)]
        op = np.array([_OPS[letter.upper()] for letter in letters.tolist()], dtype=np.int64)
        stage = np.where(np.char.isupper(letters), there, back)
        return Actions.joined([Actions.spread(op, stage, numbers[at]), updates(shape, places, step)])

    return Order(lanes=each_step(shape, steps, lane), steps=steps, options={"chunks": VEE.chunks})
