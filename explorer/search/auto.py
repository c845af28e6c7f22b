"""The default searcher: a portfolio in which each part starts from the results of the ones before.

Megatron's rule of thumb as long as it gains, then the most promising uniform strategies, PipeDream's plans of
stages with replicas of their own (only synchronous ones: older weights have to be asked for), the rest of the
rule and local moves of stage boundaries from the best; then the other uniform strategies, and boundaries
again if they found something better; last all small changes of the best (`local`). If there are pins or bans,
small changes of the start come first: they respect them by construction. The result is never worse than that
of a part, since one evaluator judges and keeps them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from explorer.base.errors import ExplorerError
from explorer.base.registry import Option
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import exhaustive
from explorer.search.local import descend
from explorer.search.megatron import megatron
from explorer.search.pipedream import pipedream
from explorer.search.problem import Problem
from explorer.strategies.moves import move_boundary
from explorer.strategy import Strategy

KICKS = 2
"""Random changes tried at the very end."""
FIRST = 10
"""Simulations of Megatron's rule without gain after which the uniform strategies have their turn."""


@SEARCHERS.add(
    Searcher(
        name="auto",
        title="Portfolio: Megatron's rule, uniform strategies, PipeDream's plans, then small changes",
        options=(
            Option(
                name="patience",
                default=30,
                minimum=1,
                help="simulations without gain before boundaries are moved",
            ),
        ),
        space=Space(words="uniform, then local moves"),
        stochastic=True,
        starts=True,
    )
)
def auto(problem: Problem, evaluator: Evaluator, *, patience: int) -> Iterator[Candidate | None]:
    """Search for the best of all parts.

    Raises:
        InputError: there is no cluster, or patience is below 1.
    """
    if problem.rules and evaluator.best is not None:
        yield from islice(descend(problem, evaluator, evaluator.best), patience)
    rule = _quiet(evaluator, megatron(problem, evaluator, recompute="none"))
    whole = SEARCHERS.get("exhaustive").read_options({})
    every = _quiet(evaluator, exhaustive(problem, evaluator, **whole))
    yield from _until_stale(evaluator, rule, FIRST)
    yield from _until_stale(evaluator, every, patience)
    yield from _until_stale(evaluator, _quiet(evaluator, _planned(problem, evaluator)), patience)
    yield from rule
    moved = evaluator.best
    yield from improve(problem, evaluator)
    yield from every
    if evaluator.best is not moved:
        yield from improve(problem, evaluator)
    if evaluator.best is not None:
        yield from descend(problem, evaluator, evaluator.best, kicks=KICKS)


def _planned(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Try stages with replicas of their own, planned by PipeDream's optimizer for some microbatch sizes."""
    share = max(1, problem.job.global_batch // problem.device_count)
    plain = SEARCHERS.get("pipedream").read_options({"asynchronous": False})
    for size in sorted({max(1, share // 2), share, 2 * share}, reverse=True):
        try:
            yield from pipedream(problem, evaluator, **plain | {"microbatch_size": size})
        except ExplorerError:
            return  # its method does not take the model, or the devices


def _quiet(evaluator: Evaluator, part: Iterator[Candidate | None]) -> Iterator[Candidate | None]:
    """Run a part without its claims: its bound is one of its own space, which the portfolio leaves."""
    for found in chain(part, [None]):
        evaluator.lower_bound, evaluator.bound, evaluator.optimal = None, "", False
        yield found


def _until_stale(
    evaluator: Evaluator, part: Iterator[Candidate | None], patience: int
) -> Iterator[Candidate | None]:
    best, since = evaluator.best, evaluator.evaluations
    for found in part:
        yield found
        if evaluator.best is not best:
            best, since = evaluator.best, evaluator.evaluations
        if evaluator.evaluations - since >= patience:
            return


def improve(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Move single blocks over stage boundaries of the best strategy while that helps."""
    tried: set[Strategy] = set()
    while evaluator.best is not None:
        before = evaluator.best
        for strategy, label in _moves(problem, before):
            if strategy not in tried:
                tried.add(strategy)
                yield evaluator.evaluate(strategy, label, recut=False)
            if evaluator.best is not before or evaluator.exhausted:
                break
        if evaluator.best is before or evaluator.exhausted:
            return


def _moves(problem: Problem, best: Candidate) -> Iterator[tuple[Strategy, str]]:
    """Yield neighbours of a strategy, boundary by boundary; it must be a chain of at least two stages."""
    job = best.strategy.job
    label = best.label.removesuffix(", boundaries moved")
    for i in range(len(job.stages) - 1):
        for blocks in (1, -1):
            try:
                moved = move_boundary(problem.graph, job, i, i + 1, blocks)
            except ExplorerError:
                continue  # a stage would be left empty
            yield best.strategy.with_job(moved), f"{label}, boundaries moved"
