"""The busiest device of those that share experts: its work, its memory and what it exchanges."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import explorer
from explorer.base.errors import InputError
from explorer.cluster import Software
from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from explorer.routing import ALL_GATHER, Routing
from explorer.sharding import Override, ShardedLayers, expert_layout, shard
from explorer.sharding.loads import busiest_load
from explorer.strategies.degrees import Degrees
from explorer.workload import Workload, default_workload

SEQ, EMBED, FFN, EXPERTS, ACTIVE = 64, 32, 48, 8, 2


def model(routing: Routing, blocks: int = 1) -> LayerGraph:
    b = GraphBuilder("experts")
    x = b.input("x", {"seq": SEQ, "embed": EMBED})
    for i in range(blocks):
        with b.block(f"layers.{i}"):
            x = b.norm("in", x)
            x = b.experts("moe", x, b.router("router", x, EXPERTS), ffn=FFN, active=ACTIVE, routing=routing)
    return b.build()


def spread(routing: Routing, devices: int) -> ShardedLayers:
    graph = model(routing)
    override = Override(layers=("*.moe",), layout=expert_layout(), sizes=(("expert", devices),))
    return shard(graph, graph.blocks["layers.0"], overrides=(override,))


def test_the_busiest_device_decides() -> None:
    even, busy = spread(Routing(), 4), spread(Routing(imbalance=2.0), 4)
    at, load = even.graph.index["layers.0.moe"], busiest_load(Routing(imbalance=2.0), EXPERTS, 4)
    assert load > 1
    assert busy.work[at] == pytest.approx(even.work[at] * load)
    for part in ("gate", "dispatched", "outputs"):
        name = f"layers.0.moe.{part}"
        assert busy.tensor_fraction[name] == pytest.approx(even.tensor_fraction[name] * load)
    assert busy.tensor_fraction["layers.0.moe"] == even.tensor_fraction["layers.0.moe"]
    assert busy.parameter_fraction == even.parameter_fraction
    for one, other in zip(even.forward + even.backward, busy.forward + busy.backward, strict=True):
        assert other.elements_per_sample == pytest.approx(one.elements_per_sample * load)
    others = np.arange(len(even.work)) != at
    np.testing.assert_array_equal(busy.work[others], even.work[others])


def test_one_device_with_all_experts_has_all_rows() -> None:
    graph, plain = model(Routing(imbalance=2.0)), model(Routing())
    for one, other in ((graph, plain),):
        found, expected = (shard(item, item.blocks["layers.0"]) for item in (one, other))
        np.testing.assert_array_equal(found.work, expected.work)
        np.testing.assert_array_equal(found.tensor_share, expected.tensor_share)


def test_padded_rows_count_on_one_device_too() -> None:
    found = shard(model(Routing(capacity=1.5, padded=True)), ("layers.0.moe",))
    assert found.work[found.graph.index["layers.0.moe"]] == 1.5
    assert found.tensor_fraction["layers.0.moe.gate"] == 1.5
    assert found.tensor_fraction["layers.0.moe"] == 1.0


def test_all_tokens_to_all_devices() -> None:
    found = spread(Routing(dispatch=ALL_GATHER), 4)
    assert [item.op for item in found.forward] == ["all_gather", "reduce_scatter"]
    assert [item.op for item in found.backward] == ["all_gather", "reduce_scatter"]
    assert {item.elements_per_sample for item in found.forward} == {4.0 * SEQ * EMBED}
    sent = spread(Routing(), 4).forward
    assert [item.op for item in sent] == ["all_to_all", "all_to_all"]
    assert {item.elements_per_sample for item in sent} == {float(SEQ * EMBED * ACTIVE)}


def step(routing: Routing, expert: int) -> explorer.Report:
    graph = model(routing, blocks=4)
    cluster = load_cluster("dgx-a100")
    kinds = tuple(replace(kind, software=Software()) for kind in cluster.device_kinds)  # no host to wait for
    cluster = replace(cluster, device_kinds=kinds)
    job = replace(default_workload(graph).job, global_batch=64)
    strategy = Degrees(replicas=4, stages=2, expert=expert, microbatch_size=4).build(graph, cluster, job)
    return explorer.simulate(graph, cluster, Workload(jobs=(job,)), strategy)


def test_imbalance_acts_in_time_memory_and_traffic() -> None:
    even, busy = step(Routing(), 4), step(Routing(imbalance=2.0), 4)
    assert busy.step_time_s > even.step_time_s
    assert max(busy.peak_memory_bytes) > max(even.peak_memory_bytes)
    assert sum(busy.traffic_bytes.values()) > sum(even.traffic_bytes.values())
    capped = step(Routing(imbalance=2.0, capacity=1.0), 4)
    assert capped.step_time_s == even.step_time_s


def test_without_expert_parallelism_imbalance_does_nothing() -> None:
    assert step(Routing(imbalance=2.0), 1).step_time_s == step(Routing(), 1).step_time_s


def test_a_layer_without_experts_routes_nothing() -> None:
    graph = model(Routing())
    with pytest.raises(InputError, match="routes tokens without"):
        replace(graph, layers=tuple(replace(item, routing=Routing()) for item in graph.layers))
