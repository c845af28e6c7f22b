"""First gradients since an update are added to none; ranks run at their own speed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from explorer.run.cases.build import Prepared
from explorer.run.judging.first_sums import first_sums
from explorer.run.judging.rank_speeds import lane_speeds, rank_speeds
from explorer.run.own.own_source import OwnSource
from explorer.tasks.program import B, U, W
from tests.run.own.own_cases import case, cut, source

GPT = {"layers": "2", "embed": "16", "heads": "2", "vocab": "20"}


def made(schedule: str, stages: int, replicas: int = 1, **fields: Any) -> tuple[Prepared, OwnSource]:
    own = source("gpt", GPT, 8)
    cuts = tuple(replace(stage, **fields) for stage in cut(own, stages, replicas, size=replicas))
    return case(own, cuts, schedule, batch=8), own


def firsts(item: Prepared, own: OwnSource) -> list[list[str]]:
    """By lane, the tasks that add up nothing, of those that make gradients."""
    sums = {layer.name: 1.0 for layer in own.graph.layers if layer.parameters}
    found = first_sums(item, own.graph, sums)
    program = item.program
    assert not found[~np.isin(program.kind, (B, W))].any()
    return [
        [str(program.actions[int(program.action[t])]) for t in tasks.tolist() if found[t]]
        for tasks in program.programs
    ]


def test_of_a_step_that_flushes_the_first_backward() -> None:
    assert firsts(*made("1f1b", 2)) == [["0B0", "0B8"], ["1B0", "1B8"]]


def test_of_a_split_backward_its_weights() -> None:
    found = firsts(*made("zb_h1", 2))
    assert [len(lane) for lane in found] == [2, 2]
    assert found[1] == ["1W0", "1W8"]


@pytest.mark.parametrize(("level", "count"), [(0, 2), (1, 2), (2, 8), (3, 8)])
def test_gradients_that_are_scattered_at_once_meet_none(level: int, count: int) -> None:
    item, own = made("1f1b", 1, 2, zero=level)
    assert [len(lane) for lane in firsts(item, own)] == [count, count]


def test_a_step_of_one_microbatch_adds_up_nothing() -> None:
    item, own = made("pipedream", 2)
    lanes = firsts(item, own)
    for lane, tasks in enumerate(item.program.programs):
        assert len(lanes[lane]) == (item.program.kind[tasks] == U).sum()


def test_a_weight_of_two_layers_is_added_up_within_a_backward() -> None:
    item, own = made("1f1b", 1)
    shared = [layer.name for layer in own.graph.layers if any("wte" in u.name for u in layer.parameters)]
    seconds = {layer.name: 0.0 for layer in own.graph.layers} | dict.fromkeys(shared, 1.0)
    uses = len({use.name for layer in own.graph.layers if layer.name in shared for use in layer.parameters})
    assert first_sums(item, own.graph, seconds).max() == (1.0 if len(shared) > uses else len(shared))


def test_ranks_run_at_their_own_speed() -> None:
    item, _ = made("1f1b", 2)
    found = lane_speeds(item, (0.5, 1.5))
    for lane, tasks in enumerate(item.program.programs):
        assert set(found[tasks]) == {(0.5, 1.5)[lane]}
    others = np.setdiff1d(np.arange(item.program.size), np.concatenate(item.program.programs))
    assert set(found[others]) == {1.0}
    alone = replace(item, case=replace(item.case, everywhere=True))
    assert lane_speeds(alone, (0.5, 1.5)).max() == 1.5
    assert set(lane_speeds(item, ())) == {1.0}


def test_speeds_are_of_the_same_layers() -> None:
    rows = [[{"units": {"1": [[1.0, 2.0], [0.0, 1.0]]}}] * 2, [{"units": {"1": [[2.0, 4.0], [0.0, 2.0]]}}]]
    assert rank_speeds(rows) == pytest.approx((2 / 3, 4 / 3))
