"""Calibration by measured steps: one to three step times correct the few numbers that they can tell.

Each run is one equation: the logarithm of its step time, measured over predicted, is what every number of
`explorer.calibrate.step_numbers` is off by, times how much the step depends on it, and `ROW_SD` of what the
simulator leaves out of a single strategy. Slopes are finite differences through `explorer.simulate`; the
posterior (`explorer.calibrate.step_posterior`) is found by a few steps of Gauss and Newton, since overlap
makes a step not quite linear.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.between_sources import time_band
from explorer.calibrate.estimate import LEAST_LEARNED, named
from explorer.calibrate.measured_runs import MeasuredRun, require_possible
from explorer.calibrate.numbers import Number, numbers_of, with_sources
from explorer.calibrate.peak_memory import PeakChange, calibrated_memory
from explorer.calibrate.posterior import Array, Z, band_of, covariance, sd_of
from explorer.calibrate.step_numbers import MODEL_SD, StepNumber, moved, step_numbers
from explorer.calibrate.step_posterior import ROW_SD, StepPosterior, scaled_priors, step_posterior
from explorer.cluster import Cluster, Source
from explorer.cluster.calibration import MODEL, Calibration, MeasuredStep
from explorer.costs.model_key import model_key

MOST_RUNS = 3
"""Most runs at once: more are better told by a trace (`explorer calibrate --with`)."""
_ROUNDS, _STILL = 4, 1e-3
_NOTABLE = 2e-3  # of a logarithm, below which a number stays as it is
_STEP = 0.02  # of a logarithm, for finite differences: wider than the corners of a wave
_FURTHEST = 1.5  # of a logarithm, which no number moves beyond: a factor of 4.5


@dataclass(frozen=True, slots=True, kw_only=True)
class StepChange:
    """What became of one number."""

    number: StepNumber
    """The number."""
    factor: float
    """Its seconds over those of the profile: 1.05 is 5 % slower."""
    band_before: float
    """Half-width of its 80 % band before."""
    band: float
    """Half-width afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOutcome:
    """One run before and after."""

    run: MeasuredRun
    """The run."""
    before_s: float
    """Step time predicted by the profile as it was."""
    after_s: float
    """Step time predicted by the corrected profile."""
    band_before: float
    """Half-width of the 80 % band of a strategy of this model before, as known to the calibration."""
    band: float
    """Half-width afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedSteps:
    """A corrected cluster and what became of it."""

    cluster: Cluster
    """The corrected cluster, with sources and `Cluster.calibration`."""
    changes: tuple[StepChange, ...]
    """Numbers that the runs told something about, the most changed first."""
    runs: tuple[RunOutcome, ...]
    """The runs."""
    memory: tuple[PeakChange, ...] = ()
    """Memory before and after, for runs that measured it."""


def calibrate_steps(cluster: Cluster, runs: Sequence[MeasuredRun]) -> CalibratedSteps:
    """Return the cluster as it most probably is, given measured steps.

    Args:
        cluster: the profile, under the framework that ran.
        runs: one to `MOST_RUNS` runs of different plans.

    Raises:
        InputError: no run or too many, equal plans, or a run that contradicts physics.
        ExplorerError: a plan does not fit the cluster.
    """
    _check(runs)
    reports = [run.report(cluster) for run in runs]
    for run, report in zip(runs, reports, strict=True):
        require_possible(run, report)
    models = tuple(dict.fromkeys(model_key(run.graph) for run in runs))
    numbers = step_numbers(cluster, models)
    priors = prior_covariances(cluster, numbers)
    predicted = np.array([report.step_time_s for report in reports])
    sd = np.array([math.hypot(ROW_SD, run.spread) for run in runs])
    found, slopes, after = _posterior(cluster, numbers, priors, runs, predicted, sd)
    logs = dict(zip((item.key for item in numbers), found.mean.tolist(), strict=True))
    made = moved(cluster, numbers, {key: by for key, by in logs.items() if abs(by) > _NOTABLE})
    changes = _changes(numbers, found)
    made = with_sources(made, _sources(cluster, made, changes, runs))
    made = replace(made, calibration=_calibration(cluster, numbers, found, slopes, sd, runs))
    made, memory = calibrated_memory(made, runs, reports)
    spreads = [found.prior, found.covariance]
    bands = [
        [band_of(math.sqrt(float(row @ spread @ row) + ROW_SD**2)) for row in slopes] for spread in spreads
    ]
    return CalibratedSteps(
        cluster=named(made),
        changes=tuple(changes),
        runs=tuple(
            RunOutcome(run=run, before_s=before, after_s=now, band_before=wide, band=narrow)
            for run, before, now, wide, narrow in zip(
                runs, predicted.tolist(), after.tolist(), *bands, strict=True
            )
        ),
        memory=memory,
    )


def _check(runs: Sequence[MeasuredRun]) -> None:
    if not 1 <= len(runs) <= MOST_RUNS:
        raise InputError(
            f"{len(runs)} measured runs", key="--run", found=len(runs), allowed=f"1 to {MOST_RUNS}"
        )
    for i, run in enumerate(runs):
        for other in runs[:i]:
            if (run.graph, run.workload, run.strategy) == (other.graph, other.workload, other.strategy):
                raise InputError(
                    f"{other.name} and {run.name} are the same plan: a second run of it tells nothing new",
                    key="--run", found=run.name, allowed="different plans",
                )  # fmt: skip


def prior_covariances(cluster: Cluster, numbers: Sequence[StepNumber]) -> list[Array]:
    """Return covariances before a run, equally likely: as earlier steps left them, or by the bands."""
    sd = np.array([item.sd for item in numbers])
    if not cluster.calibration.steps:
        compute = [i for i, item in enumerate(numbers) if item.key.endswith(".compute")]
        sd[compute] = np.maximum(sd[compute], machine_sd(time_band(cluster).log_error))
        return scaled_priors(sd, compute)
    keys, left = calibrated_covariance(cluster.calibration)
    at = {key: i for i, key in enumerate(keys)}
    found = np.diag(sd**2)
    for i, one in enumerate(numbers):
        for j, other in enumerate(numbers):
            if one.key in at and other.key in at:
                found[i, j] = left[at[one.key], at[other.key]]
    return [found]


def machine_sd(log_error: float) -> float:
    """Return the deviation of a machine's kernels, given the 80 % band of a step on a new machine.

    Args:
        log_error: half of the band in logarithms (`explorer.calibrate.between_sources`): what machine, model
            and strategy are off by together.
    """
    return math.sqrt(max(0.0, (log_error / Z) ** 2 - MODEL_SD**2 - ROW_SD**2))


def calibrated_covariance(calibration: Calibration) -> tuple[tuple[str, ...], Array]:
    """Return the keys of the numbers that steps corrected, and their covariance."""
    keys = tuple(key for key, _ in calibration.priors)
    prior = np.array([sd for _, sd in calibration.priors])
    slopes = np.array([[dict(step.slopes).get(key, 0.0) for key in keys] for step in calibration.steps])
    sd = np.array([step.sd for step in calibration.steps])
    return keys, covariance(slopes.reshape(-1, len(keys)), sd, prior)


def slopes_of(run: MeasuredRun, cluster: Cluster, numbers: Sequence[StepNumber], seconds: float) -> Array:
    """Return how much a run's step depends on each number: (numbers), relative, at least 0.

    Args:
        run: the run.
        cluster: where the slopes are taken.
        numbers: the numbers.
        seconds: step time there.

    Raises:
        ExplorerError: the strategy cannot be simulated.
    """
    found = []
    for number in numbers:
        slower = number.move(cluster, math.exp(_STEP))
        found.append(math.log(run.report(slower).step_time_s / seconds) / _STEP)
    slopes: Array = np.maximum(0.0, np.array(found))
    return slopes


def _posterior(
    cluster: Cluster, numbers: tuple[StepNumber, ...], priors: Sequence[Array], runs: Sequence[MeasuredRun],
    predicted: Array, sd: Array,
) -> tuple[StepPosterior, Array, Array]:  # fmt: skip
    """Return the posterior, the slopes at its mean, and the step times there."""
    wanted = np.log([run.step_time_s for run in runs])
    at, here, seconds = np.zeros(len(numbers)), cluster, predicted
    for _ in range(_ROUNDS):
        slopes = np.array(
            [slopes_of(run, here, numbers, s) for run, s in zip(runs, seconds.tolist(), strict=True)]
        )
        found = step_posterior(priors, slopes, wanted - np.log(seconds) + slopes @ at, sd)
        found = found._replace(mean=np.clip(found.mean, -_FURTHEST, _FURTHEST))
        moved_by, at = float(np.abs(found.mean - at).max()), found.mean
        here = moved(cluster, numbers, dict(zip((n.key for n in numbers), at.tolist(), strict=True)))
        seconds = np.array([run.report(here).step_time_s for run in runs])
        if moved_by < _STILL:
            break
    return found, slopes, seconds


def _changes(numbers: Sequence[StepNumber], found: StepPosterior) -> list[StepChange]:
    """Return the numbers that runs told something about, the most changed first."""
    before, after = np.sqrt(np.diag(found.prior)), np.sqrt(np.maximum(np.diag(found.covariance), 0.0))
    changes = [
        StepChange(number=number, factor=math.exp(by), band_before=band_of(wide), band=band_of(narrow))
        for number, by, wide, narrow in zip(
            numbers, found.mean.tolist(), before.tolist(), after.tolist(), strict=True
        )
        if narrow**2 < (1 - LEAST_LEARNED) * wide**2 or abs(by) > _NOTABLE
    ]
    return sorted(changes, key=lambda change: -abs(math.log(change.factor)))


def _sources(
    old: Cluster, made: Cluster, changes: Sequence[StepChange], runs: Sequence[MeasuredRun]
) -> list[tuple[str, Source]]:
    """Return the sources of all numbers of the profile that were changed."""
    before = {item.key: item for item in numbers_of(old)}
    change_of = {key: change for change in changes for key in change.number.members}
    names = ", ".join(run.name for run in runs)
    found = []
    for item in numbers_of(made):
        former, change = before.get(item.key), change_of.get(item.key)
        if change is None or (former is not None and former.value == item.value):
            continue
        source = former.source if former else None
        words = f"; before it {source.how}, {source.reference}" if source else ""
        reference = f"calibrated with steps of {names}{words}"
        band = _band(item, former, change)
        found.append((item.owner, Source(key=item.source_key, how="fitted", band=band, reference=reference)))
    return found


def _band(item: Number, former: Number | None, change: StepChange) -> float:
    """Return the band of one member of a group: as much narrower as the group's."""
    if former is not None and former.band:
        return band_of(sd_of(former.band) * sd_of(change.band) / sd_of(change.band_before))
    # a slowdown is a share of the time that the group's band is about
    return change.band * ((1 + item.value) / item.value if item.name in _SLOWDOWNS else 1.0)


_SLOWDOWNS = ("busy_slowdown", "overlap_slowdown")


def _calibration(
    cluster: Cluster, numbers: Sequence[StepNumber], found: StepPosterior, slopes: Array, sd: Array,
    runs: Sequence[MeasuredRun],
) -> Calibration:  # fmt: skip
    known = cluster.calibration
    spread = np.sqrt(np.diag(found.prior)).tolist()
    priors = {item.key: value for item, value in zip(numbers, spread, strict=True)}
    steps = tuple(
        MeasuredStep(
            name=run.name, step_time_s=run.step_time_s, sd=float(own),
            slopes=tuple(
                (item.key, round(float(slope), 6))
                for item, slope in zip(numbers, row, strict=True)
                if slope > 1e-6
            ),
        )
        for run, row, own in zip(runs, slopes, sd, strict=True)
    )  # fmt: skip
    return Calibration(priors=tuple({**priors, **dict(known.priors)}.items()), steps=(*known.steps, *steps))


def spread_of_step(cluster: Cluster, slopes: Mapping[str, float], model: str) -> float:
    """Return the standard deviation of the logarithm of a step time on a calibrated cluster.

    Args:
        cluster: a cluster with a calibration.
        slopes: how much the step depends on each number, by key.
        model: name of its graph; one that was not measured adds the spread of models.

    Raises:
        InputError: the cluster was not calibrated by steps.
    """
    if not cluster.calibration.steps:
        raise InputError("no measured step", key="calibration", found=cluster.name, allowed="one or more")
    keys, left = calibrated_covariance(cluster.calibration)
    row = np.array([slopes.get(key, 0.0) for key in keys])
    own = 0.0 if cluster.calibration.knows(model) else MODEL_SD * slopes.get(MODEL + model, 0.0)
    return math.sqrt(float(row @ left @ row) + own**2 + ROW_SD**2)
