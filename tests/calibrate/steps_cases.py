"""Runs of a small model on a machine whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from math import exp

from explorer.calibrate.measured_runs import MeasuredRun
from explorer.calibrate.step_numbers import moved, step_numbers
from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.strategies.degrees import Degrees
from explorer.workload import Job, Workload

JOB = Job(global_batch=32, sequence_length=1024, precision="bf16")
PLANS = {
    "tp2": Degrees(tensor=2, replicas=4, microbatch_size=2),
    "tp8": Degrees(tensor=8, microbatch_size=4),
    "dp8": Degrees(replicas=8, microbatch_size=4),
    "pp2": Degrees(stages=2, replicas=4, microbatch_size=2),
    "pp4": Degrees(stages=4, replicas=2, microbatch_size=2, recompute="full"),
    "zero3": Degrees(replicas=8, microbatch_size=2, zero=3),
}


def profile() -> Cluster:
    return load_cluster("hgx-h100")


@cache
def gpt(name: str = "gpt2-xl") -> LayerGraph:
    return load_model(name)


def run(plan: str, *, truth: Cluster | None = None, model: str = "gpt2-xl", by: float = 1.0) -> MeasuredRun:
    """The run of a plan, measured on a cluster that is the truth; `by` is what no number explains."""
    graph, cluster = gpt(model), truth or profile()
    strategy = PLANS[plan].build(graph, cluster, JOB)
    made = MeasuredRun(
        name=plan, graph=graph, workload=Workload(jobs=(JOB,)), strategy=strategy, step_time_s=1.0
    )
    return replace(made, step_time_s=made.report(cluster).step_time_s * by)


def slower(cluster: Cluster, logs: Mapping[str, float], *models: str) -> Cluster:
    """The cluster with numbers slower, by key."""
    return moved(cluster, step_numbers(cluster, models), logs)


def factor(log: float) -> float:
    return exp(log)
