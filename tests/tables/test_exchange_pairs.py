"""Exchanges beside the work of plans: what takes turns on the links of a position."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.schedules import SCHEDULES
from explorer.tables.exchange_pairs import Pairs, Seconds
from explorer.tables.kind_costs import Exchange


@pytest.mark.parametrize(
    ("rounds", "m", "seconds"), [(True, 8, 8 * 2 * 3.0), (True, 3, 0.0), (False, 8, 0.0)]
)
def test_reductions_of_every_microbatch_take_turns(rounds: bool, m: int, seconds: float) -> None:
    """Two positions with two chunks each under ZeRO 2: m reductions of both, if no chunk keeps the lane."""
    schedule = replace(SCHEDULES.get("interleaved_1f1b"), rounds=rounds)
    held = schedule.placement.held(schedule.placement.grid(2, 2))
    one, none = np.full((4, 1), 1.0), np.zeros((4, 1))
    exchange = Exchange(**dict.fromkeys(Exchange._fields, none))._replace(last=3 * one)
    found = Pairs(
        schedule, held, np.array([0, 1, 0, 1]), Seconds(one, one, one, one), exchange,
        np.array([2]), np.array([float(m)]),
    ).channels()  # fmt: skip
    assert found.tolist() == [seconds]
