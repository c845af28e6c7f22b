"""Tarnawski et al.'s DPL: least max-load over the splits of one linear order, in polynomial time.

The order is that of a depth-first search, as in the paper; the better one of it and the model's own is taken.
On a chain it is exact.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from explorer.planners._pieces.lattice import depth_first, prefixes
from explorer.planners._pieces.max_load import NEARER, MaxLoadPlan, Pool, least_max_load
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.tarnawski import COST_MODEL, PAPER, REPLICAS, planned
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem


@SEARCHERS.add(
    Searcher(
        name="tarnawski_linear",
        title="Least max-load over the splits of one linear order",
        paper=PAPER,
        options=(COST_MODEL, REPLICAS),
        space=Space(words="splits of a line x kinds x replicas"),
        foreign=True,
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def tarnawski_linear(
    problem: Problem, evaluator: Evaluator, *, cost_model: str, replicas: int
) -> Iterator[Candidate | None]:
    """Find the least max-load over the prefixes of linear orders; it is no bound of that of all splits.

    Raises:
        InputError: there is no cluster.
    """
    yield from planned(problem, evaluator, linear, cost_model, replicas)


def linear(work: WorkGraph, pools: Sequence[Pool], replicas: int) -> Iterator[MaxLoadPlan | None]:
    """Yield None while working, then the better plan of two orders, if there is one."""
    found: MaxLoadPlan | None = None
    for order in dict.fromkeys((tuple(depth_first(work.above)), tuple(range(work.count)))):
        below_s = found.load_s * NEARER if found is not None else float("inf")
        for item in least_max_load(work, prefixes(order), pools, replicas=replicas, below_s=below_s):
            found = item or found
            yield None
    yield found
