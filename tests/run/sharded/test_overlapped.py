"""Products in chunks beside their collective make and send what the two make and send one after the other."""

from __future__ import annotations

import pytest

from tests.run.sharded.ranks import on_ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_chunks_make_and_send_the_same(ranks: int) -> None:
    results = on_ranks(ranks, "tests.run.sharded.check_overlapped:check")
    for cases in zip(*results, strict=True):
        assert max(case["error"] for case in cases) < 1e-12, cases[0]
        assert sum(case["sent"] for case in cases) == sum(case["expected"] for case in cases) > 0, cases[0]
