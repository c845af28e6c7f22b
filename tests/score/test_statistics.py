from __future__ import annotations

import math
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.score.statistics import (
    band_pct,
    calibrated_on_one_pct,
    coverage_pct,
    errors_pct,
    regret_pct,
    statistics,
    tau,
    tau_within,
)

positive = st.integers(1, 10_000).map(float)
rows = st.lists(st.tuples(positive, positive), min_size=1, max_size=12)


def test_all_numbers_of_a_small_set() -> None:
    pairs = [(11.0, 10.0), (18.0, 20.0), (30.0, 25.0), (7.0, 7.0)]
    found = statistics(pairs, ["a", "a", "b", "b"], [(1.1, 1.0), (2.0, 2.0)])
    assert found.rows == 4
    assert found.mean_abs_error_pct == pytest.approx((10 + 10 + 20 + 0) / 4)
    assert found.median_abs_error_pct == pytest.approx(10)
    assert found.worst_abs_error_pct == pytest.approx(20)
    assert found.bias_pct == pytest.approx(5)
    assert found.kendall_tau == 1
    assert found.tau_within_groups == 1
    assert found.top1_regret_pct == 0
    assert found.memory_mean_abs_error_pct == pytest.approx(5)
    assert found.band_80_pct == pytest.approx(20), "of four rows the furthest: 25 measured, 30 predicted"
    assert found.coverage_pct is None, "no half has four rows"


def test_one_row_has_no_order_and_no_memory() -> None:
    found = statistics([(2.0, 1.0)], ["a"])
    assert (found.kendall_tau, found.tau_within_groups) == (None, None)
    assert (found.top1_regret_pct, found.memory_mean_abs_error_pct) == (None, None)
    assert found.worst_abs_error_pct == 100


def test_tau_within_is_weighted_by_rows() -> None:
    pairs = [(1.0, 1.0), (2.0, 2.0), (1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]
    assert tau_within(pairs, ["a", "a", "b", "b", "b"]) == pytest.approx((2 * 1 + 3 * -1) / 5)


def test_regret_of_speeds_looks_for_the_largest() -> None:
    pairs = [(1.0, 12.0), (2.0, 10.0)]
    assert regret_pct(pairs, ["a", "a"]) == pytest.approx(20)
    assert regret_pct(pairs, ["a", "a"], larger_is_better=True) == pytest.approx(20)
    assert regret_pct(pairs[::-1], ["a", "b"]) is None


@given(rows)
def test_tau_is_the_sign_of_all_pairs(pairs: list[tuple[float, float]]) -> None:
    def sign(x: float) -> int:
        return (x > 0) - (x < 0)

    found = tau(pairs)
    signs = [(sign(a[0] - b[0]), sign(a[1] - b[1])) for a, b in combinations(pairs, 2)]
    untied = [sum(1 for pair in signs if pair[side]) for side in (0, 1)]
    if not all(untied):
        assert found is None
    else:
        assert found == pytest.approx(sum(x * y for x, y in signs) / math.sqrt(untied[0] * untied[1]))


@given(rows, st.sampled_from([math.log, math.sqrt, lambda x: 3 * x + 1]))
def test_tau_and_regret_know_only_the_order(pairs: list[tuple[float, float]], grow: object) -> None:
    assert callable(grow)
    grown = [(grow(predicted), measured) for predicted, measured in pairs]
    groups = [str(i % 2) for i in range(len(pairs))]
    assert tau(grown) == tau(pairs)
    assert regret_pct(grown, groups) == regret_pct(pairs, groups)


@given(rows)
def test_right_order_has_no_regret(pairs: list[tuple[float, float]]) -> None:
    groups = ["a"] * len(pairs)
    true = [(2 * measured, measured) for _, measured in pairs]
    for larger in (False, True):
        assert regret_pct(true, groups, larger_is_better=larger) in (None, 0)
        lost = regret_pct(pairs, groups, larger_is_better=larger)
        assert lost is None or lost >= 0
    assert errors_pct(true) == [100.0] * len(true)


@given(rows, st.randoms(use_true_random=False))
def test_order_of_rows_does_not_matter(pairs: list[tuple[float, float]], random: object) -> None:
    groups = [str(int(measured) % 3) for _, measured in pairs]
    order = sorted(range(len(pairs)), key=lambda i: (pairs[i][1], i % 2))
    a, b = statistics(pairs, groups), statistics([pairs[i] for i in order], [groups[i] for i in order])
    assert a.mean_abs_error_pct == pytest.approx(b.mean_abs_error_pct)
    assert a.kendall_tau == b.kendall_tau
    assert a.tau_within_groups == pytest.approx(b.tau_within_groups) if a.tau_within_groups else True


def test_a_band_is_as_wide_above_as_below() -> None:
    assert band_pct([(1.0, 1.25)] * 4) == pytest.approx(25)
    assert band_pct([(1.25, 1.0)] * 4) == pytest.approx(25)
    assert band_pct([(1.0, 1.25)] * 3) is None


def test_the_next_row_is_outside_in_one_of_five_cases() -> None:
    pairs = [(100.0, 100.0 + k) for k in range(1, 10)]
    assert band_pct(pairs) == pytest.approx(8), "of nine rows the eighth"


def test_no_group_judges_a_band_that_was_learned_from_it() -> None:
    pairs = [(1.0, 1.1)] * 4 + [(1.0, 1.5)] * 4
    models = ["near"] * 4 + ["far"] * 4
    assert coverage_pct(pairs, models) == pytest.approx(50), "far is outside of what near teaches"
    two_of_each = [f"{name} {i // 2}" for i, name in enumerate(models)]
    assert coverage_pct(pairs, two_of_each) == pytest.approx(100)


@given(rows, st.lists(st.sampled_from("abcdef"), min_size=12, max_size=12), st.sampled_from([0.25, 4.0]))
def test_bands_know_only_ratios(pairs: list[tuple[float, float]], names: list[str], factor: float) -> None:
    groups = names[: len(pairs)]
    scaled = [(factor * predicted, factor * measured) for predicted, measured in pairs]
    assert band_pct(scaled) == pytest.approx(band_pct(pairs), abs=1e-6)
    turned = [(measured, predicted) for predicted, measured in pairs]
    assert band_pct(turned) == pytest.approx(band_pct(pairs), abs=1e-6)
    covered = coverage_pct(pairs, groups)
    assert covered is None or 0 <= covered <= 100
    assert covered is None or len(pairs) > 4
    assert covered is not None or len(pairs) < 8 or len(set(groups)) < 4


@given(rows, st.sampled_from([0.5, 2.0, 8.0]))
def test_one_row_takes_a_common_factor_away(pairs: list[tuple[float, float]], factor: float) -> None:
    scaled = [(factor * predicted, measured) for predicted, measured in pairs]
    assert calibrated_on_one_pct(scaled) == pytest.approx(calibrated_on_one_pct(pairs), rel=1e-6, abs=1e-6)
    exact = [(factor * measured, measured) for _, measured in pairs]
    assert calibrated_on_one_pct(exact) == [0.0] * (len(pairs) if len(pairs) > 2 else 0)
