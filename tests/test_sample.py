"""Which slow tests are run: a share of them, by a seed and nothing else."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

sampled = runpy.run_path(str(Path(__file__).parent / "conftest.py"))["sampled"]
NAMES = [f"test_{i}" for i in range(100)]


@pytest.mark.parametrize(("share", "count"), [(0.001, 1), (0.3, 30), (1.0, 100), (2.0, 100)])
def test_a_share_of_them_and_one_at_least(share: float, count: int) -> None:
    found = sampled(NAMES, share, seed=7)
    assert len(found) == count
    assert found <= set(NAMES)


def test_the_seed_chooses_whatever_the_order() -> None:
    assert sampled(NAMES, 0.3, seed=7) == sampled(NAMES[::-1], 0.3, seed=7) != sampled(NAMES, 0.3, seed=8)
    assert set().union(*(sampled(NAMES, 0.3, seed=seed) for seed in range(40))) == set(NAMES)
    assert sampled([], 0.5, seed=1) == set()
