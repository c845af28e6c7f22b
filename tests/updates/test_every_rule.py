"""What holds for every registered update rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.updates import UPDATES

NAMES = UPDATES.names()


@pytest.mark.parametrize("name", NAMES)
@given(size=st.floats(0, 1e12), workers=st.integers(1, 1000))
def test_costs_are_sane(name: str, size: float, workers: int) -> None:
    rule = UPDATES.get(name).function()
    assert rule.volume_bytes(size, 1) == 0
    assert 0 <= rule.volume_bytes(size, workers) <= rule.volume_bytes(size, workers + 1)
    assert rule.extra_bytes(size) >= 0


@pytest.mark.parametrize("name", NAMES)
@given(weights=st.floats(-10, 10), gradient=st.floats(-10, 10))
def test_default_setting_without_delay_is_gradient_descent(
    name: str, weights: float, gradient: float
) -> None:
    apply = UPDATES.get(name).function().apply
    after, _ = apply(weights, gradient, None, learning_rate=0.5, delay=0)
    assert after == pytest.approx(weights - 0.5 * gradient)


def test_plain_sends_a_ring_all_reduce() -> None:
    assert UPDATES.get("plain").function().volume_bytes(8.0, 4) == 12.0
