"""A partner: the process that searches one share of the space of `auto`, turn by turn.

It runs a branch and bound over its share, and the searchers dealt to it, beside each other. Between two turns
it hears of the best strategy of all and tells what it found; in between it knows nothing of the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from explorer.search._branch_and_bound import BranchAndBound
from explorer.search._jobs import prepare_process
from explorer.search._other_searchers import other_parts
from explorer.search._outcomes import Outcome
from explorer.search._portfolio import BRANCHES, Part, bunched, take_turns
from explorer.search._shares import Share, StillOpen
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem
from explorer.simulation.simulate import simulate
from explorer.strategy import Strategy


class Found(NamedTuple):
    """What travels of a candidate."""

    strategy: Strategy
    outcome: Outcome
    label: str
    finder: str


class Told(NamedTuple):
    """What a partner tells after a turn."""

    found: tuple[Found, ...]
    """What it keeps and has not told yet: its best, the closest, and what is not dominated."""
    evaluations: int
    """Strategies costed so far."""
    refused: int
    """Of its candidates those that break pins or bans, so far."""
    failed: int
    """Those that could not be simulated."""
    first_error: str
    """Why the first of these could not be."""
    still_open: StillOpen
    """What is not yet tried of its share."""
    ended: bool
    """Whether it has nothing left to do."""


class Partner:
    """The search of one share.

    Args:
        problem: the search problem.
        share: the share.
    """

    def __init__(self, problem: Problem, share: Share) -> None:
        self._evaluator = evaluator = Evaluator(problem=problem, meter=time.thread_time)
        self._search = BranchAndBound(problem, evaluator, share)
        parts = [Part(name=BRANCHES, steps=bunched(self._search.run()))]
        self._steps: Iterator[Candidate | None] = take_turns(
            evaluator, [*parts, *other_parts(problem, evaluator, share)], lambda: None
        )
        self._told = set[Strategy]()
        """What the others know from here, or told."""
        self._ended = False

    def take_turn(self, best: Found | None, seconds: float) -> Told:
        """Search for some seconds of work.

        Args:
            best: the best strategy that others found; None if it knows that.
            seconds: seconds of work after which to come back, once a step is done.
        """
        evaluator = self._evaluator
        if best is not None:
            self._told.add(best.strategy)
            evaluator.keep(candidate_of_found(evaluator.problem, best))
        until = time.thread_time() + seconds
        while not self._ended and time.thread_time() < until:
            self._ended = next(self._steps, self) is self
        return Told(
            tuple(self._news()), evaluator.evaluations, evaluator.refused, evaluator.failed,
            evaluator.first_error, self._search.still_open(), self._ended,
        )  # fmt: skip

    def _news(self) -> Iterator[Found]:
        evaluator = self._evaluator
        for item in (evaluator.closest, evaluator.best, *evaluator.frontier):
            if item is not None and item.strategy not in self._told:
                self._told.add(item.strategy)
                yield found_of(item)


def found_of(candidate: Candidate) -> Found:
    """Return what travels of a candidate."""
    return Found(candidate.strategy, candidate.outcome, candidate.label, candidate.finder)


def candidate_of_found(problem: Problem, found: Found) -> Candidate:
    """Return the candidate that another process costed."""
    report_of = cache(
        lambda: simulate(problem.graph, problem.needed_cluster, problem.workload, found.strategy)
    )
    return Candidate(
        strategy=found.strategy, outcome=found.outcome, report_of=report_of, label=found.label,
        finder=found.finder,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _partners(key: str) -> list[Partner]:  # noqa: ARG001 - filled by who begins
    return []


def begin(key: str, given: Mapping[str, Any], share: Share) -> None:
    """Make this process the partner of a search.

    Args:
        key: key of the search.
        given: what its problem is made from.
        share: the share that it searches.
    """
    prepare_process()
    _partners(key).append(Partner(Problem(**given), share))


def take_turn(key: str, best: Found | None, seconds: float) -> Told:
    """Let the partner of a search have a turn."""
    return _partners(key)[0].take_turn(best, seconds)
