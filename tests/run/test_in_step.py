"""Which replicas run in step, so that their ranks may wait for each other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.run.judging.held_bytes import rank_bytes
from explorer.run.ranks.in_step import in_step
from explorer.run.ranks.lane import RankLanes
from explorer.strategy import REPLICA, Mesh
from tests.run.own.own_cases import case, cut, source

GPT = {"layers": "2", "embed": "16", "heads": "2", "vocab": "20"}


def prepared(*, pipeline: int = 1, uneven: bool = False, zero: int = 0, **fields: Any) -> Any:
    own = source("gpt", GPT, 8)
    stages = tuple(replace(stage, zero=zero, **fields) for stage in cut(own, pipeline, 2, size=2))
    if uneven:
        meshes = (Mesh(devices=(2,), axes=((REPLICA, 1),)),)
        stages = (stages[0], replace(stages[1], meshes=meshes, microbatch_samples=2))
    return case(own, stages, "1f1b")


@pytest.mark.parametrize(
    ("settings", "alike"),
    [
        ({}, True),
        ({"pipeline": 2}, True),
        ({"zero": 3}, True),
        ({"pipeline": 2, "zero": 2}, True),
        ({"replicas": "round_robin"}, False),
        ({"replicas": "round_robin", "pipeline": 2}, False),
        ({"pipeline": 2, "uneven": True}, False),
    ],
)
def test_replicas_that_do_the_same_in_one_sequence_are_in_step(settings: Any, alike: bool) -> None:
    lanes = RankLanes(prepared(**settings).case.lowered())
    assert in_step([lanes.plan(i) for i in range(len(lanes.program.programs))]) is alike


@pytest.mark.parametrize("turns", [True, False])
@pytest.mark.parametrize("level", [1, 2])
def test_peaks_are_judged_where_ranks_can_wait_for_reductions(level: int, turns: bool) -> None:
    made = prepared(zero=level, replicas="round_robin" if turns else "split")
    found = rank_bytes(made, [[{"peak_bytes": 1.0}]] * 2)
    assert len(found) == (0 if turns and level > 1 else 2)
