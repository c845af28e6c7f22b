"""What follows from devices of a lane that hold equal weights, or wait for each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import explorer
from explorer.cluster import Cluster
from explorer.costs.collectives import collective_seconds
from explorer.costs.compute import layer_costs
from explorer.graph import LayerGraph
from explorer.pricing.mesh_lines import cut_row
from explorer.sharding.layouts import context_layout, megatron_layout
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Stage, single
from explorer.tasks.program import GATHER, REDUCE, B, F, U
from explorer.workload import Job, Workload
from tests.support.clusters import alike, device_bound, with_software

SIZES = {"layers": "2", "embed": "512", "heads": "8", "kv_heads": "8", "ffn": "1024", "vocab": "1024"}


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return explorer.load_model("llama", sequence_length=512, settings=SIZES)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return explorer.load_cluster("dgx-a100")


def run(graph: LayerGraph, cluster: Cluster, zero: int, **axes: int) -> Report:
    """All of the model on one mesh, axes outermost first."""
    count = 1
    for size in axes.values():
        count *= size
    layout = megatron_layout(sequence_parallel=True) if "tensor" in axes else ()
    stage = Stage(
        layers=tuple(layer.name for layer in graph.layers),
        meshes=(Mesh(devices=tuple(range(count)), axes=tuple(axes.items())),),
        microbatch_samples=axes[REPLICA],
        layout=(*layout, *(context_layout() if "context" in axes else ())),
        zero=zero,
    )
    job = Job(global_batch=2 * axes[REPLICA], sequence_length=512)
    return explorer.simulate(graph, cluster, Workload(jobs=(job,)), single(stages=(stage,), schedule="1f1b"))


def seconds(report: Report, kind: int) -> list[float]:
    line = report.timeline
    return [float(line.prices.seconds[i]) for i, slot in enumerate(line.program.slots) if slot.kind == kind]


def test_context_ranks_reduce_and_gather_like_replicas(graph: LayerGraph, cluster: Cluster) -> None:
    """ZeRO 1 over replicas x context: each device updates its share, then all gather over all of them."""
    report = run(graph, cluster, 1, replica=2, context=4)
    everyone, size = tuple(range(8)), 2.0 * graph.parameter_count
    gather = collective_seconds(cluster, "all_gather", everyone, size)
    assert sum(seconds(report, GATHER)) == pytest.approx(gather)
    scatter = collective_seconds(cluster, "reduce_scatter", everyone, size)
    assert sum(seconds(report, REDUCE)) == pytest.approx(scatter)
    assert report.memory_parts_bytes[0][MEMORY_PARTS.index("optimizer")] == pytest.approx(
        12 * graph.parameter_count / 8
    )


def test_without_replicas_a_lane_reduces_and_gathers_before_its_update(
    graph: LayerGraph, cluster: Cluster
) -> None:
    whole, spread = (run(graph, cluster, zero, replica=1, context=8) for zero in (0, 1))
    everyone, size = tuple(range(8)), 2.0 * graph.parameter_count
    both = [collective_seconds(cluster, op, everyone, size) for op in ("reduce_scatter", "all_gather")]
    assert spread.timeline.prices.comm_s[_update(spread)] == pytest.approx(sum(both))
    alone = collective_seconds(cluster, "all_reduce", everyone, size)
    assert whole.timeline.prices.comm_s[_update(whole)] == pytest.approx(alone)
    assert not seconds(spread, GATHER)


def _update(report: Report) -> int:
    return next(i for i, slot in enumerate(report.timeline.program.slots) if slot.kind == U)


@given(
    st.lists(st.sampled_from([1, 2, 3]), min_size=3, max_size=3), st.sampled_from([(), ("b",), ("a", "c")])
)
def test_cutting_a_row_keeps_every_device_once(sizes: list[int], axes: tuple[str, ...]) -> None:
    named = tuple(zip("abc", sizes, strict=True))
    count = sizes[0] * sizes[1] * sizes[2]
    mesh = Mesh(devices=tuple(reversed(range(count))), axes=named)
    parts = cut_row(mesh, mesh.devices, axes)
    assert sorted(device for part in parts for device in part) == list(range(count))
    expected = 1
    for name, size in named:
        expected *= size if name in axes else 1
    assert len(parts) == expected
    assert len({len(part) for part in parts}) == 1


def test_devices_in_lockstep_wait_for_the_slowest(graph: LayerGraph, cluster: Cluster) -> None:
    """Work of a lane of several takes that much longer, its collectives and a device alone do not."""
    waiting = replace(
        alike(cluster), device_kinds=tuple(replace(k, lockstep_wait=0.1) for k in alike(cluster).device_kinds)
    )
    for axes, factor in (({"replica": 2, "tensor": 4}, 1.1), ({"replica": 8}, 1.0)):
        plain, slow = (run(graph, found, 0, **axes) for found in (alike(cluster), waiting))
        call = cluster.kind_of(0).software.action_overhead_s
        work, longer = (
            seconds(report, F)[0] - call - float(report.timeline.prices.comm_s[_first(report)])
            for report in (plain, slow)
        )
        assert longer == pytest.approx(factor * work)


def _first(report: Report) -> int:
    return next(i for i, slot in enumerate(report.timeline.program.slots) if slot.kind == F)


def test_cached_blocks_are_a_part_that_need_not_fit(graph: LayerGraph, cluster: Cluster) -> None:
    keeping = with_software(cluster, cached_fraction=0.5)
    plain, cached = (run(graph, found, 0, replica=8) for found in (cluster, keeping))
    parts = dict(zip(MEMORY_PARTS, cached.memory_parts_bytes[0], strict=True))
    assert parts["cached"] == pytest.approx(0.5 * (parts["activations"] + parts["buffers"]))
    assert plain.memory_parts_bytes[0][:-1] == cached.memory_parts_bytes[0][:-1]
    assert plain.peak_memory_bytes == cached.peak_memory_bytes
    assert cached.allocated_memory_bytes[0] == pytest.approx(cached.peak_memory_bytes[0] - parts["reserved"])


@pytest.mark.parametrize("axes", [{"replica": 1, "context": 8}, {"replica": 1, "context": 2, "tensor": 2}])
def test_level_3_without_replicas_gathers_weights_from_its_lane(
    graph: LayerGraph, cluster: Cluster, axes: dict[str, int]
) -> None:
    """What the lane spreads has to be there for every forward and backward, one after another."""
    whole, spread = (run(graph, cluster, zero, **axes) for zero in (0, 3))
    weights = MEMORY_PARTS.index("weights")
    held = whole.memory_parts_bytes[0][weights]
    assert spread.memory_parts_bytes[0][weights] == pytest.approx(held / axes["context"])
    devices = tuple(range(0, 8, 8 // axes["context"])) if "tensor" not in axes else (0, 2)
    beside = axes.get("tensor", 1)
    gather = collective_seconds(cluster, "all_gather", devices, held, concurrent=beside)
    for kind in (F, B):
        assert seconds(spread, kind)[0] - seconds(whole, kind)[0] == pytest.approx(gather)
    # 2 forwards and 2 backwards bring each device what it lacks; gradients go half of the way
    count, rest = len(spread.devices), (axes["context"] - 1) / axes["context"] * held
    sent = [sum(report.traffic_bytes.values()) for report in (whole, spread)]
    assert sent[1] - sent[0] == pytest.approx(count * (4 - 1) * rest, rel=1e-3)  # norms apart


def test_weights_spread_over_lanes_and_replicas_are_gathered_by_all(
    graph: LayerGraph, cluster: Cluster
) -> None:
    """Every device passes on 7/8 of the weights, in 2 forwards, 2 backwards, and its gradients twice."""
    report = run(graph, cluster, 3, replica=2, context=4)
    plain = run(graph, cluster, 0, replica=2, context=4)
    size = 7 / 8 * 2.0 * graph.parameter_count
    gathers = [
        float(report.timeline.prices.bytes[i])
        for i, slot in enumerate(report.timeline.program.slots)
        if slot.kind == GATHER and slot.piece.replica == 0
    ]
    assert sum(gathers) > 0
    assert sum(report.traffic_bytes.values()) > sum(plain.traffic_bytes.values()) + 8 * 2 * size


def test_serving_keeps_all_weights_on_every_replica(graph: LayerGraph, cluster: Cluster) -> None:
    """Nothing gathers them where nothing trains."""
    held = []
    for zero in (0, 3):
        stage = Stage(
            layers=tuple(layer.name for layer in graph.layers), meshes=(Mesh(devices=(0, 1)),),
            microbatch_samples=2, zero=zero,
        )  # fmt: skip
        job = Job(global_batch=4, sequence_length=512, mode="infer")
        work = Workload(jobs=(job,))
        found = explorer.simulate(graph, cluster, work, single(stages=(stage,), schedule="gpipe"))
        assert not seconds(found, GATHER)
        held.append(found.memory_parts_bytes[0][MEMORY_PARTS.index("weights")])
    assert held[0] == held[1] == 2.0 * graph.parameter_count


@pytest.mark.parametrize("issue_s", [0.0, 1e-5, 2e-5, 4e-5, 1e-3])
def test_a_separate_input_gradient_hides_collectives_in_its_own_waits_only(
    graph: LayerGraph, issue_s: float
) -> None:
    """The wait for the kernels of weight gradients comes with them, later where they are made apart."""
    free, bound = device_bound("dgx-a100"), []
    for issue in (0.0, issue_s):
        hosted = with_software(free, host_issue_s=issue)
        found = run(graph, hosted, 0, replica=1, tensor=8)
        pricer = found.timeline.prices.pricer
        time = pricer.section_time(0, 0, 1)
        shards = pricer.sharded[0]
        costs = layer_costs(
            graph, hosted.device_kinds[0], samples=1.0, precision="bf16", work=shards.shards.work,
            split=shards.shards.split, tensor_degree=8,
        )  # fmt: skip
        bound.append((time, costs.slack.sum(axis=1)))
    (plain, _), (time, waits) = bound
    assert time.backward_comm_s == pytest.approx(max(0.0, plain.backward_comm_s - waits[1]), abs=1e-12)
    both = max(0.0, plain.backward_comm_s - waits[1] - waits[2])
    assert time.backward_comm_s - time.behind_weight_s == pytest.approx(both, abs=1e-12)
