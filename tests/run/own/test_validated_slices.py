"""Layers cut over stages on real processes, from a plan to its comparison."""

from __future__ import annotations

import pytest

from explorer.cli.running import comparison_text
from explorer.run import validate
from tests.run.own.own_cases import GPT
from tests.run.own.slice_cases import parts, with_cut
from tests.run.own.test_own_scale import plan

DOWN = "layers.1.mlp.down"


@pytest.mark.slow
@pytest.mark.parametrize("dim", ["embed", "ffn"])
def test_slices_on_two_ranks(dim: str) -> None:
    """A quarter of a layer on the first stage: of what it makes, and of what it adds up."""
    whole = plan(GPT[0], GPT[1], 8, stages=2, microbatches=4)
    cut = with_cut(whole, (DOWN, dim, parts(0.25)), moved={"layers.1.mlp.add": 1})
    found = validate(cut, steps=1, engine="layers", ranks=2)
    assert found.engine == "layers"
    assert found.numerics_ok is True
    assert found.numerics_precision == "fp64"
    assert found.numerics["gradient"] <= 1e-10
    assert f"layers cut over stages: {DOWN}" in found.validated
    assert {item.where: item.equal for item in found.sent}["between stages"]
    assert all(item.equal for item in found.sent)
    assert all(abs(item.predicted_bytes / item.measured_bytes - 1) < 0.3 for item in found.memory)
    assert "between stages" in comparison_text(found)
