"""Longest paths through the steps of known orders, for many uneven pipelines at once.

Each formula is the length of a path that the order really has, so that it is a lower bound; it is also the
best guess where that path is the longest, as it nearly always is.

*1F1B*, stage s with w = p - s under way, is a marked graph: F_s(n) waits for F_(s-1)(n) and for B_s(n - w).
Its cycles go from a stage i down to r and back, over r - i + 1 microbatches (longer ones split into such):

    lambda_ir = [ sum over i..r (F + B) + 2 sum over i..r-1 x ] / (r - i + 1)

so that transfers cost even a steady pipeline up to 2x a microbatch. The longest path goes down to some stage
r and back, with w_r - 1 of the longest forwards on its way; from there it goes round a cycle until no forward
is left to begin another, once more down to r and back, and ends with backwards. With D(i, r) the seconds from
F of i down to r and back to B of i,

    T = D(0, r) + (w_r - 1)(max F + max B) + (m - 1 - w_i) lambda_ir + D(i, r)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from explorer.schedules._bounds import one_way, one_way_split
from explorer.schedules._clocked_paths import clocked_paths
from explorer.schedules.pipelines import FloatArray, Pipelines, with_path


def one_forward_one_backward(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans of 1F1B; with several stages at a position only bounds."""
    spans, p = one_way(of), of.grid.positions
    if of.grid.chunks > 1:
        return spans
    return with_path(spans, clocked(of, of.backward_s, None, range(p, 0, -1), [0] * p))


def steady(of: Pipelines, spans: FloatArray) -> FloatArray:
    """Return the (P, N) spans of 1F1B that never ends, at least `spans`: m times its slowest cycle."""
    if of.grid.chunks > 1 or of.grid.copies > 1:
        return spans
    x, once = 2 * of.transfer_s, of.once_s
    slowest: FloatArray = once.max(axis=0)
    for r in range(1, of.grid.positions):
        whole = (once[: r + 1].sum(axis=0) + x[:r].sum(axis=0)) / (r + 1)
        pair = (once[r - 1] + once[r] + x[r - 1]) / 2
        np.maximum(slowest, np.maximum(whole, pair), out=slowest)
    return np.maximum(spans, slowest * of.microbatches)


def clocked(
    of: Pipelines,
    gradient_s: FloatArray,
    weight_s: FloatArray | None,
    under_way: Sequence[int],
    lag: Sequence[int],
) -> FloatArray:
    """Return the (N,) seconds from the first forward of stage 0 to its last gradient, in orders by the clock.

    Args:
        of: pipelines of one stage per position.
        gradient_s: (S, N) seconds of what goes back from stage to stage.
        weight_s: (S, N) seconds of weight gradients that come between; None if there are none.
        under_way: w of each stage, falling by one number from stage to stage.
        lag: by how many microbatches the weight gradients of each stage lag behind.
    """
    once = of.forward_s + gradient_s
    turns = _turns(once, of.transfer_s)
    n, best = of.size, np.zeros(of.size)
    weights = gradient_s if weight_s is None else weight_s
    flat = [array.ravel() for array in (of.forward_s, gradient_s, weights, of.transfer_s)]
    small = [np.array(numbers, dtype=np.int64) for numbers in (turns, under_way, lag)]
    room = np.empty((2 * len(once) + 4) * n)
    parts = np.split(room, np.cumsum([len(once) * n] * 2 + [n] * 3))
    given = (of.microbatches, *flat, *small, int(weight_s is not None), *parts, best)
    if clocked_paths.compiles(*given):
        clocked_paths.compiled(*given)
        return best
    return _clocked(of, gradient_s, weight_s, under_way, lag, turns)


def _clocked(
    of: Pipelines,
    gradient_s: FloatArray,
    weight_s: FloatArray | None,
    under_way: Sequence[int],
    lag: Sequence[int],
    turns: Sequence[int],
) -> FloatArray:
    """Return what `clocked` does, by arrays: the reference of the compiled loop."""
    m, p = of.microbatches, of.grid.positions
    once = of.forward_s + gradient_s
    down = np.zeros((p, of.size))  # row r: from stage 0 down to r and back, without r's own seconds
    np.cumsum(once[:-1] + 2 * of.transfer_s, axis=0, out=down[1:])
    best, cycles, forwards, backwards = np.zeros((4, of.size))
    for r in turns:
        np.maximum(forwards, of.forward_s[r], out=forwards)
        np.maximum(backwards, gradient_s[r], out=backwards)
        ahead = np.minimum(under_way[r], m) - 1
        top = down[r] + once[r]
        around = np.zeros(of.size)
        for i in (i for i in turns if i <= r and (r == p - 1 or i in (0, r - 1, r))):
            cycle, moves = top - down[i], under_way[i] - under_way[r] + 1
            rounds = m - 1 - under_way[i]
            times = np.floor(rounds / moves)
            alone, wide = rounds * once[i], times * cycle + (rounds - times * moves) * once[i]
            if weight_s is not None:
                alone = alone + np.maximum(rounds + 1 - lag[i], 0) * weight_s[i]
                wide = wide + np.maximum(rounds - times * (moves - 1) - lag[i], 0) * weight_s[i]
            path = np.maximum(alone, wide) + cycle
            np.maximum(around, np.where(rounds >= 0, path, 0.0), out=around)
        np.maximum(cycles, around + ahead * backwards, out=cycles)
        np.maximum(best, top + ahead * forwards + cycles, out=best)
    return best


def _turns(once: FloatArray, transfer_s: FloatArray) -> list[int]:
    """Return the positions where the longest path may turn: the ends of runs of equal stages, in order.

    Inside a run a path gets longer towards one of its ends.
    """
    changes = (once[1:] != once[:-1]).any(axis=1)
    changes |= (transfer_s[: len(once) - 1] != transfer_s[:1]).any(axis=1)
    found = np.flatnonzero(changes)
    return sorted({0, len(once) - 1, *found.tolist(), *(found + 1).tolist()})


def rounds_of_chunks(of: Pipelines, per_round: FloatArray) -> FloatArray:
    """Return the (P, N) spans of orders in which rounds of q microbatches pass all chunks, forward and back.

    A position begins with q forwards of each chunk before those of chunk c, and the first microbatch reaches
    chunk c through all stages before it; the end mirrors this. For stage s = c p + r of position r,

        T >= m sum over its stages (F + B)
             + max over c of [ sum over j < s (F + x) - q sum over its chunks before c of F ] + the same of B

    Args:
        of: the pipelines.
        per_round: (N,) q.
    """
    p = of.grid.positions
    work = of.work_s(of.once_s)
    for seconds in (of.forward_s, of.backward_s):
        fill = np.zeros((len(seconds), of.size))
        np.cumsum(seconds[:-1] + of.transfer_s, axis=0, out=fill[1:])
        done = np.zeros((p, of.size))
        most = fill[:p].copy()
        for first in range(p, len(seconds), p):
            done += seconds[first - p : first]
            np.maximum(most, fill[first : first + p] - per_round * done, out=most)
        work += most
    return with_path(one_way(of), work.max(axis=0))


def breadth_first(of: Pipelines, backward_s: FloatArray) -> FloatArray:
    """Return the (N,) seconds of all forwards, stage by stage, then all of `backward_s`, from the last stage.

    Equal microbatches through stages and wires are a flow shop of equal jobs: each takes sum F + sum x, and
    the slowest of all m - 1 times more. A round of m through one chunk precedes that through the next; where
    positions outnumber microbatches it takes as long as the way through all positions.
    """
    p = of.grid.positions
    total = np.zeros(of.size)
    for seconds in (of.forward_s, backward_s):
        for first in range(0, len(seconds), p):
            chunk, wires = seconds[first : first + p], of.transfer_s[first : first + p - 1]
            slowest = np.maximum(chunk.max(axis=0), wires.max(axis=0, initial=0.0))
            last = first + p == len(seconds)
            total += chunk.sum(axis=0) + wires.sum(axis=0)
            total += np.maximum(of.microbatches - (1 if last or p == 1 else p), 0) * slowest
    return total


def split_by_clock(of: Pipelines, times: int) -> FloatArray:
    """Return the (P, N) spans of 1F1B with split backwards, `times` as many forwards ahead, level memory.

    Stage s has times (p - s - 1) + 1 microbatches under way, and times s weight gradients may wait. Before
    its last I it has run m - 1 - lag of them, so that also

        T >= max over r of [ sum over j < r (F + I + 2x) + m (F + I)_r + (m - 1 - lag_r) W_r ] + W_0
    """
    m, p = of.microbatches, of.grid.positions
    spans = one_way_split(of)
    if of.grid.chunks > 1:
        return spans
    under_way = [times * (p - s - 1) + 1 for s in range(p)]
    path = clocked(of, of.input_grad_s, of.weight_grad_s, under_way, range(0, times * p, times))
    both = of.forward_s + of.input_grad_s
    down = np.zeros(of.size)
    for r in range(p):
        down = down + (both[r - 1] + 2 * of.transfer_s[r - 1] if r else 0.0)
        before = np.maximum(m - 1 - times * r, 0.0)
        np.maximum(path, down + m * both[r] + before * of.weight_grad_s[r], out=path)
    whole = of.backward_s[0] - of.input_grad_s[0]  # the first stage runs whole backwards
    less = np.maximum(of.weight_grad_s[0] - whole, 0.0) * m
    return with_path(spans, path + of.weight_grad_s[0] - less)
