"""Searcher: the description that a searcher gives of itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from explorer.base.registry import Spec
from explorer.search.spaces import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher(Spec):
    """A searcher; its function `f(problem, evaluator, **options)` is a generator over costed candidates.

    It yields at least every 50 ms: a `Candidate` that it had costed, or None if there is nothing new.
    """

    space: Space
    """Space from which it chooses."""
    optimal: bool = False
    """Whether it ends with the best strategy of `space`; it then sets `Evaluator.optimal`."""
    foreign: bool = False
    """Whether it can judge by a published cost model instead of ours, checked by a test of its own."""
    stochastic: bool = False
    """Whether its choices depend on `Problem.seed`."""
    loses: str = ""
    """Reason why it may end with less than uniform random search of its space in as many evaluations; empty
    if it must not."""
    starts: bool = False
    """Whether it continues from the start of the problem."""
    rigid: bool = False
    """Whether it proposes a few strategies by a rule, none of which may respect the pins and bans."""
    shares: bool = False
    """Whether it shares its space out to other processes itself, unless evaluations end the search."""
    alone: bool = False
    """Whether it is asked by its name only, and has no part in `auto`, which it would cost more time than it
    finds."""
    together: bool = False
    """Whether `auto` asks it all the same, in a tenth for all such searchers together: it answers soon or not
    at all.
    """
    objectives: tuple[str, ...] = ()
    """Names of the objectives it serves; () for all."""

    def serves(self, names: Iterable[str]) -> bool:
        """Tell whether it can search for some objectives, all of them together."""
        return not self.objectives or set(names) <= set(self.objectives)
