"""Products by kernels of their precision: closed forms, profiles of before, bounds, errors by shape."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster import DeviceKind, ProductKernels, Quantising, Tile
from explorer.cluster_profiles import cluster_names, load_cluster
from explorer.costs.compute import layer_times
from explorer.costs.least_seconds import least_seconds
from explorer.costs.products import alone_seconds, product_seconds
from explorer.models import load_model
from explorer.score.kernels import errors_of, score_kernels

UNITS, PEAK, BANDWIDTH = 10, 1e12, 1e12
TILE = Tile(rows=128, columns=128, fraction=0.8)
KERNELS = ProductKernels(tiles=(TILE,), splits=(1,), tile_depth=32.0)
KIND = DeviceKind(
    name="ten", memory_bytes=1e9, memory_bandwidth_bytes_per_s=BANDWIDTH, compute_units=UNITS,
    peak_flops_per_s=(("bf16", PEAK), ("fp8", 2 * PEAK)), product_kernels=(("bf16", KERNELS),),
    launch_overhead_s=1.0,
)  # fmt: skip
SIZES = st.integers(1, 4096).map(lambda n: 8 * n)


def kind(**changes: Any) -> DeviceKind:
    return replace(KIND, product_kernels=(("bf16", replace(KERNELS, **changes)),))


def seconds(device: DeviceKind, *sizes: float, precision: str = "bf16") -> float:
    return float(product_seconds(device, precision, *(np.array([float(n)]) for n in sizes))[0])


def alone(device: DeviceKind, *sizes: float, precision: str = "bf16") -> float:
    return float(alone_seconds(device, precision, *(np.array([float(n)]) for n in sizes))[0])


def wave(depth: float, parts: int = 1) -> float:
    return 2 * 128 * 128 * (depth / parts + 32) * UNITS / (0.8 * PEAK)


@pytest.mark.parametrize("partial", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("tiles", [1, 9, 10, 11, 19, 25, 101])
def test_a_last_wave_is_paid_in_part(partial: float, tiles: int) -> None:
    filled = max(1.0, tiles / UNITS)
    waves = filled + partial * (math.ceil(filled) - filled)
    found = seconds(kind(partial_wave=partial), 1, 128 * tiles, 128, 8192)
    assert found == pytest.approx(waves * wave(8192), rel=1e-12)


def test_whole_waves_rise_in_steps() -> None:
    rows = np.arange(128, 128 * 61, 128, dtype=float)
    once = np.ones_like(rows)
    found = product_seconds(KIND, "bf16", once, rows, 128 * once, 8192 * once)
    assert len(np.unique(found.round(12))) == len(rows) // UNITS
    smooth = product_seconds(kind(partial_wave=0.0), "bf16", once, rows, 128 * once, 8192 * once)
    assert (np.diff(smooth[UNITS - 1 :]) > 0).all()


def test_a_split_adds_its_sums_in_memory() -> None:
    both = kind(splits=(1, 4))
    split = wave(1 << 16, 4) + 5 * 4 * 128 * 128 / BANDWIDTH
    assert seconds(both, 1, 128, 128, 1 << 16) == pytest.approx(split, rel=1e-12)
    assert seconds(both, UNITS, 128, 128, 64) == pytest.approx(wave(64), rel=1e-12), "all units are busy"


@given(st.integers(1, 8), SIZES, SIZES, SIZES, st.floats(0, 1), st.floats(0.1, 1))
def test_the_longer_of_compute_and_memory_and_some_of_the_shorter(
    batch: int, rows: int, columns: int, depth: int, exposed: float, reached: float
) -> None:
    memory = batch * 2 * (rows * depth + depth * columns + rows * columns) / (reached * BANDWIDTH)
    tiles = batch * -(-rows // 128) * -(-columns // 128)
    compute = math.ceil(tiles / UNITS) * wave(depth)
    found = seconds(kind(exposed_memory=exposed, memory_fraction=reached), batch, rows, columns, depth)
    expected = max(compute, memory) + exposed * min(compute, memory)
    assert found == pytest.approx(expected, rel=1e-12)


def test_clocks_fall_over_seconds_at_peak() -> None:
    slower = kind(sustained=((1e-6, 1.0), (1e-2, 0.5)))
    middle = (1, 1000, 1000, 50)  # 1e8 FLOPs, 1e-4 s at peak: halfway between by logarithm
    assert seconds(slower, *middle) == pytest.approx(seconds(KIND, *middle) / 0.75)
    assert seconds(slower, 1, 8192, 8192, 8192) == pytest.approx(2 * seconds(KIND, 1, 8192, 8192, 8192))


def test_settled_clocks_are_those_of_training() -> None:
    settled = replace(KIND, settled_fraction=0.5)
    assert seconds(settled, 1, 4096, 4096, 4096) == pytest.approx(2 * seconds(KIND, 1, 4096, 4096, 4096))
    assert alone(settled, 4096, 4096, 4096) == alone(KIND, 4096, 4096, 4096)
    thin = (1, 8, 65536, 8)  # memory does not wait for the clock of the units
    slow_memory = replace(settled, memory_bandwidth_bytes_per_s=1e9)
    assert seconds(slow_memory, *thin) == seconds(replace(slow_memory, settled_fraction=1.0), *thin)


def test_alone_a_product_has_its_own_start() -> None:
    own = kind(start_s=0.125)
    assert alone(own, 512, 512, 512) == pytest.approx(seconds(own, 1, 512, 512, 512) + 0.125)


def test_quantising_goes_through_rows() -> None:
    passed = Quantising(depth_s=1e-9, row_s=1e-8, element_bytes=10.0)
    own = replace(KIND, product_kernels=(("fp8", replace(KERNELS, quantising=passed)),))
    plain = replace(KIND, product_kernels=(("fp8", KERNELS),))
    for rows, depth in ((16, 512), (4096, 8192)):
        taken = depth * 1e-9 + rows * max(1e-8, depth * 10 / BANDWIDTH)
        difference = alone(own, rows, 512, depth, precision="fp8") - alone(
            plain, rows, 512, depth, precision="fp8"
        )
        assert difference == pytest.approx(taken, rel=1e-9)
    assert alone(own, 16, 512, 512) == alone(plain, 16, 512, 512), "bf16 is not quantised"
    assert seconds(own, 1, 16, 512, 512, precision="fp8") == seconds(plain, 1, 16, 512, 512, precision="fp8")


def test_rows_that_are_no_multiple_of_16() -> None:
    uneven = kind(uneven_rows_fraction=0.5)
    assert seconds(uneven, 1, 4096, 4096, 4096) == seconds(KIND, 1, 4096, 4096, 4096)
    assert seconds(uneven, 1, 4090, 4096, 4096) == pytest.approx(2 * seconds(KIND, 1, 4090, 4096, 4096))


def test_a_precision_without_kernels_takes_the_first() -> None:
    assert KIND.kernels_of("fp8") is KERNELS
    assert seconds(KIND, 1, 8192, 8192, 8192, precision="fp8") == pytest.approx(
        seconds(KIND, 1, 8192, 8192, 8192) / 2
    )


@given(st.integers(1, 8), SIZES, SIZES, SIZES)
def test_profiles_of_before_are_whole_waves_without_memory(b: int, m: int, n: int, k: int) -> None:
    tiles = (TILE, Tile(rows=64, columns=64, fraction=0.5))
    before = replace(KIND, product_kernels=(), tiles=tiles, tile_depth=32.0)
    free = replace(KIND, memory_bandwidth_bytes_per_s=1e30)
    now = replace(free, product_kernels=(("bf16", replace(KERNELS, tiles=tiles, splits=(1, 2, 4, 8))),))
    assert seconds(replace(before, memory_bandwidth_bytes_per_s=1e30), b, m, n, k) == seconds(now, b, m, n, k)


@given(
    st.integers(1, 4), SIZES, SIZES, SIZES, st.floats(0, 1), st.floats(0, 1), st.floats(0.3, 1),
    st.sampled_from([(1,), (1, 2), (1, 3, 8)]),
)  # fmt: skip
def test_no_product_beats_its_best_tile_nor_the_memory(
    b: int, m: int, n: int, k: int, partial: float, exposed: float, reached: float, splits: tuple[int, ...]
) -> None:
    own = kind(partial_wave=partial, exposed_memory=exposed, memory_fraction=reached, splits=splits)
    found = seconds(own, b, m, n, k)
    assert found >= 2.0 * b * m * n * k / (0.8 * PEAK)
    assert found >= 2.0 * b * (m * k + k * n + m * n) / BANDWIDTH


@pytest.mark.parametrize("name", cluster_names())
@pytest.mark.parametrize("samples", [1, 3, 16])
def test_least_seconds_are_a_bound_on_bundled_kinds(name: str, samples: int) -> None:
    graph = load_model("gpt2-small", sequence_length=256)
    for device in load_cluster(name).device_kinds:
        bound = least_seconds(graph, device, "fp16")
        found = layer_times(graph, device, samples=samples, precision="fp16")
        assert bound is not None
        assert (samples * bound <= found * (1 + 1e-12)).all(), device.name


@pytest.mark.parametrize(
    "fields",
    [
        {"tiles": ()},
        {"tiles": (TILE, TILE)},
        {"splits": ()},
        {"splits": (2, 4)},
        {"splits": (1, 1)},
        {"partial_wave": 1.5},
        {"exposed_memory": -0.5},
        {"memory_fraction": 0.0},
        {"uneven_rows_fraction": 2.0},
        {"sustained": ((1e-3, 1.0), (1e-6, 0.5))},
        {"sustained": ((1e-6, 0.5), (1e-3, 1.0))},
        {"sustained": ((1e-6, 1.0), (1e-3, 0.0))},
    ],
)
def test_kernels_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        replace(KERNELS, **fields)


# ---- Profiles -----------------------------------------------------------------------------------

OLD = """
schema: explorer.cluster/1
extends: dgx-a100
name: mine
device_kinds:
  - name: mine
    extends: a100-sxm-80gb
    {own}
nodes:
  - {{count: 1, device_kind: mine, devices_per_node: 8}}
"""


@pytest.mark.parametrize(
    "own",
    [
        "tiles: [{rows: 128, columns: 128, fraction: 0.7}]",
        "tile_depth: 90",
        "efficiency: {sustained: {points: [[1.0e+9, 1.0], [1.0e+12, 0.8]]}}",
    ],
)
def test_a_profile_with_tiles_over_a_bundled_one_keeps_its_tiles(tmp_path: Path, own: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(OLD.format(own=own))
    (device,) = (item for item in load_cluster(path).device_kinds if item.name == "mine")
    assert not device.product_kernels
    assert device.settled_fraction == 1.0
    assert "product_kernels" not in {source.key for source in device.sources}


def test_kernels_over_a_kind_with_tiles(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    text = OLD.replace("dgx-a100", "dgx-1-v100").replace("a100-sxm-80gb", "v100-sxm2-16gb")
    path.write_text(
        text.format(own="product_kernels: {fp16: {tiles: [{rows: 128, columns: 128, fraction: 0.7}]}}")
    )
    (device,) = (item for item in load_cluster(path).device_kinds if item.name == "mine")
    assert (device.tiles, device.tile_depth) == ((), 0.0)
    assert device.kernels_of("fp32") is not None


@pytest.mark.parametrize(
    ("own", "key"),
    [
        ("product_kernels: {bf16: {tiles: []}}", "product_kernels"),
        ("product_kernels: {bf16: {tile: []}}", "product_kernels"),
        (
            "product_kernels: {bf16: {tiles: [{rows: 8, columns: 8, fraction: 1}]}}\n    tile_depth: 3",
            "product_kernels",
        ),
        ("settled_fraction: 1.5", "settled_fraction"),
        ("settled_fraction: 0.5\n    tiles: [{rows: 8, columns: 8, fraction: 1}]", "settled_fraction"),
    ],
)
def test_profiles_that_say_too_much(tmp_path: Path, own: str, key: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(OLD.format(own=own))
    with pytest.raises(InputError, match=key):
        load_cluster(path)


# ---- Against what was measured -------------------------------------------------------------------


def test_errors_of_measured_products(reference_dir: Path, tmp_path: Path) -> None:
    """Of one in twenty of the products of 50 us and more the median error is what docs/kernels.md says."""
    lines = (reference_dir / "measured/kernels/matrix_products.csv").read_text().splitlines()
    path = tmp_path / "some.csv"
    path.write_text("\n".join([lines[0], *lines[1::20]]))
    (scored,) = score_kernels({"matrix_products": path})
    groups = {
        (device, precision): errors_of([row for row in rows if row.counted])
        for (device, precision), rows in scored.by_group().items()
    }
    for device in ("a100-sxm-80gb", "h100-sxm-80gb", "b200-sxm-180gb"):
        assert groups[device, "bf16"].median_pct < 5.5
        assert groups[device, "bf16"].mean_pct < 8
    assert all(found.median_pct < 10 for found in groups.values())
