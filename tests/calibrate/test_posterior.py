"""The arithmetic of corrections: closed forms of normal distributions, scipy as the oracle of quantiles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from explorer.calibrate.posterior import (
    COVERAGE,
    Normal,
    band_of,
    centre,
    covariance,
    posterior,
    sd_of,
    solve,
)

WIDTHS = st.floats(0.01, 2.0)
SHIFTS = st.floats(-1.0, 1.0)


def test_the_posterior_of_two_normals_is_the_textbook_one() -> None:
    """Prior N(0, 3^2), one observation 5 +- 4: mean 5 * 9 / 25, variance 9 * 16 / 25."""
    found = posterior(3.0, [Normal(5.0, 4.0)])
    assert found.mean == pytest.approx(1.8)
    assert found.sd == pytest.approx(2.4)


@given(band=st.floats(0.001, 5.0))
def test_a_band_holds_four_fifths_of_its_log_normal(band: float) -> None:
    sd = sd_of(band)
    inside = norm.cdf(math.log1p(band), scale=sd) - norm.cdf(-math.log1p(band), scale=sd)
    assert inside == pytest.approx(COVERAGE, abs=1e-12)
    assert band_of(sd) == pytest.approx(band)


@given(
    prior=WIDTHS,
    seen=st.lists(st.tuples(SHIFTS, WIDTHS), min_size=1, max_size=5),
    more=st.tuples(SHIFTS, WIDTHS),
)
def test_one_more_run_never_widens_what_is_left_of_the_prior(
    prior: float, seen: list[tuple[float, float]], more: tuple[float, float]
) -> None:
    few = posterior(prior, [Normal(*item) for item in seen])
    many = posterior(prior, [Normal(*item) for item in (*seen, more)])
    assert many.sd < few.sd < prior
    assert (many.sd / prior) ** 2 < (few.sd / prior) ** 2


def test_without_a_prior_the_observation_stands() -> None:
    assert posterior(math.inf, [Normal(0.3, 0.1)]) == pytest.approx((0.3, 0.1))
    assert posterior(math.inf, []) == (0.0, math.inf)


@settings(max_examples=50)
@given(prior=WIDTHS, seen=st.lists(st.tuples(SHIFTS, WIDTHS), min_size=1, max_size=5))
def test_least_squares_of_one_number_is_the_posterior(prior: float, seen: list[tuple[float, float]]) -> None:
    values, widths = (np.array(side) for side in zip(*seen, strict=True))
    ones, zero, wide = np.ones((len(seen), 1)), np.zeros(1), np.array([prior])
    expected = posterior(prior, [Normal(*item) for item in seen])
    assert solve(ones, values, widths, zero, wide)[0] == pytest.approx(expected.mean, abs=1e-9)
    assert covariance(ones, widths, wide)[0, 0] == pytest.approx(expected.sd**2)


def test_least_squares_of_several_numbers_is_the_normal_equations() -> None:
    rng = np.random.default_rng(1)
    s, y, sd = rng.normal(size=(6, 3)), rng.normal(size=6), rng.uniform(0.1, 0.5, 6)
    prior = np.array([0.2, 1.0, 0.5])
    information = s.T @ np.diag(sd**-2.0) @ s + np.diag(prior**-2.0)
    assert solve(s, y, sd, np.zeros(3), prior) == pytest.approx(
        np.linalg.solve(information, s.T @ (y / sd**2))
    )
    assert covariance(s, sd, prior) == pytest.approx(np.linalg.inv(information))


def test_what_nothing_holds_stays_and_has_no_variance() -> None:
    s = np.array([[1.0, 0.0]])
    prior = np.full(2, math.inf)
    assert solve(s, np.array([0.5]), np.array([0.1]), np.zeros(2), prior) == pytest.approx([0.5, 0.0])
    assert np.diag(covariance(s, np.array([0.1]), prior)) == pytest.approx([0.01, math.inf])


def test_two_numbers_that_only_show_together_share_the_correction_by_their_bands() -> None:
    s, prior = np.array([[1.0, 1.0]]), np.array([0.1, 0.2])
    step = solve(s, np.array([0.5]), np.array([1e-9]), np.zeros(2), prior)
    assert step == pytest.approx([0.1, 0.4], rel=1e-6)


def test_the_centre_ignores_outliers_and_its_error_is_that_of_a_median() -> None:
    assert centre([0.2, 0.2, 0.2, 9.0]) == (0.2, 0.0)
    values = np.random.default_rng(2).normal(0.0, 1.0, 20_001).tolist()
    assert centre(values).sd == pytest.approx(math.sqrt(math.pi / 2 / 20_001), rel=0.03)
