"""Evaluation of candidates by the one simulator, which counts them and keeps the best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.search._scheduling import scheduled
from explorer.search.objectives import frontier_axes
from explorer.search.problem import Problem, respecting, respects
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy

EXHAUSTED, REFUSED, ERROR = "exhausted", "refused", "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """The reason why a strategy was not costed."""

    reason: str
    """`exhausted`: no evaluation is left; `refused`: it breaks pins or bans, and no other cut would save it;
    `error`: it cannot be simulated."""
    text: str
    """The reason in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A strategy that was costed."""

    strategy: Strategy
    """The strategy."""
    report: Report
    """Its predicted report."""
    value: float
    """Objective value; infinite if it does not fit."""
    over_bytes: float = 0.0
    """Bytes that are missing, over all lanes; 0 if it fits."""
    label: str = ""
    """Short description ("pp 4 x dp 2, 1F1B")."""
    finder: str = ""
    """Part of the search that found it, if it has several."""

    @property
    def rank(self) -> tuple[float, float]:
        """Values to be minimised, whether it fits or not: missing bytes, then the value.

        Among those that do not fit, the step time comes second.
        """
        return self.over_bytes, self.value if math.isfinite(self.value) else self.report.step_time_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a search after each yield of its searcher."""

    searcher: str
    """Name of the searcher."""
    objective: str
    """Name of the objective."""
    best: Candidate | None
    """Best feasible candidate so far."""
    evaluations: int
    """Strategies costed so far."""
    wall_s: float
    """Seconds since the start."""
    new: Candidate | None = None
    """Candidate costed last; None if there is none."""
    lower_bound: float | None = None
    """Largest proven lower bound of the objective in the space that `bound` names; None if there is none."""
    bound: str = ""
    """Meaning of the bound: the searcher's own space, or what the objective counts (`work over peak`)."""
    optimal: bool = False
    """Whether the best is proven optimal in the searcher's own space."""
    frontier: tuple[Candidate, ...] = ()
    """Non-dominated candidates along the axes of the problem, by the first axis."""
    foreign_value: float | None = None
    """Value under a foreign cost model, if the searcher uses one instead of ours; else None."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further results of the searcher (stages under a foreign cost model, ...)."""


@dataclass(kw_only=True)
class Evaluator:
    """Judge of candidates: costs them, counts them, keeps the best. Searchers judge by `evaluate` alone."""

    problem: Problem
    max_evaluations: int = 0
    best: Candidate | None = None
    evaluations: int = 0
    frontier: list[Candidate] = field(default_factory=list)
    lower_bound: float | None = None
    bound: str = ""
    optimal: bool = False
    foreign_value: float | None = None
    details: dict[str, Any] = field(default_factory=dict)
    refused: int = 0
    """Candidates that break pins or bans even after another cut; they are never costed."""
    failed: int = 0
    """Candidates that could not be simulated."""
    miss: Miss | None = None
    """Why the last call of `evaluate` costed nothing; None if it costed something."""
    finder: str = ""
    """Part of the search at work, if it has several."""
    closest: Candidate | None = None
    """The candidate that lacks least memory among those that do not fit."""

    @property
    def exhausted(self) -> bool:
        """Whether no evaluation is left."""
        return bool(self.max_evaluations) and self.evaluations >= self.max_evaluations

    def evaluate(self, strategy: Strategy, label: str = "", *, recut: bool = True) -> Candidate | None:
        """Cost a strategy; return None if it was not costed, and then `miss` says why.

        It is put under the problem's schedule first. A strategy that breaks pins or bans is cut anew to
        respect them, if its stages allow that and `recut` is not False.

        Raises:
            InputError: the problem has no cluster.
        """
        self.miss = None
        if self.exhausted:
            self.miss = Miss(reason=EXHAUSTED, text=f"all {self.max_evaluations} evaluations are used")
            return None
        try:
            wanted = scheduled(self.problem, strategy)
        except ExplorerError as error:
            self.failed += 1
            self.miss = Miss(reason=ERROR, text=str(error))
            return None
        if wanted is not strategy:
            strategy, label = wanted, f"{label}, {self.problem.schedule}"
        held = respecting(self.problem, strategy) if recut else strategy
        if held is None or not respects(self.problem, held):
            self.refused += 1
            self.miss = Miss(reason=REFUSED, text="it breaks pins or bans")
            return None
        if held is not strategy:
            strategy, label = held, f"{label}, cut to respect pins"
        cluster = self.problem.needed_cluster
        self.evaluations += 1
        try:
            report = simulate(self.problem.graph, cluster, self.problem.workload, strategy)
        except ExplorerError as error:
            self.failed += 1
            self.miss = Miss(reason=ERROR, text=str(error))
            return None
        over = self.problem.over_bytes(report)
        value = objective_value(self.problem, report)
        found = Candidate(
            strategy=strategy, report=report, value=value, over_bytes=over, label=label, finder=self.finder
        )
        self._keep(found)
        return found

    def _keep(self, found: Candidate) -> None:
        if not math.isfinite(found.value):
            if self.closest is None or found.rank < self.closest.rank:
                self.closest = found
            return
        if self.best is None or found.value < self.best.value:
            self.best = found
        point = self.point(found)
        if any(_dominates(self.point(other), point) for other in self.frontier):
            return
        self.frontier = [other for other in self.frontier if not _dominates(point, self.point(other))]
        self.frontier.append(found)

    def point(self, found: Candidate) -> tuple[float, ...]:
        """Return the values of a candidate along the axes of the frontier."""
        problem = self.problem
        axes = frontier_axes(problem.objective)
        return tuple(axis.value(problem.needed_cluster, problem.job, found.report) for axis in axes)


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))


def objective_value(problem: Problem, report: Report) -> float:
    """Return the objective of a report; infinite if it does not fit the devices or the limit."""
    return problem.value(report) if report.feasible and not problem.over_bytes(report) else math.inf
