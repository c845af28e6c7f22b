"""Collectives in parts beside work, and ZeRO inside groups of replicas."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds
from explorer.graph import LayerGraph
from explorer.pricing.traffic import device_traffic
from explorer.simulation.check import check
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.strategy import Mesh, Stage, Sync, single
from explorer.tasks.program import CLOSING, GATHER, OPENING, REDUCE, WHOLE, B, F, U
from explorer.workload import default_workload


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return explorer.load_model("gpt2-small")


def run(
    graph: LayerGraph, cluster: Cluster, replicas: int, *, sync: tuple[Sync, ...] = (), batches: int = 1,
    **stage: object,
) -> Report:  # fmt: skip
    mesh = Mesh(devices=tuple(range(replicas)))
    names = tuple(layer.name for layer in graph.layers)
    only = Stage(layers=names, meshes=(mesh,), microbatch_samples=replicas, **stage)  # type: ignore[arg-type]
    workload = default_workload(graph).with_job(global_batch=batches * replicas)
    return explorer.simulate(graph, cluster, workload, single(stages=(only,), sync=sync))


def seconds(report: Report, kind: int, part: int = WHOLE) -> float:
    found = report.timeline.program.slots
    numbers = [i for i, slot in enumerate(found) if slot.kind == kind and slot.part == part]
    return float(report.timeline.prices.seconds[numbers[0]])


def traffic(report: Report) -> dict[tuple[int, int], float]:
    return device_traffic(report.timeline.program, report.timeline.prices)


# ---- gradients in buckets ------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    st.sampled_from(["dgx-a100", "ethernet-10g-4x4"]), st.integers(2, 8), st.integers(1, 3), st.floats(1, 500)
)
def test_all_but_the_last_bucket_runs_beside_the_last_backward(
    name: str, replicas: int, batches: int, bucket_mib: float
) -> None:
    graph, cluster = explorer.load_model("gpt2-small"), explorer.load_cluster(name)
    sync = (Sync(parameters=("*",), bucket_bytes=bucket_mib * 2**20),)
    report = run(graph, cluster, replicas, sync=sync, batches=batches)
    size = graph.parameter_count * 2.0
    count = math.ceil(size / (bucket_mib * 2**20))
    bucket = collective_seconds(cluster, "all_reduce", tuple(range(replicas)), size / count)
    assert seconds(report, REDUCE, CLOSING) == pytest.approx(bucket)
    assert seconds(report, REDUCE, OPENING) == pytest.approx((count - 1) * bucket)
    forward, backward = seconds(report, F), seconds(report, B)
    beside = max(backward, (count - 1) * bucket)
    expected = batches * forward + (batches - 1) * backward + beside + bucket + seconds(report, U)
    assert report.step_time_s == pytest.approx(expected)


def test_buckets_move_what_one_reduction_does(graph: LayerGraph) -> None:
    cluster = explorer.load_cluster("dgx-a100")
    plain = run(graph, cluster, 8)
    buckets = run(graph, cluster, 8, sync=(Sync(parameters=("*",), bucket_bytes=25 * 2**20),))
    assert traffic(buckets) == pytest.approx(traffic(plain))
    size = graph.parameter_count * 2.0
    assert traffic(plain)[0, 1] == pytest.approx(2 * 7 / 8 * size)
    assert buckets.step_time_s < plain.step_time_s


# ---- ZeRO-3, block by block ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dgx-a100", "ethernet-10g-4x4"])
def test_sharded_weights_come_block_by_block(graph: LayerGraph, name: str) -> None:
    """12 blocks: the first is waited for, the others come beside the work."""
    cluster, n, blocks = explorer.load_cluster(name), 8, 12
    report = run(graph, cluster, n, zero=3)
    one = collective_seconds(cluster, "all_gather", tuple(range(n)), graph.parameter_count * 2.0 / blocks)
    assert seconds(report, GATHER, OPENING) == pytest.approx(one)
    assert seconds(report, GATHER, CLOSING) == pytest.approx((blocks - 1) * one)
    rest = (blocks - 1) * one
    forward = one + max(seconds(report, F), rest)
    # the first block of the backward comes behind the last of the forward, beside its work
    backward = max(forward, 2 * one + rest)
    reduced = backward + max(seconds(report, B), rest) + seconds(report, REDUCE)
    program, timing = report.timeline.program, report.timeline.timing
    first = (program.step == 0) & (program.kind == U)
    assert timing.end_s[first] == pytest.approx([reduced + seconds(report, U)])


def test_three_passes_of_the_weights(graph: LayerGraph) -> None:
    """FSDP sends 3 (n-1)/n S a microbatch: two gathers, one reduce-scatter."""
    report = run(graph, explorer.load_cluster("dgx-a100"), 8, zero=3, batches=2)
    assert traffic(report)[0, 1] == pytest.approx(2 * 3 * 7 / 8 * graph.parameter_count * 2.0)


# ---- hybrid sharding -----------------------------------------------------------------------------------


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("near", [2, 4])
def test_shards_inside_a_group_and_sums_over_groups(graph: LayerGraph, zero: int, near: int) -> None:
    cluster, n = explorer.load_cluster("ethernet-10g-4x4"), 16
    report = run(graph, cluster, n, zero=zero, zero_replicas=near)
    size, groups = graph.parameter_count * 2.0, n // near
    scatter = collective_seconds(cluster, "reduce_scatter", tuple(range(near)), size, concurrent=groups)
    reduce = collective_seconds(cluster, "all_reduce", tuple(range(0, n, near)), size / near, concurrent=near)
    assert seconds(report, REDUCE) == pytest.approx(scatter + reduce)
    assert report.memory_parts_bytes[0][MEMORY_PARTS.index("optimizer")] == pytest.approx(
        12.0 * graph.parameter_count / near
    )
    sent: dict[bool, float] = defaultdict(float)
    for (a, b), amount in traffic(report).items():
        sent[a // near == b // near] += amount
    passes = 2 if zero < 3 else 3
    assert sent[True] == pytest.approx(n * passes * (near - 1) / near * size)
    assert sent[False] == pytest.approx(n * 2 * (groups - 1) / groups * size / near)


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_groups_of_all_replicas_are_plain_zero(graph: LayerGraph, zero: int) -> None:
    cluster = explorer.load_cluster("dgx-a100")
    all_of_them, plain = (run(graph, cluster, 8, zero=zero, zero_replicas=k) for k in (8, 0))
    assert all_of_them.step_time_s == plain.step_time_s
    assert all_of_them.memory_parts_bytes == plain.memory_parts_bytes
    assert traffic(all_of_them) == traffic(plain)


def test_groups_divide_the_replicas(graph: LayerGraph) -> None:
    with pytest.raises(InputError, match="ZeRO over 3 of 8") as caught:
        run(graph, explorer.load_cluster("dgx-a100"), 8, zero=3, zero_replicas=3)
    assert "divisor of 8" in str(caught.value)


def test_buckets_are_checked(graph: LayerGraph) -> None:
    cluster, workload = explorer.load_cluster("dgx-a100"), default_workload(graph)
    stage = Stage(layers=tuple(x.name for x in graph.layers), meshes=(Mesh(devices=(0, 1)),))
    stage = replace(stage, microbatch_samples=2)
    for size, words in ((-1.0, "buckets of -1"), (1.0, "")):
        sync = Sync(
            parameters=("*",), bucket_bytes=size, method="all_reduce" if words else "parameter_server"
        )
        problems = check(graph, cluster, workload, single(stages=(stage,), sync=(sync,)))
        assert any((words or "all_reduce only") in item for item in problems)


def test_gradients_with_other_buckets_are_reduced_apart(graph: LayerGraph) -> None:
    """Each in as many buckets as its own bytes fill."""
    sync = (Sync(parameters=("*attention*",), bucket_bytes=5e6), Sync(parameters=("*",), bucket_bytes=5e7))
    report = run(graph, explorer.load_cluster("dgx-a100"), 4, sync=sync)
    sizes, found = [0.0, 0.0], {}
    for item in graph.parameters:
        sizes["attention" not in item.name] += 2.0 * item.elements
    pricer = report.timeline.prices.pricer
    for slot in report.timeline.program.slots:
        if slot.kind == REDUCE:
            found[slot.where] = pricer.parts(slot).total
    expected = [math.ceil(size / one.bucket_bytes) for size, one in zip(sizes, sync, strict=True)]
    assert sorted(found.values()) == sorted(expected)
    assert len(set(expected)) == 2
