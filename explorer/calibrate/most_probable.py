"""Most probable values of numbers that are known up to a factor, given durations that depend on them.

The logarithm of a number's factor is normal around 0. For every observation the logarithm of measured over
predicted is normal around 0, or its cost grows only linearly if it is large (`EstimationProblem.robust`,
pseudo-Huber: the square root of 2 (sqrt(1 + z^2) - 1) at z in standard deviations), so whatever no number
explains bends nothing. The minimum is found by `scipy.optimize.least_squares` (dogbox: fractions stay at 1 or
below it), in units of the standard deviations of the numbers. Calibration and the fits to published rows both
use this.

A cost model has corners: of two numbers that bind in turn (a product, and the memory it moves) only one shows
at a time, so a step may see no way to lower the other. `most_probable` therefore starts again with each
number that seemed to have no effect set lower, and takes the best end.

If the model cannot meet all observations within their scatter, the standard deviations of all are widened by
the Birge ratio, here the robust spread of the standardised residuals (Birge: The Calculation of Errors by the
Method of Least Squares, 1932).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.calibrate.posterior import Array, covariance, solve, spread_of

MOST = math.log(1e6)
"""Largest logarithm of a factor, in either direction."""
_LOWER = (-0.7, -2.3, -4.6, -6.9)  # where descents start again: factors of 1/2, 1/10, 1/100 and 1/1000
_NOTABLE = 1e-6  # of a logarithm, from which a number would be above its most
_FEWEST_SPARE = 3  # observations more than numbers, from which their scatter says how good the model is
_BETTER = 1e-9  # of a cost, from which another end is preferred


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimationProblem:
    """Observations of functions of some numbers, all in logarithms."""

    residuals: Callable[[Sequence[Array]], Sequence[Array]]
    """Function from trials of logarithms of factors to measured over predicted, by observation."""
    sd: Array
    """Standard deviation of each observation."""
    prior: Array
    """Standard deviation of each number; inf if nothing is known."""
    most: Array
    """Largest logarithm of each factor."""
    robust: bool = False
    """Whether large residuals count by their size instead of their square."""
    step: float = 1e-4
    """Step of a logarithm for finite differences."""
    two_sided: bool = True
    """Whether differences are taken to both sides, at two trials per number instead of one."""

    def residual(self, at: Array) -> Array:
        """Return the residuals at one point."""
        return self.residuals([at])[0]

    def cost(self, at: Array, left: Array) -> float:
        """Return the cost, which is least at the most probable point."""
        return float((self._parts(at, left) ** 2).sum())

    def _parts(self, at: Array, left: Array) -> Array:
        z = left / self.sd
        if self.robust:
            z = np.sign(z) * np.sqrt(2.0 * (np.sqrt(1.0 + z * z) - 1.0))
        return np.concatenate([z, at / self.prior])

    def parts(self, trials: Sequence[Array]) -> list[Array]:
        """Return the terms whose squares are summed, at several trials."""
        return [self._parts(at, left) for at, left in zip(trials, self.residuals(trials), strict=True)]

    def slopes(self, at: Array, function: Callable[[Sequence[Array]], Sequence[Array]]) -> Array:
        """Return the slopes of a function of trials in each number, by differences: (values, numbers).

        No trial exceeds the most of a number.
        """
        rows = np.diag(np.where(at + self.step <= self.most, self.step, -self.step))
        ahead = [at + row for row in rows]
        behind = [
            at - row if self.two_sided and at[j] - row[j] <= self.most[j] else at
            for j, row in enumerate(rows)
        ]
        here, *others = function([at, *ahead, *(point for point in behind if point is not at)])
        rest = iter(others[len(rows) :])
        columns = []
        for j, value in enumerate(others[: len(rows)]):
            before = here if behind[j] is at else next(rest)
            columns.append((value - before) / (ahead[j][j] - behind[j][j]))
        return np.stack(columns, axis=1)


class End(NamedTuple):
    """The end of one descent."""

    at: Array
    """Logarithms of the factors."""
    left: Array
    """Residuals at the end."""
    cost: float
    """Cost at the end."""


def descend(problem: EstimationProblem, start: Array, *, rounds: int = 200, tolerance: float = 1e-15) -> End:
    """Return the end of one descent.

    Args:
        problem: the observations.
        start: logarithms of the factors.
        rounds: largest number of steps.
        tolerance: relative change of the cost, or of the logarithms, at which it ends.
    """
    from scipy.optimize import least_squares

    unit = np.where(np.isfinite(problem.prior), problem.prior, 1.0)
    found = least_squares(
        lambda u: problem.parts([u * unit])[0],
        np.minimum(start, problem.most) / unit,
        jac=lambda u: problem.slopes(u * unit, problem.parts) * unit,
        bounds=(np.full(len(unit), -MOST) / unit, problem.most / unit),
        method="dogbox", xtol=tolerance, ftol=tolerance, gtol=min(tolerance, 1e-8), max_nfev=rounds,
    )  # fmt: skip
    at = np.minimum(found.x * unit, problem.most)
    left = problem.residual(at)
    return End(at, left, problem.cost(at, left))


class MostProbable(NamedTuple):
    """The end of the best descent."""

    at: Array
    """Logarithms of the factors."""
    variance: Array
    """Variance of each; inf if nothing determines it."""
    before: Array
    """Residuals at the start."""
    after: Array
    """Residuals at the end."""
    capped: npt.NDArray[np.bool_]
    """Numbers that observations would raise above their most."""


def most_probable(problem: EstimationProblem) -> MostProbable:
    """Return the most probable factors and their variances."""
    start = np.zeros(len(problem.prior))
    before = problem.residual(start)
    best = descend(problem, start)
    sensitivity = _sensitivity(problem, best.at)
    for j in range(len(start)):
        if not sensitivity[:, j].any():
            best = _from_below(problem, best, j)
            sensitivity = _sensitivity(problem, best.at)
    spare = len(problem.sd) - int(np.linalg.matrix_rank(sensitivity))
    wider = max(1.0, spread_of(best.left / problem.sd)) if spare >= _FEWEST_SPARE else 1.0
    variance = np.diag(covariance(sensitivity, problem.sd * wider, problem.prior))
    onwards = solve(sensitivity, best.left, problem.sd, best.at, problem.prior)
    capped = (best.at >= problem.most) & (onwards > _NOTABLE)
    return MostProbable(best.at, variance, before, best.left, capped)


def _sensitivity(problem: EstimationProblem, at: Array) -> Array:
    """Return the slopes of the logarithm of the predictions."""
    return -problem.slopes(at, problem.residuals)


def _from_below(problem: EstimationProblem, best: End, number: int) -> End:
    """Return the better of an end and of the first descent from below, in one number, that ends elsewhere."""
    for lower in _LOWER:
        at = best.at.copy()
        at[number] += lower
        if not np.array_equal(problem.residual(at), best.left):
            found = descend(problem, at)
            return found if found.cost < best.cost * (1 - _BETTER) - 1e-12 else best
    return best
