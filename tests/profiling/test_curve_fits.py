"""Fits give back the numbers that timings were made with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.cluster import Cluster, DeviceKind, Level, NodeGroup, Tile
from explorer.cluster_profiles import MOST_EXPOSED
from explorer.costs.collectives import collective_seconds
from explorer.costs.products import product_seconds
from explorer.profiling import curve_fits
from explorer.profiling.curve_fits import LEAST_BAND, Key

KIND = DeviceKind(
    name="k", memory_bytes=1e9, memory_bandwidth_bytes_per_s=2e12, peak_flops_per_s=(("fp16", 1e14),),
    compute_units=100,
)  # fmt: skip


def row(seconds: float, what: str = "memory", size: int = 8) -> dict[str, object]:
    return {"what": what, "precision": "", "size": [size], "seconds": seconds}


def test_median_and_band_of_the_middle_four_fifths() -> None:
    found = curve_fits.timings([row(1.0 + i / 10) for i in range(11)])[Key("memory", "", (8,))]
    assert found.seconds == pytest.approx(1.5)
    assert found.band == pytest.approx((1.9 - 1.1) / 2 / 1.5)


def test_the_steadiest_timing_keeps_a_band() -> None:
    assert curve_fits.timings([row(2.0)] * 3)[Key("memory", "", (8,))].band == LEAST_BAND


def test_equal_sizes_share_a_geometric_mean() -> None:
    assert curve_fits.by_size([(4.0, 1.0), (2.0, 3.0), (4.0, 4.0)]) == pytest.approx({2.0: 3.0, 4.0: 2.0})


@given(st.floats(1e9, 1e15), st.floats(0, 1e-6), st.lists(st.floats(0.01, 1.0), min_size=1, max_size=6))
def test_curve_gives_the_fractions_back(peak: float, overhead: float, fractions: list[float]) -> None:
    work = {1e10 * 3.0**i: 1e10 * 3.0**i / (peak * f) + overhead for i, f in enumerate(fractions)}
    points = curve_fits.curve(work, peak, overhead).points
    relieved = [size / (peak * max(s - overhead, s / 2)) for size, s in work.items()]
    assert [size for size, _ in points] == sorted(work)
    assert [f for _, f in points] == pytest.approx([min(1.0, f) for f in relieved], rel=1e-3)
    if all(seconds >= 2 * overhead for seconds in work.values()):
        assert [f for _, f in points] == pytest.approx(fractions, rel=1e-3)


def test_best_rate_is_that_of_the_fastest_size() -> None:
    assert curve_fits.best_rate({1e6: 1e-3, 1e8: 1e-2 + 1e-5}, 1e-5) == pytest.approx(1e10)


@given(st.floats(1e-7, 1e-3), st.floats(1e6, 1e12))
def test_line_gives_latency_and_bandwidth_back(latency: float, bandwidth: float) -> None:
    messages = {size: latency + size / bandwidth for size in (1, 10**4, 10**7, 10**10)}
    assert curve_fits.line(messages) == (pytest.approx(latency, rel=1e-5), pytest.approx(bandwidth, rel=1e-5))


def test_line_of_one_message_takes_half_for_its_start() -> None:
    assert curve_fits.line({1000: 2e-3}) == (1e-3, 1e6)


def machine(ranks: int) -> Cluster:
    level = Level(name="host", kind="pcie", scope="all", latency_s=5e-6, bandwidth_bytes_per_s=2e10)
    group = NodeGroup(count=1, device_kind="k", devices_per_node=ranks)
    return Cluster(name="m", device_kinds=(KIND,), nodes=(group,), levels=(level,))


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_collectives_give_overhead_and_efficiency_back(ranks: int) -> None:
    true = curve_fits.with_collectives(machine(ranks), 4e-5, 0.6)
    sizes = (256, 2**14, 2**20, 2**26)
    devices = tuple(range(ranks))
    reduces = {size: collective_seconds(true, "all_reduce", devices, float(size)) for size in sizes}
    overhead, share = curve_fits.collective_line(machine(ranks), reduces)
    assert overhead == pytest.approx(4e-5, rel=1e-3)
    assert share == pytest.approx(0.6, rel=1e-3)


def test_collectives_reach_no_more_than_the_link() -> None:
    assert curve_fits.collective_line(machine(2), {2**20: 1e-6, 2**26: 1e-4})[1] == pytest.approx(1.0)


def test_tiles_give_the_seconds_of_products_back() -> None:
    tiles = tuple(
        Tile(rows=r, columns=c, fraction={2**15: 0.84, 2**14: 0.78, 2**13: 0.6, 2**12: 0.4}[r * c])
        for r, c in curve_fits.SHAPES
    )
    true = replace(KIND, tiles=tiles, tile_depth=150.0)
    sizes = [(m, n, k) for m in (96, 512, 1000, 4096) for n in (128, 768, 3072) for k in (64, 1024, 4096)]
    columns = np.array(sizes, dtype=float).T
    seconds = product_seconds(true, "fp16", np.ones(len(sizes)), *columns)
    found, error = curve_fits.fit_tiles(KIND, "fp16", dict(zip(sizes, seconds.tolist(), strict=True)))
    assert error < 0.03
    again = product_seconds(found, "fp16", np.ones(len(sizes)), *columns)
    assert np.abs(np.log(again / seconds)).mean() == pytest.approx(error, abs=1e-3)
    assert max(tile.fraction for tile in found.tiles) == pytest.approx(0.84, abs=0.04)


@given(st.floats(0.0, MOST_EXPOSED), st.floats(0, 1e-5))
def test_thin_products_give_the_exposed_share_back(share: float, overhead: float) -> None:
    kind = replace(KIND, launch_overhead_s=overhead)
    seconds = {}
    for rows, columns, depth in ((4, 512, 256), (16, 4096, 1024), (64, 1024, 1024)):
        compute = 2 * rows * columns * depth / 1e14
        memory = 2 * (rows * depth + depth * columns + rows * columns) / 2e12
        one = max(compute, memory) + share * min(compute, memory) + overhead
        seconds[rows, columns, depth] = 3 * one
    assert curve_fits.exposed_share(kind, "fp16", seconds) == pytest.approx(share, abs=1e-6)
    quick = {size: value / 100 for size, value in seconds.items()}
    assert curve_fits.exposed_share(kind, "fp16", quick) == 0.0


@given(st.floats(1e-6, 1e-2), st.floats(1e4, 1e9), st.floats(0.0, MOST_EXPOSED))
def test_compute_is_what_memory_leaves_of_the_seconds(compute: float, moved: float, exposed: float) -> None:
    """The inverse of what the costs add up, wherever compute takes the longer."""
    kind = replace(KIND, exposed_memory=exposed)
    memory = moved / kind.memory_bandwidth_bytes_per_s
    seconds = max(compute, memory) + exposed * min(compute, memory)
    found = curve_fits.without_memory(kind, moved, seconds)
    assert found >= seconds / 4
    if compute > max(memory, seconds / 4):
        assert found == pytest.approx(compute, rel=1e-6)
