"""Why, error bands and measurements under the tiles, without a browser."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import TypeAdapter

import explorer as core
from explorer.base.checkpoints import checkpoint
from explorer.explain import Sentence
from explorer.views import verdict_view
from explorer.views.tiles import figures, with_measured
from explorer.views.verdict import LONGEST_LABEL
from explorer.views.why import reasons_view, worth
from tests.support import view_shapes as shapes
from widgets import Explorer
from widgets.holds import released
from widgets.reasons import Reasons
from widgets.session import NEAR


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("llama3-8b", "dgx-a100", global_batch=64, sequence_length=4096, session=False)
    assert not found.error
    yield found
    found.close()


def rows(bench: Explorer) -> dict[str, dict[str, object]]:
    return {row["key"]: row for row in bench.tiles.view["reasons"]}


def explained(bench: Explorer) -> Explorer:
    bench.showing.explain(bench.history.now)
    return bench


def test_reasons_and_bands_of_far_states_do_not_bring_their_predictions_back() -> None:
    bench = Explorer("gpt2-small", "dgx-a100", global_batch=8, session=None)
    bench.showing.cancel()
    for value in (2, 4, 8, 2, 4, 8):
        bench.set(stages=value)
        now = bench.now()
        bench.showing.reasons._finish(now, ())
        deque(bench.showing.accuracy.work(now), maxlen=0)
        bench.showing.redraw()
    outcomes = {id(point.outcome): point.outcome for point in bench.history.points}.values()
    assert len(outcomes) > 2 * NEAR + 1
    assert sum(item.whole for item in outcomes) <= 2 * NEAR + 1
    bench.close()


def test_reasons_stand_beside_the_figures_and_their_buttons_apply_them(bench: Explorer) -> None:
    assert bench.tiles.view["reasoning"]
    found = rows(explained(bench))
    TypeAdapter(shapes.TilesView).validate_python(bench.tiles.view)
    assert not bench.tiles.view["reasoning"]
    assert {"balance", "bubble", "communication", "shape", "memory"} <= set(found)
    before = bench.report.step_time_s
    proposals = [row for row in found.values() if row["action"]]
    assert proposals
    for row in proposals:
        bench.tiles.send_intent("action", action=row["action"])
        assert bench.report.step_time_s == row["step_time_s"]
        assert before - bench.report.step_time_s == row["saves_s"]
        bench.undo()
        assert bench.report.step_time_s == before


def test_the_sentence_takes_the_best_of_them(bench: Explorer) -> None:
    found = rows(explained(bench))
    bench.tiles.send_intent("action", action="apply_hint")
    best = max(row["saves_s"] for row in found.values() if row["saves_s"] is not None)
    assert bench.report.step_time_s == pytest.approx(bench.history.points[0].report.step_time_s - best)


def test_reasons_of_the_former_plan_stay_until_they_are_replaced(bench: Explorer) -> None:
    first = rows(explained(bench))
    bench.set(zero=1)
    stale = rows(bench)
    assert list(stale) == list(first)
    assert all(row["old"] for row in stale.values())
    assert bench.tiles.view["reasoning"]
    strategy = bench.strategy
    for row in stale.values():
        if row["action"]:
            bench.tiles.send_intent("action", action=row["action"])
    assert bench.strategy == strategy, "what was proposed for another plan is not applied"
    assert not any(row["old"] for row in rows(explained(bench)).values())


def test_they_are_replaced_one_by_one_in_place(bench: Explorer) -> None:
    explained(bench)
    bench.set(zero=1)
    order, seen = list(rows(bench)), set()
    for _ in bench.showing.reasons.work(bench.history.now):
        found = bench.showing.reasons.rows
        assert [row["key"] for row in found][: len(order)] == order
        seen.add(sum(row["old"] for row in found))
    assert len(seen) > 3, "not all at once"
    assert bench.showing.reasons.verdict


def test_a_gesture_need_not_wait_for_a_long_simulation(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = bench.history.now
    may_end = [False]

    def slow(*_asked: Any, **_more: Any) -> Iterator[Sentence | None]:
        while not may_end[0]:
            checkpoint()
            time.sleep(0.0005)
        yield Sentence(topic="memory", text="found")

    monkeypatch.setattr("widgets.reasons.reasons", slow)
    found = Reasons()
    found.settled(now, None)
    work = found.work(now)
    for _ in range(3):
        next(work)
    assert found.rows == [], "it pauses while one change is still being simulated"
    may_end[0] = True
    for _ in work:
        pass
    assert [row["key"] for row in found.rows] == ["memory"]


def test_a_drop_ends_a_simulation_under_way(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def endless(*_asked: Any, **_more: Any) -> Iterator[Sentence | None]:
        try:
            while True:
                checkpoint()
                time.sleep(0.0005)
        finally:
            ended.set()
        yield None

    monkeypatch.setattr("widgets.reasons.reasons", endless)
    found = Reasons()
    found.settled(bench.history.now, None)
    work = found.work(bench.history.now)
    next(work)
    work.close()
    assert ended.wait(60)


def test_undo_shows_the_known_reasons_at_once(bench: Explorer) -> None:
    first = explained(bench).tiles.view["reasons"]
    bench.set(zero=1)
    bench.undo()
    assert bench.tiles.view["reasons"] == first
    assert not bench.tiles.view["reasoning"]
    assert bench.tiles.view["verdict"]["actions"]


def test_a_comparison_does_not_ask_again(bench: Explorer) -> None:
    first = rows(explained(bench))
    bench.compare_with(bench.history.now)
    assert rows(bench) == first
    assert not bench.tiles.view["reasoning"]
    assert {tile["baseline_name"] for tile in bench.tiles.view["tiles"]} == {"B"}


def test_another_model_has_other_reasons(bench: Explorer) -> None:
    explained(bench)
    bench.set(model="gpt2-small")
    assert bench.tiles.view["reasons"] == []


def test_pins_are_respected(bench: Explorer) -> None:
    layers = list(bench.history.now.inputs.graph.index)
    bench.pin(layers)
    explained(bench)
    now = bench.history.now
    for key in rows(bench):
        said = bench.showing.reasons.proposal(key)
        assert said is None or not released(now.holds, now.strategy.job, said.strategy.job)


def test_a_drag_ends_the_work_and_the_next_quiet_moment_takes_it_up() -> None:
    async def scenario() -> None:
        bench = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=False)
        bench.set(zero=1)
        bench.set(zero=0)
        for _ in range(60_000):
            await asyncio.sleep(0.01)
            if not bench.tiles.view["reasoning"]:
                break
        assert not bench.tiles.view["reasoning"]
        assert not any(row["old"] for row in bench.tiles.view["reasons"])
        assert not bench.error
        bench.close()

    asyncio.run(scenario())


def test_an_unknown_reason_changes_nothing(bench: Explorer) -> None:
    strategy = bench.strategy
    bench.tiles.send_intent("action", action="apply_reason:magic")
    assert bench.strategy == strategy
    bench.tiles.send_intent("action", action="apply_reason")
    assert "unknown action" in bench.error


def test_what_costs_time_comes_first_only_where_memory_is_tight(bench: Explorer) -> None:
    scene = bench.history.now.scene
    said = Sentence(topic="memory", text="x", strategy=bench.strategy, step_time_s=9.0, saves_s=-1.0)
    tight = figures(scene.report)["memory"] >= 0.9
    assert worth(scene, said) == tight
    assert reasons_view(scene, [said])[0]["worth"] == tight
    verdict, best = verdict_view(scene, [said])
    assert best is None
    assert not verdict["actions"]


def test_long_changes_have_a_short_button(bench: Explorer) -> None:
    scene = bench.history.now.scene
    for change in ("use ZeRO-1", "x" * 80):
        said = Sentence(
            topic="bubble", text="x", change=change, strategy=bench.strategy, step_time_s=1.0, saves_s=1.0
        )
        verdict, _ = verdict_view(scene, [said])
        assert len(verdict["actions"][0]["label"]) <= LONGEST_LABEL
        assert change in verdict["text"]


# ---- bands and measurements


def test_bands_come_in_a_quiet_moment_and_enclose_the_figures(bench: Explorer) -> None:
    assert all("low" not in tile for tile in bench.tiles.view["tiles"])
    explained(bench)
    tiles = {tile["key"]: tile for tile in bench.tiles.view["tiles"]}
    for key in ("step_time", "throughput", "memory", "mfu"):
        assert tiles[key]["low"] < tiles[key]["value"] < tiles[key]["high"], key
    bench.set(zero=1)
    assert all("low" not in tile for tile in bench.tiles.view["tiles"]), "a band is of one plan"
    bench.undo()
    assert all("low" in tile for tile in bench.tiles.view["tiles"])


def test_what_a_run_measured_stands_on_its_tile(monkeypatch: pytest.MonkeyPatch, bench: Explorer) -> None:
    monkeypatch.setattr(bench.run_panel, "measured", lambda _: {"step_time": 9.5})
    monkeypatch.setattr(bench.run_panel, "old", lambda _: True)
    bench.showing.redraw()
    tiles = {tile["key"]: tile for tile in bench.tiles.view["tiles"]}
    assert (tiles["step_time"]["measured"], tiles["step_time"]["old"]) == (9.5, True)
    assert "measured" not in tiles["memory"]
    assert with_measured([tiles["memory"]], {}, old=False) == [tiles["memory"]]


def test_the_command_line_says_the_same(bench: Explorer) -> None:
    own = bench.history.now
    said = core.explain.explain(
        own.inputs.graph, own.inputs.cluster, own.inputs.workload, own.strategy, own.report
    )
    assert [item.topic for item in said] == list(rows(explained(bench)))


def test_a_plan_too_large_to_ask_all_about_keeps_what_was_found(bench: Explorer) -> None:
    """On a clock that says every change took seven seconds, two are tried and the list is closed."""
    ticks = iter(range(0, 10_000, 7))
    slow = Reasons(clock=lambda: float(next(ticks)))
    slow.settled(bench.now(), None)
    assert slow.under_way
    slices = sum(1 for _ in slow.work(bench.now()))
    assert slices == 1
    assert not slow.under_way
    assert slow.verdict is not None
