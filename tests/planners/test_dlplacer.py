"""DLPlacer: every placement in every order on small graphs, parts put together, and the hybrid rule."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.planners._pieces.earliest_finish import Workers, earliest_finish, timed
from explorer.planners._pieces.hybrid_rule import (
    Convergence,
    best_gain,
    convergence_s,
    needed_speedup,
    overtakes_at,
)
from explorer.planners._pieces.placement_program import gates, in_chains, placed, shortest
from explorer.planners._pieces.scattered import runs
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.planners.dlplacer import plan_of
from explorer.search import Problem, search
from explorer.simulation.simulate import simulate
from explorer.workload import Job, Workload, default_workload
from tests.planners.random_work import random_work
from tests.planners.test_tensorflow_greedy import random_workers


def orders(work: WorkGraph) -> Iterator[tuple[int, ...]]:
    """Every order in which nodes come after those that they need."""
    for order in itertools.permutations(range(work.count)):
        place = {v: k for k, v in enumerate(order)}
        if all(not work.above[v] >> u & 1 or place[u] < place[v] for u in order for v in order):
            yield order


def few_workers(draw: random.Random, kinds: int) -> Workers:
    found = random_workers(draw, kinds)
    return Workers(found.kind[:3], found.room_bytes[:3], found.latency_s[:3, :3], found.s_per_byte[:3, :3])


def least_of_all(work: WorkGraph, workers: Workers) -> float:
    every = itertools.product(range(len(workers.kind)), repeat=work.count)
    found = (timed(work, workers, device, order) for device in every for order in orders(work))
    return min((item.makespan_s for item in found if item is not None), default=math.inf)


@pytest.mark.usefixtures("here")
def test_no_placement_of_a_small_graph_is_shorter() -> None:
    """36 graphs on devices that differ, with memory that may not do, and links that differ."""
    draw, better = random.Random(0), 0
    for _ in range(36):
        kinds = draw.choice([1, 2])
        work, workers = random_work(draw, most=4, kinds=kinds), few_workers(draw, kinds)
        known, found = earliest_finish(work, workers), placed(work, workers, {}, nodes=10_000)
        if known is None:
            assert found is None
            continue
        assert found is not None
        assert found.makespan_s == pytest.approx(least_of_all(work, workers), rel=1e-5, abs=1e-9)
        assert found.makespan_s <= known.makespan_s
        better += found.makespan_s < known.makespan_s * (1 - 1e-9)
        held = np.bincount(found.device, work.held_bytes, minlength=len(workers.kind))
        assert (held <= np.array(workers.room_bytes) + 1e-9).all()
    assert better  # a list schedule would not do


def diamonds(count: int, seconds: float, size: float) -> WorkGraph:
    """Nodes 3 k -> (3 k + 1, 3 k + 2) -> 3 k + 3: branches of equal seconds, one after the other."""
    reads: dict[int, tuple[int, ...]] = {}
    for k in range(count):
        reads |= {3 * k + 1: (3 * k,), 3 * k + 2: (3 * k,), 3 * k + 3: (3 * k + 1, 3 * k + 2)}
    n = 3 * count + 1
    above = [0] * n
    for v in range(n):
        for u in reads.get(v, ()):
            above[v] |= above[u] | 1 << u
    readers = [tuple(v for v in range(n) if u in reads.get(v, ())) for u in range(n - 1)]
    own = [1.0 if v % 3 == 0 else seconds for v in range(n)]
    return WorkGraph(
        members=tuple((v,) for v in range(n)), above=tuple(above), seconds=np.array([own]),
        held_bytes=np.zeros(n), reduced_bytes=np.zeros(n), producer=np.arange(n - 1),
        readers=tuple(readers), transfer_s=np.full(n - 1, size),
    )  # fmt: skip


def two(latency_s: float = 0.0) -> Workers:
    links = np.ones((2, 2))
    return Workers((0, 0), (math.inf, math.inf), latency_s * links, links)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("size", [0.0, 0.5, 5.0])
def test_parts_between_gates_make_the_shortest_placement_of_a_series(size: float) -> None:
    """A branch goes to another device, and the series after it, if that way takes less than a branch."""
    work = diamonds(4, 3.0, size)
    assert gates(work) == [0, 3, 6, 9, 12]
    found = shortest(work, two(), nodes=1000)
    assert found is not None
    assert found.makespan_s == pytest.approx(5 + 4 * min(6.0, 3.0 + size), rel=1e-9)


def test_what_is_sent_past_a_node_makes_it_no_gate() -> None:
    work = diamonds(2, 1.0, 1.0)
    readers = list(work.readers)
    readers[1] = (3, 5)
    past = WorkGraph(
        **{name: getattr(work, name) for name in work.__dataclass_fields__} | {"readers": tuple(readers)}
    )
    assert gates(past) == [0, 6]


def test_runs_send_only_at_their_end_and_receive_only_at_their_begin() -> None:
    """60 placements: every node once, in the order of its device, and no circle of runs."""
    draw, several = random.Random(7), 0
    for _ in range(60):
        work, workers = random_work(draw, most=8), random_workers(draw, 1)
        found = earliest_finish(work, workers)
        if found is None:
            continue
        made = runs(work, found.device, found.start_s)
        several += any(len(run) > 1 for run in made) and len(made) > 1
        assert sorted(v for run in made for v in run) == list(range(work.count))
        number = {v: k for k, run in enumerate(made) for v in run}
        for run in made:
            assert len({found.device[v] for v in run}) == 1
            assert [found.start_s[v] for v in run] == sorted(found.start_s[v] for v in run)
        for maker, readers in zip(work.producer.tolist(), work.readers, strict=True):
            for reader in readers:
                assert number[maker] <= number[reader]
                if found.device[maker] != found.device[reader]:
                    assert maker == made[number[maker]][-1]
                    assert reader == made[number[reader]][0]
    assert several > 5


def test_chains_become_one_node_and_branches_stay() -> None:
    draw = random.Random(5)
    for _ in range(30):
        work = random_work(draw, most=8)
        found = in_chains(work)
        assert found.seconds.sum() == pytest.approx(work.seconds.sum())
        assert sorted(v for own in found.members for v in own) == list(range(work.count))
        assert in_chains(found).count == found.count
    chain = diamonds(1, 1.0, 1.0)
    assert in_chains(chain).count == 4


def test_a_chain_is_no_longer_than_the_room_of_a_device() -> None:
    draw = random.Random(6)
    for _ in range(30):
        work = random_work(draw, most=8)
        found = in_chains(work, room_bytes=4.0)
        assert found.held_bytes.max() <= max(4.0, work.held_bytes.max())
        assert found.held_bytes.sum() == pytest.approx(work.held_bytes.sum())


# ---- the rule --------------------------------------------------------------------------------------


def test_the_rule_says_what_the_seconds_say() -> None:
    """200 random cases: efficiencies, epochs and speed-ups, with the seconds worked out directly."""
    draw, wins = random.Random(1), 0
    for _ in range(200):
        workers, members = draw.choice([1, 2, 8, 64]), draw.choice([2, 4])
        step, batch, samples = draw.uniform(0.1, 2), 32.0, 1e6
        few, many = draw.uniform(0.5, 1), draw.uniform(0.3, 1)
        epochs_few, epochs_many = draw.uniform(2, 10), draw.uniform(2, 30)
        speedup = draw.uniform(1, members)
        data = convergence_s(step / many, samples, workers * members * batch, epochs_many)
        hybrid = convergence_s(step / speedup / few, samples, workers * batch, epochs_few)
        wanted = needed_speedup(members, many / few, epochs_few / epochs_many)
        assert (speedup > wanted) == (hybrid < data)
        wins += hybrid < data
    assert 20 < wins < 180


def test_the_hybrid_overtakes_where_it_stays_ahead() -> None:
    points = [
        Convergence(n, d, h) for n, d, h in ((2, 9.0, 8.0), (4, 6.0, 7.0), (8, 5.0, 4.0), (16, 5.5, 3.0))
    ]
    assert overtakes_at(points) == 8
    assert overtakes_at(points[:2]) is None
    assert best_gain(points) == pytest.approx(5.0 / 3.0 - 1)


# ---- models ----------------------------------------------------------------------------------------


def test_branches_behind_a_common_stem_run_side_by_side() -> None:
    """A stem, then two towers: a stage of stem and one tower would keep the other tower waiting."""
    b = GraphBuilder("fork")
    x = b.linear("stem", b.input("x", {"seq": 512, "embed": 4096}), {"wide": 4096})
    left, right = (b.linear(side, x, {"ffn": 16384}, over=("wide",)) for side in ("left", "right"))
    b.linear("head", b.add("meet", left, right), {"vocab": 64}, over=("ffn",))
    job = Job(global_batch=8, precision="fp16", optimizer="none")
    given = Problem(
        graph=b.build(), cluster=load_cluster("dgx-a100"), workload=Workload(jobs=(job,)), max_devices=2
    )
    pair = plan_of(given, 2, 8, nodes=200)
    one = plan_of(replace(given, max_devices=1), 1, 8, nodes=200)
    assert pair is not None
    assert one is not None
    step = [
        simulate(given.graph, given.needed_cluster, given.workload, plan).step_time_s for plan in (pair, one)
    ]
    assert step[0] < 0.75 * step[1]


def test_a_model_too_large_for_a_device_is_cut_although_it_is_a_chain() -> None:
    graph = load_model("biglstm")
    workload = default_workload(graph).with_job(global_batch=128)
    given = Problem(graph=graph, cluster=load_cluster("dgx-1-v100"), workload=workload, max_devices=2)
    assert plan_of(replace(given, max_devices=1), 1, 128, nodes=50) is None
    pair = plan_of(given, 2, 128, nodes=50)
    assert pair is not None
    assert simulate(graph, given.needed_cluster, workload, pair).feasible


def test_branches_of_a_model_are_shared_by_the_devices_of_a_worker() -> None:
    """Two towers of large products that meet: half of the step on two devices, where links are fast."""
    b = GraphBuilder("towers")
    x = b.input("x", {"seq": 512, "embed": 4096})
    with b.block("towers"):
        left, right = (
            b.linear(f"{side}.down", b.linear(f"{side}.up", x, {"ffn": 8192}), {"embed": 4096}, over=("ffn",))
            for side in ("left", "right")
        )
        y = b.add("meet", left, right)
    b.linear("head", y, {"vocab": 64})
    job = Job(global_batch=4, precision="fp16", optimizer="sgd")
    given = Problem(
        graph=b.build(), cluster=load_cluster("dgx-a100"), workload=Workload(jobs=(job,)), max_devices=4
    )
    new = [item.new for item in search(given, "dlplacer", options={"members": "2"}) if item.new]
    by_label = {item.label.partition(",")[0]: item for item in new}
    pair = by_label["2 workers of 2 devices"]
    assert "4 workers of 1 device" in by_label
    places = {
        layer.removeprefix("towers."): set(stage.meshes[0].devices)
        for stage in pair.strategy.job.stages
        for layer in stage.layers
    }
    assert places["left.up"] == places["left.down"]
    assert places["right.up"] == places["right.down"]
    assert not places["left.up"] & places["right.up"]
    assert all(len(devices) == 2 for devices in places.values())
