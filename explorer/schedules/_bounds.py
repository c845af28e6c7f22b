"""Least spans of many pipelines at once, for any order of one copy of every stage that flushes.

Position r runs nothing before the forwards of the stages before its first stage f(r), and ends with a
backward of f(r), after which those of the stages before follow, whatever the order (Narayanan et al. 2021).
The span of a position is

    H_r = max( m sum over its stages (F + B),  F + x + H_(r+1) + x + B  of the stage before f(r+1) )

and a step takes max over r of H_r + after_r at least, since the time between the ends of two steps on a
position is no less than that of any path from one to the other.
A wire passes the tensors of all microbatches one after the other, so that m x may stand for the work of a
position; and one microbatch alone goes down through all stages and back.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from explorer.schedules.pipelines import FloatArray, Pipelines, busy, with_path


def one_way(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans for whole backwards."""
    return _inner(of, busy(of), of.backward_s)


def one_way_split(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans if weight gradients may run whenever the order likes."""
    passed = gradients(of)
    whole = np.minimum(of.backward_s, of.input_grad_s + of.weight_grad_s)
    return np.maximum(passed, of.work_s(of.forward_s + whole))


def opposed(of: Pipelines) -> FloatArray:
    """Return the (P, N) spans of two copies in opposite directions, whose lanes begin and end with their own.

    Position r of the first half begins with a forward of stage r of copy 0, after those before it, and ends
    with its backward, before theirs; the second half mirrors it with copy 1. Of more copies only one
    microbatch's way through all stages and back is known.
    """
    spans, p, once = busy(of), of.grid.positions, of.once_s
    alone = once.sum(axis=0) + 2 * of.transfer_s.sum(axis=0)
    if of.grid.copies != 2:
        return with_path(spans, alone)
    fill = np.zeros((max(1, p // 2), of.size))
    np.cumsum(once[: p // 2 - 1] + 2 * of.transfer_s[: p // 2 - 1], axis=0, out=fill[1:])
    path = np.maximum(alone, (spans[: p // 2] + fill).max(axis=0))
    return with_path(with_path(spans, path), path, p - 1)


def gradients(of: Pipelines) -> FloatArray:
    """Return the (P, N) seconds from the first forward of a position to its last input gradient."""
    gradient = np.minimum(of.input_grad_s, of.backward_s)
    return _inner(of, of.work_s(of.forward_s + gradient), gradient)


def _inner(of: Pipelines, spans: FloatArray, backward_s: FloatArray) -> FloatArray:
    """Lengthen the (P, N) seconds of work of positions by the ways through those behind them."""
    first = [held[0][0] for held in of.held]
    order = sorted(range(len(first)), key=lambda position: -first[position])
    for position, above in pairwise(order):
        stage, before = first[position], first[position] - 1
        x = of.transfer_s[before]
        wire = (of.microbatches - 1) * x + of.forward_s[stage] + backward_s[stage]
        way = np.maximum(spans[position], wire) + of.forward_s[before] + backward_s[before] + 2 * x
        np.maximum(spans[above], way, out=spans[above])
    alone = (of.forward_s + backward_s).sum(axis=0) + 2 * of.transfer_s.sum(axis=0)
    return with_path(spans, alone, order[-1])
