"""Bounds from tables are those from the prices of the strategy."""

from __future__ import annotations

import random
from dataclasses import astuple

import pytest

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.search._bounds import bounds_of, even_bounds_of, stage_table
from explorer.search.exhaustive import space
from explorer.search.problem import Problem
from explorer.simulation.simulate import simulate
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

GPT = {"layers": "6", "embed": "128", "heads": "8", "vocab": "512", "positions": "64"}
MODELS = {
    "gpt": load_model("gpt", settings=GPT),
    "t5-large": load_model("t5-large"),
    "vgg16": load_model("vgg16"),
}


@pytest.mark.parametrize("mode", ["train", "infer"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cluster", ["dgx-1-v100", "ethernet-10g-4x4", "dgx-a100-4"])
def test_they_are_those_of_the_strategy(cluster: str, name: str, mode: str) -> None:
    graph, machine = MODELS[name], load_cluster(cluster)
    job = Job(global_batch=16, precision="bf16", mode=mode)
    problem = Problem(graph=graph, cluster=machine, workload=Workload(jobs=(job,)))
    points = space(problem)
    for point in random.Random(1).sample(points, min(25, len(points))):
        strategy, table = point.strategy(problem).job, stage_table(graph, machine, job, point.order)
        for memory in ("all", "least", "none"):
            wanted = bounds_of(graph, machine, job, strategy, point.degrees.stages, memory=memory)
            found = even_bounds_of(table, point.degrees, memory=memory)
            assert astuple(found) == pytest.approx(astuple(wanted), rel=1e-9), point
        assert tuple(sorted(point.order[: point.degrees.devices])) == strategy.devices


@pytest.mark.parametrize("batch", [1, 2, 4])
@pytest.mark.parametrize(("stages", "chunks"), [(10, 1), (12, 1), (6, 2)])
def test_they_hold_where_stages_of_branches_work_side_by_side(stages: int, chunks: int, batch: int) -> None:
    graph, machine = load_model("gnmt-8"), load_cluster("dgx-a100-4")
    job = Job(global_batch=batch, precision="bf16")
    schedule = "1f1b" if chunks == 1 else "interleaved_1f1b"
    degrees = Degrees(stages=stages, chunks=chunks, schedule=schedule)
    strategy = degrees.build(graph, machine, job)
    found = even_bounds_of(stage_table(graph, machine, job, machine.order), degrees)
    wanted = bounds_of(graph, machine, job, strategy.job, stages)
    assert astuple(found) == pytest.approx(astuple(wanted), rel=1e-9)
    report = simulate(graph, machine, Workload(jobs=(job,)), strategy)
    assert found.step_time_s <= report.step_time_s * (1 + 1e-12)
