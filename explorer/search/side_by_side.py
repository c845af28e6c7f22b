"""Searchers side by side: each is asked for the same problem with a budget of its own, your plan among them.

Every state of a comparison is a value; whoever stops asking ends it. Each contestant begins with copies of
model and cluster, of which nothing is remembered, so that none gains by what another did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from copy import copy
from dataclasses import replace
from typing import Any

from explorer.base.errors import ExplorerError, InputError
from explorer.search import SEARCHERS, Candidate, Evaluator, Problem, Progress, candidate_of, search
from explorer.search._jobs import check_processes
from explorer.search._outcomes import lacking_words
from explorer.search.comparison import (
    AUTO,
    ENDED,
    RULE,
    RUNNING,
    TIMED,
    UNABLE,
    YOURS,
    Comparison,
    Contestant,
    Mark,
    stopped,
    taken,
    why_nothing,
)
from explorer.search.first_plans import first_plans
from explorer.search.problem import respects
from explorer.simulation.simulate import simulate

ALL = "all"
"""Word for all registered searchers."""


def side_by_side(
    problem: Problem,
    searchers: Iterable[str],
    *,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    budget_s: float | None = None,
    max_evaluations: int = 0,
    jobs: int = 1,
    wanted: Callable[[str], bool] = lambda _: True,
    clock: Callable[[], float] = time.perf_counter,
) -> Generator[Comparison, None, None]:
    """Ask searchers one after the other, each with the whole budget, and yield every state.

    The start of the problem, your plan, is judged first and is a contestant as it is; only searchers that
    continue from a plan are given it, so that the others show what they find without it.

    Args:
        problem: what is sought.
        searchers: names, in the order in which they are asked.
        options: options by searcher.
        budget_s: seconds for each; None for no limit.
        max_evaluations: evaluations for each, which make the result deterministic; 0 for no limit.
        jobs: processes that search.
        wanted: tells whether a searcher is still wanted; asked after every step of it.
        clock: returns the seconds from some moment on.

    Raises:
        InputError: there is no cluster, or a searcher or an option is unknown, or a limit
            is negative, or the devices do not reach the least throughput.
    """
    names, given = tuple(dict.fromkeys(searchers)), options or {}
    _check(problem, names, given)
    _check_limits(budget_s, max_evaluations, jobs)
    own = _yours(problem)
    now = Comparison(
        objective=problem.ranks.name,
        unit=problem.ranks.unit,
        contestants=(own, *(Contestant(name=name) for name in names)),
        least=problem.lower_bound(),
        least_name=problem.ranks.bound_name,
    )
    yield now
    for place, name in enumerate(names, 1):
        steps = search(
            begun_afresh(problem, name), name, options=given.get(name), budget_s=budget_s,
            max_evaluations=max_evaluations, jobs=jobs, clock=clock,
        )  # fmt: skip
        limits = (math.inf if budget_s is None else budget_s, max_evaluations or math.inf)
        for found in _asked(now.contestants[place], steps, limits, wanted):
            yield (now := now.changed(place, found))


def _check(problem: Problem, names: tuple[str, ...], options: Mapping[str, Mapping[str, Any]]) -> None:
    problem.pool  # noqa: B018 - raises if there is no cluster
    problem.check_floor()
    if not names:
        raise InputError("no searcher is named", key="searchers", found="", allowed="all, or names")
    for name in names:
        SEARCHERS.get(name).read_options(options.get(name, {}))
    for name in options:
        if name not in names:
            raise InputError(
                f"options of {name!r}, which is not asked", key="options", found=name,
                allowed=", ".join(names),
            )  # fmt: skip


def _check_limits(budget_s: float | None, max_evaluations: int, jobs: int) -> None:
    for key, limit in (("budget_s", budget_s), ("max_evaluations", max_evaluations)):
        if limit is not None and not limit >= 0:
            raise InputError(f"{key} is {limit}", key=key, found=limit, allowed=">= 0")
    check_processes(jobs, None)


def turn(name: str) -> tuple[bool, bool, str]:
    """Return the key that orders searchers: planners by rule first, those that continue next, `auto` last."""
    return SEARCHERS.get(name).starts, name == AUTO, name


def begun_afresh(problem: Problem, name: str) -> Problem:
    """Return the problem of a searcher: nothing of its model and cluster is remembered.

    It has the start only if the searcher continues from one.
    """
    start = problem.start if SEARCHERS.get(name).starts else None
    return replace(problem, graph=copy(problem.graph), cluster=copy(problem.needed_cluster), start=start)


def _asked(
    contestant: Contestant,
    steps: Iterator[Progress],
    limits: tuple[float, float],
    wanted: Callable[[str], bool],
) -> Iterator[Contestant]:
    """Yield the states of one contestant, to its end."""
    now = replace(contestant, state=RUNNING)
    last: Progress | None = None
    with closing(steps):  # type: ignore[type-var]
        try:
            for last in steps:
                yield (now := taken(now, last))
                if not wanted(now.name):
                    yield stopped(now)
                    return
        except ExplorerError as error:
            yield replace(now, state=UNABLE, reason=" ".join(str(error).split()))
            return
    timed = now.wall_s >= limits[0] or now.evaluations >= limits[1]
    reason = why_nothing(last) if last is not None and last.best is None else ""
    if timed and reason and not now.evaluations and last is not None and last.foreign_value is None:
        reason = "its time was up before it costed a plan"
    yield replace(now, state=TIMED if timed else ENDED, reason=reason)


# ---- your plan ----------------------------------------------------------------------------------


def _yours(problem: Problem) -> Contestant:
    """Return your plan as a contestant, or the one that a search costs first."""
    if problem.start is None:
        return _by_rule(problem)
    asked = Contestant(name=YOURS, state=ENDED, evaluations=1)
    try:
        report = simulate(problem.graph, problem.needed_cluster, problem.workload, problem.start)
        found = candidate_of(problem, problem.start, report, "your plan")
    except ExplorerError as error:
        return replace(asked, state=UNABLE, reason=" ".join(str(error).split()))
    reason = "" if respects(problem, problem.start) else "it breaks pins or bans"
    return _with(asked, found, reason)


def _with(asked: Contestant, found: Candidate, reason: str) -> Contestant:
    if math.isfinite(found.value):
        return replace(asked, best=found, curve=(Mark(1, 0.0, found.value),), reason=reason)
    slow = found.outcome.short_samples_per_s and not found.over_bytes
    missing = f"{'' if slow else 'does not fit: '}it {lacking_words(found.outcome)}"
    return replace(asked, reason="; ".join(filter(None, (missing, reason))))


def _by_rule(problem: Problem) -> Contestant:
    """Return the plan of the rule of thumb as a contestant."""
    asked = Contestant(name=RULE, state=ENDED)
    evaluator = Evaluator(problem=begun_afresh(problem, AUTO))
    try:
        for _ in first_plans(evaluator.problem, evaluator):
            pass
    except ExplorerError as error:
        return replace(asked, state=UNABLE, reason=" ".join(str(error).split()))
    asked = replace(asked, evaluations=evaluator.evaluations)
    if evaluator.best is not None:
        return _with(asked, evaluator.best, "")
    if problem.rules:
        return replace(asked, state=UNABLE, reason="it knows no pins or bans; name a plan of yours")
    if evaluator.closest is not None:
        return _with(asked, evaluator.closest, "")
    return replace(asked, reason=f"nothing found {evaluator.first_error}".strip())
