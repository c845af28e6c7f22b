"""Rows on their way to experts: bytes and seconds in closed form, kernels, capacity and imbalance."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.base.extremes import slowest_of
from explorer.cluster import Curve, DeviceKind, ProductKernels, Software, Tile
from explorer.costs.compute import layer_costs
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.routing import ALL_GATHER, EACH, GROUPED, STREAMS, Routing
from explorer.sharding.loads import busiest_load

SEQ, EMBED, FFN, EXPERTS, ACTIVE, ELEMENT = 64, 32, 48, 8, 2, 2
BANDWIDTH, SHARE, PEAK = 1e12, 0.25, 1e11  # so slow that memory never binds products
KIND = DeviceKind(
    name="big", memory_bytes=1e10, memory_bandwidth_bytes_per_s=BANDWIDTH, compute_units=4,
    peak_flops_per_s=(("bf16", PEAK), ("fp32", PEAK)),
    product_kernels=(
        ("bf16", ProductKernels(tiles=(Tile(rows=16, columns=16, fraction=1.0),), splits=(1,))),
    ),
    efficiency=(("memory", Curve(points=((1.0, 1.0),))), ("permutation", Curve(points=((1.0, SHARE),)))),
)  # fmt: skip
ROWS = SEQ * ACTIVE


def model(routing: Routing | None) -> LayerGraph:
    b = GraphBuilder("experts")
    x = b.input("x", {"seq": SEQ, "embed": EMBED})
    with b.block("layers.0"):
        y = b.norm("in", x)
        b.experts(
            "moe", y, b.router("router", y, EXPERTS), ffn=FFN, active=ACTIVE, routing=routing or Routing()
        )
    graph = b.build()
    layers = tuple(
        replace(layer, routing=routing) if layer.kind == "experts" else layer for layer in graph.layers
    )
    return replace(graph, layers=layers)


def seconds(
    routing: Routing | None,
    kind: DeviceKind = KIND,
    *,
    devices: int = 1,
    load: float = 1.0,
    samples: float = 1,
) -> np.ndarray:
    """Forward, input and weight gradient of the experts where each of `devices` has a part and its tokens."""
    graph = model(routing)
    work, split = np.ones(len(graph.layers)), np.ones((3, len(graph.layers)))
    at = graph.index["layers.0.moe"]
    work[at], split[0, at] = load, 1 / devices
    found = layer_costs(graph, kind, samples=samples, precision="bf16", work=work, split=split)
    return found.seconds[:, at]


def moved(permuted: float, activated: float) -> float:
    return ELEMENT * (permuted * EMBED / SHARE + activated * FFN) / BANDWIDTH


def test_one_device_moves_tokens_to_rows_and_back() -> None:
    beside = seconds(Routing()) - seconds(None)
    assert beside[0] == pytest.approx(moved(2 * (SEQ + ROWS), 3 * ROWS))
    assert beside[1] == pytest.approx(moved(2 * (SEQ + ROWS) + ROWS, 5 * ROWS))


def test_rows_from_several_senders_are_sorted_there_and_back() -> None:
    beside = seconds(Routing(), devices=4) - seconds(None, devices=4)
    assert beside[0] == pytest.approx(moved(2 * (SEQ + ROWS) + 4 * ROWS, 3 * ROWS))


def test_a_device_with_one_expert_sorts_nothing() -> None:
    beside = seconds(Routing(), devices=EXPERTS) - seconds(None, devices=EXPERTS)
    assert beside[0] == pytest.approx(moved(2 * (SEQ + ROWS), 3 * ROWS))


def test_gathered_tokens_are_picked_and_summed_for_all() -> None:
    beside = seconds(Routing(dispatch=ALL_GATHER), devices=4) - seconds(None, devices=4)
    assert beside[0] == pytest.approx(moved(3 * ROWS + 4 * SEQ, 3 * ROWS))
    assert beside[1] == pytest.approx(moved(4 * ROWS + 4 * SEQ, 5 * ROWS))


def test_products_add_to_sums_in_fp32() -> None:
    slow = replace(KIND, peak_flops_per_s=(("bf16", 1e20), ("fp32", 1e20)))
    weights = 3 * EXPERTS * EMBED * FFN
    assert seconds(Routing(), slow)[2] == pytest.approx(weights * 8 / BANDWIDTH)


def test_rows_of_the_busiest_device_count() -> None:
    """Who sends has its own tokens; who works has the load."""
    busy = Routing(imbalance=2.0)
    load = busiest_load(busy, EXPERTS, 4)
    beside = seconds(busy, devices=4, load=load) - seconds(None, devices=4, load=load)
    rows = ROWS * load
    assert beside[0] == pytest.approx(moved(2 * (SEQ + ROWS) + 4 * rows, 3 * rows))


def test_balanced_routing_with_capacity_one_is_plain_routing() -> None:
    padded = Routing(capacity=1.0, padded=True)
    for devices in (1, 2, 8):
        assert busiest_load(padded, EXPERTS, devices) == busiest_load(Routing(), EXPERTS, devices) == 1.0
    np.testing.assert_array_equal(seconds(padded, devices=4), seconds(Routing(), devices=4))


def test_kernels_of_one_expert_fill_the_device_by_themselves() -> None:
    """Three rows of tiles on four units: one wave an expert, against 24 tiles in six waves for all."""
    grouped, each = seconds(Routing()), seconds(Routing(kernels=EACH))
    one = 2 * 16 * 16 * EMBED / (PEAK / 4)  # a wave of the first product
    assert ROWS / EXPERTS == 16
    assert each[0] - grouped[0] == pytest.approx(3 * (EXPERTS - EXPERTS * 3 / 4) * one)


def test_the_host_issues_every_expert() -> None:
    kind = replace(KIND, software=Software(expert_issue_s=1e-3), memory_bandwidth_bytes_per_s=1e15)
    assert seconds(Routing(kernels=STREAMS), kind, devices=2)[0] == pytest.approx(
        12e-3 * _part_of_block(Routing(kernels=STREAMS), kind), rel=1e-6
    )


def _part_of_block(routing: Routing, kind: DeviceKind) -> float:
    """The experts' share of the device's seconds in the forward of their block."""
    free = replace(kind, software=Software())
    graph = model(routing)
    work, split = np.ones(len(graph.layers)), np.ones((3, len(graph.layers)))
    split[0, graph.index["layers.0.moe"]] = 0.5
    found = layer_costs(graph, free, samples=1, precision="bf16", work=work, split=split).seconds[0]
    return float(found[graph.index["layers.0.moe"]] / found.sum())


def test_the_device_waits_for_the_counts_of_rows_unless_they_are_padded() -> None:
    kind = replace(KIND, software=Software(host_issue_s=1e-9))  # too little to hold a block up
    wait = seconds(Routing(), kind) - seconds(Routing())
    np.testing.assert_allclose(wait, [2e-9, 0.0, 0.0], atol=1e-15)
    padded = Routing(capacity=1.0, padded=True)
    np.testing.assert_array_equal(seconds(padded, kind), seconds(padded))


def test_a_layer_without_routing_costs_its_products() -> None:
    assert model(None).layer["layers.0.moe"].routing is None
    assert (seconds(None)[:2] < seconds(Routing())[:2]).all()


@given(
    imbalance=st.floats(1.0, 8.0), experts=st.sampled_from([2, 8, 64]), parts=st.sampled_from([1, 2]),
    capacity=st.sampled_from([0.0, 1.0, 1.5]),
)  # fmt: skip
def test_loads_are_between_the_mean_and_the_busiest_expert(
    imbalance: float, experts: int, parts: int, capacity: float
) -> None:
    routing = Routing(imbalance=min(imbalance, experts), capacity=capacity)
    one = busiest_load(routing, experts, experts // parts)
    assert 1.0 <= one <= max(1.0, min(routing.imbalance, capacity or experts)) + 1e-12
    assert busiest_load(routing, experts, 1) == 1.0


def test_fewer_devices_have_milder_loads() -> None:
    routing = Routing(imbalance=1.6)
    expected = 1 + 0.6 * sqrt(4 / 64) * slowest_of(4) / slowest_of(64)
    assert busiest_load(routing, 64, 4) == pytest.approx(expected)
    assert busiest_load(routing, 64, 64) == pytest.approx(1.6)


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ({"imbalance": "9"}, "imbalance"), ({"imbalance": "0.5"}, "imbalance"),
        ({"capacity": "0.5"}, "capacity"), ({"padded": "true"}, "padded"),
        ({"dispatch": "pigeon"}, "dispatch"), ({"expert_kernels": "none"}, "expert_kernels"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_name(setting: dict[str, str], key: str) -> None:
    with pytest.raises(InputError) as caught:
        load_model("mixtral-8x7b", settings=setting)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("framework", "kernels"),
    [("megatron-core-2025", STREAMS), ("deepspeed-2023", EACH), ("torchtitan-2025", GROUPED)],
)
def test_software_says_how_experts_run(framework: str, kernels: str) -> None:
    found = load_model("mixtral-8x7b", framework=load_framework(framework))
    given = load_model("mixtral-8x7b", framework=load_framework(framework), settings={"expert_kernels": EACH})
    routing = [layer.routing for layer in found.layers if layer.kind == "experts"]
    assert {item.kernels for item in routing if item} == {kernels}
    assert {layer.routing.kernels for layer in given.layers if layer.routing} == {EACH}
