"""Estimate: the profile under which the cost model best predicts the measurements, within its bands.

Every observation is one duration that the cost model can predict for any cluster. The logarithms of all
factors are estimated together (`most_probable`), with sensitivities by finite differences through the cost
model itself. Observations that depend on two numbers (a small kernel: memory and launch) are thus shared out
between them by their sensitivities and priors, and whatever no observation depends on stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from explorer.base.errors import InputError
from explorer.calibrate.most_probable import MOST, EstimationProblem, MostProbable, most_probable
from explorer.calibrate.numbers import Number, numbers_of, shifted, with_sources
from explorer.calibrate.posterior import Array, band_of, sd_of
from explorer.calibrate.table import kind_value, with_kind_value
from explorer.cluster import Cluster, Source

SUFFIX = " calibrated"
"""Suffix of a corrected cluster's name."""
MODEL_SD = 0.1
"""Standard deviation of the logarithm of the cost model's error for one duration, beyond what all share."""
_AGREE = 2.0  # standard deviations that profile and measurements may differ by
LEAST_LEARNED = 0.01
"""Share of the prior variance that observations must remove for a number to count as identified."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One measured duration, with the cost model's prediction for any cluster."""

    name: str
    """Description of what was timed."""
    predict: Callable[[Cluster], float]
    """Function that predicts the seconds on a cluster."""
    measured_s: float
    """Seconds observed, a median if there were several."""
    sd: float
    """Standard deviation of the logarithm, of the median and of the cost model for this shape."""
    about: str = ""
    """Key of the one number that it measures directly; empty for others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything one file says."""

    name: str
    """Description of the file."""
    observations: tuple[Observation, ...]
    """Durations that it measured."""
    remarks: tuple[str, ...] = ()
    """Parts that say nothing, and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedNumber:
    """One corrected number."""

    number: Number
    """Number as the profile has it."""
    after: float
    """Value as corrected."""
    band: float
    """Half-width of the corrected number's 80 % band; the prior's is `number.band`."""
    prior_share: float
    """Share of the corrected logarithm that the profile still decides: variance after over before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatedCluster:
    """A corrected cluster and what became of each number."""

    cluster: Cluster
    """Cluster with the changes and their sources."""
    changes: tuple[EstimatedNumber, ...]
    """Changes of the numbers that the evidence identifies."""
    kept: tuple[str, ...]
    """Numbers that stay as they are, and why."""
    error_before_pct: float
    """Median absolute error of the observations under the original profile, in per cent."""
    error_after_pct: float
    """Median absolute error under the corrected profile, in per cent."""
    observations: int
    """Number of observations."""


def estimate(cluster: Cluster, evidence: Sequence[Evidence]) -> EstimatedCluster:
    """Estimate the most probable cluster, given a profile with its bands and the measurements.

    Raises:
        InputError: no observation at all, or one that is not a positive duration.
    """
    seen = [item for part in evidence for item in part.observations]
    if not seen:
        remarks = "; ".join(dict.fromkeys(text for part in evidence for text in part.remarks))
        raise InputError(
            f"nothing was measured that the profile {cluster.name} predicts: {remarks or 'no durations'}",
            key="--with", allowed="runs or traces of this profile's devices",
        )  # fmt: skip
    for item in seen:
        if not 0 < item.measured_s < math.inf:
            raise InputError(f"{item.name} took {item.measured_s} s", found=item.measured_s, allowed="> 0")
    base = with_direct(cluster, seen)
    numbers = [item for item in numbers_of(base) if item.fits]
    prior = np.array([sd_of(item.band) or math.inf for item in numbers])
    return _corrected(cluster, base, numbers, prior, _fit(base, numbers, prior, seen), evidence)


def with_direct(cluster: Cluster, seen: Sequence[Observation]) -> Cluster:
    """Set numbers that are 0, which no factor changes, to what was measured of them."""
    measured = {item.about: item.measured_s for item in seen if item.about}
    new: list[tuple[str, Source]] = []
    kinds = []
    for kind in cluster.device_kinds:
        for name in _DIRECT:
            value = measured.get(f"{kind.name}.{name}", 0.0)
            if value and not kind_value(kind, name):
                kind = with_kind_value(kind, name, value)  # noqa: PLW2901
                new.append((kind.name, Source(key=name, how="assumed", reference="not known before")))
        kinds.append(kind)
    return with_sources(replace(cluster, device_kinds=tuple(kinds)), new)


_DIRECT = ("launch_overhead_s", "host_issue_s", "action_overhead_s")


def _fit(
    cluster: Cluster, numbers: Sequence[Number], prior: Array, seen: Sequence[Observation]
) -> MostProbable:
    wanted = np.log([item.measured_s for item in seen])
    keys = [item.key for item in numbers]

    def residual(at: Array) -> Array:
        made = shifted(cluster, dict(zip(keys, np.exp(at).tolist(), strict=True)))
        found: Array = wanted - np.log([_positive(item, made) for item in seen])
        return found

    most = np.array([_most(item) for item in numbers])
    sd = np.array([item.sd for item in seen])
    return most_probable(
        EstimationProblem(residuals=lambda trials: list(map(residual, trials)), sd=sd, prior=prior, most=most)
    )


def _most(number: Number) -> float:
    """Return the largest logarithm of a factor: a fraction becomes 1 at most."""
    return max(0.0, -math.log(number.value)) if number.quantity == "fraction" else MOST


def _positive(item: Observation, cluster: Cluster) -> float:
    seconds = item.predict(cluster)
    if not 0 < seconds < math.inf:
        raise InputError(f"{item.name} is predicted to take {seconds} s", found=seconds, allowed="> 0")
    return seconds


def _corrected(
    cluster: Cluster, base: Cluster, numbers: Sequence[Number], prior: Array, found: MostProbable,
    evidence: Sequence[Evidence],
) -> EstimatedCluster:  # fmt: skip
    changes: list[tuple[Number, Number, float, float]] = []
    new: list[tuple[str, Source]] = []
    factors: dict[str, float] = {}
    kept, idle = [text for part in evidence for text in part.remarks], list[str]()
    own = {item.key: item for item in numbers_of(cluster)}
    names = ", ".join(part.name for part in evidence)
    columns = (prior.tolist(), found.variance.tolist(), found.at.tolist())
    for number, before, variance, at in zip(numbers, *columns, strict=True):
        share = 0.0 if math.isinf(before) and math.isfinite(variance) else variance / before**2
        if not share < 1 - LEAST_LEARNED:  # inf / inf too
            idle.append(number.key)
            continue
        factors[number.key] = math.exp(at)
        band = band_of(math.sqrt(variance) * _conflict(at, before, share))
        old = own.get(number.key, replace(number, value=0.0, source=None))
        words = f"; before it {old.source.how}, {old.source.reference}" if old.source else ""
        reference = f"calibrated with {names}{words}"
        new.append(
            (number.owner, Source(key=number.source_key, how="fitted", band=band, reference=reference))
        )
        changes.append((number, old, band, share))
    made = with_sources(shifted(base, factors), new)
    after = {item.key: item.value for item in numbers_of(made)}
    kept += [
        f"{number.key}: measured at more than the profile's peak, which is taken as reached"
        for number, capped in zip(numbers, found.capped.tolist(), strict=True)
        if capped
    ]
    if idle:
        kept.append(f"nothing measured depends on {', '.join(idle)}")
    return EstimatedCluster(
        cluster=named(made),
        changes=tuple(
            EstimatedNumber(number=old, after=after[number.key], band=band, prior_share=share)
            for number, old, band, share in changes
        ),
        kept=tuple(dict.fromkeys(kept)),
        error_before_pct=_median_pct(found.before),
        error_after_pct=_median_pct(found.after),
        observations=len(found.after),
    )


def _conflict(at: float, prior_sd: float, share: float) -> float:
    """Return how much a band is widened if profile and measurements contradict each other; 1 if they agree.

    With z the correction over its standard deviation before measuring, sd sqrt(1 - share), the band grows as
    z / 2 beyond 2: one of the two is wrong by more than it says (as the scale factor of the Particle Data
    Group, which multiplies errors by the root of chi squared over its degrees of freedom).
    """
    return 1.0 if math.isinf(prior_sd) else max(1.0, abs(at) / (prior_sd * math.sqrt(1 - share)) / _AGREE)


def _median_pct(log_ratios: Array) -> float:
    """Return the median absolute error of predicted against measured, in per cent."""
    return 100 * float(np.median(np.abs(np.expm1(-log_ratios))))


def named(cluster: Cluster) -> Cluster:
    """Name a cluster as calibrated, once."""
    name = cluster.name if cluster.name.endswith(SUFFIX) else cluster.name + SUFFIX
    title = cluster.title if cluster.title.endswith(SUFFIX) or not cluster.title else cluster.title + SUFFIX
    return replace(cluster, name=name, title=title)
