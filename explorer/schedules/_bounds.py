"""Lower bounds on the step of many pipelines at once, for any order of one copy of every stage that flushes.

Position r runs nothing before the forwards of the stages before its first stage f(r), and ends with a
backward of f(r), after which those of the stages before follow, whatever the order (Narayanan et al. 2021).
For a step that begins and ends on position i,

    H_r = max( m sum over its stages (F + B),  F + x + H_(r+1) + x + B  of the stage before f(r+1) )
    T  >= max over i of  [ H_i + after_i ]

since the time between the ends of two steps on a position is at least that of any path from one to the other.
A wire passes the tensors of all microbatches one after the other, so that m x may stand for the work of a
position; and one microbatch alone goes down through all stages and back.
"""

from __future__ import annotations

import numpy as np

from explorer.schedules.pipelines import ROUNDING, FloatArray, Pipelines, longest


def one_way(of: Pipelines) -> FloatArray:
    """Return the (N,) bound for whole backwards."""
    return ends(of, of.work_s(of.once_s), of.backward_s, of.after_s) * ROUNDING


def one_way_split(of: Pipelines, after_s: FloatArray | None = None) -> FloatArray:
    """Return the (N,) bound if weight gradients may run whenever the order likes.

    Args:
        of: the pipelines.
        after_s: (P, N) seconds from the last input gradient of a position to the end of its step.
    """
    gradient = np.minimum(of.input_grad_s, of.backward_s)
    whole = np.minimum(of.backward_s, of.input_grad_s + of.weight_grad_s)
    own = (of.work_s(of.forward_s + whole) + of.after_s).max(axis=0)
    passed = ends(
        of, of.work_s(of.forward_s + gradient), gradient, of.after_s if after_s is None else after_s
    )
    return longest(own, passed) * ROUNDING


def ends(of: Pipelines, work: FloatArray, backward_s: FloatArray, after_s: FloatArray) -> FloatArray:
    """Return the (N,) max over i of H_i + after_i, given the (P, N) seconds of work of positions."""
    first = [held[0][0] for held in of.held]
    inner: FloatArray = np.zeros(of.size)
    # one microbatch, alone
    best: FloatArray = (of.forward_s + backward_s).sum(axis=0) + 2 * of.transfer_s.sum(axis=0) + after_s[0]
    for position in sorted(range(len(first)), key=lambda position: -first[position]):
        stage = first[position]
        np.maximum(work[position], inner, out=inner)
        np.maximum(best, inner + after_s[position], out=best)
        if stage:
            before, x = stage - 1, of.transfer_s[stage - 1]
            wire = (of.microbatches - 1) * x + of.forward_s[stage] + backward_s[stage]
            inner = np.maximum(inner, wire) + of.forward_s[before] + backward_s[before] + 2 * x
    return best
