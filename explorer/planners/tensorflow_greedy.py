"""TensorFlow's placement: a simulated execution in which each node goes where it is done first.

The graph is walked from its sources; for a node whose inputs are made, the seconds of the node and of its
inputs' transfers say when each device would be done with it, and the first one gets it (Abadi et al., 3.2.1).
Gradient operations are colocated with their forward ones, so that a node takes forward and backward.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from explorer.planners._pieces.earliest_finish import earliest_finish, workers_of
from explorer.planners._pieces.fleet import fleet_of
from explorer.planners._pieces.plans import sizes_worth_trying
from explorer.planners._pieces.scattered import Placed, judged_placement
from explorer.planners._pieces.work_graph import node_sizes, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem


@SEARCHERS.add(
    Searcher(
        name="tensorflow_greedy",
        title="Each node on the device that is done with it first, in a simulated execution",
        paper="Abadi et al., TensorFlow: Large-Scale Machine Learning on Heterogeneous Systems, 2016",
        space=Space(words="nodes x devices"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def tensorflow_greedy(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Place the nodes for the whole batch, which the paper does not split, and for some microbatches.

    Nodes are whole blocks first, then single layers as in the paper, so that branches of a block are apart.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    workers = workers_of(problem, fleet)
    some = sizes_worth_trying(problem, fleet.count, replicas=fleet.size)
    sizes = dict.fromkeys((problem.job.global_batch, *some))
    for whole, size in product(node_sizes(problem.graph), sizes):
        work = work_graph(
            problem.graph, fleet.kinds, problem.job, samples=size / fleet.size, bytes_per_s=1.0,
            whole_blocks=whole,
        )  # fmt: skip
        yield None
        found = earliest_finish(work, workers)
        yield None
        if found is not None:
            count = len(set(found.device))
            label = f"greedy on {count} device{'s' * (count > 1)}, microbatches of {size}"
            given = Placed(work, workers, fleet, found.device)
            yield from judged_placement(problem, evaluator, given, size, label)
