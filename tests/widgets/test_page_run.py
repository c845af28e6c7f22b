"""The Run tab in a real browser: every state, its buttons by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample_run as sample
from harness import WidgetPage
from pydantic import TypeAdapter

from tests.support import view_shapes as shapes
from widgets import RunView

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]
STATES: dict[str, Callable[[], dict[str, Any]]] = {
    "nothing": dict,
    "none": lambda: sample.run_view("none"),
    "running": sample.running_view,
    "running again": lambda: sample.running_view(result=None) | {"result": sample.done_view()["result"]},
    "many ranks": lambda: sample.running_view(32),
    "done": sample.done_view,
    "refused": lambda: sample.done_view() | {"calibration": sample.refused()},
    "stopped": lambda: sample.run_view("stopped"),
    "failed": sample.failed_view,
    "slice under way": sample.slicing_view,
    "slice": sample.sliced_view,
}


def show(page: WidgetPage, view: dict[str, Any]) -> None:
    page.show("run", RunView(view=view))


@pytest.mark.parametrize("state", [name for name in STATES if name not in ("nothing", "running again")])
def test_samples_have_the_shape_of_the_protocol(state: str) -> None:
    TypeAdapter(shapes.RunViewShape).validate_python(STATES[state]())


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [500, 1000, 1400])
def test_every_state_can_be_read(open_page: Open, width: int, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    for name, make in STATES.items():
        page.reset()
        show(page, make())
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width, name
        assert not [item for item in page.contrasts() if item[0] < 4.5], name
        assert page.page.evaluate("window.unguarded()") == [], name


def test_without_a_run_it_says_what_one_would_do(open_page: Open) -> None:
    page = open_page()
    show(page, STATES["none"]())
    assert "about 25 s" in page.text(".run-intro")
    assert not page.page.locator("[data-action=calibrate]").is_visible()
    assert not page.page.locator(".run-result").is_visible()


def test_ranks_are_rows_with_words_and_progress_is_a_bar(open_page: Open) -> None:
    page = open_page()
    show(page, sample.running_view(6))
    rows = page.page.locator(".run-ranks tbody tr")
    assert rows.count() == 6
    assert [cell.strip() for cell in rows.nth(1).inner_text().split("\t")] == [
        "rank 1", "◐waiting", "backward of microbatch 2 waits for rank 2",
        "Round 2 of 3", "0.33 of 1.24\u00a0s", "361\u00a0ms",
        "419\u00a0MiB",
    ]  # fmt: skip
    filled = rows.nth(1).locator(".run-course i").evaluate("(i) => parseFloat(i.style.width)")
    assert filled == pytest.approx(100 * 0.33 / 1.24, abs=0.1)
    assert rows.nth(3).locator(".run-course").inner_text().strip() == "–", "not in an action"
    bar = page.page.locator("[role=progressbar]")
    assert (bar.get_attribute("aria-valuenow"), bar.get_attribute("aria-valuetext")) == (
        "60",
        "60 %, Round 2 of 3",
    )
    assert "about 9\u00a0s left" in page.text(".run-line")
    assert "Contention low" in page.text(".run-contention")
    first = rows.nth(0).element_handle()
    page.receive("run", view=sample.running_view(6, share=0.7))
    assert first is not None
    assert first.evaluate("(row) => row.isConnected"), "rows are kept, not made anew"
    assert bar.get_attribute("aria-valuenow") == "70"


def test_progress_is_announced_only_when_python_says_so(open_page: Open) -> None:
    page = open_page()
    show(page, sample.running_view())
    live = page.page.locator(".run-live [aria-live=polite]")
    assert live.inner_text() == "Round 2 of 3"
    page.page.evaluate(
        """() => {
          window.changes = 0;
          const count = (all) => { window.changes += all.length; };
          const what = {childList: true, characterData: true, subtree: true};
          new MutationObserver(count).observe(document.querySelector(".run-live [aria-live]"), what);
        }"""
    )
    for step in range(8):
        page.receive("run", view=sample.running_view(share=0.6 + step / 100, elapsed_s=18.0 + step))
    assert page.page.evaluate("window.changes") == 0
    page.receive("run", view=sample.running_view(said="Round 3 of 3"))
    assert live.inner_text() == "Round 3 of 3"


def test_high_contention_and_a_changed_board_are_said(open_page: Open) -> None:
    page = open_page()
    load = {"share": 0.5, "level": "warn", "text": "Contention high: ranks get 50 %"}
    show(page, sample.running_view(contention=load, other="The board has changed since."))
    assert page.page.locator(".run-contention .sx-tri").is_visible(), "colour is never alone"
    assert page.text(".run-other") == "The board has changed since."


def test_comparison_is_a_table_with_bars_on_one_scale(open_page: Open) -> None:
    page = open_page()
    show(page, sample.done_view())
    row = page.page.locator("[data-part=compute]")
    assert [text for text in row.inner_text().replace("\u00a0", " ").split("\t") if text.strip()] == [
        "compute", "4.83 s", "4.94 s", "−2.2 %"
    ]  # fmt: skip
    widths = {
        name: page.box(f"[data-part='{name}'] .run-measured")["width"] for name in ("compute", "bubble")
    }
    assert widths["bubble"] / widths["compute"] == pytest.approx(1.61 / 4.94, rel=0.02)
    assert not page.page.locator("[data-part='step time'] .run-measured").is_visible()
    assert "0 −1.9\u00a0%" in page.text(".run-stages")
    text = page.text(".run-right")
    for words in ("Gradients and weights equal", "Contention low", "Not validated", "precision: bf16"):
        assert words in text
    assert page.text(".run-calibration").count("→") == 3
    assert "6.62\u00a0s, +2.8\u00a0% against now" in page.text(".run-becomes")


def test_actions_by_stage_are_a_table_with_the_colours_of_errors(open_page: Open) -> None:
    page = open_page(width=1200)
    show(page, sample.done_view())
    rows = page.page.locator(".run-actions tbody tr")
    assert rows.count() == 16, "four stages of three actions and the waits for transfers"
    text = [cell for cell in rows.nth(8).inner_text().replace("\u00a0", " ").split("\t") if cell.strip()]
    assert text == ["stage 2", "forward", "× 48", "41.0 ms", "44.0 ms", "−6.8 %"]
    assert not page.page.locator(".run-by-profile >> visible=true").count(), "no profile said anything"
    tint = "(cell) => getComputedStyle(cell).backgroundColor"
    fast, right = (rows.nth(i).locator(".run-tint").first.evaluate(tint) for i in (2, 1))
    assert fast == "rgb(11, 79, 148)", "the update is predicted furthest too fast: the end of the scale"
    assert right not in (fast, "rgba(0, 0, 0, 0)")
    bars = {i: page.box(f".run-actions tbody tr:nth-child({i}) .run-measured")["width"] for i in (1, 2)}
    assert bars[1] / bars[2] == pytest.approx(0.042 / 0.0802, rel=0.03), "one scale for all actions"
    assert not rows.nth(3).locator(".run-measured").is_visible(), "waits are of a step: on no scale with them"
    page.receive("run", view=sample.sliced_view())
    assert not page.page.locator(".run-actions").is_visible(), "a slice has them above"


def test_what_the_profile_says_of_actions_stands_beside(open_page: Open) -> None:
    page = open_page(width=1200)
    view = sample.done_view()
    told = [row | {"profile_s": 0.05, "profile_error": 0.25} for row in view["result"]["actions"]]
    show(page, view | {"result": view["result"] | {"actions": told}})
    first = page.text(".run-actions tbody tr:first-child").replace("\u00a0", " ")
    assert "50.0 ms" in first
    assert "+25.0 %" in first


def test_a_large_error_has_a_sign(open_page: Open) -> None:
    parts = {
        "predicted": {"compute": 4.0, "bubble": 0.5},
        "measured": {"compute": 4.0, "bubble": 1.0},
    }
    page = open_page()
    show(page, sample.done_view(parts=parts))
    assert page.page.locator("[data-part=bubble] .sx-tri").is_visible()
    assert not page.page.locator("[data-part=compute] .sx-tri").is_visible()


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_calibrate_is_an_intent(open_page: Open, how: str) -> None:
    page = open_page()
    show(page, sample.done_view())
    button = page.page.locator("[data-action=calibrate]")
    if how == "mouse":
        button.click()
    else:
        button.focus()
        page.page.keyboard.press("Enter")
    assert page.sent("run") == [{"seq": 1, "kind": "action", "action": "calibrate"}]
    assert page.leaked() == []


def test_a_refused_calibration_says_why_and_is_off(open_page: Open) -> None:
    page = open_page()
    show(page, STATES["refused"]())
    assert page.page.locator("[data-action=calibrate]").is_disabled()
    assert "not on a100-sxm-80gb" in page.text(".run-calibration")


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_a_failure_has_its_log_and_a_way_out(open_page: Open, how: str) -> None:
    page = open_page()
    show(page, sample.failed_view())
    assert page.page.get_attribute(".run-failure", "role") == "alert"
    assert "rank 1 was killed by SIGKILL" in page.text(".run-failure")
    log, button = page.page.locator(".run-log"), page.page.locator("[data-action=log]")
    fix = page.page.locator("[data-action=run_dry]")
    assert not log.is_visible()
    if how == "mouse":
        button.click()
    else:
        button.focus()
        page.page.keyboard.press("Space")
    assert "line 11 of what the ranks printed" in log.inner_text()
    assert button.get_attribute("aria-expanded") == "true"
    if how == "mouse":
        fix.click()
    else:
        fix.focus()
        page.page.keyboard.press("Enter")
    assert page.sent("run") == [{"seq": 1, "kind": "action", "action": "run_dry"}]
    page.receive("run", view=sample.running_view(), seq=1)
    assert not page.page.locator(".run-failed").is_visible()
    assert not log.is_visible()


def test_former_results_stay_and_say_they_are_old(open_page: Open) -> None:
    page = open_page()
    view = sample.failed_view() | {key: sample.done_view()[key] for key in ("result", "note")}
    view["result"] = view["result"] | {"old": "Of another strategy."}
    show(page, view)
    assert page.text(".run-old") == "Of another strategy."
    assert page.page.locator("[data-part=compute]").is_visible()
    page.receive("run", view=STATES["running again"]())
    assert "stays until this one ends" in page.text(".run-old")


def test_a_stopped_run_says_nothing_of_the_prediction(open_page: Open) -> None:
    page = open_page()
    show(page, STATES["stopped"]())
    assert "stopped midway" in page.text(".run-stopped")


def test_nothing_is_read_as_html(open_page: Open) -> None:
    page = open_page()
    bad = "<img src=x onerror=alert(1)>"
    show(
        page, sample.failed_view(text=bad, log=bad) | {"result": sample.done_view(validated=[bad])["result"]}
    )
    page.page.click("[data-action=log]")
    assert page.page.locator("img").count() == 0
    assert page.page.locator(f"text={bad}").count() == 3
