"""Outcomes: what a search needs to know of a strategy's report; small enough to travel between processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from explorer.base.units import format_bytes
from explorer.cluster.memory_room import MAY_FIT
from explorer.search.objectives import frontier_axes
from explorer.search.problem import Problem
from explorer.simulation.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A report, reduced."""

    step_time_s: float
    """Seconds of a step."""
    peak_memory_bytes: float
    """Bytes of the fullest device."""
    feasible: bool
    """Whether it fits its devices."""
    may_fit: bool
    """Whether it fits or not lies within the band of its predicted memory."""
    over_bytes: float
    """Bytes that are missing, over all lanes; 0 if it fits its devices and the limit."""
    short_samples_per_s: float = 0.0
    """Samples per second that it is short of the least throughput; 0 if it reaches it."""
    value: float
    """Value of the objective; infinite if it does not fit or is too slow."""
    point: tuple[float, ...]
    """Values of the objectives that are the axes of the frontier."""


def outcome_of(problem: Problem, report: Report) -> Outcome:
    """Reduce a report."""
    cluster, job = problem.needed_cluster, problem.job
    return Outcome(
        step_time_s=report.step_time_s,
        peak_memory_bytes=max(report.peak_memory_bytes),
        feasible=report.feasible,
        may_fit=report.memory_verdict == MAY_FIT,
        over_bytes=problem.over_bytes(report),
        short_samples_per_s=problem.short_samples_per_s(report.step_time_s),
        value=objective_value(problem, report),
        point=tuple(axis.value(cluster, job, report) for axis in frontier_axes(problem.objective)),
    )


def objective_value(problem: Problem, report: Report) -> float:
    """Return the objective of a report; infinite if it does not fit devices or limit, or is too slow."""
    fits = report.feasible and not problem.over_bytes(report)
    return problem.value(report) if fits and report.step_time_s <= problem.longest_step_s else math.inf


def lacking_words(outcome: Outcome) -> str:
    """Say what an outcome lacks: memory, or else throughput.

    >>> lacking_words(Outcome(step_time_s=1.0, peak_memory_bytes=0.0, feasible=True, may_fit=False,
    ...     over_bytes=0.0, short_samples_per_s=2.5, value=math.inf, point=()))
    'is 2.5 samples/s too slow'
    """
    if outcome.over_bytes or not outcome.short_samples_per_s:
        return f"lacks {format_bytes(outcome.over_bytes)}"
    return f"is {outcome.short_samples_per_s:.4g} samples/s too slow"
