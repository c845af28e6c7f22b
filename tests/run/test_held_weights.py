"""Gradients that a rank collects: added in place, so each total has memory of its own."""

from __future__ import annotations

import torch

from explorer.run.ranks.compute import Compute
from explorer.run.ranks.lane import RankLanes
from tests.run.programs import real

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
