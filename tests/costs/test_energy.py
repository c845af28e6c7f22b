"""Joules and dollars."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster_profiles import load_cluster
from explorer.costs.energy import dollars, dollars_per_hour, energy_joules


def test_energy_is_busy_and_idle_watts() -> None:
    cluster = load_cluster("mixed-v100-a100")  # V100: 45 and 300 W; A100: 55 and 400 W
    assert energy_joules(cluster, (0, 8), (1.0, 2.0), 4.0) == 300 + 3 * 45 + 2 * 400 + 2 * 55
    assert energy_joules(cluster, (0,), np.array([5.0]), 4.0) == 5 * 300
    assert energy_joules(cluster, (), (), 4.0) == 0.0


def test_dollars() -> None:
    cluster = load_cluster("mixed-v100-a100")
    assert dollars_per_hour(cluster, (0, 8)) == pytest.approx(3.06 + 5.12)
    assert dollars(cluster, (0, 8), 1800.0) == pytest.approx((3.06 + 5.12) / 2)


@given(st.lists(st.floats(0, 10), min_size=8, max_size=8), st.floats(10, 100), st.floats(0, 10))
def test_busier_or_longer_never_costs_less(busy: list[float], step: float, more: float) -> None:
    cluster, devices = load_cluster("dgx-a100"), range(8)
    usual = energy_joules(cluster, devices, busy, step)
    assert 8 * 55 * step <= usual * (1 + 1e-12)
    assert usual <= energy_joules(cluster, devices, [item + more for item in busy], step + more) * (1 + 1e-12)


@pytest.mark.parametrize("busy", [(1.0,), (1.0, -1.0)])
def test_bad_busy_times(busy: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="busy times"):
        energy_joules(load_cluster("dgx-a100"), (0, 1), busy, 1.0)
