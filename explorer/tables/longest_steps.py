"""The longest position of each of many plans, from the spans of its core and the exchanges of its swap."""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.base.compiling import kernel
from explorer.tables.exchange_pairs import Swaps
from explorer.tables.plan_cores import Cores
from explorer.tables.plan_shape import CHUNK
from explorer.tasks.skeleton import FloatArray, IntArray


def longest_steps(
    cores: Cores, swaps: Swaps, core: IntArray, swap: IntArray, times: FloatArray, *, alone: bool
) -> tuple[FloatArray, FloatArray]:
    """Return the (N,) seconds of steps, guess and bound.

    Args:
        cores: spans of U cores.
        swaps: exchanges of V swaps.
        core: (N,) core of every plan.
        swap: (N,) swap of every plan.
        times: (U,) how often a position waits for its updates in a step.
        alone: whether positions have one stage, so that also what the last backward does not hide is sure.
    """
    guess, lower = np.empty((2, len(core)))
    hidden, earlier = swaps.earlier is not None, cores.backward if swaps.earlier is None else swaps.earlier
    same = cores.guess is cores.lower and swaps.guess is swaps.lower and (alone or not hidden)
    matrices = cores.lower, cores.guess, cores.backward, swaps.lower, swaps.guess, earlier
    flat = [matrix.ravel() for matrix in matrices]
    flags = int(hidden), int(hidden and alone), int(same), len(cores.lower)
    given = (core, swap, np.ascontiguousarray(times), *flat, *flags, guess, lower)
    if longest_by_plan.compiles(*given):
        longest_by_plan.compiled(*given)
        return guess, lower
    for first in range(0, len(core), CHUNK):
        some = slice(first, first + CHUNK)
        a, b = core[some], swap[some]
        exposed = (
            np.maximum(0.0, swaps.earlier[:, b] - cores.backward[:, a]) if swaps.earlier is not None else None
        )
        lower[some] = _longest(cores.lower, swaps.lower, exposed if alone else None, times, a, b)
        guess[some] = lower[some] if same else _longest(cores.guess, swaps.guess, exposed, times, a, b)
    return guess, lower


def _longest(
    spans: FloatArray,
    after: FloatArray,
    exposed: FloatArray | None,
    times: FloatArray,
    a: IntArray,
    b: IntArray,
) -> FloatArray:
    behind = after[:, b]
    if exposed is not None:
        behind += exposed
    behind *= times[a]
    behind += spans[:, a]
    return np.asarray(behind.max(axis=0))


def _rounds(core: Any, *given: Any) -> int:
    return len(core) * int(given[-3]) // 10  # what arrays take instead


@kernel(results=2, rounds=_rounds)
def longest_by_plan(
    core: Any,
    swap: Any,
    times: Any,
    spans_lower: Any,
    spans_guess: Any,
    backward: Any,
    after_lower: Any,
    after_guess: Any,
    earlier: Any,
    hidden: Any,
    sure: Any,
    same: Any,
    positions: Any,
    guess: Any,
    lower: Any,
) -> None:
    """Fill the seconds of steps, position by position for one plan after the other.

    Args:
        core: (N,) core of every plan.
        swap: (N,) swap of every plan.
        times: (U,) how often a position waits for its updates.
        spans_lower: (P U,) spans that are never too long.
        spans_guess: (P U,) likely spans.
        backward: (P U,) seconds of the last backward.
        after_lower: (P V,) seconds of exchanges that are sure.
        after_guess: (P V,) likely seconds of exchanges.
        earlier: (P V,) seconds that the last backward hides, if `hidden` is 1.
        hidden: 1 if there are any.
        sure: 1 if what it does not hide is sure.
        same: 1 if the guess is the bound.
        positions: P.
        guess: (N,) likely seconds.
        lower: (N,) seconds that are sure.
    """
    u, v = len(times), len(after_lower) // positions
    for n in range(len(core)):
        a, b, often = core[n], swap[n], times[core[n]]
        least = likely = -1.0
        for r in range(positions):
            one, other, exposed = r * u + a, r * v + b, 0.0
            if hidden:
                exposed = max(0.0, earlier[other] - backward[one])
            behind = after_lower[other]
            if sure:
                behind = behind + exposed
            least = max(least, behind * often + spans_lower[one])
            if not same:
                behind = after_guess[other]
                if hidden:
                    behind = behind + exposed
                likely = max(likely, behind * often + spans_guess[one])
        lower[n] = least
        guess[n] = least if same else likely
