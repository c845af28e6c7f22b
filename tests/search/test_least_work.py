"""Layers at their best efficiency, against layers of every size and against simulated strategies."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import ExplorerError
from explorer.cluster_profiles import load_cluster
from explorer.costs.compute import layer_times
from explorer.costs.least_seconds import least_seconds
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.routing import DISPATCHES, EXPERT_KERNELS
from explorer.search import Problem
from explorer.search._blocks import layouts_of
from explorer.search._layout_costs import LayoutCosts
from explorer.search._least_work import least_of_work
from explorer.search.spaces import even_points
from explorer.simulation.simulate import simulate
from explorer.tables import Estimator, StageTable
from explorer.workload import Job, Workload, default_workload

ROUTED = ("mixtral-8x7b", "deepseek-v2")
A100, H100 = "dgx-a100", "hgx-h100-16"
ROUTINGS = st.fixed_dictionaries(
    {
        "dispatch": st.sampled_from(DISPATCHES),
        "expert_kernels": st.sampled_from(EXPERT_KERNELS),
        "capacity": st.sampled_from((0.0, 1.25, 2.0)),
        "imbalance": st.sampled_from((1.0, 1.5, 4.0)),
    }
)
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


@functools.cache
def routed(model: str, **routing: Any) -> LayerGraph:
    return load_model(model, settings={key: str(value).lower() for key, value in routing.items()})


@given(
    st.sampled_from(ROUTED), st.sampled_from((A100, H100, "torchtitan-h100")), ROUTINGS,
    st.sampled_from(("bf16", "fp8")), st.floats(0.01, 500.0),
)  # fmt: skip
@settings(max_examples=20)
def test_rows_of_experts_are_counted_and_never_for_more_than_they_take(
    model: str, cluster: str, routing: dict[str, Any], precision: str, samples: float
) -> None:
    graph = routed(model, **routing)
    kind = load_cluster(cluster).device_kinds[0]
    least = least_seconds(graph, kind, precision)
    assert least is not None
    found = layer_times(graph, kind, samples=samples, precision=precision) / samples
    assert np.all(least <= found * (1 + 1e-9))
    plain = [replace(layer, routing=None) for layer in graph.layers]
    unmoved = least_seconds(replace(graph, layers=tuple(plain)), kind, precision)
    assert unmoved is not None
    of_experts = [layer.kind == "experts" for layer in graph.layers]
    assert np.all(least[:2, of_experts] > 1.05 * unmoved[:2, of_experts])
    assert np.all(least[:, ~np.array(of_experts)] == unmoved[:, ~np.array(of_experts)])


@functools.cache
def routed_problem(model: str, cluster: str, dispatch: str, imbalance: float, capacity: float) -> Problem:
    graph = routed(model, dispatch=dispatch, imbalance=imbalance, capacity=capacity, padded=capacity > 0)
    workload = default_workload(graph).with_job(global_batch=32)
    return Problem(graph=graph, cluster=load_cluster(cluster), workload=workload)


@given(
    st.sampled_from(ROUTED), st.sampled_from((A100, H100)), st.sampled_from(DISPATCHES),
    st.sampled_from((1.0, 1.5)), st.sampled_from((0.0, 2.0)), st.randoms(use_true_random=False),
)  # fmt: skip
@settings(max_examples=12)
def test_no_layout_of_experts_takes_less_than_all_layers_at_their_best(
    model: str, cluster: str, dispatch: str, imbalance: float, capacity: float, draw: random.Random
) -> None:
    problem = routed_problem(model, cluster, dispatch, imbalance, capacity)
    (order, *_), graph, job = problem.orders(), problem.graph, problem.job
    least = least_seconds(graph, problem.cluster.device_kinds[0], job.precision)
    assert least is not None
    estimator = Estimator(graph, problem.cluster, job, table=StageTable(graph, problem.cluster, job))
    layout = draw.choice(layouts_of(problem, order))
    try:
        costs = LayoutCosts(estimator, layout)
    except ExplorerError:
        return  # more heads or experts than can be split
    device_s = costs.alone.once / costs.alone.sizes * costs.row
    assert np.all(least.sum() <= device_s * (1 + 1e-9)), layout.label


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
