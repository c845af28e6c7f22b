"""Bands and the arithmetic of a correction: normal distributions of logarithms.

A number of a profile is known up to a factor. The logarithm of that factor is normal around 0, and the
profile's band b, the half-width of 80 %, says how wide: sd = ln(1 + b) / 1.2816. An observation i of it, the
logarithm y_i of measured over predicted with standard deviation s_i, narrows this (conjugate normal):

    1 / s^2 = 1 / sd^2 + sum 1 / s_i^2          mean = s^2 sum y_i / s_i^2

so the correction is shrunk towards the profile by the profile's own band. With several numbers and
observations that depend on several of them through sensitivities S the same reads

    mean = argmin |(y - S x) / s|^2 + |x / sd|^2          covariance = (S' s^-2 S + sd^-2)^-1

A number without a band has no prior: nothing pulls it back. (Gelman et al., Bayesian Data Analysis, 3rd
edition, 2013, sections 2.5 and 14.8.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

COVERAGE = 0.8
"""Share of cases that a band should cover."""
Z = NormalDist().inv_cdf((1 + COVERAGE) / 2)
"""Half-width of the band in standard deviations, 1.2816."""
_MEDIAN = math.sqrt(math.pi / 2)  # standard error of a median over that of a mean, for normal values
_MAD = 1 / NormalDist().inv_cdf(0.75)  # standard deviation over median absolute deviation


class Normal(NamedTuple):
    """A normal distribution."""

    mean: float
    sd: float


def sd_of(band: float) -> float:
    """Return the standard deviation of the logarithm of a number with an 80 % band.

    >>> round(sd_of(0.15), 4)
    0.1091
    """
    return math.log1p(band) / Z


def band_of(sd: float) -> float:
    """Return the relative half-width of the 80 % band of a number whose logarithm has this deviation.

    >>> round(band_of(sd_of(0.15)), 12)
    0.15
    """
    return math.expm1(Z * sd)


def posterior(prior_sd: float, observed: Sequence[Normal]) -> Normal:
    """Update the logarithm of a factor by some observations of it; `prior_sd` is inf for no prior.

    >>> round(posterior(0.1, [Normal(0.2, 0.1)]).mean, 12)
    0.1
    """
    weights = [1 / item.sd**2 for item in observed]
    total = sum(weights) + (0.0 if math.isinf(prior_sd) else 1 / prior_sd**2)
    if not total:
        return Normal(0.0, math.inf)
    mean = sum(weight * item.mean for weight, item in zip(weights, observed, strict=True)) / total
    return Normal(mean, total**-0.5)


def centre(values: Sequence[float]) -> Normal:
    """Return the median with its standard error, from the median absolute deviation: outliers move neither.

    >>> centre([0.1, 0.1, 5.0])
    Normal(mean=0.1, sd=0.0)
    """
    middle = float(np.median(values))
    return Normal(middle, _MEDIAN * spread_of(np.asarray(values) - middle) / math.sqrt(len(values)))


def spread_of(residuals: Array) -> float:
    """Return the standard deviation around 0, by the median absolute deviation."""
    return _MAD * float(np.median(np.abs(residuals)))


def solve(sensitivity: Array, residual: Array, sd: Array, at: Array, prior_sd: Array) -> Array:
    """Step from `at` to the mean: least squares of observations and priors; of equal steps the shortest.

    Args:
        sensitivity: slopes (observations, numbers) of the logarithm of each prediction.
        residual: logarithm of measured over predicted, at `at`.
        sd: standard deviation of each observation.
        at: logarithms of the factors so far.
        prior_sd: standard deviation of each number; inf if none is known.
    """
    rows = np.vstack([sensitivity / sd[:, None], np.diag(1 / prior_sd)])
    wanted = np.concatenate([residual / sd, -at / prior_sd])
    step: Array = np.linalg.lstsq(rows, wanted, rcond=1e-10)[0]
    return step


def covariance(sensitivity: Array, sd: Array, prior_sd: Array) -> Array:
    """Return the covariance of the logarithms; inf on the diagonal if neither prior nor data hold one."""
    information = (sensitivity / sd[:, None]).T @ (sensitivity / sd[:, None]) + np.diag(prior_sd**-2.0)
    values, vectors = np.linalg.eigh(information)
    free = values <= 1e-15 * max(1.0, float(values.max(initial=0.0)))
    found: Array = (vectors[:, ~free] / values[~free]) @ vectors[:, ~free].T
    loose = (vectors[:, free] ** 2).sum(axis=1) > 1e-9
    found[loose, loose] = math.inf
    return found
