"""Interleaved zero bubble: several chunks a lane with split backwards, half of interleaved 1F1B's warm-up."""

from __future__ import annotations

import numpy as np

from explorer.actions import INPUT_GRAD, OP_CODE, WEIGHT_GRAD, Actions, Order, Shape
from explorer.schedules import SCHEDULES, ClosedForm, Pipeline, Schedule
from explorer.schedules._bounds import one_way_split
from explorer.schedules._in_flight import after_forwards
from explorer.schedules.interleaved import NEEDS, alternate, in_rounds_of_chunks
from explorer.schedules.needs import positions_of
from explorer.schedules.pipelines import FloatArray, InFlight, IntArray, Pipelines, with_path
from explorer.schedules.placements import LOOP, Grid, Placement


def makespan(of: Pipeline) -> float | None:
    """Return m v (F + I + W) + (p - 1) max(F, I, F + I - W), if m is a multiple of p."""
    if of.chunks < 2 or of.m % of.p:
        return None
    longest = max(of.forward_s, of.input_grad_s, of.forward_s + of.input_grad_s - of.weight_grad_s)
    return of.m * of.chunks * of.round_s + (of.p - 1) * longest


def estimate(of: Pipelines, lower: FloatArray) -> FloatArray:
    """Return the (P, N) guesses: work and the longest wait of equal stages, found on such pipelines."""
    p, v = of.grid.positions, of.grid.chunks
    forward, inputs, weights = (
        part.mean(axis=0) for part in (of.forward_s, of.input_grad_s, of.weight_grad_s)
    )
    x = of.longest_transfer_s
    short = (v - 1) * np.maximum(p - of.microbatches, 0)
    both = (p - 1) * (forward + inputs - weights) + short * (forward + inputs) + ((v + 3) * p - 4) * x
    back = (p - 1) * inputs + short * forward + ((v + 1) * p - 2) * x
    return with_path(lower, of.work_s(of.once_s).max(axis=0) + np.maximum(both, back))


def in_flight(
    _placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return the moment before a position's first I, after p - r + (v - 1) q forwards."""
    p, v, m = grid.positions, grid.chunks, microbatches
    per_round = m / np.maximum(1, m // p)
    return (InFlight(after_forwards(p - at[:, None] + (v - 1) * per_round, v, m, per_round), again=v - 1),)


@SCHEDULES.add(
    Schedule(
        name="interleaved_zb",
        title="Interleaved 1F1B with split backward: weight gradients fill its drain",
        paper="Zero Bubble Pipeline Parallelism (Qi et al., 2024), as PyTorch runs it",
        torch_name="InterleavedZeroBubble",
        placement=LOOP,
        needs=NEEDS,
        closed_form=ClosedForm(makespan=makespan),
        lower=one_way_split,
        estimate=estimate,
        in_flight=in_flight,
    )
)
def order(shape: Shape, *, steps: int) -> Order:
    """Let microbatches pass in the rounds of `interleaved_1f1b`, with half as many forwards ahead.

    Rank r of p runs p - r - 1 + (v - 1) q forwards ahead, of v chunks in rounds of q microbatches, since an
    input gradient comes back in half the time of a whole backward; then F, I and the W of r turns before. So
    every lane keeps at most (v - 1) q + p chunks, from F to W.
    """
    ranks = len(positions_of(shape))

    def both(forwards: Actions, gradients: Actions, rank: int, later: int) -> Actions:
        return behind(alternate(forwards, gradients, ranks - rank - 1 + later), rank)

    return in_rounds_of_chunks(shape, steps, INPUT_GRAD, both)


def behind(actions: Actions, lag: int) -> Actions:
    """Return the actions of a lane with the weight gradient of every I behind so many more of its I."""
    columns = actions.columns
    at = np.flatnonzero(columns[0] == OP_CODE[INPUT_GRAD])
    weights = columns[:, at]
    weights[0] = OP_CODE[WEIGHT_GRAD]
    moments = np.concatenate([at[lag:], np.full(min(lag, len(at)), len(actions))])
    order = np.argsort(np.concatenate([np.arange(len(actions)), moments + 0.5]), kind="stable")
    return Actions(np.concatenate([columns, weights], axis=1)[:, order])
