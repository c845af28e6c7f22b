"""Gradients that a rank collects: added in place, so each total has memory of its own; states made early."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch

from explorer.run.judging.compare import GRADIENT_TOLERANCE
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from tests.run.programs import real
from tests.run.threads import on_threads, worst

CPU = torch.device("cpu")


def collecting() -> Compute:
    case = real("gpipe", 1, 1, microbatches=2).case
    return Compute(case, RankLanes(case.lowered()), 0, CPU)


def test_two_weights_with_one_gradient_tensor_are_counted_once_each() -> None:
    run = collecting()
    (piece,) = run.pieces
    one, two = run.names[piece][:2]
    for number in range(2):
        same = torch.ones(3)
        run._add(piece, number, {one: same, two: same})
    ((total,),) = [list(run.sums.values())]
    assert total[one].tolist() == total[two].tolist() == [2.0] * 3


def test_a_gradient_whose_elements_share_memory_can_be_added_to() -> None:
    run = collecting()
    (piece,) = run.pieces
    name = run.names[piece][0]
    for number in range(2):
        run._add(piece, number, {name: torch.ones(1).expand(3)})
    ((total,),) = [list(run.sums.values())]
    assert total[name].tolist() == [2.0] * 3


def test_a_first_gradient_of_its_own_is_not_copied() -> None:
    run = collecting()
    (piece,) = run.pieces
    name, fresh = run.names[piece][0], torch.ones(3)
    run._add(piece, 0, {name: fresh})
    ((total,),) = [list(run.sums.values())]
    assert total[name] is fresh


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
@pytest.mark.parametrize("schedule", ["1f1b", "pipedream", "zb_h1"])
def test_states_made_before_a_step_are_those_that_its_updates_want(optimizer: str, schedule: str) -> None:
    runs: list[Compute] = []
    made: dict[int, set[str]] = {}

    @contextmanager
    def around(rank: int) -> Iterator[None]:
        runs[rank].make_states()
        made[rank] = set(runs[rank].optimizer.first)
        yield

    records = on_threads(real(schedule, 2, 1, optimizer=optimizer), runs.append, around=around)
    assert worst(records) <= GRADIENT_TOLERANCE
    for rank, run in enumerate(runs):
        assert made[rank]
        assert set(run.optimizer.first) == made[rank]
