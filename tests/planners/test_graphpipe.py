"""GraphPipe's program: every plan of small graphs, chains as chains, branches side by side."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models.synthetic import branches, chain
from explorer.planners._pieces.series_parallel import NODE, PARALLEL, SERIES, Part, series_parallel
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.graphpipe import GraphPlan, Planner
from explorer.search import Problem, search
from explorer.workload import default_workload

Group = tuple[int, ...]


def random_form(draw: random.Random, kind: str, most: int) -> list[set[int]]:
    """What each node of a random series-parallel graph needs, in a topological order."""
    if most == 1 or draw.random() < 0.2:
        return [set()]
    found: list[set[int]] = []
    share = [1] * draw.randint(2, min(3, most))
    for _ in range(most - len(share)):
        share[draw.randrange(len(share))] += 1
    for size in share:
        before = len(found)
        for needed in random_form(draw, PARALLEL if kind == SERIES else SERIES, size):
            earlier = set(range(before)) if kind == SERIES else set()
            found.append({u + before for u in needed} | earlier)
    return found


def work_of(draw: random.Random, needed: list[set[int]]) -> WorkGraph:
    """Random work on nodes that read from those just before them, and from some earlier ones."""
    n = len(needed)
    readers: list[set[int]] = [set() for _ in range(n)]
    for v, own in enumerate(needed):
        for u in own:
            direct = not any(u in needed[w] for w in own)
            if direct or draw.random() < 0.2:
                readers[u].add(v)
    made = [u for u in range(n) if readers[u]]
    return WorkGraph(
        members=tuple((v,) for v in range(n)),
        above=tuple(sum(1 << u for u in own) for own in needed),
        seconds=np.array([[float(draw.randint(1, 12)) for _ in range(n)]]),
        held_bytes=np.array([float(draw.randint(0, 3)) for _ in range(n)]),
        reduced_bytes=np.array([float(draw.randint(0, 2)) for _ in range(n)]),
        producer=np.array(made, dtype=np.int64),
        readers=tuple(tuple(sorted(readers[u])) for u in made),
        transfer_s=np.array([float(draw.randint(0, 3)) for _ in made]),
    )


def load(work: WorkGraph, nodes: Group, r: int, reduce_s: float) -> float:
    total = sum(work.seconds[0][v] for v in nodes)
    for p, readers, sent in zip(work.producer.tolist(), work.readers, work.transfer_s.tolist(), strict=True):
        inside = [v in nodes for v in readers]
        if (p in nodes and not all(inside)) or (p not in nodes and any(inside)):
            total += sent
    return float(total) / r + sum(work.reduced_bytes[v] for v in nodes) * reduce_s * (r - 1) / r


def depth_of(work: WorkGraph, groups: list[Group]) -> float:
    """Stages on the longest path; infinite where they wait for each other in a circle."""
    later = {
        i: {j for j, b in enumerate(groups) if i != j and any(work.above[v] >> u & 1 for u in a for v in b)}
        for i, a in enumerate(groups)
    }

    def longest(i: int, seen: frozenset[int]) -> float:
        if i in seen:
            return math.inf
        return 1 + max((longest(j, seen | {i}) for j in later[i]), default=0)

    return max(longest(i, frozenset()) for i in range(len(groups)))


def value_of(
    work: WorkGraph, groups: list[Group], devices: int, m: int, room: float, reduce_s: float
) -> float:
    """The least (m + d - 1) V over replicas of these stages."""
    depth = depth_of(work, groups)
    if len(groups) > devices or math.isinf(depth):
        return math.inf
    if any(sum(work.held_bytes[v] for v in group) > room for group in groups):
        return math.inf
    best = math.inf
    for replicas in itertools.product(range(1, devices + 1), repeat=len(groups)):
        if sum(replicas) <= devices:
            slowest = max(load(work, g, r, reduce_s) for g, r in zip(groups, replicas, strict=True))
            best = min(best, (m + depth - 1) * slowest)
    return best


def all_plans(part: Part) -> Iterator[list[Group]]:
    """Stages that are runs of parts, or parts divided by themselves."""
    yield [part.nodes]
    count = len(part.parts)
    for cuts in range(1, count):
        for inner in itertools.combinations(range(1, count), cuts):
            yield from _with_runs(part, (0, *inner, count))
    if part.kind != NODE and count:
        yield from _with_runs(part, tuple(range(count + 1)))


def _with_runs(part: Part, ends: tuple[int, ...]) -> Iterator[list[Group]]:
    ways = []
    for a, b in itertools.pairwise(ends):
        run = tuple(sorted(v for item in part.parts[a:b] for v in item.nodes))
        ways.append(list(all_plans(part.parts[a])) if b == a + 1 else [[run]])
    for chosen in itertools.product(*ways):
        yield [group for groups in chosen for group in groups]


def all_partitions(nodes: list[int]) -> Iterator[list[Group]]:
    """Every way to put nodes into stages."""
    if not nodes:
        yield []
        return
    for groups in all_partitions(nodes[1:]):
        yield [(nodes[0],), *groups]
        for i, group in enumerate(groups):
            yield [*groups[:i], (nodes[0], *group), *groups[i + 1 :]]


def assert_true(plan: GraphPlan, work: WorkGraph, devices: int, m: int, room: float, reduce_s: float) -> None:
    """Its stages are what it says."""
    groups = [stage.nodes for stage in plan.stages]
    assert sorted(v for group in groups for v in group) == list(range(work.count))
    assert sum(stage.replicas for stage in plan.stages) <= devices
    slowest = max(load(work, stage.nodes, stage.replicas, reduce_s) for stage in plan.stages)
    assert slowest == pytest.approx(plan.slowest_s, rel=1e-12)
    assert depth_of(work, groups) == plan.depth
    assert plan.seconds == pytest.approx((m + plan.depth - 1) * slowest, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_no_plan_of_its_space_is_better(seed: int) -> None:
    draw = random.Random(seed)
    nested = 0
    for _ in range(25):
        work = work_of(draw, random_form(draw, draw.choice([SERIES, PARALLEL]), draw.randint(1, 6)))
        devices, m = draw.randint(1, 4), draw.choice([1, 2, 8])
        room, reduce_s = draw.choice([math.inf, 6.0]), draw.choice([0.0, 0.5])
        planner = Planner(work, devices, room, reduce_s, most_replicas=devices)
        nested += planner.form.kind != NODE and any(part.parts for part in planner.form.parts)
        plans = {tuple(sorted(groups)) for groups in all_plans(planner.form)}
        expected = min(value_of(work, list(groups), devices, m, room, reduce_s) for groups in plans)
        plan = planner.best(m)
        assert (plan.seconds if plan else math.inf) == pytest.approx(expected, rel=1e-12)
        if plan is not None:
            assert_true(plan, work, devices, m, room, reduce_s)
    assert nested > 3


def test_on_chains_no_plan_at_all_is_better() -> None:
    draw = random.Random(7)
    for _ in range(20):
        n, devices, m = draw.randint(1, 5), draw.randint(1, 4), draw.choice([1, 4])
        work = work_of(draw, [set(range(v)) for v in range(n)])
        plans = all_partitions(list(range(n)))
        expected = min(value_of(work, groups, devices, m, math.inf, 0.0) for groups in plans)
        plan = Planner(work, devices, math.inf, 0.0, most_replicas=devices).best(m)
        assert plan is not None
        assert plan.seconds == pytest.approx(expected, rel=1e-12)


def test_forms() -> None:
    """a -> (b -> c, d) -> e, with an edge that skips, and the smallest graph without a form."""
    found = series_parallel([0, 0b1, 0b11, 0b1, 0b1111])
    assert (found.kind, [part.nodes for part in found.parts]) == (SERIES, [(0,), (1, 2, 3), (4,)])
    inner = found.parts[1]
    assert (inner.kind, [part.nodes for part in inner.parts]) == (PARALLEL, [(1, 2), (3,)])
    assert inner.parts[0].kind == SERIES
    with pytest.raises(InputError, match="4 nodes of the model have no series-parallel form") as caught:
        series_parallel([0, 0, 0b1, 0b11])  # a -> c, a -> d, b -> d
    assert "\n" not in str(caught.value)


def best_of(graph: object, devices: int) -> object:
    workload = default_workload(graph).with_job(global_batch=32)  # type: ignore[arg-type]
    problem = Problem(
        graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload, max_devices=devices  # type: ignore[arg-type]
    )  # fmt: skip
    return [item.new for item in search(problem, "graphpipe") if item.new]


def test_branches_run_side_by_side() -> None:
    """Six equal layers on six devices: four on the longest path, six in a chain."""
    heavy = 1e9
    two = branches((2, 2), parameter_bytes=heavy)
    found = [item for item in best_of(two, 6) if "depth 4" in item.label]  # type: ignore[attr-defined]
    assert found
    assert found[0].label.startswith("6 stages, depth 4")
    assert found[0].strategy.job.schedule == "graphpipe"
    line = best_of(chain([1.0] * 6, parameter_bytes=heavy), 6)
    assert any(item.label.startswith("6 stages, depth 6") for item in line)  # type: ignore[attr-defined]
