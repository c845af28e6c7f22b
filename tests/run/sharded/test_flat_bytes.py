"""Bytes of tensors under ZeRO, where every reduction has ended before the next work begins."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from tests.run.sharded.ranks import on_ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_peaks_under_zero(ranks: int) -> None:
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for rank in on_ranks(ranks, "tests.run.sharded.check_bytes:peaks"):
        for row in rank:
            rows[row["level"]].append(row)
    assert set(rows) == {0, 1, 2, 3}
    for row in rows[1]:
        assert row["counted"] == pytest.approx(row["predicted"], rel=0.02), row
    for row in rows[2] + rows[3]:
        assert row["counted"] == pytest.approx(row["predicted"], rel=0.02), row
        # the whole, flat gradients and gradients, and of a part the weights, their states and a sum
        assert row["counted"] == pytest.approx((3 + 4 / ranks) * row["weights"], rel=0.02), row
