"""The default searcher: branch and bound, the other searchers beside it, and small changes of the best.

The space is every strategy of even stages (`explorer.search._blocks`): tensor, context and expert
parallelism, pipeline, replicas, any number of chunks, schedules, microbatch size, recomputation, ZeRO and
buckets of gradients, on every proposed order of devices. Every other registered searcher has a tenth of the
time, so that the result is never worse than what one of them finds in that, and so have moves of stage
boundaries and other small changes of the best, which leave the space. What these leave goes to the branch and
bound, which also bounds what is not yet tried. If there are pins or bans, small changes of the start come
first: they respect them by construction. One evaluator judges and keeps everything.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from explorer.base.errors import ExplorerError
from explorer.base.registry import Option
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search._branch_and_bound import BranchAndBound
from explorer.search._other_searchers import NAME, other_parts
from explorer.search._portfolio import BRANCHES, Part, bunched, take_turns
from explorer.search._shares import WHOLE
from explorer.search._sharing import sharing_of
from explorer.search._thrift import thriftier
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.first_plans import first_plans
from explorer.search.local import descend
from explorer.search.problem import Problem
from explorer.strategies.moves import move_boundary
from explorer.strategy import Strategy

RULE, MOVES = "rule of thumb", "small changes"
MOVES_SHARE = 0.1
"""Share of small changes; the branch and bound has what all others leave."""


@SEARCHERS.add(
    Searcher(
        name=NAME,
        title="Branch and bound over all even strategies, beside the other searchers and small changes",
        options=(
            Option(
                name="patience",
                default=30,
                minimum=1,
                help="simulations of small changes of the start before all else, if there are pins or bans",
            ),
        ),
        space=Space(words="even strategies, then small changes"),
        stochastic=True,
        starts=True,
        shares=True,
    )
)
def auto(problem: Problem, evaluator: Evaluator, *, patience: int) -> Iterator[Candidate | None]:
    """Search for the best of all parts.

    Raises:
        InputError: there is no cluster, or patience is below 1.
    """
    with sharing_of(problem, evaluator.processes) as sharing:
        evaluator.finder = RULE
        yield from first_plans(problem, evaluator)
        share = WHOLE if sharing is None else sharing.share
        search = BranchAndBound(problem, evaluator, share, sharing)
        if problem.rules and evaluator.best is not None:
            yield from islice(descend(problem, evaluator, evaluator.best), patience)
        branches = search.run() if evaluator.meter is None else bunched(search.run())
        parts = [Part(name=BRANCHES, steps=branches), *other_parts(problem, evaluator, share)]
        parts.append(_moves(problem, evaluator, parts))
        if sharing is not None:
            parts.append(sharing.part(evaluator, search, parts))
        yield from take_turns(evaluator, parts, search.claim)
    if evaluator.best is None and evaluator.closest is not None:
        for strategy, label in thriftier(problem, evaluator.closest):
            yield evaluator.evaluate(strategy, label)
    search.claim()
    yield None


def _moves(problem: Problem, evaluator: Evaluator, parts: list[Part]) -> Part:
    """Return the part that improves the best by small changes, anew whenever another part finds a better."""
    tried: Candidate | None = None

    def ready() -> bool:
        return evaluator.best is not tried or all(part.ended for part in parts if part.name != MOVES)

    def steps() -> Iterator[Candidate | None]:
        nonlocal tried
        while (best := evaluator.best) is not None and best is not tried:
            for found in chain(improve(problem, evaluator), descend(problem, evaluator, best)):
                yield found
                now = evaluator.best
                if now is not best and now is not None and now.finder != MOVES:
                    break
            else:
                tried = evaluator.best
                yield None

    return Part(name=MOVES, steps=steps(), share=MOVES_SHARE, ready=ready)


def improve(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Move single blocks over stage boundaries of the best strategy while that helps."""
    tried: set[Strategy] = set()
    while evaluator.best is not None:
        before = evaluator.best
        for strategy, label in evaluator.looking_ahead(_boundary_moves(problem, before), recut=False):
            if strategy not in tried:
                tried.add(strategy)
                yield evaluator.evaluate(strategy, label, recut=False)
            if evaluator.best is not before or evaluator.exhausted:
                break
        if evaluator.best is before or evaluator.exhausted:
            return


def _boundary_moves(problem: Problem, best: Candidate) -> Iterator[tuple[Strategy, str]]:
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
