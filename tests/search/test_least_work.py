"""Layers at their best efficiency, against layers of every size and against simulated strategies."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_times
from explorer.costs.least_seconds import least_seconds
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.search import Problem
from explorer.search._least_work import least_of_work
from explorer.search.spaces import even_points
from explorer.simulation.simulate import simulate
from explorer.workload import Job, Workload, default_workload

MODELS = ("gpt2-small", "resnet50", "gnmt-16", "dlrm", "mixtral-8x7b", "t5-large", "vit-l16")
CLUSTERS = ("dgx-1-v100", "dgx-a100", "hgx-h100-16", "rtx4090-pcie-4", "pipedream-a")


@given(st.sampled_from(MODELS), st.sampled_from(CLUSTERS), st.floats(0.01, 2000.0))
def test_no_layer_is_faster_however_many_samples_a_call_has(model: str, cluster: str, samples: float) -> None:
    graph = load_model(model)
    for kind in load_cluster(cluster).device_kinds:
        least = least_seconds(graph, kind, "fp16")
        assert least is not None
        found = layer_times(graph, kind, samples=samples, precision="fp16") / samples
        assert np.all(least <= found * (1 + 1e-9))
        assert least.sum() > 0


@pytest.mark.parametrize(
    ("model", "cluster", "devices"),
    [
        ("", "dgx-1-v100", (0, 1, 2)),
        ("", "mixed-v100-a100", (0, 8, 9)),
        ("dlrm", "dgx-a100", (0, 1)),
        ("gnmt-16", "pipedream-a", (0, 1, 4)),
        ("mixtral-8x7b", "hgx-h100-16", (0, 1, 2, 3)),
    ],
)
def test_no_strategy_is_below_the_least_of_its_work(
    model: str, cluster: str, devices: tuple[int, ...], decoder: Callable[..., LayerGraph]
) -> None:
    graph = load_model(model) if model else decoder(3)
    job = Job(global_batch=8, precision="fp16", optimizer="adam")
    workload = default_workload(graph).with_job(global_batch=8) if model else Workload(jobs=(job,))
    problem = Problem(graph=graph, cluster=load_cluster(cluster), workload=workload, devices=devices)
    least, points = least_of_work(problem), list(even_points(problem))
    assert least > (problem.lower_bound() or 0.0)
    simulated = 0
    for point in random.Random(1).sample(points, min(40, len(points))):
        strategy = point.strategy(problem)
        assert strategy is not None
        try:
            report = simulate(graph, problem.needed_cluster, workload, strategy)
        except ExplorerError:
            continue  # a schedule that needs another shape
        simulated += 1
        assert report.step_time_s >= least, point.degrees.label
    assert simulated > 5


def test_money_and_bytes_are_not_bounded_by_seconds(decoder: Callable[..., LayerGraph]) -> None:
    for objective in ("cost", "memory"):
        problem = Problem(
            graph=decoder(3), cluster=load_cluster("dgx-1-v100"), objective=objective,
            workload=Workload(jobs=(Job(global_batch=8, precision="fp16", optimizer="adam"),)),
        )  # fmt: skip
        assert least_of_work(problem) == 0.0
