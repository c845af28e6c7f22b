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
