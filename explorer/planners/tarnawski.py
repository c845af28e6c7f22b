"""Tarnawski et al.: least max-load over contiguous splits, exact, by dynamic programming over ideals.

With ``cost_model=original`` the value is that of the paper for a model and devices whose source states
seconds and bytes (a placement workload): the load of the busiest device, with proof. With ``cost_model=ours``
the model's blocks are priced by our costs, stages may be replicated, and the plans for all devices and for
fewer are judged by the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from explorer.base.errors import InputError
from explorer.base.registry import Option
from explorer.models.partitioning import CPU
from explorer.planners._pieces.fleet import Fleet, fleet_of, room_bytes
from explorer.planners._pieces.free_nodes import without_free_nodes
from explorer.planners._pieces.lattice import MOST_IDEALS, Lattice, depth_first, lattice_of, prefixes
from explorer.planners._pieces.max_load import NEARER, MaxLoadPlan, Pool, least_max_load
from explorer.planners._pieces.plans import Placed, judged, sizes_worth_trying, strategy_of
from explorer.planners._pieces.work_graph import WorkGraph, work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

ORIGINAL, OURS = "original", "ours"
BOUND = "its own cost model"
PAPER = "Tarnawski et al., Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS 2020"
COST_MODEL = Option(
    name="cost_model", default=OURS, help="the paper's max-load, or our simulator", choices=(ORIGINAL, OURS)
)
REPLICAS = Option(
    name="replicas", default=0, minimum=0, help="most replicas of a stage; 0 is any (original: 1)"
)


@SEARCHERS.add(
    Searcher(
        name="tarnawski",
        title="Least max-load over contiguous splits, by dynamic programming over ideals",
        paper=PAPER,
        options=(
            COST_MODEL,
            REPLICAS,
            Option(name="ideals", default=MOST_IDEALS, minimum=1, help="most ideals of the model"),
        ),
        space=Space(words="contiguous splits x kinds x replicas"),
        foreign=True,
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def tarnawski(
    problem: Problem, evaluator: Evaluator, *, cost_model: str, replicas: int, ideals: int
) -> Iterator[Candidate | None]:
    """Find the least max-load over all ideals; the plan of one linear order is the limit to begin with.

    Raises:
        InputError: there is no cluster, or the model has more ideals than asked for.
    """
    yield from planned(problem, evaluator, partial(exact, limit=ideals), cost_model, replicas)


def exact(
    work: WorkGraph, pools: Sequence[Pool], replicas: int, *, limit: int
) -> Iterator[MaxLoadPlan | Lattice | None]:
    """Yield None while working, the lattice, then the plan of least max-load, if there is one."""
    found: MaxLoadPlan | None = None
    for item in least_max_load(work, prefixes(depth_first(work.above)), pools, replicas=replicas):
        found = item or found
        yield None
    lattice: Lattice | None = None
    for grown in lattice_of(work.above, limit=limit):
        lattice = grown
        yield None
    assert lattice is not None
    yield lattice
    below_s = found.load_s * NEARER if found is not None else float("inf")
    for item in least_max_load(work, lattice, pools, replicas=replicas, below_s=below_s):
        found = item or found
        yield None
    yield found


def planned(
    problem: Problem,
    evaluator: Evaluator,
    solve: Callable[[WorkGraph, Sequence[Pool], int], Iterator[MaxLoadPlan | Lattice | None]],
    cost_model: str,
    replicas: int,
) -> Iterator[Candidate | None]:
    """Plan by a program over ideals, under the paper's costs or ours, and have the plans judged.

    Raises:
        InputError: there is no cluster, or the program does not take the model.
    """
    fleet = fleet_of(problem)
    if cost_model == ORIGINAL:
        yield from _original(problem, evaluator, fleet, solve, replicas or 1)
        return
    count = fleet.count
    while count:
        for size in sizes_worth_trying(problem, count, replicas=fleet.size):
            own = fleet.fewer(count)
            work, pools = priced(problem, own, size)
            plan: MaxLoadPlan | None = None
            for item in solve(work, pools, min(replicas or count, size // own.size)):
                plan = item if isinstance(item, MaxLoadPlan) else plan
                yield None
            if plan is not None:
                strategy = strategy_of(problem, placed(work, own, plan), size)
                yield from judged(problem, evaluator, strategy, _label(plan, own, size))
        count //= 2


def _original(
    problem: Problem,
    evaluator: Evaluator,
    fleet: Fleet,
    solve: Callable[[WorkGraph, Sequence[Pool], int], Iterator[MaxLoadPlan | Lattice | None]],
    replicas: int,
) -> Iterator[Candidate | None]:
    work, pools = as_published(problem, fleet)
    plan: MaxLoadPlan | None = None
    for item in solve(work, pools, replicas):
        if isinstance(item, Lattice):
            evaluator.details["ideals"] = item.count
        plan = item if isinstance(item, MaxLoadPlan) else plan
        yield None
    if plan is None:
        raise without_split(problem, fleet)
    evaluator.foreign_value = plan.load_s
    if "ideals" in evaluator.details:
        evaluator.lower_bound, evaluator.bound, evaluator.optimal = plan.load_s, BOUND, True
    evaluator.details["stages"] = [
        {
            "kind": fleet.kinds[stage.pool].name, "replicas": stage.replicas, "load_s": stage.load_s,
            "layers": [problem.graph.layers[layer].name for layer in work.layers(stage.nodes)],
        }
        for stage in plan.stages
    ]  # fmt: skip
    yield None
    strategy = strategy_of(problem, placed(work, fleet, plan), replicas)
    yield evaluator.evaluate(strategy, _label(plan, fleet, replicas))


def as_published(problem: Problem, fleet: Fleet) -> tuple[WorkGraph, tuple[Pool, ...]]:
    """Return the model with seconds of a sample as the paper counts them, and the groups."""
    whole = work_graph(
        problem.graph,
        fleet.kinds,
        problem.job,
        samples=1.0,
        gradients=False,
        bytes_per_s=min(kind.host_bandwidth_bytes_per_s for kind in fleet.kinds) or fleet.bytes_per_s,
    )
    pools = pools_of(problem, fleet, 1)
    return without_free_nodes(whole, room_bytes=min(pool.room_bytes for pool in pools)), pools


def without_split(problem: Problem, fleet: Fleet) -> InputError:
    """Return what is said where no split fits."""
    return InputError(
        f"no split of {problem.graph.name!r} fits its {fleet.count} devices", key="devices",
        found=fleet.count, allowed="more devices, or more memory",
    )  # fmt: skip


def priced(problem: Problem, fleet: Fleet, microbatch: int) -> tuple[WorkGraph, tuple[Pool, ...]]:
    """Return the model with seconds of a group's share of a microbatch, and the groups."""
    work = work_graph(
        problem.graph, fleet.kinds, problem.job, samples=microbatch / fleet.size,
        bytes_per_s=fleet.bytes_per_s, latency_s=fleet.latency_s,
    )  # fmt: skip
    return work, pools_of(problem, fleet, problem.job.global_batch // microbatch)


def pools_of(problem: Problem, fleet: Fleet, microbatches: int) -> tuple[Pool, ...]:
    """Return the groups of a fleet by kind, as stages of so many microbatches see them."""
    return tuple(
        Pool(
            count=len(own), room_bytes=room_bytes(problem, kind), pays=kind.name != CPU,
            reduce_s_per_byte=2.0 / (fleet.bytes_per_s * microbatches),
        )
        for kind, own in zip(fleet.kinds, fleet.groups, strict=True)
    )  # fmt: skip


def placed(work: WorkGraph, fleet: Fleet, plan: MaxLoadPlan) -> list[Placed]:
    """Return the layers and devices of the stages: of each kind the next groups in order."""
    taken = [0] * len(fleet.kinds)
    found = []
    for stage in plan.stages:
        first = taken[stage.pool]
        taken[stage.pool] += stage.replicas
        groups = fleet.groups[stage.pool][first : first + stage.replicas]
        found.append((work.layers(stage.nodes), tuple(device for group in groups for device in group)))
    return found


def _label(plan: MaxLoadPlan, fleet: Fleet, microbatch: int) -> str:
    counts = "-".join(str(stage.replicas * fleet.size) for stage in plan.stages)
    return f"stages on {counts}, microbatches of {microbatch}"
