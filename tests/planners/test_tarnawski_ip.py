"""Tarnawski's integer program: every placement of small graphs, and never more than contiguous splits."""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from explorer.base.errors import InputError
from explorer.planners._pieces.free_nodes import without_free_nodes
from explorer.planners._pieces.integer_program import solved
from explorer.planners._pieces.max_load import Pool
from explorer.planners._pieces.split_program import (
    by_pairs,
    loads_of,
    shared_bound,
    split_program,
    tournament,
)
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.tarnawski import exact
from explorer.planners.tarnawski_ip import Split, splits
from tests.planners.random_work import random_pools, random_work
from tests.planners.test_tarnawski import best_of, load, run


def every_split(work: WorkGraph, pools: Sequence[Pool]) -> float:
    """The least max-load over all maps of nodes to devices."""
    kinds = [k for k, pool in enumerate(pools) for _ in range(pool.count)]

    def value(device: Sequence[int]) -> float:
        own = {i: frozenset(v for v in range(work.count) if device[v] == i) for i in set(device)}
        return max(load(work, nodes, pools[kinds[i]], kinds[i], 1) for i, nodes in own.items())

    return min(value(device) for device in itertools.product(range(len(kinds)), repeat=work.count))


def found_by(work: WorkGraph, pools: Sequence[Pool], nodes: int = 10_000) -> Split | None:
    found = None
    for item in splits(work, pools, nodes):
        found = item or found
    return found


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("seed", range(4))
def test_no_split_of_a_small_graph_is_better(seed: int) -> None:
    """120 graphs: kinds that differ, nodes that a kind may not run, memory that does not do."""
    draw = random.Random(seed)
    infeasible = 0
    for _ in range(30):
        kinds = draw.choice([1, 2])
        work, pools = random_work(draw, kinds=kinds), random_pools(draw, kinds)
        least, found = every_split(work, pools), found_by(work, pools)
        infeasible += found is None
        assert (found.load_s if found else math.inf) == pytest.approx(least, rel=1e-6, abs=1e-9)
        if found is not None:
            assert found.bound_s == found.load_s
            contiguous = best_of(exact(work, pools, 1, limit=1000))
            value = contiguous.load_s if contiguous else math.inf
            assert found.load_s <= value * (1 + 1e-12)
    assert infeasible < 15


@pytest.mark.usefixtures("here")
def test_the_ends_of_a_chain_share_a_device_where_that_is_better() -> None:
    work = WorkGraph(
        members=((0,), (1,), (2,)), above=(0, 1, 3), seconds=np.array([[1.0, 2.0, 1.0]]),
        held_bytes=np.zeros(3), reduced_bytes=np.zeros(3), producer=np.array([0, 1]),
        readers=((1,), (2,)), transfer_s=np.array([0.1, 0.2]),
    )  # fmt: skip
    pools = [Pool(count=2)]
    contiguous, found = best_of(exact(work, pools, 1, limit=9)), found_by(work, pools)
    assert contiguous is not None
    assert found is not None
    assert contiguous.load_s == pytest.approx(3.1)
    assert (found.device[0], found.load_s) == (found.device[2], pytest.approx(2.3))


@pytest.mark.usefixtures("here")
def test_joining_nodes_that_take_no_time_changes_no_optimum() -> None:
    draw, smaller = random.Random(41), 0
    for _ in range(30):
        work = random_work(draw, most=6)
        work.seconds[:, [v for v in range(work.count) if draw.random() < 0.5]] = 0.0
        work.reduced_bytes[:] = 0.0
        pools = [Pool(count=2, room_bytes=draw.choice([math.inf, 8.0]))]
        joined = without_free_nodes(work, room_bytes=pools[0].room_bytes)
        smaller += joined.count < work.count
        values = [item.load_s if item else math.inf for item in (found_by(w, pools) for w in (work, joined))]
        assert values[0] == pytest.approx(values[1], rel=1e-6, abs=1e-9)
    assert smaller > 5


@pytest.mark.usefixtures("here")
def test_few_nodes_of_the_solver_leave_a_bound_and_a_plan_no_worse_than_contiguous_ones() -> None:
    draw = random.Random(3)
    work = random_work(draw, most=12)
    while work.count < 10:
        work = random_work(draw, most=12)
    pools = [Pool(count=3)]
    first = next(item for item in splits(work, pools, 1) if item is not None)
    short, longer = found_by(work, pools, 1), found_by(work, pools, 20)
    assert short is not None
    assert longer is not None
    assert longer.load_s <= short.load_s <= first.load_s
    assert short.bound_s <= short.load_s
    assert max(short.bound_s, longer.bound_s) <= min(short.load_s, longer.load_s) * (1 + 1e-9)
    assert short.bound_s >= float(np.sum(work.seconds)) / 3 * (1 - 1e-6)  # work alone, shared evenly


# ---- parts of the program ---------------------------------------------------------------------------


@pytest.mark.usefixtures("here")
def test_no_split_is_below_the_bound_that_devices_of_a_kind_share() -> None:
    """60 graphs: kinds that differ, memory; without transfers and memory it is work spread evenly."""
    draw, tight = random.Random(17), 0
    for _ in range(60):
        kinds = draw.choice([1, 2])
        work, pools = random_work(draw, kinds=kinds), random_pools(draw, kinds)
        least, bound = every_split(work, pools), shared_bound(work, pools)
        assert bound <= least * (1 + 1e-9)
        tight += math.isfinite(least) and bound > 0.8 * least > 0
        if kinds == 1 and pools[0].room_bytes == math.inf:
            assert bound == pytest.approx(work.seconds[0].sum() / pools[0].count, rel=1e-5, abs=1e-9)
    assert tight > 10


@pytest.mark.usefixtures("here")
def test_the_shared_bound_is_the_least_of_the_whole_relaxation() -> None:
    draw = random.Random(23)
    for _ in range(30):
        kinds = draw.choice([1, 2])
        work, pools = random_work(draw, most=6, kinds=kinds), random_pools(draw, kinds)
        every = range(sum(pool.count for pool in pools))
        program, _ = split_program(work, pools, range(work.count), every, 1.0)
        program.whole.clear()
        answer = solved(program)
        assert shared_bound(work, pools) == pytest.approx(
            answer.bound if answer.values else 0.0, rel=1e-5, abs=1e-7
        )


@pytest.mark.usefixtures("here")
def test_two_devices_are_divided_as_well_as_can_be_and_the_others_stay() -> None:
    """Every division of the nodes of each pair, after rounds that found nothing more."""
    draw, better = random.Random(29), 0
    for _ in range(25):
        work, pools = random_work(draw, most=6), [Pool(count=3, room_bytes=draw.choice([math.inf, 6.0]))]
        start = [draw.randrange(3) for _ in range(work.count)]
        if max(loads_of(work, pools, start)) == math.inf:
            continue
        rounds = list(by_pairs(work, pools, start, 1000))
        values = [max(loads_of(work, pools, device)) for device in (start, *rounds)]
        assert values == sorted(values, reverse=True)
        better += values[-1] < values[0]
        found = rounds[-1] if rounds else tuple(start)
        busiest = max(range(3), key=lambda i: loads_of(work, pools, found)[i])
        for other in {0, 1, 2} - {busiest}:
            free = [v for v in range(work.count) if found[v] in (busiest, other)]
            for choice in itertools.product((busiest, other), repeat=len(free)):
                device = list(found)
                for v, i in zip(free, choice, strict=True):
                    device[v] = i
                loads = loads_of(work, pools, device)
                assert max(loads[busiest], loads[other]) >= values[-1] * (1 - 2e-6)
    assert better > 10


def test_each_two_devices_meet_once_in_disjoint_pairs() -> None:
    for count in range(2, 9):
        rounds = tournament(count)
        assert sorted(pair for pairs in rounds for pair in pairs) == [
            *itertools.combinations(range(count), 2)
        ]
        assert all(len({i for pair in pairs for i in pair}) == 2 * len(pairs) for pairs in rounds)
        assert len(rounds) == count - 1 + count % 2


# ---- the authors' own results ----------------------------------------------------------------------

QUICK = {
    "LayerGraphs/bert24_training": 20, "OperatorGraphs/resnet50_inference": 20,
    "LayerGraphs/gnmt_inference": 1, "OperatorGraphs/bert_l-3_inference": 1,
    "OperatorGraphs/bert_l-6_training": 1, "LayerGraphs/inceptionv3_inference": 1,
    "LayerGraphs/resnet50_training": 1, "OperatorGraphs/bert_l-12_inference": 1,
}  # fmt: skip
"""Workloads, and the nodes of branch and bound after which they are compared."""
NEAR = {"LayerGraphs/inceptionv3_inference": 1.006, "LayerGraphs/resnet50_training": 1.01}
"""Most that a split may be over its own bound, where transfers hardly matter."""


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", QUICK)
def test_is_no_worse_than_every_published_column(name: str, reference_dir: Path) -> None:
    folder = reference_dir / "dnn-partitioning"
    workloads = json.loads((folder / "expected.json").read_text())["workloads"]
    (expected,) = [item for item in workloads if item["workload"] == name]
    found = run(
        folder / "throughput" / f"{name.replace('/', '_')}.json", "tarnawski_ip", nodes=str(QUICK[name])
    )
    value, bound = 1e3 * (found.foreign_value or 0.0), 1e3 * (found.lower_bound or 0.0)
    for column in ("dp", "dpl", "expert", "pipedream", "scotch"):
        assert value <= expected.get(column, {}).get("maxLoad", math.inf) * (1 + 1e-9), column
    assert 0 < bound <= value <= NEAR.get(name, math.inf) * bound
    devices = found.details["devices"]
    assert max(device["load_s"] for device in devices) == pytest.approx(found.foreign_value, rel=1e-12)


def test_a_split_that_no_device_holds_is_refused(tmp_path: Path) -> None:
    node = {"id": 0, "supportedOnFpga": 1, "cpuLatency": 1.0, "fpgaLatency": 1.0, "isBackwardNode": 0}
    data = {"maxSizePerFPGA": 8.0, "maxFPGAs": 2, "maxCPUs": 0, "nodes": [node | {"size": 9.0}], "edges": []}
    path = tmp_path / "large.json"
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="no split of 'large' fits its 2 devices") as caught:
        run(path, "tarnawski_ip")
    assert "\n" not in str(caught.value)
