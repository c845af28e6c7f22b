"""Bytes under ZeRO: ranks hold what is predicted of them, but for a reduction that is still under way."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from tests.run.sharded.ranks import on_ranks


@pytest.mark.slow
def test_peaks_under_zero() -> None:
    """Of P bytes of weights on 2 ranks: at levels 2 and 3 an exchange under way has 2 P, and few are."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for rank in on_ranks(2, "tests.run.sharded.check_bytes:peaks"):
        for row in rank:
            rows[row["level"]].append(row)
    assert set(rows) == {0, 1, 2, 3}
    for row in rows[1]:
        assert row["counted"] == pytest.approx(row["predicted"], rel=0.12)
    for level in (2, 3):
        for row in rows[level]:
            assert row["predicted"] * 0.95 < row["counted"] < row["predicted"] + 2.4 * row["weights"], row
