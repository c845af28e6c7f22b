"""Stages of placements that need not be contiguous: branches on two devices run side by side."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

import explorer
from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.models.synthetic import branches
from explorer.planners._pieces.earliest_finish import earliest_finish
from explorer.planners._pieces.scattered import starts_of
from explorer.planners._pieces.work_graph import node_sizes, work_graph
from explorer.search import Problem, search
from explorer.search.evaluator import Candidate
from explorer.workload import Job, Workload, default_workload
from tests.planners.random_work import random_work
from tests.planners.test_tensorflow_greedy import random_workers
from tests.support.clusters import device_bound

PLANNERS = ("min_cut", "tarnawski_ip", "tensorflow_greedy")


def tried(graph: LayerGraph, planner: str, *, batch: int, devices: int = 2) -> list[Candidate]:
    """All plans that a planner has judged, on devices that start kernels in no time."""
    job = default_workload(graph).with_job(global_batch=batch)
    cluster = device_bound("dgx-1-v100")
    problem = Problem(graph=graph, cluster=cluster, workload=job, max_devices=devices)
    return [item.new for item in search(problem, planner) if item.new is not None]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("planner", PLANNERS)
@pytest.mark.parametrize("length", [1, 3])
def test_two_equal_branches_take_the_seconds_of_one(planner: str, length: int) -> None:
    """One sample: first, a branch and join, forward and backward; what is sent takes microseconds."""
    graph = branches((length, length), forward_s=1.0, backward_s=2.0, activation_bytes=8.0)
    found = tried(graph, planner, batch=1)
    assert min(item.value for item in found) == pytest.approx((2 + length) * 3.0, rel=1e-5)
    coarse = [item.value for item in found if "stages" not in item.label]
    assert min(coarse) >= (2 + 2 * length) * 3.0 * (1 - 1e-9)  # one branch after the other


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("planner", PLANNERS)
def test_no_plan_is_judged_twice(planner: str) -> None:
    found = tried(branches((2, 2), forward_s=1.0, backward_s=2.0, activation_bytes=8.0), planner, batch=4)
    assert len({item.strategy for item in found}) == len(found) > 2


def test_nodes_start_as_soon_as_they_are_ready_wherever_they_were_put() -> None:
    """40 drawn placements, room that does not do included: the free run of the same placement."""
    draw = random.Random(11)
    compared = 0
    for _ in range(40):
        work, workers = random_work(draw, most=8), random_workers(draw, 1)
        device = [draw.randrange(len(workers.kind)) for _ in range(work.count)]
        starts = starts_of(work, workers, device)
        done = np.array(starts) + work.seconds[0]
        for maker, readers, size in zip(work.producer.tolist(), work.readers, work.transfer_s, strict=True):
            for reader in readers:
                a, b = device[maker], device[reader]
                sent = workers.latency_s[a, b] + size * workers.s_per_byte[a, b] if a != b else 0.0
                assert starts[reader] >= done[maker] + sent - 1e-12
        for d in set(device):
            own = sorted((starts[v], done[v]) for v in range(work.count) if device[v] == d)
            assert all(a[1] <= b[0] + 1e-12 for a, b in pairwise(own))
        free = earliest_finish(work, workers)
        if free is not None:
            assert starts_of(work, workers, free.device) == pytest.approx(free.start_s)
            compared += 1
    assert compared > 20


def towers() -> LayerGraph:
    """Two equal towers of large products inside of one block."""
    b = GraphBuilder("towers")
    x = b.input("x", {"seq": 512, "embed": 4096})
    with b.block("towers"):
        left, right = (
            b.linear(f"{side}.down", b.linear(f"{side}.up", x, {"ffn": 8192}), {"embed": 4096}, over=("ffn",))
            for side in ("left", "right")
        )
        y = b.add("meet", left, right)
    b.linear("head", y, {"vocab": 64})
    return b.build()


@pytest.mark.parametrize("planner", ["min_cut", "tensorflow_greedy"])
def test_layers_of_a_block_go_to_two_devices(planner: str) -> None:
    job = Job(global_batch=4, precision="fp16", optimizer="sgd")
    given = Problem(
        graph=towers(), cluster=explorer.load_cluster("dgx-a100"), workload=Workload(jobs=(job,)),
        max_devices=2,
    )  # fmt: skip
    best = list(search(given, planner))[-1].best
    assert best is not None
    place = {name: stage.meshes[0].devices for stage in best.strategy.job.stages for name in stage.layers}
    assert place["towers.left.up"] == place["towers.left.down"]
    assert {*place["towers.left.up"], *place["towers.right.up"]} == {0, 1}


def test_single_layers_are_other_nodes_where_blocks_have_several() -> None:
    job = default_workload(towers()).job
    assert node_sizes(towers()) == (True, False)
    assert node_sizes(branches((2, 2))) == (False,)
    kinds = explorer.load_cluster("dgx-a100").device_kinds[:1]
    counts = [
        work_graph(towers(), kinds, job, samples=1.0, bytes_per_s=1.0, whole_blocks=whole).count
        for whole in (True, False)
    ]
    assert counts == [2, 6]
