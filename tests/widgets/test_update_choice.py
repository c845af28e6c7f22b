"""Every registered update rule is in the picker, with its options as fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from explorer.strategy import UpdateChoice
from explorer.updates import PLAIN, UPDATES
from widgets import Explorer
from widgets.update_choice import SEVERAL, UPDATE_OPTION


@pytest.fixture(scope="module")
def bench() -> Iterator[Explorer]:
    made = Explorer("gpt2-small", "dgx-a100", session=None, global_batch=32)
    made.set(stages=1)
    yield made
    made.close()


def field(bench: Explorer, key: str) -> dict[str, Any]:
    return next(item for item in bench.controls.view["fields"] if item["key"] == key)


@pytest.mark.parametrize("name", UPDATES.names())
def test_every_rule_can_be_chosen_and_left(bench: Explorer, name: str) -> None:
    before, step = bench.history.at, bench.report.step_time_s
    assert field(bench, "update")["value"] == PLAIN.rule
    assert {row["value"] for row in field(bench, "update")["options"]} == set(UPDATES.names())
    bench.controls.send_intent("set", key="update", value=name)
    assert not bench.error
    expected = () if name == PLAIN.rule else (UpdateChoice(rule=name),)
    assert bench.strategy.job.updates == expected
    shown = [item for item in bench.controls.view["fields"] if item["key"].startswith(UPDATE_OPTION)]
    assert [item["key"] for item in shown] == [
        UPDATE_OPTION + item.name for item in UPDATES.get(name).options
    ]
    for item in shown:
        bench.controls.send_intent("set", key=item["key"], value=item["value"])
        assert bench.strategy.job.updates == expected, "its default is left out"
    bench.controls.send_intent("set", key="update", value=PLAIN.rule)
    assert bench.strategy.job.updates == ()
    assert bench.report.step_time_s == step
    bench.go(before)


def test_a_longer_period_saves_time(bench: Explorer) -> None:
    before, step = bench.history.at, bench.report.step_time_s
    bench.set(update="local_sgd")
    four = bench.report.step_time_s
    assert four < step
    bench.set(**{"update.period": 16})
    assert bench.strategy.job.updates == (UpdateChoice(rule="local_sgd", options=(("period", 16),)),)
    assert bench.report.step_time_s < four
    bench.controls.send_intent("set", key="update.period", value=0)
    assert "period" in bench.error
    assert field(bench, "update.period")["error"]
    bench.go(before)


def test_rules_by_parameter_are_shown_as_such(bench: Explorer) -> None:
    before = bench.history.at
    name = bench.history.now.inputs.graph.layers[0].parameters[0].name
    job = replace(bench.strategy.job, updates=(UpdateChoice(rule="stale", parameters=(name,)),))
    bench.strategy = bench.strategy.with_job(job)
    assert field(bench, "update")["value"] == SEVERAL
    bench.go(before)
