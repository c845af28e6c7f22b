"""Recomputation as an action of its own on ranks: once where the order says, gradients of one process."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from explorer.actions import RECOMPUTE
from explorer.run.cases.build import Prepared
from explorer.run.model import ModelSpec, model_graph, transformer
from explorer.run.ranks.compute import Compute
from tests.run.programs import MODEL, real, stages_of
from tests.run.threads import on_threads, worst

pytestmark = pytest.mark.usefixtures("one_thread")

TIED = transformer(6, d_model=8, heads=2, ffn=16, seq=4, vocab=16, tied=True, dtype="fp64")
EARLY = (
    "0F0 0F1 0RECOMPUTE0 0F2 0B0 0RECOMPUTE1-2 0B1 0B2 0F3 0B3; 1F0 1RECOMPUTE0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"
)
HALVES = (
    "0F0 0F1 0RECOMPUTE0 0I0 0W0 0RECOMPUTE1 0I1 0F2 0F3 0W1 0I2 0W2 0I3 0W3;"
    "1F0 1B0 1F1 1I1 1W1 1F2 1B2 1F3 1B3"
)
MOVED = "0F0 0OFFLOAD0 0F1 0F2 0RELOAD0 0RECOMPUTE0 0B0 0F3 0B1 0B2 0B3; 1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3"


def ordered(lanes: str, recompute: str, model: ModelSpec = MODEL) -> Prepared:
    names = [layer.name for layer in model_graph(model).layers]
    stages = tuple(replace(stage, recompute=recompute) for stage in stages_of(names, 2, 1, size=2))
    return real("custom", 2, 1, stages=stages, options=(("lanes", lanes),), name=recompute, model=model)


@pytest.mark.parametrize("recompute", ["full", "none"])
@pytest.mark.parametrize(
    ("lanes", "model"), [(EARLY, MODEL), (EARLY, TIED), (HALVES, MODEL), (HALVES, TIED), (MOVED, MODEL)]
)
def test_it_is_made_again_once(lanes: str, model: ModelSpec, recompute: str) -> None:
    """By the action where there is one, else by the backward if the stage recomputes."""
    prepared = ordered(lanes, recompute, model)
    made: Counter[tuple[int, int]] = Counter()

    def watch(run: Compute) -> None:
        plain = run._run_units

        def counted(piece: Any, number: int, *rest: Any) -> Any:
            made[run.lane, number] += 1
            return plain(piece, number, *rest)

        run._run_units = counted  # type: ignore[method-assign]

    records = on_threads(prepared, watch)
    assert worst(records) < 1e-10
    assert all(record["left"] == 0 and record["numerics"]["compared"] for record in records)
    for lane, actions in enumerate(prepared.program.order.lanes):
        again = {
            n
            for action in actions
            if action.op == RECOMPUTE
            for n in range(action.first_microbatch, action.first_microbatch + action.count)
        }
        numbers = {n for at, n in made if at == lane}
        assert {made[lane, n] for n in again} <= {2}
        assert {made[lane, n] for n in numbers - again} <= {2 if recompute == "full" else 1}
