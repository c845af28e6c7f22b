"""Bands: how far a prediction may be off, by the error bands of the profile and by past runs.

Every number of a profile with a band (`explorer.calibrate.numbers`) is off by a factor whose logarithm is
normal, independently of the others; numbers that move together count as one (a curve and its tiles, the
bandwidths of a level, the same kind of all devices). The plan is simulated again with each number at either
end of its 80 % band, and the differences add up as independent errors do:

    high = value exp(sqrt(sum of ln(F_j / value)^2 over the ends that raise it)),      low likewise

which is exact if the logarithm of the figure is linear in those of the numbers, and keeps asymmetries
(communication that is hidden now and would not be on slower links). Figures that may be 0 add differences
instead of logarithms.

These bands say what follows from each number; what the simulator itself leaves out they do not hold. Seconds
and memory of a machine on which nothing was calibrated therefore have the band that left-out sources taught
(`explorer.calibrate.between_sources`), with the profile's numbers as its causes.

Runs teach more than a profile knows, including what the simulator leaves out. If a history has enough runs on
the same kind of machine, the band of a figure comes from them (`explorer.calibrate.conformal`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from explorer.calibrate import between_sources
from explorer.calibrate.between_sources import MEMORY, TIME
from explorer.calibrate.conformal import quantile
from explorer.calibrate.history import Learned
from explorer.calibrate.joint_errors import covered, directions
from explorer.calibrate.numbers import Number, numbers_of, shifted
from explorer.calibrate.posterior import Z
from explorer.calibrate.step_posterior import ROW_SD
from explorer.cluster import Cluster
from explorer.costs.model_key import model_key
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy
from explorer.workload import Workload

Figures = Mapping[str, float]

PROFILE = "profile"
"""Basis of a band that follows from the bands of the profile's sources."""
HISTORY = "history"
"""Basis of a band that was learned from runs."""
SOURCES = "sources"
"""Basis of a band that was learned between sources of published runs, of which this machine is none."""
STEPS = "steps"
"""Basis of a band that follows from measured steps of this very machine (`explorer.calibrate.steps`)."""
MOST_CAUSES = 3
"""Count of numbers named as those that widen a band most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The 80 % band of one predicted figure."""

    low: float
    """Lower end."""
    high: float
    """Upper end."""
    basis: str
    """Basis: `profile`, `history`, `sources` or `steps`."""
    runs: int = 0
    """Number of runs it was learned from."""
    causes: tuple[Number, ...] = ()
    """Numbers of the profile that widen it most, the strongest first."""
    about: str = ""
    """How near the sources are on which it rests, in words; empty on another basis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Figures with one number of the profile at the ends of its band."""

    number: Number
    """Number that is shifted."""
    less: Figures
    """Figures with the number at its lower end."""
    more: Figures
    """Figures with the number at its upper end."""


def uncertain(cluster: Cluster) -> tuple[Number, ...]:
    """List the numbers of a profile whose band is known, but those that measured steps told together."""
    joint = covered(cluster)
    return cluster.memo(
        "uncertain", lambda: tuple(n for n in numbers_of(cluster) if n.band and n.key not in joint)
    )


def ends(cluster: Cluster, number: Number) -> tuple[Cluster, Cluster]:
    """Return the cluster with one number at the lower and at the upper end of its band."""

    def make() -> tuple[Cluster, Cluster]:
        factor = 1 + number.band
        return shifted(cluster, {number.key: 1 / factor}), shifted(cluster, {number.key: factor})

    return cluster.memo(("ends", number.key), make)


def shifting(
    cluster: Cluster, evaluate: Callable[[Cluster], Figures], model: str = ""
) -> Iterator[Shift | None]:
    """Yield the shift of every uncertain number, and None after every simulation that completes none.

    Args:
        cluster: the cluster.
        evaluate: function that returns the figures on another one.
        model: name of the model's graph, of which measured steps may know more than of others.

    Raises:
        ExplorerError: the plan does not run at one of the ends.
    """
    for number in uncertain(cluster):
        below, above = ends(cluster, number)
        less = evaluate(below)
        yield None
        yield Shift(number=number, less=less, more=evaluate(above))
    for found in directions(cluster, model):
        less = evaluate(found.less)
        yield None
        yield Shift(number=found.number, less=less, more=evaluate(found.more))
    if cluster.calibration.steps:
        here, by = evaluate(cluster), math.exp(Z * ROW_SD)
        yield Shift(number=_LEFT_OUT, less=_slower(here, 1 / by), more=_slower(here, by))


_LEFT_OUT = Number(owner="", name="left_out", value=1.0, quantity="fraction", source=None)
_SECONDS = ("step_time_s", "makespan_s", "step_time")
_RATES = ("throughput_samples_per_s", "throughput", "mfu")


def _slower(figures: Figures, by: float) -> Figures:
    """Return figures of a step that takes longer by a factor."""
    power = {**dict.fromkeys(_SECONDS, by), **dict.fromkeys(_RATES, 1 / by)}
    return {key: value * power.get(key, 1.0) for key, value in figures.items()}


def combined(
    figures: Figures, shifts: Sequence[Shift], *, additive: frozenset[str] = frozenset()
) -> dict[str, Band]:
    """Combine shifts into the bands of figures, by key.

    Args:
        figures: the predicted values.
        shifts: the shift of every uncertain number; () if no band is known.
        additive: keys of figures that may be 0; their differences add up, not their logarithms.
    """
    return {
        key: _combined(key, value, shifts, additive=key in additive or value <= 0)
        for key, value in figures.items()
        if shifts
    }


def _combined(key: str, value: float, shifts: Sequence[Shift], *, additive: bool) -> Band:
    up = down = 0.0
    weights: list[tuple[float, Number]] = []
    for shift in shifts:
        moved = [
            found[key] - value if additive else math.log(found[key] / value)
            for found in (shift.less, shift.more)
        ]
        highest, lowest = max(0.0, *moved), min(0.0, *moved)
        up, down = math.hypot(up, highest), math.hypot(down, lowest)
        weights.append((highest - lowest, shift.number))
    weights = sorted((item for item in weights if item[0] > 0), key=lambda item: -item[0])
    return Band(
        low=max(0.0, value - down) if additive else value * math.exp(-down),
        high=value + up if additive else value * math.exp(up),
        basis=PROFILE,
        causes=tuple(number for _, number in weights[:MOST_CAUSES]),
    )


ERRORS = {
    "step_time_s": TIME, "makespan_s": TIME, "throughput_samples_per_s": TIME, "mfu": TIME,
    "peak_memory_bytes": MEMORY, "step_time": TIME, "throughput": TIME, "memory": MEMORY,
}  # fmt: skip
"""Figures of reports and tiles whose relative errors left-out sources teach."""


def uncalibrated(
    figures: Figures, cluster: Cluster, framework: str, by_profile: Mapping[str, Band]
) -> dict[str, Band]:
    """Return the bands of figures on a machine on which nothing was calibrated.

    Args:
        figures: the predicted values.
        cluster: the devices.
        framework: name of the software; empty for that of the device kinds.
        by_profile: bands by the profile's numbers, kept for other figures.
    """
    found = dict(by_profile)
    for key, value in figures.items():
        if key in ERRORS and value > 0:
            known = between_sources.band(ERRORS[key], cluster, framework)
            by = math.exp(known.log_error)
            causes = by_profile[key].causes if key in by_profile else ()
            wide = Band(low=value / by, high=value * by, basis=SOURCES, causes=causes, about=known.words)
            found[key] = _calibrated(cluster, ERRORS[key], by_profile.get(key), wide)
    return found


def _calibrated(cluster: Cluster, figure: str, by_steps: Band | None, otherwise: Band) -> Band:
    """Return the band of a figure by measured steps of the cluster, if there were any and it is narrower."""
    runs = len(cluster.calibration.steps)
    if not runs or figure != TIME or by_steps is None:
        return otherwise
    if by_steps.high / by_steps.low > otherwise.high / otherwise.low:
        return otherwise
    return replace(by_steps, basis=STEPS, runs=runs)


def all_bands(
    figures: Figures,
    cluster: Cluster,
    framework: str,
    by_profile: Mapping[str, Band],
    taught: Mapping[str, Learned],
) -> dict[str, Band]:
    """Return the bands of figures: by enough runs on this kind of machine, else by left-out sources.

    Args:
        figures: the predicted values.
        cluster: the devices.
        framework: name of the software; empty for that of the device kinds.
        by_profile: bands by the profile's numbers.
        taught: what runs taught, by figure.
    """
    found = uncalibrated(figures, cluster, framework, by_profile)
    for key, value in figures.items():
        band = learned(value, taught.get(key), by_profile.get(key))
        if band is not None and band.basis == HISTORY:
            found[key] = band
    return found


def learned(value: float, known: Learned | None, otherwise: Band | None) -> Band | None:
    """Return the band that enough runs teach of a figure, else the band of the profile.

    Runs that were predicted from their own timing tell what the simulator leaves out, not how far the profile
    is off; in that case the two add up as independent errors do.
    """
    limit = quantile(known.log_ratios) if known and value > 0 else None
    if known is None or limit is None:
        return otherwise
    up = down = limit
    if otherwise is not None and not known.whole and otherwise.low > 0:
        up = math.hypot(limit, math.log(otherwise.high / value))
        down = math.hypot(limit, math.log(otherwise.low / value))
    return Band(
        low=value * math.exp(-down), high=value * math.exp(up), basis=HISTORY,
        runs=len(known.log_ratios), causes=otherwise.causes if otherwise else (),
    )  # fmt: skip


def report_figures(report: Report) -> dict[str, float]:
    """Return the numbers of a report that have a band; no `mfu` if FLOPs are unknown."""
    share = {} if report.mfu is None else {"mfu": report.mfu}
    return {
        "step_time_s": report.step_time_s,
        "makespan_s": report.makespan_s,
        "throughput_samples_per_s": report.throughput_samples_per_s,
        "peak_memory_bytes": max(report.peak_memory_bytes),
        "bubble_fraction": report.bubble_fraction,
        **share,
        "exposed_communication_s": sum(report.exposed_communication_s.values()),
    }


ADDITIVE = frozenset({"bubble_fraction", "exposed_communication_s"})
"""Figures of a report that may be 0."""


def report_bands(
    graph: LayerGraph | Mapping[str, LayerGraph],
    cluster: Cluster,
    workload: Workload,
    strategy: Strategy,
    *,
    history: Mapping[str, Learned] | None = None,
) -> dict[str, Band]:
    """Return the 80 % bands of a strategy's report by figure; {} if neither profile nor history knows one.

    Args:
        graph: as `simulate` takes it.
        cluster: the devices, with the bands of their sources.
        workload: the jobs.
        strategy: the strategy.
        history: what past runs on the same kind of machine taught, by figure (`explorer.calibrate.history`).

    Raises:
        ExplorerError: the strategy cannot be run.
    """

    def evaluate(devices: Cluster) -> dict[str, float]:
        return report_figures(simulate(graph, devices, workload, strategy))

    # a kind has the costs of one framework: with several jobs, those of the first have bands
    cluster = cluster_under(cluster, load_framework(workload.jobs[0].framework))
    figures = evaluate(cluster)
    shifts = [shift for shift in shifting(cluster, evaluate, _model(graph)) if shift]
    by_profile = combined(figures, shifts, additive=ADDITIVE)
    return all_bands(figures, cluster, workload.jobs[0].framework, by_profile, history or {})


def _model(graph: LayerGraph | Mapping[str, LayerGraph]) -> str:
    """Return the name of the only model; of several, steps say nothing in particular."""
    return "" if isinstance(graph, Mapping) else model_key(graph)
