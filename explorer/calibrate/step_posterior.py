"""What a few step times say of many numbers: a normal posterior, averaged over how far a profile may be off.

With y the logarithms of measured over predicted, S their slopes and P the covariance of the numbers before,

    mean = P S' (S P S' + s^2)^-1 y          covariance = P - P S' (S P S' + s^2)^-1 S P

How far a machine's kernels are off is known between sources (`explorer.calibrate.between_sources`): on a
machine and with software like those a profile was fitted on they are off by less, on others by more. So
that deviation is known up to `SCALES`, all equally likely before, and each is weighed by how probable it
makes what was measured (the evidence of the normal distribution). A single step that is far off then
moves the machine, one that is a little off hardly does. (Gelman et al., Bayesian Data Analysis, 3rd
edition, 2013, sections 5.4, 14.8 and 18.2.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from explorer.calibrate.posterior import Array

SCALES = (0.25, 0.5, 1.0, 2.0)
"""How many times as wide as between sources a machine's error may be."""
ROW_SD = 0.05
"""Standard deviation of the logarithm of what the simulator leaves out of one strategy, beyond what all
strategies of its model share."""


class StepPosterior(NamedTuple):
    """Numbers after some steps were measured."""

    mean: Array
    """Logarithms of the factors of their seconds."""
    covariance: Array
    """Covariance of these."""
    prior: Array
    """Covariance before, its scales weighed by the evidence."""


def step_posterior(priors: Sequence[Array], slopes: Array, y: Array, sd: Array) -> StepPosterior:
    """Return the posterior of numbers.

    Args:
        priors: covariances before, (numbers, numbers), equally likely.
        slopes: slopes of the logarithm of each step time, (steps, numbers).
        y: logarithm of measured over predicted where all numbers are as the profile says.
        sd: standard deviation of each step.
    """
    found = [_normal(prior, slopes, y, sd) for prior in priors]
    evidence = np.array([item[2] for item in found])
    weights = np.exp(evidence - evidence.max())
    weights /= weights.sum()
    mean = sum((w * m for w, (m, _, _) in zip(weights, found, strict=True)), np.zeros(slopes.shape[1]))
    size = (slopes.shape[1], slopes.shape[1])
    covariance, prior = np.zeros(size), np.zeros(size)
    for weight, (middle, spread, _), before in zip(weights, found, priors, strict=True):
        covariance += weight * (spread + np.outer(middle - mean, middle - mean))
        prior += weight * before
    return StepPosterior(mean, covariance, prior)


def _normal(prior: Array, slopes: Array, y: Array, sd: Array) -> tuple[Array, Array, float]:
    """Return mean, covariance and the logarithm of the evidence, up to a constant."""
    seen = slopes @ prior @ slopes.T + np.diag(sd**2)
    gain = np.linalg.solve(seen, slopes @ prior).T
    evidence = -0.5 * float(y @ np.linalg.solve(seen, y) + np.linalg.slogdet(seen)[1])
    return gain @ y, prior - gain @ slopes @ prior, evidence


def scaled_priors(sd: Array, compute: Sequence[int]) -> list[Array]:
    """Return the covariance of independent numbers for each of `SCALES` of some of them.

    Args:
        sd: standard deviation of each number.
        compute: positions of those whose deviation is uncertain.
    """
    found = []
    for scale in SCALES:
        own = np.array(sd, dtype=float)
        own[list(compute)] *= scale
        found.append(np.diag(own**2))
    return found
