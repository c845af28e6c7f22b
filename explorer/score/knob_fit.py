"""Fit: the most probable values of knobs, given the values believed before and measured rows.

A knob's logarithm is normal around its prior; `WIDTHS` says how well documents know such a number. A row's
logarithm of predicted over measured is judged by its square where it is small and by its size where it is
large (pseudo-Huber: sqrt of 2 (sqrt(1 + z^2) - 1) at z = error / scatter), so a row that the simulator does
not explain bends nothing. The minimum is found by `scipy.optimize.least_squares`, in units of the priors'
standard deviations. Every prediction is one of `explorer.simulate`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.most_probable import MOST, EstimationProblem, descend
from explorer.calibrate.posterior import Array, sd_of
from explorer.score.knobs import Knob, most_of

Values = Mapping[str, float]
"""Values of knobs by key."""
Errors = Callable[[Sequence[Values]], Sequence[Array]]
"""For each of several trials, the logarithm of predicted over measured of every row."""

WIDTHS = {
    "product_kernels": 0.1, "settled_fraction": 0.1,
    "tiles": 0.1, "tiles.small": 0.15, "tile_depth": 1.0, "unaligned_fraction": 0.5,
    "busy_slowdown": 1.0, "device_spread": 0.6, "overlap_slowdown": 0.5,
    "launch_overhead_s": 2.0, "host_issue_s": 1.0, "action_overhead_s": 4.0,
    "latency_s": 2.0, "collective_efficiency": 0.15, "collective_overhead_s": 4.0,
    "crossing_slowdown": 4.0, "operation_efficiency": 0.15, "protocols": 0.5,
    "bandwidth_bytes_per_s": 0.3, "reserved_bytes": 0.5,
}  # fmt: skip
"""80 % half-widths of priors: the number is between prior / (1 + width) and prior x (1 + width) on four of
five machines. Costs of software (calling a stage, waiting for others) are known least."""
CURVE_WIDTH = 0.15
"""80 % half-width of a whole efficiency curve."""
RESTARTS = 2
"""Most times that a fit looks away from where a descent ended, and starts again if rows like it better."""
AWAY = (0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0)
"""Standard deviations by which each number is tried elsewhere."""
SCATTER = 0.04
"""Standard deviation of rows around a perfect simulator, in logarithms."""

_STILL = 1e-4  # relative change below which a fit ends
_STEP = 0.03  # of a logarithm, for finite differences: wider than the corners of a wave


class Fit(NamedTuple):
    """Result of a fit."""

    values: dict[str, float]
    """Value of every knob, by key."""
    before: Array
    """Errors of rows at the priors, as logarithms."""
    after: Array
    """Errors of rows at the values, as logarithms."""


def prior_sd(knob: Knob) -> float:
    """Return the standard deviation of the logarithm of a knob under its prior.

    Raises:
        InputError: it is unknown how well such a number is known.
    """
    name = knob.name
    width = WIDTHS.get(name, CURVE_WIDTH if name.startswith("efficiency.") else 0.0)
    if not width:
        raise InputError(
            f"nothing says how well {name!r} is known before a fit", key=knob.key, found=name,
            allowed=", ".join(WIDTHS),
        )  # fmt: skip
    return sd_of(width)


def fit(
    knobs: Sequence[Knob],
    errors: Errors,
    *,
    scatter: float | Array = SCATTER,
    rounds: int = 8,
    onwards: bool = False,
) -> Fit:
    """Find the most probable values of knobs.

    Args:
        knobs: knobs that may move from their priors.
        errors: function of several trials that returns the errors of all rows at each.
        scatter: standard deviation of rows, one for all or one each.
        rounds: most steps; each takes one trial and one more for every knob.
        onwards: whether to go on from the knobs' values, without a look elsewhere; priors count all the same.

    Raises:
        InputError: there are no knobs, or the prior of one is not above 0.
    """
    if not knobs or any(knob.prior <= 0 for knob in knobs):
        raise InputError(
            "a fit needs knobs with priors above 0", key="prior",
            found=[knob.key for knob in knobs if knob.prior <= 0] or "no knobs", allowed="above 0",
        )  # fmt: skip
    most = np.array([min(MOST, math.log(knob.most / knob.prior)) for knob in knobs])

    def values(at: Array) -> dict[str, float]:
        factors = np.exp(at).tolist()
        return {knob.key: min(knob.prior * by, knob.most) for knob, by in zip(knobs, factors, strict=True)}

    start = np.zeros(len(knobs))
    (before,) = errors([values(start)])
    problem = EstimationProblem(
        residuals=lambda trials: [-row for row in errors([values(at) for at in trials])],
        sd=np.broadcast_to(np.asarray(scatter, dtype=float), before.shape),
        prior=np.array([prior_sd(knob) for knob in knobs]),
        most=most,
        robust=True,
        step=_STEP,
        two_sided=False,
    )
    now = (
        np.log([(knob.value or knob.prior) / knob.prior for knob in knobs])
        if onwards
        else _look_around(problem, start)
    )
    best = descend(problem, now, rounds=rounds, tolerance=_STILL)
    for _ in range(0 if onwards else RESTARTS):
        elsewhere = _look_around(problem, best.at)
        if np.array_equal(elsewhere, best.at):
            break
        best = descend(problem, elsewhere, rounds=rounds, tolerance=_STILL)
    return Fit(values(best.at), before, -best.left)


def _look_around(problem: EstimationProblem, middle: Array) -> Array:
    """Return where a descent starts: a point, or one some standard deviations off (`AWAY`) that is better.

    A cost that other work hides shows no slope where it is hidden, and of two costs that bind in turn a
    descent follows one: each knob is therefore tried alone on both sides, and then all that helped together.
    """
    count = len(problem.prior)
    steps = [np.zeros(count), *(row for by in AWAY for row in by * np.diag(problem.prior))]
    tried = [np.minimum(middle + step, problem.most) for step in steps]
    costs = [float((parts**2).sum()) for parts in problem.parts(tried)]
    together = middle.copy()
    for j in range(count):
        side = min((0, *range(1 + j, len(steps), count)), key=lambda i: costs[i])
        together[j] = tried[side][j]
    tried.append(together)
    costs.append(float((problem.parts([together])[0] ** 2).sum()))
    best: Array = tried[int(np.argmin(costs))]
    return best


def rounded(values: Values, digits: int = 3) -> dict[str, float]:
    """Round values as a profile states them: to some significant digits, fractions at most 1.

    >>> rounded({"k.tiles": 0.98765, "k.host_issue_s": 7.1234e-05})
    {'k.tiles': 0.988, 'k.host_issue_s': 7.12e-05}
    """
    return {key: min(float(f"{value:.{digits}g}"), most_of(key)) for key, value in values.items()}
