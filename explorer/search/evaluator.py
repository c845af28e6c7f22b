"""Evaluation of candidates by the one simulator, which counts them and keeps the best."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.search._jobs import Jobs, Refusal
from explorer.search._outcomes import Outcome, outcome_of
from explorer.search._scheduling import scheduled
from explorer.search.problem import Problem, respecting, respects
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy

EXHAUSTED, REFUSED, ERROR = "exhausted", "refused", "error"
FAILURE = "executor"
"""Key of `Evaluator.details`: why other processes cost nothing any more."""
GAP, FRONTIER_OF = "gap_by", "frontier_of"
"""Keys of `Evaluator.details`: by what the best is above its bound, by kind of what is still open; and the
space of which the frontier is proven to be the true one, or that it is not."""


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
    outcome: Outcome
    """What the search has to know of its report."""
    report_of: Callable[[], Report] = field(repr=False, compare=False)
    """Returns its report."""
    label: str = ""
    """Short description ("pp 4 x dp 2, 1F1B")."""
    finder: str = ""
    """Part of the search that found it, if it has several."""

    @property
    def rank(self) -> tuple[float, float]:
        """Values to be minimised, whether it fits or not: missing bytes, then the value.

        Among those that do not fit or are too slow, the step time comes second.
        """
        return self.over_bytes, self.value if math.isfinite(self.value) else self.outcome.step_time_s

    @property
    def value(self) -> float:
        """Objective value; infinite if it does not fit or is too slow."""
        return self.outcome.value

    @property
    def over_bytes(self) -> float:
        """Bytes that are missing, over all lanes; 0 if it fits."""
        return self.outcome.over_bytes

    @property
    def report(self) -> Report:
        """Its predicted report, made when first asked for if another process costed it."""
        return self.report_of()


def candidate_of(problem: Problem, strategy: Strategy, report: Report, label: str) -> Candidate:
    """Return a strategy that was costed here."""
    return Candidate(
        strategy=strategy, outcome=outcome_of(problem, report), report_of=lambda: report, label=label
    )


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
    waiting: bool = False
    """Whether nothing is new but the time: the searcher's present step takes long."""
    lower_bound: float | None = None
    """Largest proven lower bound of the objective in the space that `bound` names; None if there is none."""
    bound: str = ""
    """Meaning of the bound: the searcher's own space, or what the objective counts (`work over peak`)."""
    optimal: bool = False
    """Whether the best is proven optimal in the searcher's own space."""
    frontier: tuple[Candidate, ...] = ()
    """Non-dominated candidates along the axes of the problem, by the first axis."""
    least: float | None = None
    """Lower bound of the objective for all strategies there are; None without a cluster."""
    least_name: str = ""
    """Name of what that bound counts (`work over peak`)."""
    closest: Candidate | None = None
    """The candidate that lacks least memory, then the fastest, as long as none fits and is fast enough."""
    min_samples_per_s: float = 0.0
    """Least throughput that was asked for, in samples per second; 0 if none was."""
    foreign_value: float | None = None
    """Value under a foreign cost model, if the searcher uses one instead of ours; else None."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further results of the searcher (stages under a foreign cost model, ...)."""

    @property
    def gap(self) -> float | None:
        """Share by which the best is above the bound of the searcher's space; None if either is missing, or
        if the bound is of a foreign cost model.
        """
        return None if self.foreign_value is not None else _above(self.best, self.lower_bound)

    @property
    def gap_to_least(self) -> float | None:
        """Share by which the best is above the bound of all strategies; None if either is missing."""
        return _above(self.best, self.least)


def _above(best: Candidate | None, bound: float | None) -> float | None:
    return best.value / bound - 1.0 if best is not None and bound else None


@dataclass(kw_only=True)
class Evaluator:
    """Judge of candidates: costs them, counts them, keeps the best. Searchers judge by `evaluate` alone."""

    problem: Problem
    max_evaluations: int = 0
    jobs: Jobs | None = None
    """Processes that cost strategies ahead; None if this one does all."""
    processes: int = 1
    """Processes that may each search a share of the space, this one included."""
    meter: Callable[[], float] | None = None
    """Returns the seconds that the search has worked, where these end it; None where evaluations do."""
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
    first_error: str = ""
    """Why the first of them could not be."""
    miss: Miss | None = None
    """Why the last call of `evaluate` costed nothing; None if it costed something."""
    finder: str = ""
    """Part of the search at work, if it has several."""
    closest: Candidate | None = None
    """The candidate that lacks least memory, then the fastest, of those that do not fit or are too slow."""
    accepts: Callable[[Candidate], bool] | None = None
    """Tells of what fits whether it may be kept; None for all."""

    @property
    def used(self) -> float:
        """Seconds, or evaluations, that the search took so far: what its parts share."""
        return self.evaluations if self.meter is None else self.meter()

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
        wanted = self._wanted(strategy, label, recut=recut)
        self.evaluations += not isinstance(wanted, Miss)
        found = wanted if isinstance(wanted, Miss) else self._cost(*wanted)
        if isinstance(found, Miss):
            self.refused += found.reason == REFUSED
            if found.reason == ERROR:
                self.failed += 1
                self.first_error = self.first_error or found.text
            self.miss = found
            return None
        self.keep(found)
        return found

    def evaluate_all(
        self, strategies: Iterable[tuple[Strategy, str]], *, recut: bool = True
    ) -> Iterator[Candidate | None]:
        """Cost strategies with their labels, in order, as `evaluate` does; stop when no evaluation is left.

        Where there are other processes, strategies are read ahead: which ones come must not depend on what
        is found meanwhile.
        """
        for strategy, label in self.looking_ahead(strategies, recut=recut):
            if self.exhausted:
                return
            yield self.evaluate(strategy, label, recut=recut)

    def looking_ahead(
        self, strategies: Iterable[tuple[Strategy, str]], *, recut: bool = True
    ) -> Iterator[tuple[Strategy, str]]:
        """Yield strategies with their labels, for `evaluate`, while those behind are costed ahead.

        Who stops asking gives up what was costed ahead.
        """
        if self.jobs is None:
            yield from strategies
            return
        source, waiting = iter(strategies), deque[tuple[Strategy, str]]()
        try:
            while True:
                for strategy, label in islice(source, self.jobs.limit - len(waiting)):
                    waiting.append((strategy, label))
                    self.ahead((strategy,), recut=recut)
                if not waiting:
                    return
                yield waiting.popleft()
        finally:
            self.jobs.drop(
                wanted[0]
                for strategy, _ in waiting
                if not isinstance(wanted := self._wanted(strategy, "", recut=recut), Miss)
            )

    def ahead(self, strategies: Iterable[Strategy], *, recut: bool = True, instead: bool = False) -> None:
        """Have strategies costed that will probably be evaluated soon, by other processes, if there are any.

        This changes no result and counts nothing.

        Args:
            strategies: strategies, the one evaluated soonest first.
            recut: as `evaluate` takes it.
            instead: whether the part of the search that asks wants only these from now on.
        """
        if self.jobs is None or self.exhausted:
            return
        wanted = [self._wanted(strategy, "", recut=recut) for strategy in strategies]
        self.jobs.ask(
            [item[0] for item in wanted if not isinstance(item, Miss)], self.finder, instead=instead
        )

    def _wanted(self, strategy: Strategy, label: str, *, recut: bool) -> tuple[Strategy, str] | Miss:
        """Put a strategy under the problem's schedule, and cut it to respect pins and bans."""
        try:
            wanted = scheduled(self.problem, strategy)
        except ExplorerError as error:
            return Miss(reason=ERROR, text=str(error))
        if wanted is not strategy:
            strategy, label = wanted, f"{label}, {self.problem.schedule}"
        held = respecting(self.problem, strategy) if recut else strategy
        if held is None or not respects(self.problem, held):
            return Miss(reason=REFUSED, text="it breaks pins or bans")
        return (held, label) if held is strategy else (held, f"{label}, cut to respect pins")

    def _cost(self, strategy: Strategy, label: str) -> Candidate | Miss:
        problem, jobs = self.problem, self.jobs
        outcome = jobs.take(strategy) if jobs is not None else None
        if jobs is not None and jobs.failure:
            self.details[FAILURE] = jobs.failure
        report_of = cache(lambda: simulate(problem.graph, problem.needed_cluster, problem.workload, strategy))
        if outcome is None:
            try:
                report = report_of()
            except ExplorerError as error:
                return Miss(reason=ERROR, text=str(error))
            outcome = outcome_of(problem, report)
        if isinstance(outcome, Refusal):
            return Miss(reason=ERROR, text=outcome.text)
        return Candidate(
            strategy=strategy, outcome=outcome, report_of=report_of, label=label, finder=self.finder
        )

    def demand(self, accepts: Callable[[Candidate], bool]) -> None:
        """Keep only what meets a demand from now on, and of what was kept before only what does."""
        self.accepts = accepts
        self.frontier = [found for found in self.frontier if accepts(found)]
        if self.best is not None and not accepts(self.best):
            self.best = min(self.frontier, key=lambda found: found.value, default=None)

    def keep(self, found: Candidate) -> None:
        """Keep a candidate that is better than others, whoever costed it."""
        if not math.isfinite(found.value):
            if self.closest is None or found.rank < self.closest.rank:
                self.closest = found
            return
        if self.accepts is not None and not self.accepts(found):
            return
        if self.best is None or _better(found, self.best):
            self.best = found
        point = found.outcome.point
        if any(_dominates(other.outcome.point, point) for other in self.frontier):
            return
        self.frontier = [other for other in self.frontier if not _dominates(point, other.outcome.point)]
        self.frontier.append(found)


def _better(found: Candidate, best: Candidate) -> bool:
    """Tell whether a candidate is better than the best: by its value, and of equal ones by its step time."""
    key, known = ((item.value, item.outcome.step_time_s) for item in (found, best))
    return key < known


def _dominates(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
