"""TensorFlow's greedy placement: every node is where it is done first, and nothing is ahead of time."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models.synthetic import branches, chain
from explorer.planners._pieces.earliest_finish import Placement, Workers, earliest_finish
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.search import Problem, search
from explorer.workload import default_workload
from tests.planners.random_work import random_work


def random_workers(draw: random.Random, kinds: int, *, free_links: bool = False) -> Workers:
    """A few devices of some kinds; links of any speed, or none that takes time."""
    count = draw.randint(1, 4)
    scale = 0.0 if free_links else 1.0
    times = np.array([[draw.uniform(0, 1) for _ in range(count)] for _ in range(count)])
    return Workers(
        kind=tuple(draw.randrange(kinds) for _ in range(count)),
        room_bytes=tuple(draw.choice([math.inf, math.inf, 5.0]) for _ in range(count)),
        latency_s=scale * times,
        s_per_byte=scale * times.T,
    )


def arrivals(work: WorkGraph, workers: Workers, found: Placement, v: int, d: int) -> float:
    """When all that a node reads is on a device, in words of its own: sent as soon as it is made."""
    last = 0.0
    for maker, readers, size in zip(work.producer.tolist(), work.readers, work.transfer_s, strict=True):
        if v in readers:
            source = found.device[maker]
            sent = workers.latency_s[source, d] + size * workers.s_per_byte[source, d]
            last = max(last, found.finish_s[maker] + (sent if source != d else 0.0))
    return last


@pytest.mark.parametrize("seed", range(3))
def test_every_node_is_where_it_is_done_first(seed: int) -> None:
    draw, placed = random.Random(seed), 0
    for _ in range(60):
        kinds = draw.choice([1, 2])
        work, workers = random_work(draw, most=8, kinds=kinds), random_workers(draw, kinds)
        found = earliest_finish(work, workers)
        if found is None:
            assert min(workers.room_bytes) < math.inf or not np.isfinite(work.seconds).all()
            continue
        placed += 1
        order = sorted(range(work.count), key=lambda v: (ready(work, found, v), v))
        free, held = [0.0] * len(workers.kind), [0.0] * len(workers.kind)
        for v in order:
            ends = [
                max(free[d], arrivals(work, workers, found, v, d)) + work.seconds[workers.kind[d], v]
                if held[d] + work.held_bytes[v] <= workers.room_bytes[d]
                else math.inf
                for d in range(len(free))
            ]
            assert found.finish_s[v] == pytest.approx(min(ends), rel=1e-12)
            assert found.device[v] == ends.index(min(ends))
            free[found.device[v]] = found.finish_s[v]
            held[found.device[v]] += work.held_bytes[v]
    assert placed > 30


def ready(work: WorkGraph, found: Placement, v: int) -> float:
    """When the last of what a node reads is made."""
    makers = [m for m, readers in zip(work.producer.tolist(), work.readers, strict=True) if v in readers]
    return max((found.finish_s[m] for m in makers), default=0.0)


def test_free_links_and_equal_devices_keep_grahams_bound() -> None:
    """Work over devices plus (1 - 1/D) of the longest path: no list schedule takes longer."""
    draw = random.Random(5)
    for _ in range(150):
        work, workers = random_work(draw, most=9), random_workers(draw, 1, free_links=True)
        workers = workers._replace(room_bytes=(math.inf,) * len(workers.kind))
        found = earliest_finish(work, workers)
        assert found is not None
        seconds, count = work.seconds[0], len(workers.kind)
        path = np.zeros(work.count)
        for v in range(work.count):
            before = [path[u] for u in range(v) if work.above[v] >> u & 1]
            path[v] = seconds[v] + max(before, default=0.0)
        bound = seconds.sum() / count + (1 - 1 / count) * path.max()
        assert found.makespan_s <= bound * (1 + 1e-12)
        assert found.makespan_s >= max(seconds.sum() / count, path.max()) * (1 - 1e-12)


def test_a_tensor_is_sent_once_to_a_device() -> None:
    """Two readers on one other device, which is full before it may hold the maker: one arrival for both."""
    work = WorkGraph(
        members=((0,), (1,), (2,)), above=(0, 1, 1), seconds=np.array([[1.0, 1.0, 1.0], [9.0, 1.0, 1.0]]),
        held_bytes=np.array([2.0, 1.0, 1.0]), reduced_bytes=np.zeros(3), producer=np.array([0]),
        readers=((1, 2),), transfer_s=np.array([3.0]),
    )  # fmt: skip
    workers = Workers((0, 1), (2.0, 2.0), np.zeros((2, 2)), np.ones((2, 2)))
    found = earliest_finish(work, workers)
    assert found == Placement((0, 1, 1), (0.0, 4.0, 5.0), (1.0, 5.0, 6.0))


def problem_of(graph: LayerGraph, devices: int, batch: int = 4) -> Problem:
    workload = default_workload(graph).with_job(global_batch=batch)
    cluster = load_cluster("dgx-1-v100")
    return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=devices)


def test_branches_go_side_by_side_and_a_chain_stays_where_it_is() -> None:
    side = list(search(problem_of(branches((2, 2)), 2), "tensorflow_greedy"))[-1].best
    assert side is not None
    assert set(side.strategy.job.devices) == {0, 1}
    line = list(search(problem_of(chain([1.0] * 4), 2), "tensorflow_greedy"))
    assert {item.new.strategy.job.devices for item in line if item.new} == {(0,)}
