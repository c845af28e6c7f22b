"""Products in tiles beside their collective make and send what the two make and send one after the other."""

from __future__ import annotations

import pytest

from tests.run.sharded.ranks import on_ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_tiles_make_and_send_the_same(ranks: int) -> None:
    results = on_ranks(ranks, "tests.run.sharded.check_overlapped:check")
    for cases in zip(*results, strict=True):
        assert max(case["error"] for case in cases) < 1e-12, cases[0]
        assert sum(case["sent"] for case in cases) == sum(case["expected"] for case in cases) > 0, cases[0]


@pytest.mark.parametrize("ranks", [2, 4])
def test_gradients_of_tiles_are_the_adjoint(ranks: int) -> None:
    """Over all ranks together <F x, y> = <x, F' y>."""
    results = on_ranks(ranks, "tests.run.sharded.check_overlapped:adjoints")
    for cases in zip(*results, strict=True):
        there, back = (sum(case[key] for case in cases) for key in ("there", "back"))
        assert abs(there) > 1e-3
        assert there == pytest.approx(back, rel=1e-12), cases[0]


def test_tensors_under_way_at_once_are_told_apart() -> None:
    for found in on_ranks(4, "tests.run.sharded.check_overlapped:together"):
        assert found == [2 * 6.0, 2 * 46.0, 4 * 2.0, 4 * 4.0]
