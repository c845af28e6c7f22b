"""The Search tab without a browser: what is asked, what is shown in each state, and gestures meanwhile."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from ipywidgets import Label
from pydantic import TypeAdapter

from explorer.base.errors import InputError
from explorer.base.units import format_bytes
from explorer.search import SEARCHERS, Evaluator, Problem, Searcher, Space
from explorer.strategies.uniform import uniform
from tests.support import view_shapes as shapes
from widgets import Explorer
from widgets.holds import Holds
from widgets.search.labels import place
from widgets.search.objective_fields import AXIS_KEYS
from widgets.search.placing import ChartPlace
from widgets.search.points import Frame
from widgets.search.task import FAILED, SearchTask, Walk
from widgets.search.words import held_words

LIMIT_S = 600


@pytest.fixture(autouse=True)
def no_chart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plotly takes seconds, and has tests of its own."""

    async def nothing(self: ChartPlace) -> None: ...

    monkeypatch.setattr(ChartPlace, "make", nothing)


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32)
    found.set(stages=4)
    assert not found.error
    yield found
    found.close()


@pytest.fixture
def searcher() -> Iterator[Callable[..., None]]:
    """`searcher(name, function)` registers one for the test."""
    names = []

    def add(name: str, function: Callable[..., Any], **facts: Any) -> None:
        SEARCHERS.names()
        SEARCHERS.add(Searcher(name=name, title=name, space=Space(words="anything"), **facts))(function)
        names.append(name)

    yield add
    for name in names:
        SEARCHERS._entries.pop(name, None)


def endless(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
    """Finds one strategy, then goes on for ever."""
    strategy = uniform(problem.graph, problem.cluster, problem.workload.job, stages=2, replicas=4)  # type: ignore[arg-type]
    yield evaluator.evaluate(strategy, "two stages")
    while True:
        time.sleep(0.001)
        yield None


def broken(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
    """Stops with an error of its own."""
    del problem, evaluator
    yield None
    raise ValueError("out of paint")


def play(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a scenario on an event loop, not for ever."""
    asyncio.run(asyncio.wait_for(scenario(), LIMIT_S))


async def until(done: Callable[[], bool]) -> None:
    while not done():  # noqa: ASYNC110 - what is waited for is a view, which knows no event
        await asyncio.sleep(0.01)


async def ended(bench: Explorer) -> None:
    await until(lambda: not bench.search_panel.task.running)


def rows(bench: Explorer) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in bench.search_panel.leaderboard.view["rows"]}


def field(bench: Explorer, key: str) -> dict[str, Any]:
    return next(item for item in bench.search_panel.controls.view["fields"] if item["key"] == key)


def valid(bench: Explorer) -> None:
    TypeAdapter(shapes.LeaderboardView).validate_python(bench.search_panel.leaderboard.view)
    TypeAdapter(shapes.ControlsView).validate_python(bench.search_panel.controls.view)


# ---- states -------------------------------------------------------------------------------------


def test_before_any_search_yours_is_the_only_row(bench: Explorer) -> None:
    valid(bench)
    view = bench.search_panel.leaderboard.view
    assert view["state"] == "empty"
    assert list(rows(bench)) == ["yours"]
    assert rows(bench)["yours"]["gap"] == pytest.approx(
        bench.report.step_time_s / view["bound"]["value_s"] - 1
    )
    assert repr(bench.search_panel.leaderboard) == (
        f"<Leaderboard: 1 result, best of yours: {rows(bench)['yours']['label']}>"
    )


def test_a_search_to_its_end_and_its_best_on_the_board(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.searcher = "megatron"
        bench.controls.send_intent("action", action="search")
        assert bench.tabs_title() == "Search"
        assert bench.tiles.view["verdict"]["level"] == "busy"
        assert not {b["action"]: b for b in bench.controls.view["buttons"]}["search"]["enabled"]
        await ended(bench)
        best = bench.search_panel.task.progress.best
        assert {b["action"]: b for b in bench.controls.view["buttons"]}["search"]["enabled"]
        assert rows(bench)["megatron"]["step_s"] == best.report.step_time_s
        before = bench.strategy
        bench.search_panel.leaderboard.send_intent("load", row="megatron")
        assert bench.strategy == best.strategy
        assert bench.plan.provenance.searcher == "megatron"
        assert bench.search_panel.leaderboard.view["said"].startswith("megatron's strategy is on the board")
        assert rows(bench)["megatron"]["on_board"]
        assert bench.search_panel.leaderboard.selected == "megatron"
        bench.search_panel.leaderboard.send_intent("action", action="undo")
        assert bench.strategy == before
        # the table follows as soon as the loop is free
        await until(lambda: bench.search_panel.leaderboard.view["said"] is None)
        bench.use_best()
        assert bench.strategy == best.strategy
        assert not bench.error
        valid(bench)

    play(scenario)


def test_comparing_all_fills_a_row_for_every_searcher(bench: Explorer) -> None:
    task = bench.search_panel.task

    def enough() -> bool:
        """Whether the one at work has a plan, or is a planner that was begun: each may take its seconds."""
        run = task.entrants[task.name].run
        return run is not None and (run.best is not None or SEARCHERS.get(task.name).alone)

    async def scenario() -> None:
        bench.search_budget_s = 3600.0
        bench.search_panel.controls.send_intent("action", action="compare_all")
        waiting = [row["answer"] for row in rows(bench).values() if row["id"] != "yours"]
        assert set(waiting) <= {"waiting", "searching"}
        assert "Comparing" in bench.tiles.view["verdict"]["text"]
        while task.running:
            if enough():
                bench.search_panel.skip()
            await asyncio.sleep(0.01)
        found = rows(bench)
        assert set(found) == {*SEARCHERS.names(), "yours"}
        assert all(row["step_s"] for name, row in found.items() if name in ("auto", "local", "exhaustive"))
        # those that go on from yours are never worse
        assert all(found[name]["step_s"] <= found["yours"]["step_s"] for name in ("auto", "local"))
        valid(bench)
        point = bench.search_panel.leaderboard.view["points"][-1]
        bench.search_panel.leaderboard.send_intent("load_point", point=point["id"])
        assert bench.report.step_time_s == point["step_s"]
        assert max(bench.report.peak_memory_bytes) == point["peak_bytes"]
        bench.search_panel.leaderboard.send_intent("load_point", point="gone")
        assert "no longer on the frontier" in bench.error

    play(scenario)


def test_stopping_keeps_what_was_found(bench: Explorer, searcher: Callable[..., None]) -> None:
    searcher("endless", endless)

    async def scenario() -> None:
        bench.search_panel.start(["endless", "megatron"])
        await until(lambda: bool(bench.search_panel.task.runs))
        bench.tiles.send_intent("action", action="stop")
        assert not bench.search_panel.task.running
        assert rows(bench)["endless"]["answer"] == "stopped"
        assert rows(bench)["endless"]["loadable"]
        assert rows(bench)["megatron"]["label"] == "nothing"
        assert bench.tiles.view["verdict"]["text"].startswith("**Stopped.**")
        before = [t for t in threading.enumerate() if t.name == "search"]
        await until(lambda: not any(t.is_alive() for t in before))

    play(scenario)


def test_one_of_several_is_skipped_and_the_next_begins(
    bench: Explorer, searcher: Callable[..., None]
) -> None:
    searcher("endless", endless)

    async def scenario() -> None:
        bench.search_budget_s = 600.0
        bench.search_panel.start(["endless", "even"])
        await until(lambda: "endless" in bench.search_panel.task.runs)
        await until(lambda: bool(bench.search_panel.task.runs["endless"].best))
        bench.search_panel.draw()
        labels = {b["action"]: b["label"] for b in bench.search_panel.controls.view["buttons"]}
        assert labels["skip"] == "Skip endless"
        bench.search_panel.controls.send_intent("action", action="skip")
        await ended(bench)
        assert rows(bench)["endless"]["answer"] == "stopped"
        assert rows(bench)["endless"]["loadable"], "what it found stays"
        assert rows(bench)["even"]["answer"] == "ended"
        assert "skip" not in {b["action"] for b in bench.search_panel.controls.view["buttons"]}
        valid(bench)

    play(scenario)


def test_some_searchers_are_compared_by_name(bench: Explorer) -> None:
    async def scenario() -> None:
        send = bench.search_panel.controls.send_intent
        send("set", key="compared", value="megatron, even,megatron")
        assert field(bench, "compared")["value"] == "megatron, even"
        send("set", key="compared", value="even, nobody")
        assert field(bench, "compared")["error"].startswith("all, or some of auto")
        assert bench.search_panel.settings.compared == ("megatron", "even"), "a wrong name changes nothing"
        send("set", key="compared", value="megatron, even")
        labels = {b["action"]: b["label"] for b in bench.search_panel.controls.view["buttons"]}
        assert labels["compare_all"] == "Compare 2"
        send("action", action="compare_all")
        await ended(bench)
        assert set(rows(bench)) == {"even", "megatron", "yours"}
        send("set", key="compared", value="")
        assert field(bench, "compared")["value"] == "all"
        valid(bench)

    play(scenario)


def test_what_a_searcher_cannot_do_is_said_in_its_row(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.search_panel.controls.send_intent("set", key="objective", value="cost")
        bench.search_panel.start(["tarnawski_linear", "spp", "even"])
        await ended(bench)
        row = rows(bench)["tarnawski_linear"]
        assert row["answer"] == "cannot"
        assert row["label"] == "objective: tarnawski_linear cannot search for cost (allowed: time)"
        assert rows(bench)["even"]["value"] is not None
        said = bench.tiles.view["verdict"]["text"]
        assert "tarnawski_linear cannot do it: objective: " in said
        assert "1 more has no answer either" in said
        assert not bench.error
        valid(bench)

    play(scenario)


def test_a_result_is_set_beside_the_plan_shown(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.search_panel.start(["megatron"])
        await ended(bench)
        buttons = bench.search_panel.controls.view["buttons"]
        assert "compare_found" not in {b["action"] for b in buttons}, "no row is selected"
        bench.search_panel.leaderboard.selected = "megatron"
        labels = {b["action"]: b["label"] for b in bench.search_panel.controls.view["buttons"]}
        assert labels["compare_found"] == "A/B with megatron"
        before = bench.strategy
        bench.search_panel.controls.send_intent("action", action="compare_found")
        assert bench.tabs_title() == "Compare"
        assert bench.strategy == before, "the board stays yours"
        best = bench.search_panel.task.runs["megatron"].best
        assert bench.now().other.strategy == best.strategy
        assert bench.now().other.note == "found by megatron"
        bench.search_panel.leaderboard.selected = "yours"
        bench.search_panel.controls.send_intent("action", action="compare_found")
        assert "yours has no plan to compare with" in bench.error

    play(scenario)


def test_curves_hold_evaluations_and_seconds(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.search_panel.controls.send_intent("set", key="curves_over", value="evaluations")
        assert bench.search_panel.settings.over == "evaluations"
        bench.search_panel.controls.send_intent("set", key="curves_over", value="moons")
        assert field(bench, "curves_over")["error"] == "seconds or evaluations"
        bench.search_panel.start(["megatron"])
        await ended(bench)
        entrant = bench.search_panel.task.entrants["megatron"]
        assert entrant.curve[-1].value == entrant.run.best.value
        assert 1 <= entrant.curve[-1].evaluations <= entrant.run.evaluations
        assert 0 < entrant.curve[-1].seconds <= entrant.run.wall_s

    play(scenario)


def test_a_budget_ends_it(bench: Explorer, searcher: Callable[..., None]) -> None:
    searcher("endless", endless)

    async def scenario() -> None:
        bench.search_panel.controls.send_intent("set", key="search_budget_s", value="0.3")
        assert bench.search_budget_s == 0.3
        bench.search_panel.start(["endless"])
        await ended(bench)
        assert rows(bench)["endless"]["answer"] == "best so far"
        assert "time is up" in bench.tiles.view["verdict"]["text"]

    play(scenario)


def test_a_failure_is_said_and_former_results_stay(bench: Explorer, searcher: Callable[..., None]) -> None:
    async def scenario() -> None:
        searcher("fragile", endless)
        bench.search_panel.start(["fragile"])
        await until(lambda: bool((run := bench.search_panel.task.runs.get("fragile")) and run.best))
        bench.search_panel.stop()
        step_s = rows(bench)["fragile"]["step_s"]
        searcher("fragile", broken)
        bench.search_panel.start(["fragile"])
        await ended(bench)
        assert "out of paint" in bench.error
        assert bench.tiles.view["verdict"]["level"] == "bad"
        row = rows(bench)["fragile"]
        assert (row["answer"], row["level"], row["step_s"]) == ("failed", "bad", step_s)
        assert "this one failed: out of paint" in row["note"]
        # in a comparison the others go on
        bench.search_budget_s = 3600.0
        bench.search_panel.start(["fragile", "even"])
        await ended(bench)
        assert bench.search_panel.task.entrants["fragile"].state == FAILED
        assert rows(bench)["even"]["answer"] == "ended"
        bench.searcher = "nobody"
        bench.controls.send_intent("action", action="search")
        assert "nobody" in bench.error

    play(scenario)


def test_nothing_that_fits_is_said_with_the_closest(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.search_panel.controls.send_intent("set", key="memory_limit", value="0.001")
        bench.search_panel.start(["even"])
        await ended(bench)
        assert rows(bench)["even"]["label"] == "nothing that fits"
        assert rows(bench)["yours"]["answer"] == "does not fit"
        assert bench.tiles.view["verdict"]["level"] == "warn"
        own = bench.search_panel.yours().over_bytes
        near = bench.search_panel.task.closest.over_bytes
        said = bench.tiles.view["verdict"]["text"]
        if own <= near:
            assert f"Yours comes closest: it lacks {format_bytes(own)} over all lanes" in said
        else:
            lacks = f"{format_bytes(near)} over all lanes, yours {format_bytes(own)}"
            assert f"The closest lacks {lacks}" in said
        with pytest.raises(InputError, match="has found nothing"):
            bench.search_panel.load("even")

    play(scenario)


def test_pins_that_no_candidate_respects_are_named(bench: Explorer) -> None:
    async def scenario() -> None:
        block = bench.board.blocks[4]["layers"]
        bench.pin([layer["id"] for layer in block])
        held = held_words(bench.history.now.holds)
        bench.set(microbatch_size=1)
        bench.search_panel.start(["megatron"])  # one stage on all devices comes first, and fits
        await ended(bench)
        assert rows(bench)["megatron"]["label"] == f"no strategy that respects {held}"
        assert f"megatron found no strategy that respects {held}" in bench.tiles.view["verdict"]["text"]
        bench.search_budget_s = 2.0
        bench.search_panel.start(["local"])
        await ended(bench)
        run = bench.search_panel.task.runs["local"]
        assert run.best.value <= bench.report.step_time_s
        bench.search_panel.load("local")
        assert bench.history.now.holds.pinned == {layer["id"] for layer in block}, "nothing was released"

    play(scenario)


def test_a_result_that_would_release_pins_says_so(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.search_panel.start(["megatron"])
        await ended(bench)
        assert rows(bench)["megatron"]["note"] == ""
        bench.pin([layer["id"] for layer in bench.board.blocks[4]["layers"]])
        count = len(bench.board.blocks[4]["layers"])
        await until(lambda: rows(bench)["megatron"]["note"] == f"loading it releases {count} pins")

    play(scenario)


def test_other_inputs_end_it_and_another_strategy_does_not(
    bench: Explorer, searcher: Callable[..., None]
) -> None:
    searcher("endless", endless)

    async def scenario() -> None:
        bench.search_panel.start(["endless"])
        await until(lambda: bool(bench.search_panel.task.runs))
        bench.set(recompute="full")
        await until(lambda: rows(bench)["yours"]["step_s"] == bench.report.step_time_s)
        row = rows(bench)["endless"]
        assert bench.search_panel.task.running
        assert row["change"] == pytest.approx(row["step_s"] / bench.report.step_time_s - 1)
        bench.set(global_batch=64)
        assert not bench.search_panel.task.running
        assert list(rows(bench)) == ["yours"]
        assert bench.search_panel.leaderboard.view["state"] == "empty"

    play(scenario)


# ---- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("search_budget_s", "long", "a number of seconds, above 0, at most 86400"),
        ("search_budget_s", "-3", "a number of seconds, above 0, at most 86400"),
        ("search_budget_s", "inf", "a number of seconds, above 0, at most 86400"),
        ("memory_limit", "much", "a number of GiB above 0, or empty for none, at most 1e+06"),
        ("memory_limit", "0", "a number of GiB above 0, or empty for none, at most 1e+06"),
        ("max_devices", "9", "1 to 8 devices"),
        ("max_devices", "two", "1 to 8 devices"),
        ("min_throughput", "fast", "samples a second above 0, or empty for any, at most 1e+12"),
        ("objective", "beauty", "time, memory, devices, cost, energy"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(bench: Explorer, key: str, value: str, said: str) -> None:
    before = (bench.search_panel.settings, bench.search_budget_s)
    bench.search_panel.controls.send_intent("set", key=key, value=value)
    assert field(bench, key)["error"] == said
    assert field(bench, key)["value"] == value, "what was typed stays"
    assert (bench.search_panel.settings, bench.search_budget_s) == before
    good = {
        "search_budget_s": "5", "memory_limit": "40", "min_throughput": "2.5", "max_devices": "4",
        "objective": "memory",
    }[key]  # fmt: skip
    bench.search_panel.controls.send_intent("set", key=key, value=good)
    assert field(bench, key).get("error") is None
    assert field(bench, key)["value"] == good


def test_settings_reach_the_problem(bench: Explorer) -> None:
    typed = {"objective": "cost", "memory_limit": "30 GiB", "max_devices": "4", "min_throughput": "12"}
    for key, value in typed.items():
        bench.search_panel.controls.send_intent("set", key=key, value=value)
    problem = bench.search_panel.problem(bench.now(), start=True)
    assert (problem.objective, problem.memory_limit_bytes, problem.max_devices) == ("cost", 30 * 2.0**30, 4)
    assert problem.min_samples_per_s == 12
    assert problem.start is bench.strategy
    view = bench.search_panel.leaderboard.view
    assert view["objective"] == {"name": "cost", "unit": "dollars"}
    assert view["bound"] is None
    valid(bench)
    for key in ("memory_limit", "max_devices", "min_throughput"):
        bench.search_panel.controls.send_intent("set", key=key, value="")
    problem = bench.search_panel.problem(bench.now(), start=False)
    assert (problem.memory_limit_bytes, problem.max_devices, problem.start) == (0.0, 0, None)
    assert problem.min_samples_per_s == 0


def test_a_plan_that_is_too_slow_is_said_to_be(bench: Explorer) -> None:
    reached = bench.workload.job.global_batch / bench.report.step_time_s
    bench.search_panel.controls.send_intent("set", key="min_throughput", value=f"{2 * reached}")
    yours = next(row for row in bench.search_panel.leaderboard.view["rows"] if row["id"] == "yours")
    assert (yours["answer"], yours["level"], yours["value"]) == ("too slow", "bad", None)
    bench.search_panel.controls.send_intent("set", key="min_throughput", value=f"{reached / 2}")
    yours = next(row for row in bench.search_panel.leaderboard.view["rows"] if row["id"] == "yours")
    assert (yours["answer"], yours["level"]) == ("", None)


# ---- beside the board ---------------------------------------------------------------------------


def test_gestures_during_a_search_are_answered_and_rest_it(
    bench: Explorer, searcher: Callable[..., None]
) -> None:
    """Steps wait while somebody is at work on the board; the search goes on afterwards."""
    steps: list[int] = []

    def counted(problem: Problem, evaluator: Evaluator) -> Iterator[Any]:
        for item in endless(problem, evaluator):
            steps.append(1)
            yield item

    searcher("counted", counted)

    async def scenario() -> None:
        bench.search_panel.start(["counted"])
        await until(lambda: len(steps) > 5)
        layers = [layer["id"] for layer in bench.board.blocks[3]["layers"]]
        bench.board.send_intent("move", layers=layers, to_lane="2")
        assert not bench.error
        assert bench.board.view["can_undo"]
        with bench.lock:
            before = len(steps)
            await asyncio.sleep(0.1)
            assert len(steps) <= before + 1, "only a step that had begun may end"
        bench.undo()
        assert bench.search_panel.task.running
        await until(lambda: len(steps) > before + 5)
        bench.search_panel.stop()

    play(scenario)


def test_without_threads_slices_of_the_loop_do_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    walk = Walk(iter([1, 2, 3]), lambda: True)  # type: ignore[list-item]
    walk.start()
    assert not walk.threaded
    walk.go()
    assert walk.ended
    assert walk.take() == [1, 2, 3]
    assert walk.take() == []


def test_spots_are_thinned_evenly_and_stay_few(bench: Explorer) -> None:
    async def scenario() -> None:
        bench.search_panel.start(["exhaustive"])
        await ended(bench)
        run = bench.search_panel.task.runs["exhaustive"]
        assert run.best is not None
        task = SearchTask(threading.RLock(), lambda: None)
        one = replace(run, new=run.best)
        for _ in range(5000):
            task._note("x", one)
        assert 150 <= len(task.spots) <= 400

    play(scenario)


def test_a_chart_that_cannot_be_made_is_said_and_the_search_goes_on(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(self: ChartPlace) -> None:
        raise ModuleNotFoundError("No module named 'plotly'")

    monkeypatch.setattr(ChartPlace, "make", refuse)

    async def scenario() -> None:
        bench.search_panel.start(["even"])
        await ended(bench)
        await until(lambda: "plotly" in bench.error)
        assert rows(bench)["even"]["loadable"]
        assert bench.search_panel.chart.box.children == ()

    play(scenario)


def test_a_chart_that_did_not_start_is_made_again(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Label] = []

    async def make(self: ChartPlace) -> None:
        made.append(Label())
        self.figure = SimpleNamespace(widget=made[-1], draw=lambda *_, **__: None)
        self.box.children = (made[-1],)
        self._shown()

    monkeypatch.setattr(ChartPlace, "make", make)
    panel = bench.search_panel

    async def scenario() -> None:
        panel.leaderboard.send_intent("chart_again")  # before there is one: nothing to make again
        panel.start(["even"])
        await ended(bench)
        await until(lambda: panel.leaderboard.charts == 1)
        panel.leaderboard.send_intent("chart_again")
        await until(lambda: panel.leaderboard.charts == 2)
        assert panel.chart.box.children == (made[1],)
        assert made[0].comm is None, "the first one is closed"

    play(scenario)


def test_held_words() -> None:
    assert held_words(Holds()) == ""
    assert held_words(Holds(pinned=frozenset({"a"}))) == "1 pin"
    assert (
        held_words(Holds(pinned=frozenset({"a"}), locked=frozenset({(0,), (1,)})))
        == "1 pin and 2 locked lanes"
    )


# ---- names in the chart -------------------------------------------------------------------------


def test_names_of_points_close_together_stand_on_different_sides() -> None:
    points = [(50.0, 5.0), (51.0, 5.02), (50.5, 5.05), (10.0, 9.0)]
    frame, size = Frame(0.0, 100.0, 4.0, 10.0), (400.0, 250.0)
    sides = place(points, ["auto", "exhaustive", "local", "yours"], frame, size)
    assert len(set(sides[:3])) == 3
    assert place([(99.0, 5.0)], ["a long name"], frame, size)[0].endswith("left")


def test_names_leave_room_for_points_without_names() -> None:
    one, ends, size = [(5.0, 5.0)], Frame(0.0, 10.0, 0.0, 10.0), (400.0, 400.0)
    (free,) = place(one, ["auto"], ends, size)
    assert free == "top right"
    crowd = [(5.0 + i / 10, 5.0 + k / 10) for i in range(2, 12) for k in range(2, 8)]
    (moved,) = place(one, ["auto"], ends, size, crowd)
    assert moved == "bottom right"


# ---- frontiers ----------------------------------------------------------------------------------


def choose(bench: Explorer, key: str, value: str) -> None:
    bench.search_panel.controls.send_intent("set", key=key, value=value)


def axis_values(bench: Explorer) -> list[str]:
    shown = {item["key"]: item["value"] for item in bench.search_panel.controls.view["fields"]}
    return [shown[key] for key in AXIS_KEYS if key in shown]


def test_a_frontier_has_a_field_for_each_axis(bench: Explorer) -> None:
    assert axis_values(bench) == []
    assert field(bench, "objective")["options"][-1] == {"value": "frontier", "label": "frontier of several"}
    choose(bench, "objective", "cost")
    choose(bench, "objective", "frontier")
    assert axis_values(bench) == ["cost", "time", ""], "it begins with what was minimized before"
    choose(bench, "axis_colour", "devices")
    assert bench.search_panel.settings.objective == "frontier:cost,time,devices"
    choose(bench, "axis_up", "devices")
    assert axis_values(bench) == ["devices", "time", "cost"], "who had it takes what was there"
    choose(bench, "axis_colour", "")
    assert bench.search_panel.settings.objective == "frontier:devices,time"
    choose(bench, "axis_colour", "time")
    assert axis_values(bench) == ["devices", "time", ""], "two axes alone cannot swap with none"
    choose(bench, "axis_across", "beauty")
    assert field(bench, "axis_across")["error"] == "time, memory, devices, cost, energy"
    choose(bench, "axis_across", "energy")
    assert bench.search_panel.settings.objective == "frontier:devices,energy"
    choose(bench, "objective", "frontier")
    assert axis_values(bench) == ["devices", "energy", ""], "it stays"
    choose(bench, "objective", "time")
    assert axis_values(bench) == []
    valid(bench)


def test_the_command_lines_words_for_a_frontier_are_taken(bench: Explorer) -> None:
    choose(bench, "objective", "frontier:energy, memory ,devices")
    assert bench.search_panel.settings.objective == "frontier:energy,memory,devices"
    choose(bench, "objective", "frontier")
    assert bench.search_panel.settings.objective == "frontier:energy,memory,devices"
    choose(bench, "objective", "frontier:cost,cost")
    assert field(bench, "objective")["error"].startswith("two or three different ones of time, memory")


def test_what_cannot_be_served_stands_in_the_list_with_its_reason(bench: Explorer) -> None:
    def off(key: str) -> dict[str, str]:
        return {o["value"]: o["label"] for o in field(bench, key)["options"] if o.get("disabled")}

    assert off("objective") == {"time_to_accuracy": "time to accuracy (the workload states no epochs)"}
    choose(bench, "objective", "time_to_accuracy")
    assert field(bench, "objective")["error"].endswith("energy; the workload states no epochs")
    choose(bench, "objective", "time")
    choose(bench, "searcher", "tensoropt")
    assert set(off("objective")) == {"devices", "cost", "energy", "time_to_accuracy"}
    assert off("objective")["cost"] == "cost of a step (not by tensoropt)"
    choose(bench, "objective", "frontier")
    assert axis_values(bench) == ["time", "memory", ""]
    assert set(off("axis_up")) == set(off("objective"))
    assert field(bench, "objective").get("error") is None
    choose(bench, "searcher", "spp")
    assert field(bench, "objective")["error"] == "not by spp, which serves step time"
    assert off("objective")["frontier"] == "frontier (spp serves step time only)"
    choose(bench, "searcher", "auto")
    assert field(bench, "objective").get("error") is None
    valid(bench)


def test_a_frontier_of_three_is_searched_shown_and_loaded(bench: Explorer) -> None:
    async def scenario() -> None:
        choose(bench, "objective", "frontier:devices,memory,time")
        bench.search_panel.start(["exhaustive", "spp"])
        await until(lambda: len(bench.search_panel.leaderboard.view["points"]) > 2)
        bench.search_panel.stop()
        view = bench.search_panel.leaderboard.view
        assert [axis["name"] for axis in view["axes"]] == ["devices", "memory", "time"]
        assert view["objective"] == {"name": "number", "unit": "devices"}
        assert view["bound"] is None
        point = view["points"][1]
        bench.search_panel.leaderboard.send_intent("load_point", point=point["id"])
        assert not bench.error
        assert point["values"] == [
            len(bench.report.devices), max(bench.report.peak_memory_bytes), bench.report.step_time_s
        ]  # fmt: skip
        choose(bench, "objective", "time")
        assert bench.search_panel.leaderboard.view["points"] == [], "that search kept another frontier"
        choose(bench, "objective", "frontier:devices,memory,time")
        assert bench.search_panel.leaderboard.view["points"] == view["points"]
        valid(bench)

    play(scenario)
