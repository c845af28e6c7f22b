"""Tarnawski's DPL: between the optimum and nothing, and no worse than what its authors' code found."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from explorer.planners.tarnawski import exact
from explorer.planners.tarnawski_linear import linear
from tests.planners.random_work import random_pools, random_work
from tests.planners.test_tarnawski import best_of, check, run


def test_is_between_the_optimum_and_nothing() -> None:
    draw = random.Random(7)
    worse = 0
    for _ in range(60):
        kinds = draw.choice([1, 2])
        work, pools = random_work(draw, most=7, kinds=kinds), random_pools(draw, kinds)
        least, found = best_of(exact(work, pools, 2, limit=1000)), best_of(linear(work, pools, 2))
        if found is not None:
            check(work, pools, 2, found)
            assert least is not None
            assert least.load_s <= found.load_s * (1 + 1e-12)
        worse += (found.load_s if found else math.inf) > (least.load_s if least else math.inf) * (1 + 1e-9)
        chain = all(work.above[v] == (1 << v) - 1 for v in range(work.count))
        assert not chain or (found is None) == (least is None)
        assert not chain or found is None or found.load_s == pytest.approx(least.load_s, rel=1e-12)  # type: ignore[union-attr]
    assert 0 < worse < 30


@pytest.mark.reference
def test_is_no_worse_than_the_published_order(reference_dir: Path) -> None:
    folder = reference_dir / "dnn-partitioning"
    for expected in json.loads((folder / "expected.json").read_text())["workloads"]:
        path = folder / "throughput" / f"{expected['workload'].replace('/', '_')}.json"
        if path.exists():
            found = run(path, "tarnawski_linear")
            assert 1e3 * (found.foreign_value or 0) <= expected["dpl"]["maxLoad"] * (1 + 1e-9)
            assert not found.optimal
