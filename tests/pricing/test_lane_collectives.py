"""Rows of devices: their own links, kinds, collectives, and what they send."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import explorer
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds, passes_seconds
from explorer.costs.compute import layer_times
from explorer.graph import COMPUTE, LayerGraph
from explorer.pricing.lane_collectives import kind_costs_of_sizes
from explorer.pricing.mesh_lines import axis_lines, summed_with
from explorer.pricing.traffic import device_traffic
from explorer.sharding import context_layout, megatron_layout, shard_stage
from explorer.sharding.reshard import wire_factor
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Stage, Strategy, single
from explorer.tasks.program import B, F, U
from explorer.workload import Workload, default_workload
from tests.support.clusters import device_bound

GPT = "gpt2-small"


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return explorer.load_model(GPT)


def row_plan(
    graph: LayerGraph, devices: tuple[int, ...], *axes: tuple[str, int], **stage: object
) -> Strategy:
    """All layers on one mesh."""
    mesh = Mesh(devices=devices, axes=axes)
    made = {"layout": megatron_layout(), "microbatch_samples": mesh.replicas, **stage}
    names = tuple(layer.name for layer in graph.layers)
    return single(stages=(Stage(layers=names, meshes=(mesh,), **made),))  # type: ignore[arg-type]


def run(graph: LayerGraph, cluster: Cluster, strategy: Strategy, batch: int = 4) -> Report:
    return explorer.simulate(graph, cluster, workload(graph, batch), strategy)


def workload(graph: LayerGraph, batch: int = 4) -> Workload:
    return default_workload(graph).with_job(global_batch=batch)


def slot_values(report: Report, kind: int, name: str) -> list[float]:
    program = report.timeline.program
    values = getattr(report.timeline.prices, name)
    return [float(values[i]) for i, slot in enumerate(program.slots) if slot.kind == kind]


@pytest.mark.parametrize("devices", [(0, 1, 2, 4), (2, 4, 0, 1)])
def test_a_replica_across_nodes_counts_wherever_it_stands(
    graph: LayerGraph, devices: tuple[int, ...]
) -> None:
    cluster = explorer.load_cluster("ethernet-10g-4x4")
    axes = ((REPLICA, 2), ("tensor", 2))
    mixed = run(graph, cluster, row_plan(graph, devices, *axes))
    inside = run(graph, cluster, row_plan(graph, (0, 1, 2, 3), *axes))
    assert mixed.step_time_s > 2 * inside.step_time_s
    assert len(mixed.lanes) == 2, "replicas with other links inside are not equal"
    comm = slot_values(mixed, F, "comm_s")
    assert max(comm) > 5 * min(comm)


def test_the_slowest_kind_of_a_row_counts(graph: LayerGraph) -> None:
    cluster = device_bound("mixed-v100-a100")
    slow, fast = cluster.device_kinds
    peaks = tuple((name, 2 * flops) for name, flops in slow.peak_flops_per_s)
    cluster = replace(cluster, device_kinds=(slow, replace(slow, name=fast.name, peak_flops_per_s=peaks)))
    pairs = [(7, 8), (8, 7)]
    one, other = (run(graph, cluster, row_plan(graph, pair, (REPLICA, 1), ("tensor", 2))) for pair in pairs)
    assert one.step_time_s == pytest.approx(other.step_time_s, rel=1e-12)
    alone = run(graph, cluster, row_plan(graph, (6, 7), (REPLICA, 1), ("tensor", 2)))
    assert one.busy_s[0] == pytest.approx(alone.busy_s[0], rel=1e-12)


def test_lines_of_a_mesh() -> None:
    mesh = Mesh(devices=tuple(range(10, 18)), axes=((REPLICA, 2), ("context", 2), ("tensor", 2)))
    stage = Stage(layers=("a",), meshes=(mesh,))
    assert {axis: lines for axis, _, lines in axis_lines(stage, 0, (14, 15, 16, 17))} == {
        "context": ((14, 16), (15, 17)),
        "tensor": ((14, 15), (16, 17)),
    }
    lines = axis_lines(stage, 0, (14, 15, 16, 17))
    assert sorted(summed_with(lines, 15, (("context", 2), ("tensor", 2)))) == [14, 15, 16, 17]
    assert summed_with(lines, 15, (("context", 2),)) == (15, 17)


def test_lines_that_run_side_by_side_share_an_uplink(graph: LayerGraph) -> None:
    """Two context groups through one network port take longer than one."""
    cluster = explorer.load_cluster("ethernet-10g-4x4")
    layout = (*megatron_layout(), ("seq", "context"))
    both = run(
        graph, cluster,
        row_plan(graph, (0, 1, 4, 5), (REPLICA, 1), ("context", 2), ("tensor", 2), layout=layout),
    )  # fmt: skip
    one = run(graph, cluster, row_plan(graph, (0, 4), (REPLICA, 1), ("context", 2), layout=context_layout()))
    # with tensor 2 each context group gathers half as many heads, at half the rate
    assert slot_values(both, F, "comm_s")[0] > 0.99 * slot_values(one, F, "comm_s")[0]


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_partial_sums_are_reduced_before_the_update(graph: LayerGraph, devices: int) -> None:
    """Context parallelism leaves every gradient partial; without replicas the lane's all-reduce is all."""
    cluster = explorer.load_cluster("dgx-a100")
    row = tuple(range(devices))
    report = run(
        graph, cluster, row_plan(graph, row, (REPLICA, 1), ("context", devices), layout=context_layout())
    )
    size = graph.parameter_count * 2.0
    expected = collective_seconds(cluster, "all_reduce", row, size)
    assert slot_values(report, U, "comm_s") == [pytest.approx(expected, rel=1e-9)]
    assert slot_values(report, U, "lane_bytes") == [pytest.approx(2 * (devices - 1) / devices * size)]


def test_partial_sums_over_lane_and_replicas(graph: LayerGraph) -> None:
    """Two replicas of two context ranks: one all-reduce over all four, nothing left for the update."""
    cluster = explorer.load_cluster("dgx-a100")
    axes = ((REPLICA, 2), ("context", 2))
    report = run(graph, cluster, row_plan(graph, (0, 1, 2, 3), *axes, layout=context_layout()))
    size = graph.parameter_count * 2.0
    expected = collective_seconds(cluster, "all_reduce", (0, 1, 2, 3), size)
    assert slot_values(report, 6, "seconds") == [pytest.approx(expected, rel=1e-9)]
    assert not any(slot_values(report, U, "comm_s"))
    reduced = sum(device_traffic(report.timeline.program, report.timeline.prices).values())
    inside = 4 * sum(slot_values(report, kind, "lane_bytes")[0] for kind in (F, B)) * 2
    assert reduced - inside == pytest.approx(4 * 2 * 3 / 4 * size, rel=1e-9)


def test_sequence_parallel_norms_are_reduced(graph: LayerGraph) -> None:
    cluster = explorer.load_cluster("dgx-a100")
    layout = megatron_layout(sequence_parallel=True)
    strategy = row_plan(graph, (0, 1, 2, 3), (REPLICA, 1), ("tensor", 4), layout=layout)
    report = run(graph, cluster, strategy)
    partial = shard_stage(graph, strategy.job.stages[0]).partial_sums
    held = sum(graph.parameter[name].elements for name in partial)
    assert slot_values(report, U, "lane_bytes") == [pytest.approx(2 * 3 / 4 * held * 2)]


@pytest.mark.parametrize("tensor", [2, 4])
def test_traffic_inside_a_lane(graph: LayerGraph, tensor: int) -> None:
    """Four all-reduces of the residual a block (Megatron), two each way, beside embedding and loss."""
    cluster = explorer.load_cluster("dgx-a100")
    report = run(graph, cluster, row_plan(graph, tuple(range(tensor)), (REPLICA, 1), ("tensor", tensor)), 1)
    residual = 1024 * 768 * 2.0
    around = 2 * (tensor - 1) / tensor * residual
    assert slot_values(report, F, "lane_bytes")[0] >= 24 * around
    assert slot_values(report, F, "lane_bytes")[0] < 26 * around
    traffic = device_traffic(report.timeline.program, report.timeline.prices)
    assert set(traffic) == {(i, (i + 1) % tensor) for i in range(tensor)}
    sent = sum(slot_values(report, kind, "lane_bytes")[0] for kind in (F, B, U))
    assert traffic[0, 1] == pytest.approx(sent)


def test_full_recompute_makes_blocks_again_and_their_collectives(graph: LayerGraph) -> None:
    cluster = device_bound("dgx-a100")
    reports = {
        name: run(graph, cluster, row_plan(graph, (0, 1), (REPLICA, 1), ("tensor", 2), recompute=name), 1)
        for name in ("none", "selective", "full")
    }
    seconds = {name: slot_values(report, B, "seconds")[0] for name, report in reports.items()}
    comm = {name: slot_values(report, B, "comm_s")[0] for name, report in reports.items()}
    forward_comm = slot_values(reports["none"], F, "comm_s")[0]
    pricer = reports["none"].timeline.prices.pricer
    times = layer_times(
        graph, cluster.kind_of(0), samples=1.0, precision="bf16",
        work=pricer.sharded[0].shards.work, split=pricer.sharded[0].shards.split, tensor_degree=2,
    )[0]  # fmt: skip
    blocks = np.array([bool(layer.block) for layer in graph.layers])
    again_comm = comm["full"] - comm["none"]
    assert 0 < again_comm < forward_comm
    assert seconds["full"] - seconds["none"] == pytest.approx(times[blocks].sum() + again_comm, rel=1e-9)
    cores = np.array([layer.kind in ("attention", "softmax") for layer in graph.layers])
    assert seconds["selective"] - seconds["none"] == pytest.approx(times[cores].sum(), rel=1e-9)
    assert comm["selective"] == comm["none"]


def test_a_degree_is_not_taken_from_another_mesh() -> None:
    """Measured seconds of degree 2 are those of a mesh with a tensor axis, layout or not."""
    from explorer.graph import Dim, Layer, Measured, Parameter, Use, Work

    work = Work(flops=8)
    layer = Layer(
        name="a", kind="linear", dims=(Dim(name="ffn", size=8),), parameters=(Use(name="w", dims=("ffn",)),),
        forward=work, input_grad=work, weight_grad=work,
        measured=tuple(
            Measured(forward_s=s, input_grad_s=s, weight_grad_s=s, tensor_degree=n)
            for s, n in ((1, 1), (0.6, 2))
        ),
    )  # fmt: skip
    graph = LayerGraph(name="m", layers=(layer,), parameters=(Parameter(name="w", shape=(8,)),))
    cluster, work_load = device_bound("dgx-a100"), Workload(jobs=(explorer.Job(global_batch=1),))
    found = []
    for devices, axes in (((0,), ()), ((0, 1), ((REPLICA, 1), ("tensor", 2)))):
        stage = Stage(layers=("a",), meshes=(Mesh(devices=devices, axes=axes),))
        found.append(explorer.simulate(graph, cluster, work_load, single(stages=(stage,))).busy_s[0])
    assert found == [pytest.approx(3.0, rel=1e-3), pytest.approx(1.8, rel=1e-3)]


def test_recompute_of_a_cut_layer_is_its_part() -> None:
    from tests.random_plans import pipeline

    case = pipeline([2.0], [1.0], microbatches=1, recompute="full")
    whole = explorer.simulate(*case).busy_s[0]
    assert whole == pytest.approx(2 + 1 + 2)
    job = replace(case.strategy.job.stages[0], recompute="none")
    plain = explorer.simulate(*case._replace(strategy=single(stages=(job,), schedule="1f1b")))
    assert plain.busy_s[0] == pytest.approx(2 + 1)


@pytest.mark.parametrize("name", ["dgx-a100-128", "ethernet-10g-4x4", "rtx4090-pcie-4", "hgx-h100-16"])
def test_kinds_of_many_sizes_are_priced_as_one_by_one(name: str) -> None:
    """To the bit: collectives of all lines, rings of hops, halos, and what is no line at all."""
    cluster = explorer.load_cluster(name)
    row = tuple(range(4))
    lines = (("tensor", 2, ((0, 1), (2, 3))), ("context", 4, (row,)))
    kinds = [
        (op, axis, size, float(elements), COMPUTE)
        for op in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "ring", "halo", "broadcast")
        for axis, size in (("tensor", 2), ("context", 4), ("expert", 8))
        for elements in (1, 300_000)
    ]
    sizes = (1.0, 3.0, 256.0)
    found = kind_costs_of_sizes(cluster, kinds, lines, "bf16", sizes)
    for k, (op, axis, size, elements, _) in enumerate(kinds):
        of_axis = next((item for have, count, item in lines if (have, count) == (axis, size)), ())
        for n, samples in enumerate(sizes):
            if not of_axis:
                assert (found[:, k, n] == 0.0).all()
                continue
            buffer = elements * samples * 2
            if op in ("ring", "halo"):
                hops = [hop for line in of_axis for hop in _hops(line, around=op == "ring")]
                size_s = passes_seconds(cluster, tuple(hops), buffer / size if op == "ring" else buffer)
                seconds = wire_factor(op, size) * size * size_s if op == "ring" else size_s
            else:
                seconds = max(
                    collective_seconds(cluster, op, line, buffer, concurrent=len(of_axis)) for line in of_axis
                )
            assert found[0, k, n] == seconds
            assert found[1, k, n] == wire_factor(op, size) * buffer


def _hops(line: tuple[int, ...], *, around: bool) -> list[tuple[int, int]]:
    """To the next device, round the line; or to both neighbours, which it ends."""
    if around:
        return list(zip(line, (*line[1:], line[0]), strict=True))
    return [hop for a, b in pairwise(line) for hop in ((a, b), (b, a))]
