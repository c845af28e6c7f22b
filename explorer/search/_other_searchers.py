"""The other registered searchers as parts of a search by `auto`, each with its share of the time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from explorer.base.errors import ExplorerError
from explorer.search import SEARCHERS, Searcher
from explorer.search._portfolio import Part
from explorer.search._shares import Share
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import divisors
from explorer.search.problem import ANY, Problem
from explorer.strategies.cuts import units

NAME = "auto"
"""Name of the searcher whose parts they are."""
PLANNERS = "planners"
"""Name of the part of all that are asked together (`Searcher.together`)."""
SHARE = 0.1
"""Share of every other searcher, and of these together."""
MOST_TASKS = 20_000
"""Microbatches times stages of the largest even plan: some hundreds of milliseconds of simulation."""


def other_parts(problem: Problem, evaluator: Evaluator, share: Share) -> list[Part]:
    """Return the parts of the other searchers that one process runs."""
    others = [item for item in SEARCHERS if item.name != NAME and not item.alone]
    parts = [Part(name=item.name, steps=_steps(problem, evaluator, item), share=SHARE) for item in others]
    asked = [axis.name for axis in problem.axes]
    soon = [item for item in SEARCHERS if item.together and item.serves(asked)]
    parts.append(Part(name=PLANNERS, steps=_in_turn(problem, evaluator, soon), share=SHARE))
    return [part for place, part in enumerate(parts) if share.deals(place)]


def _in_turn(
    problem: Problem, evaluator: Evaluator, searchers: Sequence[Searcher]
) -> Iterator[Candidate | None]:
    """Run some searchers one after the other; what each finds carries its own name."""
    for item in searchers:
        evaluator.finder = item.name
        with suppress(ExplorerError):  # its method does not take the problem
            for found in _steps(problem, evaluator, item):
                yield found
                evaluator.finder = item.name


def _steps(problem: Problem, evaluator: Evaluator, searcher: Searcher) -> Iterator[Candidate | None]:
    """Run a registered searcher with its defaults; one that plans for a microbatch size with several.

    One that takes any size, and a stage for every device, has one that leaves it `MOST_TASKS` at most.
    """
    names = {option.name for option in searcher.options}
    chosen: list[dict[str, Any]] = [{}]
    if {"stages", "microbatch_size"} <= names:
        most = min(problem.device_count, len(units(problem.graph)))
        replicas = problem.device_count // most
        sizes = divisors(max(1, problem.job.global_batch // replicas))
        few = [size for size in sizes if most * problem.job.global_batch <= MOST_TASKS * size]
        chosen = [{"microbatch_size": (few or sizes[-1:])[0]}]
    if "asynchronous" in names:
        share = max(1, problem.job.global_batch // problem.device_count)
        sizes = sorted({max(1, share // 2), share, 2 * share, 32}, reverse=True)
        weights = {"asynchronous": problem.weights == ANY}
        chosen = [weights | {"microbatch_size": size} for size in sizes]
    for options in chosen:
        yield from searcher.function(problem, evaluator, **searcher.read_options(options))
