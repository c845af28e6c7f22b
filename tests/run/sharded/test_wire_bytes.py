"""Bytes that real ranks sent equal what the cost model says of the same program, by where they go."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.run.judging.wire_bytes import REPLICAS, wire_bytes
from tests.run.sharded.plans import CASES, plan
from tests.run.sharded.ranks import on_ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_is_sent_is_what_is_predicted(ranks: int) -> None:
    """Statistics are counted in fp32, so what goes inside lanes is compared for runs in fp32."""
    results: list[list[dict[str, Any]]] = on_ranks(ranks, "tests.run.sharded.check_backend:check")
    plans = {case.name: case for case in CASES}
    places = set()
    for rows in zip(*results, strict=True):
        case = plans[rows[0]["name"]]
        for found in wire_bytes(plan(case), [{"sent": row["rows"]} for row in rows]):
            if case.dtype == "fp32" or found.where == REPLICAS or "context" in case.name:
                assert found.equal, (case.name, found)
                places.add(found.where)
            assert found.sent_bytes > 0, (case.name, found)
    assert len(places) > 1
