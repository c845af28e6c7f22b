"""Products measured by shape: exact where measured, the law far away, never faster than the peak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.calibrate.operator_times import measured_kind
from explorer.cluster import DeviceKind, ProductTimes
from explorer.cluster_profiles import load_cluster
from explorer.costs.measured_products import REACH, KnownRatios, factors
from explorer.costs.products import alone_seconds, law_alone_seconds, product_seconds
from explorer.score.kernel_devices import kind_called

KINDS = ("a100-sxm-80gb", "h100-sxm-80gb", "rtx-4090", "cpu")
"""With kernels by precision, tiles of all precisions, and a curve alone."""
sizes = st.integers(4, 15).flatmap(lambda power: st.integers(2**power, 2 ** (power + 1)))
shapes = st.tuples(sizes, sizes, sizes).map(lambda shape: tuple(map(float, shape)))
slower = st.floats(1.0, 3.0)


def kind_of(name: str) -> DeviceKind:
    if name == "cpu":
        return load_cluster("cpu-2").device_kinds[0]
    return kind_called(name)


def alone(kind: DeviceKind, precision: str, *shape: float) -> float:
    return float(alone_seconds(kind, precision, *(np.array([size]) for size in shape))[0])


def law(kind: DeviceKind, precision: str, *shape: float) -> float:
    return float(law_alone_seconds(kind, precision, *(np.array([size]) for size in shape))[0])


@settings(max_examples=30)
@given(st.sampled_from(KINDS), st.lists(st.tuples(shapes, slower), min_size=1, max_size=6))
def test_measured_shapes_come_out_as_measured(
    name: str, rows: list[tuple[tuple[float, float, float], float]]
) -> None:
    plain = kind_of(name)
    precision = plain.peak_flops_per_s[0][0]
    times = {shape: factor * law(plain, precision, *shape) for shape, factor in rows}
    kind = measured_kind(plain, {precision: times}, "a test")
    for shape, seconds in times.items():
        assert alone(kind, precision, *shape) == pytest.approx(seconds, rel=1e-9)


@given(shapes, st.floats(0.2, 5.0), st.tuples(*[st.floats(-1, 1)] * 3))
def test_a_single_shape_says_ever_less_the_further_it_is(
    shape: tuple[float, float, float], ratio: float, way: tuple[float, float, float]
) -> None:
    known = KnownRatios(np.log2([shape]), np.log([ratio]))
    length = float(np.linalg.norm(way)) or 1.0
    steps = np.linspace(0, 1.5 * REACH, 40)
    far = np.log2(shape)[:, None] + np.array(way)[:, None] / length * steps
    said = np.abs(np.log(factors(known, *2.0**far)))
    inside = far.min(axis=0) >= 0
    assert said[0] == pytest.approx(abs(np.log(ratio)))
    assert (np.diff(said[inside]) <= 1e-9).all()
    if any(way):
        apart = inside & (steps * (np.linalg.norm(way) / length) > REACH)
        assert said[apart] == pytest.approx(0.0)


@settings(max_examples=50)
@given(st.lists(st.tuples(shapes, st.floats(0.5, 2.0)), min_size=1, max_size=8), shapes)
def test_between_shapes_factors_stay_between_theirs_and_the_law(
    rows: list[tuple[tuple[float, float, float], float]], asked: tuple[float, float, float]
) -> None:
    known = KnownRatios(np.log2([shape for shape, _ in rows]), np.log([ratio for _, ratio in rows]))
    (found,) = factors(known, *(np.array([size]) for size in asked))
    ratios = [ratio for _, ratio in rows]
    assert min(1.0, *ratios) - 1e-9 <= found <= max(1.0, *ratios) + 1e-9


@settings(max_examples=30)
@given(st.lists(shapes, min_size=1, max_size=5, unique=True), shapes)
def test_never_faster_than_the_peak(
    rows: list[tuple[float, float, float]], asked: tuple[float, float, float]
) -> None:
    plain = kind_of("a100-sxm-80gb")
    at_peak = {shape: 2 * np.prod(shape) / plain.peak("bf16") * (1 + 1e-12) for shape in rows}
    kind = measured_kind(plain, {"bf16": at_peak}, "a test")
    for shape in (*rows, asked):
        least = 2 * np.prod(shape) / kind.peak("bf16")
        assert alone(kind, "bf16", *shape) >= least * (1 - 1e-12)
        arrays = [np.array([size]) for size in (1.0, *shape)]
        assert product_seconds(kind, "bf16", *arrays)[0] >= least * (1 - 1e-12)


def test_faster_than_the_peak_is_one_line() -> None:
    kind = kind_of("a100-sxm-80gb")
    with pytest.raises(InputError, match="faster than the peak of a100-sxm-80gb") as error:
        measured_kind(kind, {"bf16": {(4096.0, 4096.0, 4096.0): 1e-4}}, "a test")
    assert "440.5 us or more" in str(error.value)
    assert "\n" not in str(error.value)


def test_products_of_a_batch_follow_the_law() -> None:
    plain = kind_of("a100-sxm-80gb")
    shape = (1024.0, 1024.0, 1024.0)
    kind = measured_kind(plain, {"bf16": {shape: 3 * law(plain, "bf16", *shape)}}, "a test")
    batch = np.array([1.0, 2.0])
    arrays = [np.full(2, size) for size in shape]
    one, two = product_seconds(kind, "bf16", batch, *arrays) / product_seconds(plain, "bf16", batch, *arrays)
    assert (one, two) == pytest.approx((3.0, 1.0))


def test_both_halves_of_16_bits_were_measured_by_one() -> None:
    plain = kind_of("a100-sxm-80gb")
    shape = (512.0, 2048.0, 1024.0)
    kind = measured_kind(plain, {"bf16": {shape: 2 * law(plain, "bf16", *shape)}}, "a test")
    assert alone(kind, "fp16", *shape) == pytest.approx(alone(kind, "bf16", *shape))
    assert alone(kind, "tf32", *shape) == pytest.approx(alone(plain, "tf32", *shape))


@pytest.mark.parametrize(
    "points", [(), ((0, 1, 1, 1),), ((1, 1, 1, 0),), ((1, 1, 1, 1), (1, 1, 1, 2)), ((1, 1, 1, float("inf")),)]
)
def test_wrong_points_are_refused(points: tuple[tuple[float, float, float, float], ...]) -> None:
    with pytest.raises(InputError):
        ProductTimes(points=points)


def test_seconds_without_anything_measured_are_those_of_the_law() -> None:
    kind = replace(kind_of("h100-sxm-80gb"), measured_products=())
    luck = np.random.default_rng(0)
    arrays = [2.0 ** luck.integers(5, 14, 50) for _ in range(3)]
    assert (alone_seconds(kind, "bf16", *arrays) == law_alone_seconds(kind, "bf16", *arrays)).all()
