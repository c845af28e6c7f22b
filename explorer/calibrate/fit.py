"""Fit: the mean and the spread of `posterior` where what is predicted bends: Gauss-Newton steps, restarted.

A cost model has corners: of two numbers that bind in turn (a product, and the memory it moves) only one
shows at a time, so that a step may see no way to lower the other. So the descent starts again from where each
number that seemed to be of no effect is lower, and the best end counts.

Where the model cannot meet all observations within their scatter, the standard deviations of all are widened
by the Birge ratio, here the robust spread of the standardised residuals (Birge: The Calculation of Errors by
the Method of Least Squares, 1932).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.calibrate.posterior import Array, covariance, solve, spread_of

MOST = math.log(1e6)
"""Largest logarithm of a factor, either way."""
_STEP = 1e-4  # of a logarithm, for finite differences
_LONGEST = 1.0  # Gauss-Newton step of a logarithm
_ROUNDS, _HALVINGS = 40, 8
_STILL = 1e-13  # a step shorter than this is none
_NOTABLE = 1e-6  # of a logarithm, from which a number would be above its most
_LOWER = (-0.7, -2.3, -4.6, -6.9)  # where descents start again: factors of 1/2, 1/10, 1/100 and 1/1000
_FEWEST_SPARE = 3  # observations more than numbers, from which their scatter says how good the model is


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Observations of functions of some numbers, all in logarithms."""

    residual: Callable[[Array], Array]
    """Measured over predicted, by observation, at some logarithms of factors."""
    sd: Array
    """Standard deviation of each observation."""
    prior: Array
    """Standard deviation of each number; inf where nothing is known."""
    most: Array
    """Largest logarithm of each factor."""

    def cost(self, at: Array, left: Array) -> float:
        """What is least at the mean."""
        return float(((left / self.sd) ** 2).sum() + ((at / self.prior) ** 2).sum())


class Fit(NamedTuple):
    """The end of the best descent."""

    at: Array
    """Logarithms of the factors."""
    variance: Array
    """Of each; inf where nothing holds it."""
    before: Array
    """Residuals at the start."""
    after: Array
    """Residuals at the end."""
    capped: npt.NDArray[np.bool_]
    """Numbers that observations would have above their most."""


class _End(NamedTuple):
    at: Array
    left: Array
    sensitivity: Array
    cost: float


def fit(problem: Problem) -> Fit:
    """The most probable factors and their variances."""
    start = np.zeros(len(problem.prior))
    before = problem.residual(start)
    best = _descend(problem, start, before)
    for j in range(len(start)):
        if not best.sensitivity[:, j].any():
            best = _restarted(problem, best, j)
    spare = len(problem.sd) - int(np.linalg.matrix_rank(best.sensitivity))
    wider = max(1.0, spread_of(best.left / problem.sd)) if spare >= _FEWEST_SPARE else 1.0
    variance = np.diag(covariance(best.sensitivity, problem.sd * wider, problem.prior))
    onwards = solve(best.sensitivity, best.left, problem.sd, best.at, problem.prior)
    capped = (best.at >= problem.most) & (onwards > _NOTABLE)
    return Fit(best.at, variance, before, best.left, capped)


def _restarted(problem: Problem, best: _End, number: int) -> _End:
    """The better of an end and of the first descent from below, in one number, that ends elsewhere."""
    for lower in _LOWER:
        at = best.at.copy()
        at[number] += lower
        left = problem.residual(at)
        if not np.array_equal(left, best.left):
            found = _descend(problem, at, left)
            return found if found.cost < best.cost * (1 - 1e-9) - 1e-12 else best
    return best


def _descend(problem: Problem, at: Array, left: Array) -> _End:
    cost = problem.cost(at, left)
    sensitivity = _sensitivity(problem.residual, at)
    for _ in range(_ROUNDS):
        step = np.clip(_step(problem, sensitivity, left, at), -_LONGEST, _LONGEST)
        for halving in range(_HALVINGS):  # a step over a corner may lead up
            tried = np.clip(at + step / 2**halving, -MOST, problem.most)
            found = problem.residual(tried)
            if problem.cost(tried, found) <= cost:
                break
        else:
            break
        moved = float(np.abs(tried - at).max(initial=0.0))
        at, left, cost = tried, found, problem.cost(tried, found)
        sensitivity = _sensitivity(problem.residual, at)
        if moved < _STILL:
            break
    return _End(at, left, sensitivity, cost)


def _step(problem: Problem, sensitivity: Array, left: Array, at: Array) -> Array:
    """The next step; numbers that are at their most already and should grow leave it to the others."""
    step = solve(sensitivity, left, problem.sd, at, problem.prior)
    held = (at >= problem.most) & (step > 0)
    if held.any():
        others = np.where(held, 0.0, sensitivity)
        step = np.where(held, 0.0, solve(others, left, problem.sd, at, problem.prior))
    return step


def _sensitivity(residual: Callable[[Array], Array], at: Array) -> Array:
    """Central differences of the logarithm of what is predicted: (observations, numbers)."""
    columns = []
    for j in range(len(at)):
        step = np.zeros(len(at))
        step[j] = _STEP
        columns.append((residual(at - step) - residual(at + step)) / (2 * _STEP))
    return np.stack(columns, axis=1)
