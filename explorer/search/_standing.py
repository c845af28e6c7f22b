"""Where a branch and bound stands: what it found decides which nodes are still worth opening."""

from __future__ import annotations

import math

from explorer.search._least_work import least_of_work
from explorer.search.evaluator import Evaluator
from explorer.search.problem import Problem


class Standing:
    """The best found so far, and what was given up.

    Args:
        problem: the search problem.
        evaluator: judge of all candidates, which holds the best so far.
    """

    def __init__(self, problem: Problem, evaluator: Evaluator) -> None:
        self.problem, self.evaluator = problem, evaluator
        self.floor = max(problem.lower_bound() or 0.0, least_of_work(problem))
        """Bound of all strategies there are."""
        self.lost = math.inf
        """Least bound of what could not be looked at."""

    @property
    def best(self) -> float:
        """Objective of the best so far; infinite if there is none."""
        found = self.evaluator.best
        return math.inf if found is None else found.value

    @property
    def known(self) -> bool:
        """Whether bounds may leave anything out."""
        return self.evaluator.best is not None and not self.problem.keeps_frontier

    @property
    def limit(self) -> float:
        """Objective that a node must be able to be better than; infinite if all are kept."""
        return self.best if self.known else math.inf

    def worth(self, bound: float) -> bool:
        """Tell whether a node with this bound may still improve something."""
        return self.evaluator.best is None or bound < self.limit

    def give_up(self, bound: float) -> None:
        """Leave a node with a bound open for good: what is in it could not be looked at."""
        self.lost = min(self.lost, bound)
