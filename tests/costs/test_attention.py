"""Attention by kernel: closed forms, order of times, and kernels that frameworks ask for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster import AttentionKernel, Cluster, Curve, DeviceKind, HeadSpeed, NodeGroup
from explorer.cluster.attention_kernels import KERNELS, kernel_named
from explorer.costs.attention import (
    BACKWARD_FLOPS,
    BACKWARD_PASSES,
    attention_seconds,
    kernel_flops,
    ring_seconds,
)
from explorer.costs.compute import layer_times
from explorer.framework import USUAL, cluster_under
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.models.builder import GraphBuilder
from explorer.sharding import context_layout, shard

SPEEDS = (HeadSpeed(head=64, forward=0.5, backward=0.25), HeadSpeed(head=128, forward=0.8, backward=0.4))
KERNEL = AttentionKernel(name="flash-2", heads=SPEEDS)
UNITS, PEAK, BANDWIDTH = 100, 1e14, 1e12
KIND = DeviceKind(
    name="made", memory_bytes=1e10, memory_bandwidth_bytes_per_s=BANDWIDTH, compute_units=UNITS,
    peak_flops_per_s=(("bf16", PEAK), ("fp16", PEAK), ("fp8", 2 * PEAK), ("fp32", PEAK / 10)),
    attention_kernels=(KERNEL,),
)  # fmt: skip
TILE = 4 * 128 * 128 * 128 * UNITS / (0.8 * PEAK)
"""Seconds of a tile of heads of 128."""


def seconds(
    batch: float, queries: float, keys: float, head: float = 128.0, *, kernel: AttentionKernel = KERNEL,
    precision: str = "bf16", causal: bool = True, moved: float = 0.0, **more: Any,
) -> float:  # fmt: skip
    found = attention_seconds(
        kernel, KIND, precision, *(np.array([float(x)]) for x in (batch, queries, keys, head)),
        causal=causal, moved=np.array([moved]), **more,
    )  # fmt: skip
    return float(found[0])


# ------------------------------------------------------------------------------------------- closed forms


def test_whole_waves_of_blocks() -> None:
    """200 heads of 1,024: 8 blocks a head, 16 a unit, each of 1 to 8 tiles under a mask, 8 without."""
    assert seconds(200, 1024, 1024) == pytest.approx(16 * 4.5 * TILE)
    assert seconds(200, 1024, 1024, causal=False) == pytest.approx(16 * 8 * TILE)
    assert seconds(200, 512, 1024, causal=False) == pytest.approx(8 * 8 * TILE)


def test_the_longest_block_of_rows_is_waited_for() -> None:
    assert seconds(1, 4096, 4096) == pytest.approx(32 * TILE)


def test_half_a_tile_is_a_tile() -> None:
    assert seconds(100, 64, 64, causal=False) == pytest.approx(TILE)
    assert seconds(100, 130, 130, causal=False) == pytest.approx(2 * 2 * TILE)


def test_units_that_wait_for_the_last_one() -> None:
    uneven = replace(KERNEL, imbalance=0.5)
    assert seconds(200, 1024, 1024, kernel=uneven) == pytest.approx((16 + 0.5) * 4.5 * TILE)


def test_the_power_limit_bites_from_a_millisecond_to_ten() -> None:
    warm, short = replace(KERNEL, sustained=0.2), 4.5 * TILE
    for batch in (100, 1e3, 1e4, 1e5, 1e6):
        alone = 8 * batch / UNITS * short
        decades = min(1.0, max(0.0, math.log10(alone / 1e-3)))
        assert seconds(batch, 1024, 1024, kernel=warm) == pytest.approx(alone * (1 + 0.2 * decades))


def test_memory_and_start() -> None:
    kernel = replace(KERNEL, exposed=0.5, start_s=1e-5)
    assert seconds(200, 1024, 1024, kernel=kernel, moved=1e6) == pytest.approx(16 * 4.5 * TILE + 5e-7 + 1e-5)
    assert seconds(200, 128, 128, kernel=kernel, moved=1e12, start=False) == pytest.approx(1.5)
    backward = seconds(200, 128, 128, kernel=kernel, moved=1e12, start=False, backward=True)
    assert backward == pytest.approx(1.5 * BACKWARD_PASSES)


def test_the_backward_has_its_own_share_of_peak() -> None:
    both = [seconds(200, 1024, 1024, backward=way) for way in (False, True)]
    assert both[1] / both[0] == pytest.approx(BACKWARD_FLOPS * 0.8 / 0.4)


def test_heads_between_two_sizes_take_what_lies_between() -> None:
    low, high = 4 * 64 / 0.5, 4 * 128 / 0.8
    found = kernel_flops(KERNEL, np.array([32.0, 64.0, 80.0, 96.0, 128.0, 256.0]), backward=False)
    assert found == pytest.approx([low / 2, low, low + (high - low) / 4, (low + high) / 2, high, 2 * high])


def test_fp8_attends_in_sixteen_bits() -> None:
    assert seconds(200, 1024, 1024, precision="fp8") == seconds(200, 1024, 1024)
    assert seconds(200, 1024, 1024, precision="fp32") == pytest.approx(10 * seconds(200, 1024, 1024))


# ------------------------------------------------------------------------------------------- order of times

FULL = replace(KERNEL, imbalance=0.7, exposed=1.2, start_s=2e-6, sustained=0.15)
SIZES = st.integers(min_value=1, max_value=5000)


@given(batch=SIZES, queries=SIZES, more=st.integers(0, 500), causal=st.booleans(), backward=st.booleans())
def test_more_takes_longer(batch: int, queries: int, more: int, causal: bool, backward: bool) -> None:
    def of(b: int, s: int) -> float:
        return seconds(b, s, s, kernel=FULL, causal=causal, backward=backward, moved=8.0 * b * s * 128)

    least = of(batch, queries) * (1 - 1e-12)
    assert of(batch + more, queries) >= least
    assert of(batch, queries + more) >= least


@given(batch=SIZES, queries=SIZES, keys=SIZES, head=st.sampled_from([40, 64, 80, 128, 192]))
def test_a_mask_never_takes_longer(batch: int, queries: int, keys: int, head: int) -> None:
    masked = seconds(batch, queries, keys, head, kernel=FULL)
    assert masked <= seconds(batch, queries, keys, head, kernel=FULL, causal=False) * (1 + 1e-12)


@given(batch=SIZES, queries=SIZES, keys=SIZES, head=st.sampled_from([40, 64, 80, 128, 192]))
def test_never_faster_than_its_share_of_peak(batch: int, queries: int, keys: int, head: int) -> None:
    flops = float(kernel_flops(FULL, np.array([float(head)]), backward=False)[0])
    least = batch * queries * keys * flops / PEAK
    assert seconds(batch, queries, keys, head, causal=False) >= least * (1 - 1e-12)
    if queries == keys:
        assert seconds(batch, queries, keys, head) >= least / 2 * (1 - 1e-12)


# ------------------------------------------------------------------------------------------- layers


def attention_layer(heads: int = 16, head: int = 128, seq: int = 1024) -> LayerGraph:
    b = GraphBuilder("attention")
    x = b.input("x", {"seq": seq, "embed": 8})
    q, k, v = (b.linear(name, x, {"heads": heads, "head": head}) for name in ("q", "k", "v"))
    b.attention("attention", q, k, v, heads=heads, head=head, causal=True)
    return b.build()


def times(graph: LayerGraph, kind: DeviceKind = KIND, **more: Any) -> list[float]:
    found: list[float] = layer_times(graph, kind, precision="bf16", **{"samples": 1.0, **more})[
        :, -1
    ].tolist()
    return found


def test_a_layer_takes_the_seconds_of_its_kernel() -> None:
    moved = 4 * 16 * 128 * 1024 * 2
    assert times(attention_layer(), samples=2.0) == pytest.approx(
        [
            seconds(32, 1024, 1024, moved=2 * moved),
            seconds(32, 1024, 1024, moved=4 * moved, backward=True),
            0.0,
        ]
    )


def test_a_share_of_the_heads_is_fewer_heads_and_the_rest_fewer_queries() -> None:
    graph = attention_layer()
    split = np.ones((3, 4))
    split[0] = 0.25
    quarter = times(graph, work=np.full(4, 0.25), split=split)
    assert quarter == pytest.approx(times(attention_layer(heads=4)))
    rows = times(graph, work=np.full(4, 0.25))[0]
    assert rows == pytest.approx(seconds(16, 256, 1024, moved=16 * 128 * 1024 * 2))


def test_the_kernel_starts_in_place_of_one_launch() -> None:
    kind = replace(KIND, launch_overhead_s=1e-5, attention_kernels=(replace(KERNEL, start_s=3e-5),))
    gained = np.subtract(times(attention_layer(), kind), times(attention_layer()))
    assert gained.tolist() == pytest.approx([4e-5 + 3e-5, 9e-5 + 3e-5, 0.0])


def test_without_kernels_the_curve_holds() -> None:
    curve = Curve(points=((1.0, 0.5),))
    old = replace(KIND, attention_kernels=(), efficiency=(("attention", curve),))
    flops = 4 * 16 * 128 * 1024**2 / 2
    assert times(attention_layer(), old)[0] == pytest.approx(flops / PEAK / 0.5)
    assert times(attention_layer(), replace(old, attention_kernels=(KERNEL,), compute_units=0)) == times(
        attention_layer(), old
    )


# ------------------------------------------------------------------------------------------- rings


def ring(n: int, *, causal: bool, kernel: AttentionKernel = KERNEL, **more: Any) -> float:
    """Seconds of an n-th of the queries of 4,096 tokens of 50 heads, with the keys in n blocks."""
    sizes = [np.array([size]) for size in (50.0, 4096.0 / n, 4096.0, 128.0, float(n))]
    options = {"causal": np.array([causal]), "moved": np.array([0.0]), **more}
    found = ring_seconds(kernel, KIND, "bf16", *sizes, **options)
    return float(found[0])


def merged(parts: int, elements: float) -> float:
    """Seconds in which partial results are added up: an fp32 sum, and a part of two bytes."""
    return parts * elements * (4 + 4 + 2) / BANDWIDTH


@pytest.mark.parametrize("n", [1, 2, 4, 8])
def test_a_ring_goes_through_all_pairs(n: int) -> None:
    blocks, output = 50 * 32 / n / UNITS, 50 * 4096 / n * 128
    assert ring(n, causal=False) == pytest.approx(blocks * 32 * TILE + merged(n - 1, output))
    own, others = blocks * (32 / n + 1) / 2, (n - 1) * blocks * 16 / n
    assert ring(n, causal=True) == pytest.approx((own + others) * TILE + merged(n - 1, output))


def test_every_pass_of_a_ring_is_a_kernel() -> None:
    late = replace(KERNEL, start_s=1e-4)
    assert ring(4, causal=True, kernel=late) - ring(4, causal=True) == pytest.approx(4e-4)


def test_a_layout_with_a_ring_is_priced_as_one() -> None:
    graph = attention_layer(seq=4096)
    at = graph.index["attention"]
    found = {}
    for ringed in (False, True):
        shards = shard(
            graph, tuple([layer.name for layer in graph.layers]), layout=context_layout(ring=ringed),
            sizes={"context": 4},
        )  # fmt: skip
        found[ringed] = layer_times(
            graph, KIND, samples=16.0, precision="bf16", work=shards.work, split=shards.split
        )[:2, at]
    sizes = [np.array([size]) for size in (256.0, 1024.0, 4096.0, 128.0, 4.0)]
    moved = 16 * 4 * 16 * 128 * 1024 * 2
    expected = [
        ring_seconds(
            KERNEL, KIND, "bf16", *sizes, causal=np.array([True]), moved=np.array([times * moved]),
            backward=times == 2.0,
        )[0]
        for times in (1.0, 2.0)
    ]  # fmt: skip
    assert found[True] == pytest.approx(expected)
    assert (found[True] > found[False]).all()


# ------------------------------------------------------------------------------------------- which kernel

TWO = (replace(KERNEL, name="flash-2"), replace(KERNEL, name="flash-1", imbalance=1.0))


@pytest.mark.parametrize(
    ("asked", "runs"),
    [("", "flash-2"), ("xformers", "flash-1"), ("flash-1", "flash-1"), ("flash-2", "flash-2"),
     ("flash-3", "flash-2"), ("cudnn", "flash-2")],
)  # fmt: skip
def test_a_kernel_that_is_missing_is_replaced_by_the_newest_older_one(asked: str, runs: str) -> None:
    found = kernel_named(TWO, asked)
    assert found is not None
    assert found.name == runs
    cluster = Cluster(
        name="made", device_kinds=(replace(KIND, attention_kernels=TWO),),
        nodes=(NodeGroup(count=1, device_kind="made", devices_per_node=1),),
    )  # fmt: skip
    under = cluster_under(cluster, replace(USUAL, name="made-2024", attention=asked))
    assert under.device_kinds[0].attention_kernels[0].name == runs
    assert {kernel.name for kernel in under.device_kinds[0].attention_kernels} == {"flash-1", "flash-2"}


def test_plain_attention_is_a_choice_of_models() -> None:
    plain = replace(USUAL, name="made-2021", attention="plain")
    settings = {"layers": "1", "embed": "64", "heads": "4"}
    kinds = [
        {layer.kind for layer in load_model("gpt", settings={**settings, **more}, framework=plain).layers}
        for more in ({}, {"attention": "fused"})
    ]
    assert "scores" in kinds[0]
    assert "attention" not in kinds[0]
    assert "attention" in kinds[1]


@pytest.mark.parametrize(
    "wrong", [{"name": "magic"}, {"heads": ()}, {"heads": SPEEDS[::-1]}, {"rows": 0}, {"columns": 0}]
)
def test_wrong_kernels_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        replace(KERNEL, **wrong)
    assert caught.value.key == next(iter(wrong))


@pytest.mark.parametrize("wrong", [{"head": 0}, {"forward": 0.0}, {"backward": 1.5}])
def test_wrong_speeds_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(SPEEDS[0], **wrong)


def test_kernels_have_an_order() -> None:
    assert len(set(KERNELS)) == len(KERNELS)
