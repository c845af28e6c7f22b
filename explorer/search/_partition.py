"""The best uneven stages of a line: an exact partition of a chain of units over pipeline positions.

With one stage a position and whole backwards, whatever the order (Narayanan et al. 2021, Harlap et al. 2018),
position r works m times on its stage, after forwards of the stages before it and before their backwards:

    T  >=  a_0 + max over r of [ m w_r + sum over j < r of (w_j + x_j) ]
    T  >=  max over r of [ m w_r + a_r ]

with w seconds of a microbatch (F + B), x of what goes to the next stage and back, a of what follows the last
gradient: updates. The first right side splits at the first stage, so the least of it over all partitions
follows from the last position backwards,

    f(r, i)  =  min over k of max( m w(i, k),  w(i, k) + x(k) + f(r + 1, k) )

in p n^2 steps for n units; the second only forbids some stages, so the least of both is found by halving the
list of what it may be. Without x and a, and with work that could be cut anywhere, the least is in closed
form: all terms are equal if every stage has 1 - 1/m of the one before, hence T >= W / (1 - (1 - 1/m)^p).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class Partition(NamedTuple):
    """A partition of units into stages, one for each position."""

    least_s: float
    """Seconds of its longest path: no partition has a shorter one."""
    bounds: tuple[int, ...]
    """Stage r has the units from `bounds[r]` to before `bounds[r + 1]`."""


def least_of_partitions(work_s: FloatArray, microbatches: FloatArray, positions: FloatArray) -> FloatArray:
    """Return W / (1 - (1 - 1/m)^p): seconds that no partition of so much work is below.

    Args:
        work_s: W, seconds of one microbatch on all stages.
        microbatches: m, 1 or more.
        positions: p.

    >>> least_of_partitions(np.array([6.0]), np.array([1.0]), np.array([3.0])).tolist()
    [6.0]
    """
    found: FloatArray = work_s / -np.expm1(positions * np.log1p(-1.0 / np.maximum(microbatches, 1 + 1e-12)))
    return found


def best_partition(
    once_s: Sequence[FloatArray],
    crossing_s: Sequence[FloatArray],
    microbatches: float,
    *,
    after_s: Sequence[FloatArray] | None = None,
    fits: Sequence[BoolArray] | None = None,
) -> Partition | None:
    """Return the partition for which both are least; None if none fits.

    Args:
        once_s: per position (n + 1, n + 1): w of the units from i to before k; what is not i < k is ignored.
        crossing_s: per position but the last (n + 1,): x at the cut before unit k.
        microbatches: m.
        after_s: per position, as `once_s`: a of these units; None for none.
        fits: per position, as `once_s`: whether the position can hold these units; None if all do.
    """
    if after_s is None:
        return _shortest(once_s, crossing_s, microbatches, None, fits)
    first, every = after_s[0], fits or [np.ones(item.shape, dtype=bool) for item in once_s]
    alone_s = [microbatches * once + after for once, after in zip(once_s, after_s, strict=True)]

    def under(limit: float) -> Partition | None:
        allowed = [fit & (alone <= limit) for fit, alone in zip(every, alone_s, strict=True)]
        return _shortest(once_s, crossing_s, microbatches, first, allowed)

    found = _shortest(once_s, crossing_s, microbatches, first, fits)
    if found is None:
        return None
    longest = max(alone[i, k] for alone, (i, k) in zip(alone_s, pairwise(found.bounds), strict=True))
    if longest <= found.least_s:
        return found
    limits = np.unique(np.concatenate([item[np.isfinite(item)] for item in alone_s]))
    limits = limits[limits <= longest]
    low, high = 0, len(limits) - 1
    while low < high:  # under the next limit no other stages are allowed before it is reached
        middle = (low + high) // 2
        better = under(float(limits[middle]))
        if better is not None and better.least_s < limits[middle + 1]:
            high = middle
        else:
            low = middle + 1
    best = under(float(limits[low]))
    return best and best._replace(least_s=max(best.least_s, float(limits[low])))


def _shortest(
    once_s: Sequence[FloatArray],
    crossing_s: Sequence[FloatArray],
    microbatches: float,
    first_s: FloatArray | None,
    fits: Sequence[BoolArray] | None,
) -> Partition | None:
    """Return the partition whose longest path, and what comes after the first position, is shortest."""
    size, last = len(once_s[0]), len(once_s) - 1
    order = np.less.outer(np.arange(size), np.arange(size))
    ahead, chosen = np.full(size, np.inf), []
    for r in reversed(range(len(once_s))):
        longest = microbatches * once_s[r]
        if r < last:
            longest = np.maximum(longest, once_s[r] + crossing_s[r] + ahead)
        else:
            longest = longest + np.where(np.arange(size) == size - 1, 0.0, np.inf)
        if r == 0 and first_s is not None:
            longest = longest + first_s
        longest = np.where(order if fits is None else order & fits[r], longest, np.inf)
        chosen.append(longest.argmin(axis=1))
        ahead = longest.min(axis=1)
    if not np.isfinite(ahead[0]):
        return None
    bounds = [0]
    for cut in reversed(chosen):
        bounds.append(int(cut[bounds[-1]]))
    return Partition(float(ahead[0]), tuple(bounds))
