"""Models' own layers with weights sharded over ranks: gradients and bytes are what they should be."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from tests.run.sharded.ranks import on_ranks

Results = list[list[dict[str, Any]]]
BOUND = {"fp64": 1e-10, "fp32": 1e-5}


def check(results: Results) -> None:
    """Gradients and weights of one process, nothing held at the end, and the bytes that are predicted."""
    assert results
    for rows in zip(*results, strict=True):
        predicted: dict[str, float] = {}
        sent: dict[str, float] = defaultdict(float)
        for row in rows:
            bound = BOUND[row["dtype"]]
            assert row["numerics"]["gradient"] <= bound, row
            assert row["numerics"]["weight"] <= bound, row
            assert row["numerics"]["compared"] > 0, row
            assert row["moved"] > 0, row
            assert (row["kept"], row["left"]) == (0, 0), row
            for where, (said, count) in row["bytes"].items():
                predicted[where] = said
                sent[where] += count
        assert predicted, rows[0]["name"]
        assert all(abs(predicted[where] - sent[where]) < 1 for where in predicted), (rows[0]["name"], sent)


@pytest.mark.parametrize("ranks", [2, 4])
def test_weights_are_sharded_over_replicas(ranks: int) -> None:
    check(on_ranks(ranks, "tests.run.sharded.check_own:small"))


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("function", ["models_of_transformers", "full_width_models"])
def test_larger_models(function: str, ranks: int) -> None:
    check(on_ranks(ranks, f"tests.run.sharded.check_own:{function}"))
