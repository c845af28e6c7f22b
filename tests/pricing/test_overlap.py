"""Collectives beside work: rings behind attention, tiles behind products, reductions behind gradients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Cluster
from explorer.costs.collectives import passes_seconds
from explorer.costs.compute import layer_times
from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.pricing.lane_collectives import inside_of
from explorer.pricing.overlap import beside_of, hidden_seconds
from explorer.pricing.traffic import device_traffic
from explorer.sharding import context_layout, megatron_layout, shard
from explorer.simulation.check import check
from explorer.simulation.report import Report
from explorer.strategy import REPLICA, Mesh, Stage, single
from explorer.tasks.program import B, F
from explorer.workload import default_workload
from tests.support.clusters import device_bound

SEQUENCE = megatron_layout(sequence_parallel=True)


@pytest.fixture(scope="module")
def graph() -> LayerGraph:
    return explorer.load_model("gpt2-small")


def run(graph: LayerGraph, cluster: Cluster, *axes: tuple[str, int], **stage: object) -> Report:
    count = int(np.prod([size for _, size in axes]))
    mesh = Mesh(devices=tuple(range(count)), axes=((REPLICA, 1), *axes))
    names = tuple(layer.name for layer in graph.layers)
    strategy = single(stages=(Stage(layers=names, meshes=(mesh,), **stage),))  # type: ignore[arg-type]
    return explorer.simulate(graph, cluster, default_workload(graph).with_job(global_batch=2), strategy)


def slot(report: Report, kind: int, name: str) -> float:
    program, prices = report.timeline.program, report.timeline.prices
    number = next(i for i, item in enumerate(program.slots) if item.kind == kind)
    return float(getattr(prices, name)[number])


def sent(report: Report) -> dict[tuple[int, int], float]:
    return device_traffic(report.timeline.program, report.timeline.prices)


def times_of(report: Report, graph: LayerGraph, cluster: Cluster, degree: int) -> np.ndarray:
    shards = report.timeline.prices.pricer.sharded[0].shards
    return layer_times(
        graph, cluster.kind_of(0), samples=1.0, precision="bf16",
        work=shards.work, split=shards.split, tensor_degree=degree,
    )  # fmt: skip


# ---- context parallelism as a ring --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "devices"), [("dgx-a100", 4), ("ethernet-10g-4x4", 4), ("ethernet-10g-4x4", 8)]
)
def test_a_ring_shows_what_attention_does_not_hide(graph: LayerGraph, name: str, devices: int) -> None:
    """Each of n - 1 passes runs behind the attention on the block at hand: max(0, c - a) a step."""
    cluster = device_bound(name)
    report = run(graph, cluster, ("context", devices), layout=context_layout(ring=True))
    times = times_of(report, graph, cluster, 1)
    slowdown = cluster.kind_of(0).overlap_slowdown
    hops = tuple((d, (d + 1) % devices) for d in range(devices))
    block = 2 * 1024 * 768 * 2.0 / devices  # keys and values of 1024 tokens in bf16
    step = passes_seconds(cluster, hops, block)
    expected = 0.0
    for i, layer in enumerate(graph.layers):
        if layer.kind == "attention":
            work = times[0, i] / devices
            expected += (devices - 1) * (max(0.0, step - work) + slowdown * min(step, work))
    assert slot(report, F, "comm_s") == pytest.approx(expected, rel=1e-9)


def test_a_ring_moves_as_much_as_gathers_forward_and_a_block_more_backward() -> None:
    graph, cluster, n = explorer.load_model("llama3-8b"), explorer.load_cluster("dgx-a100"), 4
    ring, gather = (
        run(graph, cluster, ("context", n), layout=context_layout(ring=way)) for way in (True, False)
    )
    size = 32 * 2 * 8192 * 1024 * 2.0  # keys and values of 8 heads of 128
    assert slot(ring, F, "lane_bytes") == pytest.approx(slot(gather, F, "lane_bytes"))
    assert slot(ring, F, "lane_bytes") == pytest.approx((n - 1) / n * size)
    assert slot(ring, B, "lane_bytes") == pytest.approx((2 * n - 1) / n * size)
    assert slot(gather, B, "lane_bytes") == pytest.approx(2 * (n - 1) / n * size)
    total = sum(size for (a, _), size in sent(ring).items() if a == 0)
    reduced = 2 * (n - 1) / n * graph.parameter_count * 2.0
    assert total == pytest.approx(2 * (3 * n - 2) / n * size + reduced)  # two microbatches


def test_a_ring_needs_a_sequence_to_go_round() -> None:
    graph = explorer.load_model("gpt2-small")
    mesh = Mesh(devices=(0, 1), axes=(("context", 2),))
    stage = Stage(layers=tuple(x.name for x in graph.layers), meshes=(mesh,), layout=(("ring", "context"),))
    cluster, workload = explorer.load_cluster("dgx-a100"), default_workload(graph)
    problems = check(graph, cluster, workload, single(stages=(stage,)))
    assert any("no 'seq' over it" in item for item in problems)


# ---- tiles and weight gradients ------------------------------------------------------------------------


def mlp() -> LayerGraph:
    b = GraphBuilder("mlp")
    x = b.input("x", {"seq": 8, "inputs": 8})
    x = b.linear("first", x, {"embed": 8}, over=("inputs",))
    h = b.norm("norm", x, bias=False)
    h = b.activation("act", b.linear("up", h, {"ffn": 32}))
    h = b.linear("down", h, {"embed": 8}, over=("ffn",))
    b.add("add", x, h)
    return b.build()


MLP = mlp()
SECONDS = st.lists(st.floats(0, 10), min_size=8, max_size=8)


@settings(max_examples=60)
@given(
    st.sampled_from([2, 4, 8]), st.booleans(), SECONDS, SECONDS,
    st.sampled_from(["tiles", "weight_gradient"]), st.floats(0, 0.5),
)  # fmt: skip
def test_work_hides_all_but_its_tail(
    n: int, sequence: bool, comm: list[float], work: list[float], how: str, slowdown: float
) -> None:
    layout = megatron_layout(sequence_parallel=sequence)
    shards = shard(MLP, tuple(x.name for x in MLP.layers), layout=layout, sizes={"tensor": n})
    inside = inside_of(MLP, shards)
    times = np.zeros((3, len(MLP.layers)))
    up, down = MLP.index["up"], MLP.index["down"]
    times[:, up], times[:, down] = work[:3], work[3:6]
    ways = beside_of(MLP, shards, inside, (("tensor", how),))
    seconds = np.array(comm[: len(inside.kinds)])
    one = np.ones(len(MLP.layers))
    found = hidden_seconds(ways, seconds, times, one, 0 * one, slowdown)
    of_op = {kind[0]: value for kind, value in zip(inside.kinds, seconds, strict=True)}
    gather, reduce = of_op.get("all_gather", 0.0), of_op.get("reduce_scatter", of_op.get("all_reduce"))
    gain, most = 1 - slowdown, (n - 1) / n
    if how == "tiles":
        expected = (
            min(gather, most * times[0, up]) + min(reduce, most * times[0, down]),
            min(gather, most * times[1, down]) + min(reduce, most * times[1, up]),
            0.0,
        )
    else:
        expected = (0.0, 0.0, min(reduce, times[2, up]))
    assert (found.forward_s, found.input_grad_s, found.weight_grad_s) == pytest.approx(
        tuple(gain * value for value in expected)
    )
    assert found.recompute_s == 0.0
    if how == "tiles" and not slowdown and sequence:
        together = times[0, up] + gather - min(gather, most * times[0, up])
        longer = max(times[0, up], gather)
        assert longer * (1 - 1e-12) <= together <= longer + times[0, up] / n + 1e-12


@pytest.mark.parametrize("how", ["tiles", "weight_gradient"])
@pytest.mark.parametrize("layout", [megatron_layout(), SEQUENCE], ids=["plain", "sequence"])
def test_overlap_saves_time_and_no_bytes(
    graph: LayerGraph, how: str, layout: tuple[tuple[str, str], ...]
) -> None:
    cluster = device_bound("dgx-a100")
    plain = run(graph, cluster, ("tensor", 4), layout=layout)
    beside = run(graph, cluster, ("tensor", 4), layout=layout, overlap=(("tensor", how),))
    assert sent(beside) == sent(plain)
    assert beside.step_time_s < plain.step_time_s
    assert 0 <= slot(beside, B, "comm_s") < slot(plain, B, "comm_s")
    assert slot(plain, B, "seconds") - slot(beside, B, "seconds") == pytest.approx(
        slot(plain, B, "comm_s") - slot(beside, B, "comm_s")
    )
    forward = [slot(report, F, "comm_s") for report in (plain, beside)]
    assert forward[1] < forward[0] if how == "tiles" else forward[1] == forward[0]


def test_overlap_is_checked(graph: LayerGraph) -> None:
    mesh = Mesh(devices=(0, 1), axes=(("tensor", 2),))
    names = tuple(layer.name for layer in graph.layers)
    with pytest.raises(InputError, match="overlap"):
        Stage(layers=names, meshes=(mesh,), overlap=(("tensor", "sometimes"),))
    stage = Stage(layers=names, meshes=(mesh,), layout=megatron_layout(), overlap=(("context", "tiles"),))
    cluster, workload = explorer.load_cluster("dgx-a100"), default_workload(graph)
    problems = check(graph, cluster, workload, single(stages=(stage,)))
    assert any("overlap names mesh axis 'context'" in item for item in problems)


@pytest.mark.parametrize("n", [4, 8])
def test_a_ring_holds_blocks_where_a_gather_holds_the_whole(n: int) -> None:
    """Two blocks of keys and values and of their gradients; or the largest tensor gathered and scattered."""
    graph, cluster = explorer.load_model("llama3-8b"), explorer.load_cluster("dgx-a100")
    held = []
    for ring in (True, False):
        report = run(graph, cluster, ("context", n), layout=context_layout(ring=ring))
        held.append(report.timeline.prices.memory[0].buffer_bytes_per_sample)
    keys = 8192 * 1024 * 2.0
    assert held[1] - held[0] == pytest.approx(2 * keys - 4 * 2 * keys / n)
