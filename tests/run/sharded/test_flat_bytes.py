"""Bytes under ZeRO. How many gradients lie there at once depends on when gloo is done: asked for by name."""

from __future__ import annotations

import os
from collections import defaultdict
from typing import Any

import pytest

from tests.run.sharded.ranks import on_ranks


@pytest.mark.slow
@pytest.mark.skipif("EXPLORER_IDLE" not in os.environ, reason="EXPLORER_IDLE=1 asks for it")
def test_peaks_under_zero() -> None:
    """Where every reduction has ended before the next one begins."""
    rows: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for rank in on_ranks(2, "tests.run.sharded.check_bytes:peaks"):
        for row in rank:
            rows[row["level"]].append(row)
    assert set(rows) == {0, 1, 2, 3}
    for row in rows[1]:
        assert row["counted"] == pytest.approx(row["predicted"], rel=0.12), row
    # Of all microbatches at once they would be 13 times the weights: 7.5 times on an idle machine, 9.5 on a
    # busy one.
    for row in rows[2] + rows[3]:
        assert row["predicted"] < row["counted"] < 12 * row["weights"], row
