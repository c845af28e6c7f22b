"""Search: every searcher is a generator over one cost model; whoever stops asking stops it.

A searcher is one file with one decorated generator; the decorator takes a `Searcher`, which states what it
chooses from and what it claims. The tests hold every searcher to its claims.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import replace
from types import ModuleType
from typing import Any

from explorer.base.errors import InputError
from explorer.base.pacing import NotYet, paced
from explorer.base.registry import Registry
from explorer.search._jobs import MOST_PROCESSES, check_processes, jobs_of
from explorer.search._outcomes import objective_value
from explorer.search.evaluator import (
    FRONTIER_OF,
    GAP,
    Candidate,
    Evaluator,
    Miss,
    Progress,
    candidate_of,
)
from explorer.search.objectives import FRONTIER, OBJECTIVES, Objective
from explorer.search.problem import WEIGHTS, Problem
from explorer.search.spaces import Space
from explorer.search.spec import Searcher

__all__ = [
    "FAILED",
    "FIRST_ERROR",
    "FRONTIER",
    "FRONTIER_OF",
    "GAP",
    "MOST_PROCESSES",
    "NO_PLAN",
    "OBJECTIVES",
    "REFUSED",
    "SEARCHERS",
    "WEIGHTS",
    "Candidate",
    "Evaluator",
    "Miss",
    "Objective",
    "Problem",
    "Progress",
    "Searcher",
    "Space",
    "candidate_of",
    "objective_value",
    "search",
]

logger = logging.getLogger(__name__)

REFUSED = "refused"
"""Key of `Progress.details`: candidates that broke pins or bans and were not costed."""
FAILED = "failed"
"""Key of `Progress.details`: candidates that could not be simulated."""
NO_PLAN = "no_plan"
"""Key of `Progress.details`: the searcher ended by itself, and had proposed nothing."""
FIRST_ERROR = "first_error"
"""Key of `Progress.details`: why the first of them could not be."""

SEARCHERS: Registry[Searcher] = Registry("searcher", "explorer.search", also=("explorer.planners",))


def search(
    problem: Problem,
    searcher: str = "auto",
    *,
    options: Mapping[str, Any] | None = None,
    budget_s: float | None = None,
    max_evaluations: int = 0,
    jobs: int = 1,
    executor: Executor | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Progress]:
    """Run a searcher and yield its progress, the start first of all. Stop it by not asking for more.

    Whatever a step of the searcher takes, progress comes every 50 ms: that of the step before, `waiting`.
    Between two yields nothing is computed, and closing the generator ends the step it is at.

    `max_evaluations` makes the result deterministic; `budget_s` only promises that the best so far never
    worsens. The start of the problem, if any, is costed first.

    Args:
        problem: what is sought.
        searcher: name of the searcher.
        options: its options.
        budget_s: seconds after which to stop; None for no limit.
        max_evaluations: evaluations after which to stop; 0 for no limit.
        jobs: processes of this machine that search, this one included.
        executor: any executor whose processes cost strategies instead; the caller shuts it down. Neither
            changes what is found by how many evaluations, if these end the search.
        clock: returns the seconds from some moment on.

    Raises:
        InputError: the searcher, an option or the objective is unknown.
    """
    entry = SEARCHERS.get(searcher)
    chosen = entry.read_options(options or {})
    for key, limit in (("budget_s", budget_s), ("max_evaluations", max_evaluations)):
        if limit is not None and not limit >= 0:
            raise InputError(f"{key} is {limit}", key=key, found=limit, allowed=">= 0")
    if not entry.serves(axis.name for axis in problem.axes):
        allowed = ", ".join(entry.objectives)
        raise InputError(
            f"{searcher} cannot search for {problem.objective}",
            key="objective", found=problem.objective, allowed=allowed,
        )  # fmt: skip
    problem.check_floor()
    least = problem.lower_bound()
    began = clock()
    logger.info("%s begins: %s within %s s", searcher, problem.objective, budget_s)
    shares = entry.shares and not max_evaluations and executor is None and problem.cluster is not None
    check_processes(jobs, executor)
    with jobs_of(problem, 1 if shares else jobs, executor) as ahead:
        timed = budget_s is not None and not max_evaluations and ahead is None
        evaluator = Evaluator(
            problem=problem, max_evaluations=max_evaluations, jobs=ahead,
            meter=time.thread_time if timed else None, processes=jobs if shares else 1,
        )  # fmt: skip
        last = _progress(searcher, evaluator, least, clock() - began, None)
        may_end = problem.start is None or problem.cluster is None  # else once the start is costed
        for found in paced(_steps(entry.function(problem, evaluator, **chosen), evaluator)):
            if isinstance(found, NotYet):
                yield replace(last, wall_s=clock() - began, new=None, waiting=True)
            else:
                if found is not None:
                    logger.debug("%s: %s is %s", searcher, found.label, found.value)
                yield (last := _progress(searcher, evaluator, least, clock() - began, found))
                may_end = True
                if evaluator.exhausted:
                    return
            if may_end and budget_s is not None and clock() - began >= budget_s:
                return
        if not evaluator.evaluations and not evaluator.refused and evaluator.foreign_value is None:
            evaluator.details[NO_PLAN] = True
        yield _progress(searcher, evaluator, least, clock() - began, None)


def _steps(
    found: Iterator[Candidate | None], evaluator: Evaluator
) -> Generator[Candidate | None, None, None]:
    """Yield the start of the problem, if it has one, then what a searcher yields."""
    problem = evaluator.problem
    if problem.start is not None and problem.cluster is not None:
        evaluator.evaluate(problem.start, "start")
        yield evaluator.best
    yield from found


def _progress(
    searcher: str, evaluator: Evaluator, least: float | None, wall_s: float, new: Candidate | None
) -> Progress:
    problem = evaluator.problem
    bound, name = evaluator.lower_bound, evaluator.bound
    counts = ((REFUSED, evaluator.refused), (FAILED, evaluator.failed), (FIRST_ERROR, evaluator.first_error))
    if bound is None and least is not None:
        bound, name = least, problem.ranks.bound_name
    return Progress(
        searcher=searcher,
        objective=problem.objective,
        best=evaluator.best,
        evaluations=evaluator.evaluations,
        wall_s=wall_s,
        new=new,
        lower_bound=bound,
        bound=name,
        optimal=evaluator.optimal,
        least=least,
        least_name=problem.ranks.bound_name if least is not None else "",
        closest=evaluator.closest if evaluator.best is None else None,
        frontier=tuple(sorted(evaluator.frontier, key=lambda found: found.outcome.point)),
        min_samples_per_s=problem.min_samples_per_s,
        foreign_value=evaluator.foreign_value,
        details=dict(evaluator.details) | {key: count for key, count in counts if count},
    )


class _CallableModule(ModuleType):
    """Passes calls on to `search`: importing this package binds it to the name that users call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Iterator[Progress]:
        return search(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
