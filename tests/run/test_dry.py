"""The dry-time run: real launcher, interpreter and messages; the simulator's time on the clock."""

from __future__ import annotations

import os

import pytest

from explorer.run.compare import DRY_TOLERANCE_PCT, measure
from explorer.run.launch import run
from explorer.run.spec import RunSpec
from tests.run.programs import SCHEDULES, dry

RANKS = 8


def test_makespan_is_the_simulated_one() -> None:
    cases = [dry(name, RANKS, microbatches=8, seconds=0.015) for name in SCHEDULES]
    result = run(RunSpec(ranks=RANKS, cases=tuple(item.case for item in cases), rounds=2))
    errors, late = {}, {}
    for item in cases:
        rows = [rank["cases"][item.case.name] for rank in result.ranks]
        seen = measure(item, rows)
        predicted = float(item.timing.end_s.max())
        errors[item.case.name] = 100 * (seen.makespan_s / predicted - 1)
        slept = [stamp[3] - stamp[2] for rank in rows for stamp in rank[0]["stamps"]]
        asked = [
            item.case.seconds[int(item.program.slot[int(s[0])])] for rank in rows for s in rank[0]["stamps"]
        ]
        late[item.case.name] = 100 * (sum(slept) / sum(asked) - 1)
        assert seen.makespan_s > predicted, "sleeping cannot be faster than asked"
    crowded = os.getloadavg()[0] > 2 * (os.cpu_count() or 1)
    disturbed = crowded or not all(rank["urgent"] for rank in result.ranks) or max(late.values()) > 1
    if disturbed and max(errors.values()) > DRY_TOLERANCE_PCT:
        pytest.skip(f"the machine woke ranks late by {max(late.values()):.1f} %: {errors}")
    assert max(errors.values()) < DRY_TOLERANCE_PCT, errors
