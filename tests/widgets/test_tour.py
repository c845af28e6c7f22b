"""The tour: five steps with figures of the plan, by mouse and keyboard; the session remembers a no."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sample
from harness import WidgetPage
from pydantic import TypeAdapter

from explorer.base.units import format_seconds
from tests.support import view_shapes as shapes
from widgets import Board, Explorer, Tiles
from widgets.tour import STEPS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def bench(folder: Path) -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32, session="s.json")
    yield found
    found.close()


def shown(bench: Explorer) -> dict[str, Any] | None:
    found: dict[str, Any] | None = bench.tiles.view["tour"]
    return found


def press(bench: Explorer, action: str) -> None:
    bench.tiles.send_intent("action", action=action)


def test_it_is_offered_where_a_session_is_kept(bench: Explorer, folder: Path) -> None:
    offer = shown(bench)
    assert offer is not None
    assert offer["step"] == 0
    assert [button["action"] for button in offer["actions"]] == ["tour_start", "tour_later", "tour_end"]
    without = Explorer("gpt2-small", "dgx-a100", session=None)
    assert shown(without) is None, "nothing could remember that it was declined"
    press(without, "tour_start")
    assert shown(without) is not None, "asked for, it is there"
    without.close()


def test_five_steps_on_the_plan_shown(bench: Explorer) -> None:
    press(bench, "tour_start")
    seen = []
    for number in range(1, len(STEPS) + 1):
        step = shown(bench)
        TypeAdapter(shapes.TilesView).validate_python(bench.tiles.view)
        assert step is not None
        assert (step["step"], step["of"]) == (number, 5)
        seen.append(step)
        press(bench, "tour_next")
    assert shown(bench) is None
    assert [step["part"] for step in seen] == ["board", "tiles", "timeline", "controls", "controls"]
    lanes = {lane["name"]: lane["forward_s"] + lane["backward_s"] for lane in bench.board.view["lanes"]}
    slowest = max(lanes, key=lambda name: lanes[name])
    assert f"**{slowest}** takes {format_seconds(lanes[slowest])}" in seen[0]["text"]
    assert format_seconds(bench.report.step_time_s) in seen[1]["text"]
    assert f"{bench.report.bubble_fraction:.1%}" in seen[2]["text"]
    assert bench.searcher in seen[3]["text"]


def test_every_marked_button_exists(bench: Explorer) -> None:
    actions = {button["action"] for button in bench.controls.view["buttons"]}
    assert {step.mark for step in STEPS} - {""} <= actions


def test_back_later_and_out(bench: Explorer) -> None:
    press(bench, "tour_start")
    press(bench, "tour_next")
    press(bench, "tour_back")
    assert (shown(bench) or {})["step"] == 1
    press(bench, "tour_later")
    assert shown(bench) is None
    assert not bench.tour.seen
    press(bench, "tour_start")
    press(bench, "tour_end")
    assert shown(bench) is None
    assert bench.tour.seen


def test_what_was_done_within_a_step_is_said(bench: Explorer) -> None:
    press(bench, "tour_start")
    before = bench.report.step_time_s
    bench.set(recompute="full")
    text = (shown(bench) or {})["text"]
    assert text.startswith("**You did it:** recomputation full")
    for seconds in (before, bench.report.step_time_s):
        assert format_seconds(seconds) in text
    press(bench, "tour_next")
    assert "You did it" not in (shown(bench) or {})["text"]


@pytest.mark.parametrize("action", ["tour_end", "tour_later"])
def test_the_session_remembers_a_no(folder: Path, action: str) -> None:
    first = Explorer("gpt2-small", "dgx-a100", session="s.json")
    press(first, action)
    first.set(zero=1)
    first.close()
    again = Explorer("gpt2-small", "dgx-a100", session="s.json")
    assert shown(again) is None, "whoever was here before is not asked again"
    assert again.tour.seen == (action == "tour_end")
    again.reopen()
    assert again.tour.seen == (action == "tour_end")
    again.close()


def test_a_no_alone_is_written(folder: Path) -> None:
    first = Explorer("gpt2-small", "dgx-a100", session="s.json")
    press(first, "tour_end")
    first.close()
    assert '"toured": true' in Path("s.json").read_text()
    again = Explorer("gpt2-small", "dgx-a100", session="s.json")
    assert shown(again) is None
    again.set(zero=1)
    again.close()
    assert [path.name for path in folder.glob("s*.json")] == ["s.json"], "nothing was done before"
    assert '"toured": true' in Path("s.json").read_text()


def test_without_a_plan_there_is_none(folder: Path) -> None:
    bench = Explorer("no-such-model", "dgx-a100", session="s.json")
    assert shown(bench) is None
    bench.close()


# -- the page -----------------------------------------------------------------------------------------


def page_with(shared_page: WidgetPage, bench: Explorer) -> WidgetPage:
    shared_page.reset()
    shared_page.show("tiles", Tiles(view=sample.tiles_view() | {"tour": shown(bench)}, bench="b1"))
    shared_page.show("board", Board(blocks=sample.blocks(), view=sample.board_view(), bench="b1"))
    return shared_page


def receive(page: WidgetPage, bench: Explorer) -> None:
    page.receive("tiles", view=sample.tiles_view() | {"tour": shown(bench)}, seq=len(page.sent("tiles")))


@pytest.mark.browser
def test_the_strip_stands_at_its_part_and_goes_on_by_keyboard(
    bench: Explorer, shared_page: WidgetPage
) -> None:
    page = page_with(shared_page, bench)
    keys = page.page.keyboard
    assert page.page.is_visible(".sx-tiles > .t-tour")
    page.page.click("[data-action=tour_start]")
    press(bench, "tour_start")
    receive(page, bench)
    assert page.page.is_visible(".sx-board > .t-tour")
    assert page.page.locator(".sx-board.sx-toured").count() == 1
    assert page.page.evaluate("document.activeElement.dataset.action") == "tour_next"
    keys.press("ArrowRight")
    assert page.sent("tiles")[-1] == {"seq": 2, "kind": "action", "action": "tour_next"}
    press(bench, "tour_next")
    receive(page, bench)
    assert page.page.is_visible(".sx-tiles > .t-tour")
    assert page.page.locator(".sx-board.sx-toured").count() == 0
    keys.press("ArrowLeft")
    keys.press("Escape")
    assert [m["action"] for m in page.sent("tiles")[2:]] == ["tour_back", "tour_end"]
    assert page.sent("board") == []
    assert page.leaked() == []
    assert min(page.contrasts())[0] >= 4.5
    press(bench, "tour_end")
    receive(page, bench)
    assert page.page.locator(".t-tour, .sx-toured").count() == 0
    assert not page.errors


@pytest.mark.browser
def test_the_sheet_of_keys_starts_it(bench: Explorer, shared_page: WidgetPage) -> None:
    page = page_with(shared_page, bench)
    page.page.click("[data-widget=board] [data-action=keys]")
    page.page.click("[data-action=take-tour]")
    assert page.sent("tiles")[-1]["action"] == "tour_start"
    assert page.page.locator("dialog").count() == 0
    assert not page.errors
