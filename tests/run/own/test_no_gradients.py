"""Gradients that are none, or no numbers: no fault that is there is missed, and none seen that is not."""

from __future__ import annotations

import math
from unittest.mock import patch

import pytest
import torch

from explorer.run.judging.compare import gradients_equal, numerics_of
from explorer.run.ranks.compute import Compute
from explorer.run.ranks.held_weights import HeldWeights
from tests.run.own.own_cases import FACTORIES, case, cut, source
from tests.run.threads import on_threads

pytestmark = pytest.mark.usefixtures("one_thread")
LATE = 0.5


def judged(name: str, stages: int, value: float | None = None, weight: str = "") -> bool | None:
    """What the referee says of a pipeline, with all gradients of a weight replaced by one value."""
    own = source(f"{FACTORIES}:{name}")
    add = HeldWeights._add

    def changed(run: Compute, piece: object, number: int, found: object, beside: object = ()) -> None:
        assert isinstance(found, dict)
        other = {
            n: torch.full_like(run.current[n], value) if n == weight and value is not None else g
            for n, g in found.items()
        }
        add(run, piece, number, other, beside)  # type: ignore[arg-type]

    with patch.object(HeldWeights, "_add", changed):
        records = on_threads(case(own, cut(own, stages), "1f1b", batch=4))
    return gradients_equal(numerics_of([[record] for record in records]))


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_weights_on_which_no_loss_depends(stages: int) -> None:
    """A stage behind sends zeros back for its output, where one process has no gradient at all."""
    assert judged("gated", stages) is True


@pytest.mark.parametrize("stages", [1, 2])
def test_a_gradient_where_there_is_none(stages: int) -> None:
    assert judged("gated", stages, LATE, "gate.weight") is False


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_gradients_that_are_no_numbers_are_wrong(value: float) -> None:
    assert judged("gated", 2, value, "second.weight") is False


def test_a_model_without_numbers_cannot_be_judged() -> None:
    assert judged("endless", 2) is None
