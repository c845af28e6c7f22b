"""Sharded runs and own layers that are wrong on purpose: the comparison with one process must say so."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.run.judging.compare import GRADIENT_TOLERANCE
from tests.run.sharded.check_mutants import MUTANTS
from tests.run.sharded.ranks import on_ranks


@pytest.fixture(scope="module")
def worst() -> dict[tuple[str, str], float]:
    """Return the largest error over the ranks by mutant, "" for none, and case."""
    ranks: list[list[dict[str, Any]]] = on_ranks(2, "tests.run.sharded.check_mutants:check")
    return {
        (rows[0]["mutant"], rows[0]["case"]): max(row["worst"] for row in rows)
        for rows in zip(*ranks, strict=True)
    }


def test_what_is_not_changed_passes(worst: dict[tuple[str, str], float]) -> None:
    assert all(error < 1e-8 for (mutant, _), error in worst.items() if not mutant), worst


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_wrong_rank_is_found(mutant: str, worst: dict[tuple[str, str], float]) -> None:
    for case in MUTANTS[mutant][1]:
        assert not worst[mutant, case] <= GRADIENT_TOLERANCE, (mutant, case)
