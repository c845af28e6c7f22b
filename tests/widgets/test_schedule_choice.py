"""Every registered schedule is in the picker and can be had, or says what it needs; options are fields."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError, PlanError
from explorer.schedules import SCHEDULES
from explorer.schedules.placements import ANY
from explorer.strategies.bare_shape import bare_shape
from widgets import Explorer
from widgets.edits import FALLBACK_SCHEDULE, set_field
from widgets.schedule_choice import (
    OPTION,
    Choice,
    choices,
    choices_at_hand,
    degrees_shown,
    with_schedule,
)
from widgets.session import Point

NAMES = SCHEDULES.names()
WIDGETS = Path(__file__).parents[2] / "widgets"


@pytest.fixture(scope="module")
def benches() -> Iterator[dict[str, Explorer]]:
    """A shape that has much, one with an odd number of stages, and one that is no pipeline."""
    made = {
        "even": Explorer("gpt2-small", "dgx-a100", session=None, global_batch=32),
        "odd": Explorer("gpt2-small", "dgx-a100", session=None, global_batch=12),
        "single": Explorer("gpt2-small", "dgx-a100", session=None, global_batch=8),
    }
    made["even"].set(stages=4)
    made["odd"].set(stages=3)
    made["single"].set(stages=1)
    yield made
    for bench in made.values():
        bench.close()


def field(bench: Explorer, key: str) -> dict[str, Any]:
    return next(item for item in bench.controls.view["fields"] if item["key"] == key)


def choice(point: Point, name: str) -> Choice:
    return next(item for item in choices(point) if item.name == name)


@pytest.mark.parametrize("where", ["even", "odd", "single"])
@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_can_be_had_or_says_why_not(
    benches: dict[str, Explorer], name: str, where: str
) -> None:
    now = benches[where].now()
    found = choice(now, name)
    if found.problem:
        with pytest.raises(InputError) as refused:
            with_schedule(now, name)
        assert refused.value.message in found.problem
        assert f": {refused.value.allowed}" in found.problem, "what would do is said"
        return
    made = with_schedule(now, name)
    job, spec = made.strategy.job, SCHEDULES.get(name)
    assert job.schedule == name
    assert not spec.unmet(bare_shape(made.inputs.graph, made.inputs.job, job))
    assert ("cut anew" in made.note) == ("cuts the model anew" in found.title)
    degrees = degrees_shown(made)
    assert degrees.stages == degrees_shown(now).stages, "as many pipeline positions"
    if spec.placement is not ANY:
        assert job.copies == degrees.grid.copies


@pytest.mark.parametrize("name", NAMES)
def test_there_and_back(benches: dict[str, Explorer], name: str) -> None:
    now = benches["even"].now()
    if choice(now, name).problem:
        pytest.skip("cannot be had here")
    back = with_schedule(with_schedule(now, name), FALLBACK_SCHEDULE)
    was, found = degrees_shown(now), degrees_shown(back)
    assert (found.stages, found.replicas, found.chunks) == (was.stages, was.replicas, was.chunks)
    assert len(back.strategy.job.stages) == len(now.strategy.job.stages)


def test_the_picker_lists_them_all(benches: dict[str, Explorer]) -> None:
    rows = {row["value"]: row for row in field(benches["odd"], "schedule")["options"]}
    assert set(rows) == set(NAMES)
    for found in choices(benches["odd"].now()):
        row = rows[found.name]
        assert row["disabled"] == bool(found.problem)
        assert found.problem in row["label"]
    off = [name for name, row in rows.items() if row["disabled"]]
    assert "chimera" in off, "it needs an even number of stages"
    assert "2 or 4" in rows["chimera"]["label"], "the nearest"


@pytest.mark.parametrize("file", ["fields.py", "schedule_choice.py", "edits.py"])
def test_no_schedule_is_known_by_name(file: str) -> None:
    tree = ast.parse((WIDGETS / file).read_text(encoding="utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not texts & (set(NAMES) - {FALLBACK_SCHEDULE})


@pytest.mark.parametrize("name", NAMES)
def test_options_are_fields(benches: dict[str, Explorer], name: str) -> None:
    bench = benches["even"]
    if choice(bench.now(), name).problem:
        pytest.skip("cannot be had here")
    before = bench.history.at
    bench.set(schedule=name)
    spec = SCHEDULES.get(name)
    shown = [item["key"] for item in bench.controls.view["fields"] if item["key"].startswith(OPTION)]
    assert shown == [OPTION + option.name for option in spec.options]
    for option in spec.options:
        own = field(bench, OPTION + option.name)
        assert own["title"] == option.help
        value = dict(bench.strategy.job.options).get(option.name, option.default)
        assert str(own["value"]).lower() == str(value).lower()
        at = bench.history.at
        bench.controls.send_intent("set", key=own["key"], value=own["value"])
        assert dict(bench.strategy.job.options).get(option.name, option.default) == value, "as it was"
        bench.go(at)
    bench.go(before)


def test_an_option_changes_the_step_and_back(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    before, step = bench.history.at, bench.report.step_time_s
    bench.controls.send_intent("set", key="option.blocking", value="true")
    assert bench.strategy.job.options == (("blocking", True),)
    assert bench.report.step_time_s > step
    bench.controls.send_intent("set", key="option.blocking", value="false")
    assert bench.strategy.job.options == ()
    assert bench.report.step_time_s == step
    bench.go(before)


def test_a_wrong_option_is_said_at_its_field(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    before = bench.history.at
    bench.set(schedule="zb_auto")
    strategy = bench.strategy
    bench.controls.send_intent("set", key="option.limit", value=-1)
    assert bench.strategy is strategy
    assert field(bench, "option.limit")["error"] == "allowed: 0 or more"
    with pytest.raises(InputError, match="no option 'nosuch'"):
        bench.set(**{"option.nosuch": 1})
    bench.go(before)


def test_an_order_by_hand_begins_with_the_present_one(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    before, step = bench.history.at, bench.report.step_time_s
    bench.set(schedule="custom")
    assert bench.report.step_time_s == pytest.approx(step, rel=1e-12)
    lanes = str(field(bench, "option.lanes")["value"])
    bench.set(**{"option.lanes": lanes.replace("0F0 0F1", "0F1 0F0", 1)})
    assert bench.history.at == before + 2
    with pytest.raises(PlanError, match="never run forward"):
        bench.set(**{"option.lanes": lanes.replace("0F0 ", "", 1)})
    bench.set(stages=2)
    assert bench.strategy.job.schedule == FALLBACK_SCHEDULE, "an order by hand is of the former cut"
    assert "spelt out for" in bench.history.now.note
    bench.go(before)


def test_degrees_that_the_model_has(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    before = bench.history.at
    assert field(bench, "context")["value"] == 1
    assert not any(item["key"] == "expert" for item in bench.controls.view["fields"]), "no mixture"
    bench.set(stages=2)
    bench.set(context=2)
    assert field(bench, "context")["value"] == 2
    assert bench.strategy.job.stages[0].meshes[0].size("context") == 2
    bench.go(before)


def test_a_framework_is_chosen(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    before, step = bench.history.at, bench.report.step_time_s
    rows = [row["value"] for row in field(bench, "framework")["options"]]
    assert {"", "megatron-2021", "torch-eager"} <= set(rows)
    bench.controls.send_intent("set", key="framework", value="torch-eager")
    assert bench.workload.job.framework == "torch-eager"
    assert bench.report.step_time_s != step
    bench.controls.send_intent("set", key="framework", value="")
    assert bench.report.step_time_s == step
    bench.go(before)


def test_memory_may_be_asked_to_fit_for_sure(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    before, step = bench.history.at, bench.report.step_time_s
    assert field(bench, "memory_margin")["value"] == "likely"
    bench.controls.send_intent("set", key="memory_margin", value="surely")
    assert field(bench, "memory_margin")["value"] == "surely"
    assert bench.report.step_time_s == step
    bench.go(before)
    assert field(bench, "memory_margin")["value"] == "likely"


def test_a_gesture_is_answered_with_the_choices_at_hand_and_the_bar_follows(
    benches: dict[str, Explorer],
) -> None:
    before = benches["even"].now()
    asked = choices(before)
    after = set_field(before, "microbatch_size", 2)
    assert "schedules" not in after.outcome.kept
    assert choices_at_hand(after, before) is asked
    assert "schedules" not in after.outcome.kept, "nothing was asked"
    assert choices_at_hand(after, None) == choices(after)
    assert choices_at_hand(after, before) is choices(after), "once they are known they are shown"


def test_the_bar_ends_with_what_the_state_shown_can_have(benches: dict[str, Explorer]) -> None:
    bench = benches["even"]
    bench.set(stages=3)
    try:
        offered = {row["value"]: row["disabled"] for row in field(bench, "schedule")["options"]}
        assert offered == {item.name: bool(item.problem) for item in choices(bench.now())}
    finally:
        bench.undo()
