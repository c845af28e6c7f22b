"""Sparse states after pruning, and states and activations in the host's memory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.pricing.traffic import device_traffic
from explorer.simulation.check import check
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.strategy import Mesh, Stage, single
from explorer.tasks.program import REDUCE, B, F, U
from explorer.workload import default_workload

GPT = explorer.load_model("gpt2-small")


def run(cluster: Cluster, replicas: int = 1, batches: int = 2, **stage: object) -> Report:
    names = tuple(layer.name for layer in GPT.layers)
    mesh = Mesh(devices=tuple(range(replicas)))
    only = Stage(layers=names, meshes=(mesh,), microbatch_samples=replicas, **stage)  # type: ignore[arg-type]
    workload = default_workload(GPT).with_job(global_batch=batches * replicas)
    return explorer.simulate(GPT, cluster, workload, single(stages=(only,)))


def seconds(report: Report, kind: int) -> float:
    program, prices = report.timeline.program, report.timeline.prices
    return next(float(prices.seconds[i]) for i, slot in enumerate(program.slots) if slot.kind == kind)


def part(report: Report, name: str) -> float:
    return report.memory_parts_bytes[0][MEMORY_PARTS.index(name)]


def with_host(rate: float) -> Cluster:
    cluster = explorer.load_cluster("dgx-a100")
    kinds = tuple(replace(kind, host_bandwidth_bytes_per_s=rate) for kind in cluster.device_kinds)
    return replace(cluster, device_kinds=kinds)


# ---- sparse states -------------------------------------------------------------------------------------


@settings(max_examples=10)
@given(st.floats(0.01, 0.99))
def test_states_of_a_pruned_model(density: float) -> None:
    """SAMO: 2 phi + 24 f phi bytes, where dense mixed precision with both gradients has 20 phi."""
    cluster, phi = explorer.load_cluster("dgx-a100"), float(GPT.parameter_count)
    dense, sparse = run(cluster), run(cluster, density=density)
    states = [
        sum(part(report, name) for name in ("weights", "gradients", "optimizer", "buffers"))
        for report in (dense, sparse)
    ]
    others = states[0] - 16 * phi  # temporaries are the same
    assert states[1] == pytest.approx((2 + 24 * density) * phi + others)


def test_only_what_is_left_is_reduced() -> None:
    cluster, f = explorer.load_cluster("dgx-a100"), 0.1
    dense, sparse = run(cluster, 4), run(cluster, 4, density=f)
    volume = [
        sum(device_traffic(report.timeline.program, report.timeline.prices).values())
        for report in (dense, sparse)
    ]
    assert volume == pytest.approx([2 * 3 * 2.0 * GPT.parameter_count * share for share in (1, f)])
    assert seconds(sparse, REDUCE) < seconds(dense, REDUCE)
    assert seconds(sparse, U) < seconds(dense, U)
    assert seconds(sparse, F) == seconds(dense, F)


def test_sparse_states_are_checked() -> None:
    for density in (0.0, 1.5):
        with pytest.raises(InputError, match="a density of"):
            Stage(layers=("embed",), meshes=(Mesh(devices=(0,)),), density=density)
    names = tuple(layer.name for layer in GPT.layers)
    stage = Stage(layers=names, meshes=(Mesh(devices=(0,)),), density=0.5, zero=1)
    problems = check(GPT, explorer.load_cluster("dgx-a100"), default_workload(GPT), single(stages=(stage,)))
    assert any("sparse states are not sharded" in item for item in problems)


# ---- offload -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e9, 25e9, 1e13])
def test_optimizer_states_come_and_go_with_the_update(rate: float) -> None:
    cluster = with_host(rate)
    here, away = run(cluster), run(cluster, offload=("optimizer",))
    states = 12.0 * GPT.parameter_count
    assert part(here, "optimizer") == pytest.approx(states)
    assert part(away, "optimizer") == 0.0
    assert part(away, "buffers") - part(here, "buffers") == pytest.approx(states * 2 / 12)
    assert seconds(away, U) == pytest.approx(max(seconds(here, U), states / rate))
    assert seconds(away, B) == seconds(here, B)


@pytest.mark.parametrize("rate", [1e9, 25e9, 1e13])
def test_activations_travel_beside_work(rate: float) -> None:
    cluster = with_host(rate)
    here, away = run(cluster), run(cluster, offload=("activations",))
    kept = part(here, "activations")
    for kind in (F, B):
        assert seconds(away, kind) == pytest.approx(max(seconds(here, kind), kept / rate))
    assert part(away, "activations") == 0.0
    assert part(away, "buffers") - part(here, "buffers") == pytest.approx(kept * 2 / 12)


def test_offload_is_checked() -> None:
    with pytest.raises(InputError, match="offload of weights"):
        Stage(layers=("embed",), meshes=(Mesh(devices=(0,)),), offload=("weights",))
    names = tuple(layer.name for layer in GPT.layers)
    stage = Stage(layers=names, meshes=(Mesh(devices=(0,)),), offload=("optimizer",))
    problems = check(GPT, with_host(0.0), default_workload(GPT), single(stages=(stage,)))
    assert any("host_bandwidth_bytes_per_s" in item for item in problems)
