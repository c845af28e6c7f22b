"""Exchanges beside the work of plans: what takes turns on the links of a position."""

from __future__ import annotations

import numpy as np
import pytest

from explorer.schedules import SCHEDULES
from explorer.tables.exchange_pairs import Pairs, Seconds
from explorer.tables.kind_costs import Exchange


@pytest.mark.parametrize(("name", "chunks", "reductions"), [
    ("interleaved_1f1b", 2, 2 * 8), ("breadth_first", 2, 2), ("1f1b", 1, 8), ("chimera", 1, 2 * 8),
])  # fmt: skip
def test_reductions_of_every_microbatch_take_turns(name: str, chunks: int, reductions: int) -> None:
    """Two positions under ZeRO 2: a reduction per microbatch and stage, of those of both copies; one for all
    microbatches where positions stay with a stage.
    """
    schedule = SCHEDULES.get(name)
    held = schedule.placement.held(schedule.placement.grid(2, chunks))
    one, none = np.full((4, 1), 1.0), np.zeros((4, 1))
    exchange = Exchange(**dict.fromkeys(Exchange._fields, none))._replace(last=3 * one)
    found = Pairs(
        schedule, held, np.array([0, 1, 0, 1]), Seconds(one, one, one, one), exchange,
        np.array([2]), np.array([8.0]),
    ).channels()  # fmt: skip
    assert found.tolist() == [3.0 * reductions]
