"""Which lanes share weights, and which of them run in step, so that they may wait for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.run.judging.held_bytes import rank_bytes
from explorer.run.ranks.lane import RankLanes
from explorer.run.ranks.shard_rows import in_step, rows_of, sharded_groups
from tests.run.own.own_cases import case, cut, source

GPT = {"layers": "2", "embed": "16", "heads": "2", "vocab": "20"}


def prepared(*, pipeline: int = 1, zero: int = 0, **fields: Any) -> Any:
    own = source("gpt", GPT, 8)
    stages = tuple(replace(stage, zero=zero, **fields) for stage in cut(own, pipeline, 2, size=2))
    return case(own, stages, "1f1b")


@pytest.mark.parametrize(
    ("settings", "rows", "alike"),
    [
        ({"zero": 3}, [[0, 1]], True),
        ({"pipeline": 2, "zero": 2}, [[0, 1], [2, 3]], True),
        ({"replicas": "round_robin", "zero": 2}, [[0, 1]], False),
        ({"replicas": "round_robin", "pipeline": 2, "zero": 2}, [[0, 1], [2, 3]], False),
        ({"zero": 0}, [], True),
    ],
)
def test_lanes_of_a_row_that_do_the_same_are_in_step(settings: Any, rows: Any, alike: bool) -> None:
    lanes = RankLanes(prepared(**settings).case.lowered())
    found = [row for group in sharded_groups(lanes.program.skeleton) for row in rows_of(group, lanes)]
    assert {tuple(row) for row in found} == {tuple(row) for row in rows}
    assert all(in_step(map(lanes.plan, row)) for row in found) is alike


@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize("level", [1, 2])
def test_peaks_are_judged_where_ranks_can_wait_for_reductions(level: int, turns: bool) -> None:
    made = prepared(zero=level, replicas="round_robin" if turns else "split")
    found = rank_bytes(made, [[{"peak_bytes": 1.0}]] * 2)
    assert len(found) == (0 if turns and level > 1 else 2)
