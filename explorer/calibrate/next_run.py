"""Which further run would tell most: the one that narrows the bands of a plan and of its neighbours most.

Candidates are the plan's own neighbours: as many devices, one degree, the microbatch or recomputation
changed. In the normal model of `explorer.calibrate.steps` a measured step changes the covariance C of the
numbers in a way that does not depend on what will be measured,

    C' = C - C s s' C / (s' C s + sd^2)        s: slopes of the candidate's step

so every candidate's worth is known before it is run: the mean over all candidates of the variance that is
left of their step times (an A-optimal design; Chaloner and Verdinelli, Bayesian experimental design: a
review, Statistical Science 10, 1995).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from explorer.base.errors import ExplorerError
from explorer.calibrate.measured_runs import MeasuredRun
from explorer.calibrate.posterior import Array, band_of
from explorer.calibrate.step_numbers import step_numbers
from explorer.calibrate.step_posterior import ROW_SD
from explorer.calibrate.steps import calibrated_covariance, slopes_of
from explorer.cluster import Cluster
from explorer.costs.model_key import model_key
from explorer.explain.names import counted
from explorer.strategies.degrees import Degrees
from explorer.strategies.degrees_neighbours import neighbouring_degrees
from explorer.strategies.degrees_reading import ranks_of, regular_degrees

MOST_CANDIDATES = 12
"""Most neighbours that are looked at."""
WORTH = 0.02
"""Share of the mean band that a run must take away to be named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextRun:
    """The run that would tell most."""

    run: MeasuredRun
    """The run, with its predicted step time; its name says what it changes."""
    band: float
    """Mean half-width of the 80 % bands of the plan and its neighbours now."""
    band_after: float
    """The same after it was measured."""
    candidates: int
    """Number of neighbours that were compared."""

    @property
    def worth(self) -> bool:
        """Whether it narrows the bands noticeably."""
        return self.band_after < (1 - WORTH) * self.band


def next_run(cluster: Cluster, runs: Sequence[MeasuredRun]) -> NextRun | None:
    """Return the neighbour of the last run whose measurement would narrow the bands most.

    Args:
        cluster: the corrected cluster.
        runs: runs that were measured.

    Returns:
        The best candidate; None if the plan is not regular, or has no neighbour that fits.
    """
    asked = list(islice(_candidates(cluster, runs), MOST_CANDIDATES))
    if not asked:
        return None
    every = [*runs, *asked]
    numbers = step_numbers(cluster, tuple(dict.fromkeys(model_key(run.graph) for run in every)))
    slopes = np.array([slopes_of(run, cluster, numbers, run.report(cluster).step_time_s) for run in every])
    now = _covariance(cluster, [item.key for item in numbers], [item.sd for item in numbers])
    left = [_mean_band(_after(now, row), slopes) for row in slopes[len(runs) :]]
    best = min(range(len(asked)), key=left.__getitem__)
    return NextRun(
        run=asked[best], band=_mean_band(now, slopes), band_after=left[best], candidates=len(asked)
    )


def _covariance(cluster: Cluster, keys: Sequence[str], sd: Sequence[float]) -> Array:
    """Return the covariance of numbers now; those that no step told are as their profile says."""
    found = np.diag(np.array(sd) ** 2)
    known, left = calibrated_covariance(cluster.calibration)
    at = [keys.index(key) if key in keys else -1 for key in known]
    here = [i for i, place in enumerate(at) if place >= 0]
    places = [at[i] for i in here]
    found[np.ix_(places, places)] = left[np.ix_(here, here)]
    return found


def _after(now: Array, row: Array) -> Array:
    """Return the covariance once a step with these slopes is measured."""
    gain = now @ row
    left: Array = now - np.outer(gain, gain) / (float(row @ gain) + ROW_SD**2)
    return left


def _mean_band(now: Array, slopes: Array) -> float:
    spread = np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", slopes, now, slopes), 0.0) + ROW_SD**2)
    return math.fsum(band_of(float(item)) for item in spread) / len(spread)


def _candidates(cluster: Cluster, runs: Sequence[MeasuredRun]) -> Iterator[MeasuredRun]:
    """Yield neighbours of the last run that fit, each with its predicted step time."""
    last = runs[-1]
    job, known = last.workload.jobs[0], {run.strategy for run in runs}
    own = regular_degrees(last.strategy.jobs[0])
    if own is None:
        return
    devices = ranks_of(last.strategy.jobs[0])
    for found in neighbouring_degrees(own, last.graph, cluster, job, devices):
        if (words := _change(own, found)) is None:
            continue
        try:
            strategy = found.build(last.graph, cluster, job, devices=devices)
            run = replace(last, name=words, strategy=strategy, memory_bytes=0.0, spread=0.0)
            report = run.report(cluster)
        except ExplorerError:
            continue  # not every neighbour can be built: another is asked
        if report.feasible and strategy not in known:
            yield replace(run, step_time_s=report.step_time_s)


_WORDS = {
    "tensor": "tensor parallel {}", "context": "context parallel {}", "microbatch_size": "microbatch {}",
    "recompute": "recomputation: {}", "zero": "ZeRO {}",
}  # fmt: skip
"""Changes that a short run can make, in words."""
_NOUNS = {"stages": "pipeline stage", "replicas": "replica"}
"""The others of them: what they change the number of."""


def _change(own: Degrees, other: Degrees) -> str | None:
    """Say in words what another plan changes; None if it changes what there are no words for."""
    changed = [key for key in Degrees.__slots__ if getattr(own, key) != getattr(other, key)]
    told = [_said(key, getattr(other, key)) for key in changed if key in {*_WORDS, *_NOUNS}]
    return ", ".join(told) if told and len(told) == len(changed) else None


def _said(key: str, value: Any) -> str:
    return counted(value, _NOUNS[key]) if key in _NOUNS else _WORDS[key].format(value)
