"""Learned bands: closed forms, a brute-force quantile, and coverage over random sets."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.calibrate.conformal import FEWEST, group_quantiles, quantile, split_coverage

RATIOS = st.lists(st.floats(-2.0, 2.0), max_size=40)


def test_the_rank_of_nine_runs_is_the_eighth() -> None:
    assert quantile([0.1 * k for k in range(1, 10)]) == pytest.approx(0.8)
    assert quantile([0.1] * (FEWEST - 1)) is None
    assert quantile([0.1] * FEWEST) == 0.1


@given(values=RATIOS)
def test_the_quantile_is_the_least_that_enough_runs_are_below(values: list[float]) -> None:
    needed = math.ceil((len(values) + 1) * 0.8 - 1e-9)
    fits = [limit for limit in map(abs, values) if sum(abs(v) <= limit for v in values) >= needed]
    assert quantile(values) == min(fits, default=None)


@pytest.mark.parametrize("scale", [0.02, 0.5])
def test_bands_of_half_the_rows_cover_four_fifths_of_the_others(scale: float) -> None:
    rng = np.random.default_rng(3)
    covered = [split_coverage(rng.standard_t(3, 60) * scale).covered for _ in range(200)]
    assert 0.78 <= float(np.mean(covered)) <= 0.86


def test_groups_have_bands_of_their_own() -> None:
    rng = np.random.default_rng(4)
    ratios = [*rng.normal(0, 0.01, 200), *rng.normal(0, 0.5, 200)]
    groups = ["near"] * 200 + ["far"] * 200
    own, every = group_quantiles(ratios, groups)
    assert own["near"] == pytest.approx(0.0128, rel=0.25)
    assert own["far"] == pytest.approx(0.64, rel=0.25)
    assert own["near"] < (every or 0.0) < own["far"]
    assert 0.7 <= split_coverage(ratios, groups).covered <= 0.9


def test_a_small_group_takes_the_band_of_all() -> None:
    found = split_coverage([0.1] * 20 + [0.1, 5.0], ["many"] * 20 + ["few"] * 2)
    assert found.covered == pytest.approx(21 / 22)
    assert found.band == pytest.approx(math.expm1(0.1))


def test_a_block_is_on_one_side_and_the_halves_are_as_equal_as_blocks_allow() -> None:
    blocks = ["a"] * 5 + ["b"] * 3 + ["c"] * 2 + ["d"] * 6
    ratios = [{"a": 0.1, "b": 0.2, "c": 0.2, "d": 0.1}[name] for name in blocks]
    # a and d against b and c would be 11 and 5 rows; a, then b and c (5), then d: 5 and 5, then 11 and 5
    found = split_coverage(ratios, blocks=blocks)
    assert found.covered == pytest.approx(1 - 5 / 16), "b and c lie outside of what a and d teach"
    assert split_coverage(ratios, blocks=range(16)) == split_coverage(ratios)


@given(values=RATIOS)
def test_one_block_leaves_nothing_to_learn_from(values: list[float]) -> None:
    assert all(map(math.isnan, split_coverage(values, blocks=["one"] * len(values))))


def test_too_few_rows_say_nothing() -> None:
    assert all(map(math.isnan, split_coverage([0.1, 0.2, 0.3])))
    assert all(map(math.isnan, split_coverage([])))


@given(values=RATIOS, factor=st.floats(0.1, 3.0))
def test_the_split_is_the_same_every_time_and_scales_with_the_errors(
    values: list[float], factor: float
) -> None:
    once, again = split_coverage(values), split_coverage(values)
    assert once == pytest.approx(again, nan_ok=True)
    wider = split_coverage([factor * value for value in values])
    assert wider.covered == pytest.approx(once.covered, nan_ok=True)
