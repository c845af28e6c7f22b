"""Searcher: what a searcher says of itself."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.registry import Spec
from explorer.search.spaces import Space


@dataclass(frozen=True, slots=True, kw_only=True)
class Searcher(Spec):
    """A searcher; its function `f(problem, evaluator, **options)` is a generator over costed candidates.

    It yields at least every 50 ms: a `Candidate` that it had costed, or None where there is nothing new.
    """

    space: Space
    """What it chooses from."""
    optimal: bool = False
    """Whether it ends with the best strategy of `space`; it then sets `Evaluator.optimal`."""
    foreign: bool = False
    """Whether it can judge by a published cost model instead of ours, whose claims its own test holds."""
    stochastic: bool = False
    """Whether what it tries depends on `Problem.seed`."""
    loses: str = ""
    """Why it may end with less than uniform random search of its space in as many evaluations; empty if it is
    held not to."""
    starts: bool = False
    """Whether it goes on from the start of the problem."""
    rigid: bool = False
    """Whether it proposes a few strategies by a rule, of which none may respect what must hold."""
    objectives: tuple[str, ...] = ()
    """Names of the objectives it serves; () is all."""
