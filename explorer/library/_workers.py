"""Workers under an update rule: data parallelism on equal devices with links of one bandwidth."""

from __future__ import annotations

from dataclasses import replace

from explorer.cluster import Cluster
from explorer.graph import LayerGraph
from explorer.library._ideal import Ideal
from explorer.library.system import Example
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy, UpdateChoice
from explorer.workload import Job

BYTES = 100.0
"""Bytes of the weights, and of their gradients."""


def workers(rule: UpdateChoice, count: int, bandwidth_bytes_per_s: float = 1e30) -> Ideal:
    """Return workers of three seconds of compute each."""
    return Ideal(
        p=1, m=1, schedule="gpipe", replicas=count, parameter_bytes=BYTES, updates=(rule,),
        bandwidth_bytes_per_s=bandwidth_bytes_per_s,
    )  # fmt: skip


def resnet_under(rule: UpdateChoice) -> Example:
    """Return ResNet-50 over eight V100 that follow a rule."""

    def divide(graph: LayerGraph, cluster: Cluster, job: Job) -> Strategy:
        strategy = uniform(graph, cluster, job, replicas=8, microbatch_size=8)
        return strategy.with_job(replace(strategy.job, updates=(rule,)))

    return Example(model="resnet50", cluster="dgx-1-v100", global_batch=64, divide=divide)
