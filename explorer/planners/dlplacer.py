"""DLPlacer: workers of a few devices each, over which an integer program places the operators of the model.

A worker's operators are placed so that one step takes the shortest time (`placement_program`), and all
workers do the same on samples of their own (Pal et al., IEEE Micro 2019). Nodes are single layers, those that
pass on to one reader alone joined to it; a node takes forward and backward, which are colocated. The paper
splits no batch; microbatches are taken where one does not fit. For one global batch all plans need the same
epochs; how many workers pay as the batch grows with them is the rule of `hybrid_rule`.
"""

from __future__ import annotations

from collections.abc import Iterator

from explorer.base.registry import Option
from explorer.planners._pieces.earliest_finish import Workers, workers_of
from explorer.planners._pieces.fleet import Fleet, fleet_of
from explorer.planners._pieces.layer_meshes import by_microbatch
from explorer.planners._pieces.placement_program import in_chains, shortest, slowest
from explorer.planners._pieces.scattered import strategy_of_placement
from explorer.planners._pieces.work_graph import WorkGraph, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategy import Strategy

PAPER = (
    "Pal et al., Optimizing Multi-GPU Parallelization Strategies for Deep Learning Training, IEEE Micro 2019"
)


@SEARCHERS.add(
    Searcher(
        name="dlplacer",
        title="Workers of a few devices, operators placed on them by integer program",
        paper=PAPER,
        options=(
            Option(name="members", default=2, minimum=1, help="most devices of a worker"),
            Option(name="nodes", default=200, minimum=1, help="most nodes of the solver's branch and bound"),
        ),
        space=Space(words="nodes x devices of a worker x workers"),
        rigid=True,
        alone=True,
        objectives=("time", "time_to_accuracy"),
    )
)
def dlplacer(
    problem: Problem, evaluator: Evaluator, *, members: int, nodes: int
) -> Iterator[Candidate | None]:
    """Place the operators on workers of each size, from single devices on, and have the plans judged.

    Raises:
        InputError: there is no cluster.
    """
    total = len(problem.order)

    def plans(size: int) -> Iterator[tuple[Strategy, str] | None]:
        for count in divisors(total):
            if count <= members and size % (total // count) == 0:
                yield None
                found = plan_of(problem, count, size, nodes=nodes)
                if found is not None:
                    words = f"{total // count} workers of {count} device{'s' * (count > 1)}"
                    yield found, f"{words}, microbatches of {size}"

    yield from by_microbatch(problem, evaluator, plans)


def plan_of(problem: Problem, members: int, size: int, *, nodes: int) -> Strategy | None:
    """Return the plan whose workers have so many neighbouring devices; None if the model does not fit.

    Args:
        problem: the search problem.
        members: devices of a worker; all devices are used.
        size: samples of a microbatch, over all workers.
        nodes: most nodes of the solver's branch and bound.
    """
    fleet = worker_fleet(problem, members)
    work, workers = worker_graph(problem, fleet, size)
    found = shortest(work, workers, nodes=nodes)
    if found is None:
        return None
    return strategy_of_placement(problem, work, fleet, found.device, size, starts=found.start_s)


def worker_fleet(problem: Problem, members: int) -> Fleet:
    """Return the positions in a worker; the devices of a position are replicas of each other."""
    fleet, order = fleet_of(problem), tuple(problem.order)
    groups = tuple(order[place::members] for place in range(members))
    return Fleet(cluster=fleet.cluster, kinds=fleet.kinds, groups=(groups,), size=len(order) // members)


def worker_graph(problem: Problem, fleet: Fleet, size: int) -> tuple[WorkGraph, Workers]:
    """Return the model as a worker sees it, a row of seconds for each position, and the positions."""
    names = [kind.name for kind in fleet.kinds]
    kinds = [
        sorted({names.index(fleet.cluster.kind_of(device).name) for device in group}) for group in fleet.order
    ]
    work = work_graph(
        problem.graph, fleet.kinds, problem.job, samples=size / fleet.size, bytes_per_s=1.0,
        whole_blocks=False,
    )  # fmt: skip
    links = workers_of(problem, fleet)
    workers = links._replace(kind=tuple(range(len(fleet.order))))
    return in_chains(slowest(work, kinds), room_bytes=min(workers.room_bytes)), workers
