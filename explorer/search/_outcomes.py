"""Outcomes: what a search needs to know of a strategy's report; small enough to travel between processes."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
    value: float
    """Value of the objective; infinite if it does not fit."""
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
        value=objective_value(problem, report),
        point=tuple(axis.value(cluster, job, report) for axis in frontier_axes(problem.objective)),
    )


def objective_value(problem: Problem, report: Report) -> float:
    """Return the objective of a report; infinite if it does not fit the devices or the limit."""
    return problem.value(report) if report.feasible and not problem.over_bytes(report) else math.inf
