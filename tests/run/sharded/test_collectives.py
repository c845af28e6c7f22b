"""Collectives of real gloo ranks: right, adjoint to each other, and sending what the volumes say."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.costs.collectives import collective_wire_bytes
from tests.run.sharded.ranks import on_ranks

WORD = 8
FORMULAS = ("all_gather", "reduce_scatter", "all_reduce", "broadcast", "reduce")


@pytest.fixture(scope="module", params=[2, 4])
def results(request: pytest.FixtureRequest) -> list[list[dict[str, Any]]]:
    return on_ranks(request.param, "tests.run.sharded.check_collectives:check")


def test_each_makes_what_it_should(results: list[list[dict[str, Any]]]) -> None:
    for rank, found in enumerate(results):
        for case in found:
            assert case["shape"], (rank, case)
            assert case["error"] < 1e-14, (rank, case)


def test_backward_is_the_adjoint(results: list[list[dict[str, Any]]]) -> None:
    """<F x, y> = <x, F' y> over all ranks."""
    for case in results[0]:
        left, right = case["products"]
        assert left == pytest.approx(right, rel=1e-12, abs=1e-12), case["name"]
        assert left != 0


def test_each_sends_what_its_volume_says(results: list[list[dict[str, Any]]]) -> None:
    """Over all ranks exactly the closed form: averaged for those that have one, else counted by hand."""
    n = len(results)
    for number, case in enumerate(results[0]):
        forward, backward = (sum(found[number]["sent"][way] for found in results) for way in (0, 1))
        op = case["name"].split()[0]
        if op in FORMULAS:
            expected = n * collective_wire_bytes(op, n, case["elements"] * WORD)
        else:
            expected = case["elements"] * WORD
        assert forward == expected, case["name"]
        assert backward == expected, case["name"]
