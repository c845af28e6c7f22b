"""The What-if tab without a browser: sliders re-simulate, Apply changes, curves come in slices."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

import explorer as core
from explorer.sweep import vary
from tests.support import view_shapes as shapes
from widgets import Explorer
from widgets.whatif.curve_words import curve_html, default_values
from widgets.whatif.words import stops


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = make()
    yield found
    found.close()


def make(**more: Any) -> Explorer:
    found = Explorer("gpt2-small", "dgx-a100", **{"global_batch": 32, "session": False} | more)
    assert not found.error
    return found


def move(bench: Explorer, key: str, value: Any) -> dict[str, Any]:
    bench.what_if_panel.sliders.send_intent("set", key=f"whatif_{key}", value=value)
    return dict(bench.what_if_panel.sliders.view)


def slider(bench: Explorer, key: str) -> dict[str, Any]:
    view = bench.what_if_panel.sliders.view
    return next(item for item in view["sliders"] if item["key"] == f"whatif_{key}")


# ---- sliders


def test_a_slider_simulates_and_changes_nothing(bench: Explorer) -> None:
    before = bench.history.now
    view = move(bench, "bandwidth", 0.1)
    TypeAdapter(shapes.WhatIfView).validate_python(view)
    own = vary(before.resolved(), {"bandwidth": 0.1}).report()
    rows = {row["key"]: row for row in view["rows"]}
    assert rows["step_time"]["now"] == before.report.step_time_s
    assert rows["step_time"]["then"] == own.step_time_s > before.report.step_time_s
    assert bench.history.now is before
    assert "Bandwidth 0.1 ×: fits" in view["verdict"]["text"]
    assert "not applied" in view["note"]


@pytest.mark.parametrize("key", ["bandwidth", "global_batch", "devices"])
def test_every_stop_is_a_value_that_can_be(bench: Explorer, key: str) -> None:
    bench.set(microbatch_size=1)  # the smallest, so that the most replicas divide the batch
    found = stops(bench.history.now, key)
    assert found == sorted(set(found))
    assert slider(bench, key)["now"] in found
    assert len(found) >= 5
    for value in found:
        view = move(bench, key, value)
        assert "impossible" not in view["verdict"]["text"], (key, value)
        assert slider(bench, key)["value"] == value


def test_several_numbers_at_once_and_back(bench: Explorer) -> None:
    move(bench, "global_batch", 64)
    view = move(bench, "devices", 16)
    both = vary(bench.history.now.resolved(), {"global_batch": 64, "devices": 16}).report()
    assert view["rows"][0]["then"] == both.step_time_s
    bench.what_if_panel.sliders.send_intent("action", action="whatif_reset")
    assert bench.what_if_panel.changes == {}
    assert all(row["then"] == row["now"] for row in bench.what_if_panel.sliders.view["rows"])
    move(bench, "global_batch", 64)
    assert move(bench, "global_batch", 32)["verdict"]["level"] == "none"


@pytest.mark.parametrize("wrong", ["many", -3, 0, 1.5, float("inf"), None, ""])
def test_a_wrong_number_is_said_at_its_field_and_nothing_is_lost(bench: Explorer, wrong: Any) -> None:
    move(bench, "global_batch", 64)
    move(bench, "devices", wrong)
    field = slider(bench, "devices")
    assert "a whole number of 1 or more" in field["error"]
    assert field["typed"] == str(wrong)
    assert bench.what_if_panel.changes == {"global_batch": 64.0}
    assert not bench.error
    move(bench, "devices", 8)
    assert slider(bench, "devices")["error"] is None


def test_what_cannot_be_is_said_in_words(bench: Explorer) -> None:
    view = move(bench, "devices", 7)
    assert view["verdict"]["level"] == "bad"
    assert "a multiple of" in view["verdict"]["text"]
    assert all(row["then"] is None for row in view["rows"])
    assert not {a["action"]: a for a in view["actions"]}["whatif_apply"]["enabled"]


def test_what_would_not_fit_says_by_how_much() -> None:
    bench = Explorer("llama3-8b", "dgx-a100", global_batch=64, session=False)
    view = move(bench, "sequence_length", 65536)
    assert view["verdict"]["level"] == "bad"
    assert "over capacity" in view["verdict"]["text"]
    assert {row["key"]: row for row in view["rows"]}["memory"]["level"] == "bad"
    bench.close()


def test_a_sequence_that_the_model_cannot_read_is_said_in_its_words(bench: Explorer) -> None:
    assert "1024 learned positions" in move(bench, "sequence_length", 65536)["verdict"]["text"]


def test_apply_makes_batch_sequence_and_devices_the_plans(bench: Explorer) -> None:
    before = bench.history.now
    for key, value in (("global_batch", 64), ("sequence_length", 512), ("devices", 4), ("bandwidth", 2)):
        move(bench, key, value)
    expected = vary(before.resolved(), {"global_batch": 64, "sequence_length": 512, "devices": 4}).report()
    bench.what_if_panel.sliders.send_intent("action", action="whatif_apply")
    assert not bench.error
    assert bench.report.step_time_s == expected.step_time_s
    assert bench.workload.job.sequence_length == 512
    assert bench.history.now.inputs.model.sequence_length == 512
    assert len(bench.report.devices) == 4
    assert bench.what_if_panel.changes == {"bandwidth": 2.0}, "what cannot be applied stays moved"
    assert bench.history.now.plan().workload.job.global_batch == 64
    bench.undo()
    assert bench.history.now is before


def test_more_devices_than_the_cluster_has_are_not_applied(bench: Explorer) -> None:
    before = bench.history.now
    view = move(bench, "devices", 16)
    assert "more cannot be applied" in view["note"]
    bench.what_if_panel.sliders.send_intent("action", action="whatif_apply")
    assert bench.history.now is before
    assert "nothing to apply" in bench.error


def test_an_edit_keeps_what_was_moved_and_compares_anew(bench: Explorer) -> None:
    move(bench, "bandwidth", 0.1)
    bench.set(zero=1)
    view = bench.what_if_panel.sliders.view
    own = vary(bench.history.now.resolved(), {"bandwidth": 0.1}).report()
    assert view["rows"][0]["then"] == own.step_time_s
    bench.set(global_batch=64)
    assert slider(bench, "global_batch")["now"] == 64


def test_models_without_sequences_have_no_such_slider() -> None:
    bench = Explorer("resnet50", "dgx-a100", session=False)
    keys = [item["key"] for item in bench.what_if_panel.sliders.view["sliders"]]
    assert "whatif_sequence_length" not in keys
    values = [o["value"] for o in bench.what_if_panel.curve.controls.view["fields"][0]["options"]]
    assert "sequence_length" not in values
    bench.close()


def test_nothing_loaded_is_an_empty_state() -> None:
    bench = Explorer("no-such-model", "dgx-a100", session=False)
    assert bench.what_if_panel.sliders.view == {}
    assert bench.what_if_panel.curve.controls.view["fields"] == []
    bench.close()


# ---- curves


def with_loop(scenario: Callable[[Explorer], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        bench = make()

        async def nothing() -> None:
            """The chart has a test of its own: its library takes seconds."""

        bench.what_if_panel.curve._make_figure = nothing
        try:
            await scenario(bench)
        finally:
            bench.close()

    asyncio.run(run())


async def until(there: Callable[[], bool]) -> None:
    for _ in range(300_000):
        if there():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it never came")


async def drawn(bench: Explorer, **fields: str) -> None:
    curve = bench.what_if_panel.curve
    for key, value in fields.items():
        curve.controls.send_intent("set", key=f"sweep_{key}", value=value)
    curve.controls.send_intent("action", action="sweep_draw")
    assert curve.running
    await until(lambda: not curve.running)


def test_a_curve_is_simulated_value_by_value() -> None:
    async def scenario(bench: Explorer) -> None:
        curve = bench.what_if_panel.curve
        await drawn(bench, values="4, 8,16,5")
        assert [row.value for row in curve.rows] == [4, 5, 8, 16]
        assert "4 of 4 values simulated" in curve.status.value
        assert "8 (now)" in curve.table.value
        assert "impossible" in curve.table.value
        assert "a multiple of" in curve.table.value
        assert "100.0 %" in curve.table.value
        assert "Replicas follow" in curve.status.value
        assert not bench.error

    with_loop(scenario)


def test_weak_scaling_is_said_and_done() -> None:
    async def scenario(bench: Explorer) -> None:
        curve = bench.what_if_panel.curve
        await drawn(bench, scaling="weak", values="8,16")
        assert [row.report.global_batch for row in curve.rows if row.report] == [32, 64]
        assert "the global batch grows" in curve.status.value
        await drawn(bench, over="bandwidth")
        assert "scaling" not in curve.status.value
        assert "efficiency" not in curve.table.value

    with_loop(scenario)


def test_stop_keeps_what_was_found_and_a_new_plan_makes_it_old() -> None:
    async def scenario(bench: Explorer) -> None:
        curve = bench.what_if_panel.curve
        curve.controls.send_intent("action", action="sweep_draw")
        await until(lambda: bool(curve.rows))
        curve.controls.send_intent("action", action="sweep_stop")
        found = len(curve.rows)
        await asyncio.sleep(0.05)
        assert not curve.running
        assert len(curve.rows) == found < curve.wanted
        assert "stopped" in curve.status.value
        bench.set(zero=1)
        await until(lambda: "Of a former plan" in curve.status.value)
        first = bench.history.points[0]
        for level in (2, 3, 0):
            bench.set(zero=level)
            curve.draw()
        assert not first.outcome.whole, "the curve does not bring its prediction back"
        bench.set(model="gpt2-medium")
        assert not curve.rows

    with_loop(scenario)


@pytest.mark.parametrize("wrong", ["a,2", "0", "-1", "", ",", "1e999", ",".join(map(str, range(1, 60)))])
def test_wrong_values_are_said_at_the_field(bench: Explorer, wrong: str) -> None:
    curve = bench.what_if_panel.curve
    curve.controls.send_intent("set", key="sweep_values", value=wrong)
    field = next(item for item in curve.controls.view["fields"] if item["key"] == "sweep_values")
    assert field["error"]
    assert field["value"] == wrong
    buttons = {item["action"]: item for item in curve.controls.view["buttons"]}
    assert not buttons["sweep_draw"]["enabled"]
    curve.controls.send_intent("set", key="sweep_over", value="stages")
    assert not any(item.get("error") for item in curve.controls.view["fields"])


@pytest.mark.parametrize("key", list(core.sweep.KEYS))
def test_proposed_values_hold_the_present_one(bench: Explorer, key: str) -> None:
    values = default_values(bench.history.now, key)
    rows = core.sweep.sweep(bench.resolved(), key, values)
    assert values == sorted(values)
    assert sum(row.report is not None for row in rows) >= 3
    now = [row for row in rows if row.report and row.report.step_time_s == bench.report.step_time_s]
    assert now


def test_the_table_escapes_what_it_is_told() -> None:
    point = {"value": 1.0, "now": False, "problem": "<img src=x>", "feasible": False, "step_time_s": None}
    assert "<img" not in curve_html("devices", [point], tokens=False)


def test_plotly_is_not_imported_before_a_curve_is_drawn(bench: Explorer) -> None:
    assert bench.what_if_panel.curve.figure is None
    if "plotly" not in sys.modules:
        move(bench, "bandwidth", 2)
        assert "plotly" not in sys.modules


def test_the_chart_shows_the_points(bench: Explorer) -> None:
    sweepchart = pytest.importorskip("widgets.whatif.chart")
    pytest.importorskip("plotly")
    chart = sweepchart.SweepChart()
    from explorer.views.sweep_view import curve_points

    rows = core.sweep.sweep(bench.resolved(), "devices", [4, 8, 16])
    points = curve_points("devices", rows, now=bench.report, now_value=8, tokens=1024)
    chart.draw("devices", points, tokens=True, ideal=True, theme="dark")
    assert list(chart.traces["throughput"].x) == [4, 8, 16]
    assert list(chart.traces["throughput now"].x) == [8]
    assert list(chart.traces["second"].y)[1] == pytest.approx(100)
    start = points[1]
    assert list(chart.traces["ideal"].y) == pytest.approx([start["throughput"] * f for f in (0.5, 1, 2)])
    assert not chart.traces["capacity"].x
    rows = core.sweep.sweep(bench.resolved(), "sequence_length", [512, 1024])
    points = curve_points("sequence_length", rows, now=bench.report, now_value=1024, tokens=1024)
    points.append(points[0] | {"value": 65536.0, "feasible": False, "memory": 1.5})
    chart.draw("sequence_length", points, tokens=True, ideal=False, theme="light")
    assert list(chart.traces["second lacks"].x) == [65536]
    assert not chart.traces["ideal"].x
    chart.draw("sequence_length", [], tokens=True, ideal=True, theme="light")
    assert not chart.traces["throughput"].x
    assert len(chart.widget.data) == len(chart.traces), "drawn in place"
