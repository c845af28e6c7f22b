"""Matrix products by tiles and waves: closed forms, a brute force over tilings, and what must not fall."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cluster import Curve, DeviceKind, Tile
from explorer.costs.compute import layer_costs
from explorer.costs.products import SPLITS, product_seconds
from explorer.models import load_model
from explorer.sharding import shard

UNITS = 10
KIND = DeviceKind(
    name="ten",
    memory_bytes=1e9,
    memory_bandwidth_bytes_per_s=1e12,
    peak_flops_per_s=(("bf16", 1e12), ("fp32", 1e11)),
    compute_units=UNITS,
    tiles=(Tile(rows=128, columns=128, fraction=0.8), Tile(rows=64, columns=64, fraction=0.5)),
    tile_depth=32,
)
ONE_TILE = replace(KIND, tiles=KIND.tiles[:1])
SIZES = st.integers(1, 4096).map(lambda n: 8 * n)


def seconds(kind: DeviceKind, batch: float, rows: float, columns: float, depth: float) -> float:
    found = product_seconds(kind, "bf16", *(np.array([float(n)]) for n in (batch, rows, columns, depth)))
    return float(found[0])


def wave(tile: Tile, depth: float) -> float:
    return 2 * tile.rows * tile.columns * (depth + KIND.tile_depth) * UNITS / (tile.fraction * 1e12)


def test_one_tile_takes_one_wave() -> None:
    # 8192 deep: four or eight units on the one tile would be faster, but their sums are then added in memory
    assert seconds(ONE_TILE, UNITS, 128, 128, 1024) == pytest.approx(wave(KIND.tiles[0], 1024), rel=1e-12)


def test_one_tile_more_than_units_takes_another_wave() -> None:
    full = seconds(ONE_TILE, 1, 128 * UNITS, 128, 64)
    assert full == pytest.approx(wave(KIND.tiles[0], 64), rel=1e-12)
    assert seconds(ONE_TILE, 1, 128 * UNITS + 1, 128, 64) == pytest.approx(2 * full, rel=1e-12)


def test_a_deep_product_of_few_tiles_is_split() -> None:
    depth = 1 << 20
    split = seconds(ONE_TILE, 1, 128, 128, depth)
    assert split < 0.2 * wave(KIND.tiles[0], depth)


def test_large_products_reach_the_fraction_of_the_best_tile() -> None:
    n = 128 * UNITS * 8
    assert seconds(KIND, 1, n, n, 1 << 16) == pytest.approx(2 * n * n * (1 << 16) / 0.8e12, rel=1e-3)


@given(st.integers(1, 32), SIZES, SIZES, SIZES)
def test_equals_brute_force_over_tilings_and_splits(batch: int, rows: int, columns: int, depth: int) -> None:
    best = math.inf
    for tile in KIND.tiles:
        tiles = batch * -(-rows // tile.rows) * -(-columns // tile.columns)
        for parts in SPLITS:
            one = 2 * tile.rows * tile.columns * (depth / parts + 32) / (tile.fraction * 1e12 / UNITS)
            added = (parts + 1) * 4 * batch * rows * columns / 1e12 if parts > 1 else 0.0
            best = min(best, -(-tiles * parts // UNITS) * one + added)
    assert seconds(KIND, batch, rows, columns, depth) == pytest.approx(best, rel=1e-12)


@given(st.integers(1, 8), SIZES, SIZES, SIZES)
def test_no_product_beats_the_peak_and_more_depth_takes_longer(b: int, m: int, n: int, k: int) -> None:
    found = seconds(KIND, b, m, n, k)
    assert found > 2.0 * b * m * n * k / 1e12
    assert seconds(KIND, b, m, n, k + 8) > found


def test_sizes_that_do_not_fill_16_bytes_keep_a_fraction() -> None:
    kind = replace(KIND, unaligned_fraction=0.25)
    assert seconds(kind, 1, 512, 1001, 512) == pytest.approx(4 * seconds(KIND, 1, 512, 1001, 512))
    assert seconds(kind, 1, 512, 512, 1001) == pytest.approx(4 * seconds(KIND, 1, 512, 512, 1001))
    assert seconds(kind, 1, 1001, 512, 512) == seconds(KIND, 1, 1001, 512, 512), "rows may be any"
    wide = product_seconds(kind, "fp32", *(np.array([n]) for n in (1.0, 512.0, 1001.0, 512.0)))
    plain = product_seconds(KIND, "fp32", *(np.array([n]) for n in (1.0, 512.0, 1001.0, 512.0)))
    assert wide == plain, "32-bit scalars have no tensor cores to align for"


def test_clocks_that_fall_slow_long_products_down() -> None:
    kind = replace(KIND, efficiency=(("sustained", Curve(points=((1e9, 1.0), (1e11, 0.5)))),))
    small, large = (1, 256, 256, 256), (1, 8192, 8192, 8192)
    assert seconds(kind, *small) == seconds(KIND, *small)
    assert seconds(kind, *large) == pytest.approx(2 * seconds(KIND, *large))
    middle = (1, 1000, 1000, 5000)  # 1e10 FLOPs, halfway between by logarithm
    assert seconds(kind, *middle) == pytest.approx(seconds(KIND, *middle) / 0.75)


def test_a_weight_gradient_is_stored_by_its_rows_and_columns() -> None:
    """Its depth are the samples' rows: an odd number of them does not slow it down."""
    kind = replace(KIND, unaligned_fraction=0.5)
    sizes = {name: np.array([n]) for name, n in (("batch", 1.0), ("rows", 512.0), ("columns", 512.0))}
    odd, even = (
        product_seconds(kind, "bf16", **sizes, depth=np.array([depth]), summed=True)
        for depth in (1001.0, 1002.0)
    )
    assert odd < even
    assert product_seconds(kind, "bf16", **sizes, depth=np.array([1001.0])) > 1.9 * odd
    sizes["rows"] += 1
    assert product_seconds(kind, "bf16", **sizes, depth=np.array([1001.0]), summed=True) > 1.9 * odd


@pytest.mark.parametrize(("ffn", "parts"), [(664, 12), (2296, 12), (4600, 12), (1240, 12), (4096, 8)])
def test_a_piece_costs_what_a_whole_layer_of_its_size_does(ffn: int, parts: int) -> None:
    """ceil(n / parts) of n, made a share and back, is whole again: 55.99... columns fill no 16 bytes."""
    kind = replace(KIND, unaligned_fraction=0.5)
    found = []
    for size in (ffn, -(-ffn // parts)):
        settings = {"layers": "1", "embed": "192", "heads": "12", "kv_heads": "12", "ffn": str(size)}
        graph = load_model("llama", sequence_length=128, settings={**settings, "vocab": "512"})
        names = tuple(layer.name for layer in graph.layers)
        degree = parts if size == ffn else 1
        shards = shard(graph, names, layout=(("ffn", "tensor"),), sizes={"tensor": degree})
        costs = layer_costs(graph, kind, samples=1, precision="bf16", work=shards.work, split=shards.split)
        chosen = [graph.index[f"layers.0.mlp.{name}"] for name in ("gate", "up", "down")]
        found.append(costs.seconds[:, chosen])
    assert found[0] == pytest.approx(found[1], rel=1e-9)
