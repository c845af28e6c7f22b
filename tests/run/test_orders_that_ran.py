"""The order that ran is judged, though a schedule that reads seconds makes another of those measured."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from explorer.actions import Order
from explorer.run import make_experiment, run, short_run
from explorer.run.cases.build import Prepared
from explorer.run.cases.likeness import SMALL
from explorer.run.cases.short_cases import short_case
from explorer.run.judging.calibrate import Calibrated, calibrate
from tests.run.test_validate import plan


def slow_first(known: Calibrated) -> Calibrated:
    """Let the first layer take a hundred times as long in its forward, and all in their backward."""
    layers = tuple(
        replace(
            layer,
            measured=tuple(
                replace(row, forward_s=row.forward_s * (1 if i else 100), input_grad_s=500 * row.input_grad_s)
                for row in layer.measured
            ),
        )
        for i, layer in enumerate(known.graph.layers)
    )
    return replace(known, graph=replace(known.graph, layers=layers))


def test_seconds_that_would_change_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[Order] = []
    other: list[Order] = []

    def noted(name: str, scaled: Any, strategy: Any, cluster: Any, **fields: Any) -> Prepared:
        found = short_case(name, scaled, strategy, cluster, **fields)
        if name == "strategy":
            judged.append(found.case.order)
            other.append(short_case(name, scaled, strategy, cluster, graph=fields["graph"]).case.order)
        return found

    monkeypatch.setattr("explorer.run.judging.short_results.short_case", noted)
    monkeypatch.setattr(short_run, "calibrate", lambda *args, **named: slow_first(calibrate(*args, **named)))
    experiment = make_experiment(
        plan(stages=4, microbatches=2, schedule="hanayo"), rounds=1, ranks=4, size=SMALL, warmup_rounds=0
    )
    ran = experiment.spec.cases[2].order
    assert experiment.finish(run(experiment.spec)).numerics_ok
    assert judged
    assert all(order == ran for order in judged)
    assert all(order != ran for order in other), "the seconds of this test change no order"
