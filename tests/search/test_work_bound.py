"""Work over peak is no more than any plan takes, where kernels skip half of the attention too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from explorer.cluster import Software
from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.search.objectives import OBJECTIVES
from explorer.search.problem import Problem
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

SETTINGS = {"layers": "2", "embed": "512", "heads": "8", "kv_heads": "8", "ffn": "1024", "vocab": "1024"}


@pytest.mark.parametrize("objective", ["time", "cost", "energy"])
@pytest.mark.parametrize("tokens", [1024, 65536])
@pytest.mark.parametrize("vectors", [1.0, 4.0])
def test_work_bounds_ideal_devices(objective: str, tokens: int, vectors: float) -> None:
    """Devices at their peaks, with nothing but work to do, come close to the bound, and not below."""
    graph = load_model("llama", sequence_length=tokens, settings=SETTINGS)
    cluster = load_cluster("dgx-a100-4")
    idle = Software()
    kinds = tuple(
        replace(
            kind, efficiency=(), tiles=(), compute_units=0, launch_overhead_s=0.0, software=idle,
            memory_bandwidth_bytes_per_s=1e18, memory_bytes=1e15,
            peak_flops_per_s=(("bf16", 1e14), ("fp32", vectors * 1e14)),
        )
        for kind in cluster.device_kinds
    )  # fmt: skip
    one = replace(cluster.nodes[0], count=1, devices_per_node=1)
    cluster = replace(cluster, device_kinds=kinds, nodes=(one,))
    workload = default_workload(graph).with_job(global_batch=8, precision="bf16", optimizer="sgd")
    problem = Problem(graph=graph, cluster=cluster, workload=workload, objective=objective)
    report = simulate(graph, cluster, workload, uniform(graph, cluster, workload.job, stages=1))
    bound = OBJECTIVES[objective].bound(graph, workload.job, problem.pool)
    value = problem.value(report)
    assert bound <= value * (1 + 1e-12)
    assert value < bound * (1.6 if vectors == 1.0 else 8.0)
