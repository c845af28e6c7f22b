"""Tarnawski's program over ideals: brute force over small graphs, and what its authors' code found."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model_and_cluster
from explorer.models.synthetic import branches
from explorer.planners._pieces.free_nodes import without_free_nodes
from explorer.planners._pieces.lattice import Lattice, bits, lattice_of
from explorer.planners._pieces.max_load import MaxLoadPlan, Pool
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.tarnawski import exact
from explorer.search import Problem, Progress, search
from explorer.workload import default_workload
from tests.planners.random_work import random_pools, random_work

Stages = list[tuple[frozenset[int], int, int]]


def best_of(items: Iterator[Any]) -> MaxLoadPlan | None:
    """The last plan that a program yields."""
    found = None
    for item in items:
        found = item if isinstance(item, MaxLoadPlan) else found
    return found


# ---- brute force, in words of its own --------------------------------------------------------------


def load(work: WorkGraph, own: frozenset[int], pool: Pool, kind: int, replicas: int) -> float:
    if sum(work.held_bytes[v] for v in own) > pool.room_bytes:
        return math.inf
    seconds = sum(work.seconds[kind][v] for v in own)
    for t, p in enumerate(work.producer.tolist()):
        inside = {p, *work.readers[t]} & own
        crossing = inside and {p, *work.readers[t]} - own and (p in own or own & set(work.readers[t]))
        seconds += work.transfer_s[t] if pool.pays and crossing else 0.0
    reduced = sum(work.reduced_bytes[v] for v in own) * pool.reduce_s_per_byte
    return seconds / replicas + reduced * (replicas - 1) / replicas


def brute_force(work: WorkGraph, pools: Sequence[Pool], replicas: int) -> float:
    """Every sequence of stages, on every kind, in every number of replicas."""
    every = frozenset(range(work.count))

    def below(done: frozenset[int], left: tuple[int, ...]) -> float:
        if done == every:
            return 0.0
        rest = sorted(every - done)
        best = math.inf
        for chosen in range(1, 1 << len(rest)):
            own = frozenset(rest[i] for i in bits(chosen))
            if any(u not in own | done for v in own for u in bits(work.above[v])):
                continue
            for kind, count in enumerate(left):
                for r in range(1, min(replicas, count) + 1):
                    value = load(work, own, pools[kind], kind, r)
                    if value < best:
                        less = (*left[:kind], count - r, *left[kind + 1 :])
                        best = min(best, max(value, below(own | done, less)))
        return best

    return below(frozenset(), tuple(pool.count for pool in pools))


@pytest.mark.parametrize("seed", range(10))
def test_no_split_of_a_small_graph_is_better(seed: int) -> None:
    """300 graphs: kinds that differ, nodes that a kind may not run, memory that does not do, replicas."""
    draw = random.Random(seed)
    infeasible = 0
    for _ in range(30):
        kinds, replicas = draw.choice([1, 2, 2]), draw.choice([1, 1, 2, 3])
        work, pools = random_work(draw, kinds=kinds), random_pools(draw, kinds)
        least = brute_force(work, pools, replicas)
        found = best_of(exact(work, pools, replicas, limit=1000))
        infeasible += found is None
        assert (found.load_s if found else math.inf) == pytest.approx(least, rel=1e-9, abs=1e-12)
        if found is not None:
            check(work, pools, replicas, found)
    assert infeasible < 20


def check(work: WorkGraph, pools: Sequence[Pool], replicas: int, plan: MaxLoadPlan) -> None:
    """A plan holds every node once, in an order that the graph allows, on no more devices than there are."""
    done: set[int] = set()
    used = [0] * len(pools)
    for stage in plan.stages:
        done |= set(stage.nodes)
        assert all(u in done for v in stage.nodes for u in bits(work.above[v]))
        used[stage.pool] += stage.replicas
        assert stage.replicas <= replicas
        own = load(work, frozenset(stage.nodes), pools[stage.pool], stage.pool, stage.replicas)
        assert stage.load_s == pytest.approx(own, rel=1e-12)
    assert sorted(v for stage in plan.stages for v in stage.nodes) == list(range(work.count))
    assert all(count <= pool.count for count, pool in zip(used, pools, strict=True))
    assert plan.load_s == max(stage.load_s for stage in plan.stages)


@pytest.mark.parametrize("seed", range(6))
def test_joining_nodes_that_take_no_time_changes_no_optimum(seed: int) -> None:
    draw = random.Random(100 + seed)
    smaller = 0
    for _ in range(30):
        work = random_work(draw, most=6)
        work.seconds[:, [v for v in range(work.count) if draw.random() < 0.5]] = 0.0
        work.reduced_bytes[:] = 0.0
        pools = random_pools(draw, 1)
        joined = without_free_nodes(work, room_bytes=pools[0].room_bytes)
        smaller += joined.count < work.count
        both = [best_of(exact(item, pools, 2, limit=1000)) for item in (work, joined)]
        values = [item.load_s if item else math.inf for item in both]
        assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-12)
    assert smaller > 5


def test_ideals_are_all_sets_with_what_they_need() -> None:
    draw = random.Random(5)
    for _ in range(50):
        work = random_work(draw, most=7)
        lattice: Lattice = [item for item in lattice_of(work.above) if item is not None][-1]
        expected = {
            chosen
            for chosen in range(1 << work.count)
            if all(not work.above[v] & ~chosen for v in bits(chosen))
        }
        assert set(lattice.sets) == expected
        assert len(lattice.sets) == len(expected)
        sums = lattice.sums(work.held_bytes)
        assert sums.tolist() == [sum(work.held_bytes[v] for v in bits(item)) for item in lattice.sets]


# ---- the authors' own results ----------------------------------------------------------------------


def run(path: Path, searcher: str = "tarnawski", **options: str) -> Progress:
    graph, cluster = load_model_and_cluster(str(path))
    problem = Problem(graph=graph, cluster=cluster, workload=default_workload(graph))
    *_, last = search(problem, searcher, options={"cost_model": "original", **options})
    return last


@pytest.mark.reference
def test_finds_every_published_optimum(reference_dir: Path) -> None:
    folder = reference_dir / "dnn-partitioning"
    workloads = json.loads((folder / "expected.json").read_text())["workloads"]
    known = 0
    for expected in workloads:
        path = folder / "throughput" / f"{expected['workload'].replace('/', '_')}.json"
        if not path.exists():
            continue
        found = run(path)
        assert found.optimal
        assert found.foreign_value == found.lower_bound
        assert found.gap is None  # the simulated best is of another cost model
        value = expected["dp"].get("maxLoad")
        known += value is not None
        if value is not None:
            assert 1e3 * (found.foreign_value or 0) == pytest.approx(value, rel=1e-9), expected["workload"]
        assert 1e3 * (found.foreign_value or 0) <= expected["dpl"]["maxLoad"] * (1 + 1e-9)
        stages = found.details["stages"]
        assert max(stage["load_s"] for stage in stages) == found.foreign_value
    assert known >= 7


@pytest.mark.reference
def test_what_experts_did_by_hand_is_no_better(reference_dir: Path) -> None:
    folder = reference_dir / "dnn-partitioning"
    compared = 0
    for expected in json.loads((folder / "expected.json").read_text())["workloads"]:
        if "expert" in expected and "resnet50" in expected["workload"]:
            found = run(folder / "throughput" / f"{expected['workload'].replace('/', '_')}.json")
            assert 1e3 * (found.foreign_value or 0) < expected["expert"]["maxLoad"]
            compared += 1
    assert compared


# ---- bad input -------------------------------------------------------------------------------------


def test_too_many_ideals_are_counted_and_the_way_out_is_said() -> None:
    graph = branches((9, 9, 9))
    given = Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=default_workload(graph))
    with pytest.raises(
        InputError, match=r"1,002 ideals of 29 blocks and layers .*tarnawski_linear"
    ) as caught:
        list(search(given, "tarnawski", options={"ideals": "100"}))
    assert caught.value.found == 10**3 + 2
    assert "\n" not in str(caught.value)


def test_a_split_that_no_device_holds_is_refused(tmp_path: Path) -> None:
    node = {"id": 0, "supportedOnFpga": 1, "cpuLatency": 1.0, "fpgaLatency": 1.0, "isBackwardNode": 0}
    data = {"maxSizePerFPGA": 8.0, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [node | {"size": 9.0}], "edges": []}
    path = tmp_path / "large.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="no split of 'large' fits its 2 devices"):
        run(path)
