"""MiCS: states sharded inside groups of devices, gradients summed across the groups."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from explorer.cluster import Cluster
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.library.system import SYSTEMS, Claim, Example, System, Uses
from explorer.models import load_model
from explorer.simulation.report import Report
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Strategy
from explorer.workload import Job, default_workload

N, K = 32, 8
"""Number of devices, and of those of one group, which are a node."""
BY_HAND = "worked out by hand from the mechanism"


def _in_groups(graph: LayerGraph, cluster: Cluster, job: Job, group: int = K) -> Strategy:
    """Return data parallelism with everything sharded inside groups of so many devices."""
    found = uniform(graph, cluster, job, replicas=N, zero=3, microbatch_size=1)
    stages = (replace(stage, zero_replicas=group) for stage in found.job.stages)
    return found.with_job(found.job.with_stages(stages))


@cache
def _report(group: int) -> Report:
    graph, cluster = load_model("gpt2-medium"), load_cluster("dgx-a100-4")
    workload = default_workload(graph).with_job(global_batch=N, precision="bf16")
    return simulate(graph, cluster, workload, _in_groups(graph, cluster, workload.job, group))


def _sent(group: int, *, between_nodes: bool) -> float:
    """Return the bytes that a device sends in a step, over those of the model's weights."""
    traffic = _report(group).traffic_bytes
    size = 2 * load_model("gpt2-medium").parameter_count
    counted = (sent for (a, b), sent in traffic.items() if not between_nodes or a // K != b // K)
    return sum(counted) / size / N


@SYSTEMS.add(
    System(
        name="mics",
        title="ZeRO inside groups of devices",
        paper="Zhang et al., MiCS: Near-linear Scaling for Training Gigantic Model on Public Cloud,"
        " VLDB 2022",
        year=2022,
        uses=Uses(options=("ZeRO level", "replicas that share states")),
        missing="gathers in two levels, sums across groups only once in several microbatches",
        claims=(
            Claim(
                text=f"one group of n = {N}, ZeRO-3: a device sends 3 (n - 1)/n of the weights' bytes",
                published=3 * (N - 1) / N,
                unit="",
                measure=lambda: _sent(N, between_nodes=False),
            ),
            Claim(
                text=f"groups of k = {K}: 3 (k - 1)/k inside them and 2 (n/k - 1)/(n/k) / k across",
                published=3 * (K - 1) / K + 2 * (N / K - 1) / (N / K) / K,
                unit="",
                measure=lambda: _sent(K, between_nodes=False),
                why=BY_HAND,
            ),
            Claim(
                text=f"where a group is a node, 2 (n/k - 1)/(n/k) / k of them between nodes, at k = {K}",
                published=2 * (N / K - 1) / (N / K) / K,
                unit="",
                measure=lambda: _sent(K, between_nodes=True),
                why=BY_HAND,
            ),
        ),
    )
)
def example() -> Example:
    """GPT-2 XL on 32 A100, sharded inside nodes."""
    return Example(model="gpt2-xl", cluster="dgx-a100-4", global_batch=64, divide=_in_groups)
