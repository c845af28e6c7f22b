"""Latency of a step of 1F1B with a flush, by its pivot stage (Fan et al., DAPPLE, section 4).

A stage, or the transfer between two, takes F forward and B backward for each of m microbatches, and AR for
its gradients. The pivot Q is the stage that keeps the steady phase busy:

    T = sum up to Q of F  +  (m - 1)(F_Q + B_Q)  +  max over s of ( AR_s + B_s + ... + B_Q )
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


def latency_s(parts: Sequence[Sequence[FloatArray]], rounds: int) -> FloatArray:
    """Return T of plans.

    Args:
        parts: F, B and AR of each stage and of the transfers between them, in order; arrays of one shape, or
            of shapes that go together.
        rounds: microbatches m of a step.
    """
    steady = (rounds - 1) * (parts[-1][0] + parts[-1][1])
    pivot, between = np.full(steady.shape, len(parts) - 1), np.zeros(steady.shape)
    for s in reversed(range(len(parts) - 1)):
        both = parts[s][0] + parts[s][1]
        outweighs = (rounds - 1) * both > steady + between
        pivot = np.where(outweighs, s, pivot)
        steady = np.where(outweighs, (rounds - 1) * both, steady)
        between = np.where(outweighs, 0.0, between + both)
    filled, drained, ended = np.zeros(steady.shape), np.zeros(steady.shape), parts[0][2]
    before = np.zeros(())
    for s, (forward, backward, reduced) in enumerate(parts):
        ended = np.maximum(ended, reduced - before)
        before = before + backward
        filled = filled + np.where(pivot >= s, forward, 0.0)
        drained = drained + np.where(pivot >= s, backward, 0.0)
    found: FloatArray = filled + steady + drained + ended
    return found
