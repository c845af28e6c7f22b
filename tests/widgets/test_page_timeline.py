"""The timeline in a real browser with a fake model: every gesture by mouse and by keyboard."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import sample
from canvas import painted, snapshot
from harness import WidgetPage

from widgets import Timeline
from widgets.timeline import COLUMNS, KINDS, pack

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]
CANVAS = ".tl-canvas"
LEFT = 108  # where the bars begin
FIRST_LANE = 20 + 22 + 12  # middle of the first lane


def timeline(**more: Any) -> Timeline:
    bars, view = sample.timeline()
    return Timeline(bars=bars, view=view, **more)


def with_links(**more: Any) -> Timeline:
    cells, links = sample.links()
    return timeline(links=links, link_cells=cells, **more)


@pytest.fixture
def page(open_page: Open) -> WidgetPage:
    found = open_page()
    found.show("timeline", with_links())
    found.settle()
    return found


def window(page: WidgetPage) -> list[float]:
    page.settle()
    return [float(t) for t in page.page.get_attribute(".sx-timeline", "data-window").split()]


def said(page: WidgetPage) -> str:
    return page.text(".sx-timeline .sx-live").replace("\u00a0", " ").replace("\u202f", " ")


def test_it_draws_and_says_what_it_shows(page: WidgetPage) -> None:
    assert painted(page, CANVAS) > 6
    label = page.page.get_attribute(CANVAS, "aria-label") or ""
    assert "4 lanes" in label
    assert "Arrow keys" in label
    assert page.page.get_attribute(CANVAS, "role") == "application"


def test_zoom_and_pan_by_keys_buttons_wheel_and_drag(page: WidgetPage) -> None:
    whole = window(page)
    page.page.focus(CANVAS)
    page.page.keyboard.press("w")
    zoomed = window(page)
    assert zoomed[1] - zoomed[0] < 0.8 * (whole[1] - whole[0])
    page.page.keyboard.press("d")
    later = window(page)
    assert later[0] > zoomed[0]
    page.page.keyboard.press("a")
    assert window(page) == pytest.approx(zoomed, abs=1e-5)
    page.page.click('[data-action="pan-right"]')
    later = window(page)
    assert later[0] > zoomed[0]
    page.page.click('[data-action="pan-left"]')
    assert window(page)[0] < later[0]
    box, before = page.box(CANVAS), window(page)
    page.page.mouse.move(box["x"] + 600, box["y"] + 60)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 550, box["y"] + 60, steps=4)
    page.page.mouse.up()
    assert window(page)[0] > before[0], "dragging moves what is seen"
    assert page.get("timeline", "microbatch") is None, "a drag is no click"
    page.page.keyboard.press("s")
    page.page.click('[data-action="zoom-all"]')
    assert window(page) == whole
    page.page.click('[data-action="zoom-in"]')
    page.page.click('[data-action="zoom-out"]')
    assert window(page) == whole
    page.page.evaluate("document.activeElement.blur()")
    page.page.mouse.move(box["x"] + 400, box["y"] + 60)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    assert window(page)[1] - window(page)[0] < whole[1] - whole[0]
    assert set(page.leaked()) <= {"Control"}, "plain keys stay inside"


def test_wheel_scrolls_the_page_until_the_timeline_is_focused(open_page: Open) -> None:
    page = open_page(height=200)
    page.show("timeline", timeline())
    before = window(page)
    page.page.mouse.move(500, 100)
    page.page.mouse.wheel(0, 80)
    page.page.wait_for_function("scrollY > 0")
    assert window(page) == before
    page.page.evaluate("scrollTo(0, 0)")
    page.page.focus(CANVAS)
    page.page.mouse.wheel(0, -80)
    page.page.wait_for_function(
        "(w) => document.querySelector('.sx-timeline').dataset.window !== w",
        arg=" ".join(f"{t:.6f}" for t in before),
    )


def test_a_click_follows_a_microbatch_and_a_second_one_lets_go(page: WidgetPage) -> None:
    before = snapshot(page, CANVAS)
    place = {"x": LEFT + 8, "y": FIRST_LANE}
    page.page.click(CANVAS, position=place)
    microbatch = page.get("timeline", "microbatch")
    assert microbatch is not None
    assert f"Microbatch {microbatch}" in page.text(".tl-card:not(.tl-critical)")
    for fact in ("enters, leaves", "computing", "in transit, 6 hops", "waiting"):
        assert fact in page.text(".tl-card:not(.tl-critical)")
    assert "waiting" in said(page)
    assert snapshot(page, CANVAS) != before
    page.page.click(CANVAS, position=place)
    assert page.get("timeline", "microbatch") is None
    assert page.page.locator(".tl-card:not(.tl-critical)").is_hidden()


def test_a_microbatch_is_followed_by_keys_and_buttons(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("n")
    assert page.get("timeline", "microbatch") == 0
    page.page.keyboard.press("n")
    page.page.keyboard.press("p")
    page.page.keyboard.press("p")
    assert page.get("timeline", "microbatch") == 0, "there is none before the first"
    page.page.click('[data-action="microbatch-next"]')
    assert page.get("timeline", "microbatch") == 1
    page.page.click('[data-action="microbatch-before"]')
    page.page.click('[data-action="microbatch-none"]')
    assert page.get("timeline", "microbatch") is None


def test_arrow_keys_go_from_bar_to_bar_and_say_them(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    assert "F forward, microbatch 0, stage 0" in said(page)
    page.page.keyboard.press("ArrowRight")
    assert "F forward, microbatch 1" in said(page)
    page.page.keyboard.press("ArrowDown")
    assert "transfer" in said(page)
    assert "→ stage 1" in said(page)
    page.page.keyboard.press("ArrowDown")
    assert "stage 1" in said(page)
    assert page.page.locator(".sx-tip").is_visible(), "what is said is seen as well"
    page.page.keyboard.press("Enter")
    assert page.get("timeline", "microbatch") is not None
    page.page.keyboard.press("End")
    last = said(page)
    page.page.keyboard.press("ArrowRight")
    assert said(page) == last
    page.page.keyboard.press("Escape")
    assert page.page.locator(".sx-tip").is_hidden()
    assert page.leaked() == []


def test_the_focus_is_kept_in_sight(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    for _ in range(6):
        page.page.keyboard.press("w")
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Home")
    assert window(page)[0] == 0.0
    page.page.keyboard.press("End")
    start, end = window(page)
    assert start > 0
    assert end == pytest.approx(sample.timeline()[1]["end_s"], rel=0.05)


def test_hover_says_what_a_bar_is(page: WidgetPage) -> None:
    page.page.hover(CANVAS, position={"x": LEFT + 8, "y": FIRST_LANE})
    assert "F forward, microbatch" in page.text(".sx-tip")
    page.page.hover(CANVAS, position={"x": 40, "y": FIRST_LANE})
    assert page.page.locator(".sx-tip").is_hidden()


def test_the_critical_path_is_outlined_and_told_in_words(page: WidgetPage) -> None:
    before = snapshot(page, CANVAS)
    page.page.click('[data-action="critical"]')
    assert page.get("timeline", "critical") is True
    assert page.page.get_attribute('[data-action="critical"]', "aria-pressed") == "true"
    assert snapshot(page, CANVAS) != before
    words = page.text(".tl-critical").replace("\u00a0", " ")
    assert "% compute" in words
    assert "% transfer" in words
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    assert "on the critical path: starts at once" in said(page)
    page.page.keyboard.press("c")
    assert page.get("timeline", "critical") is False
    assert page.page.locator(".tl-critical").is_hidden()


def test_links_stand_below_the_lanes(page: WidgetPage) -> None:
    height = page.box(CANVAS)["height"]
    page.page.click('[data-action="links"]')
    page.settle()
    links = sample.links()[1]
    assert page.box(CANVAS)["height"] > height + 10 * len(links["rows"])
    box = page.box(CANVAS)
    page.page.hover(CANVAS, position={"x": 400, "y": box["height"] - 15})
    assert "nvswitch → gpu 6" in page.text(".sx-tip")
    assert "a step" in page.text(".sx-tip")
    page.page.focus(CANVAS)
    page.page.keyboard.press("l")
    page.settle()
    assert page.box(CANVAS)["height"] == height


def test_buttons_without_data_are_not_there(open_page: Open) -> None:
    page = open_page()
    bars, view = sample.timeline()
    page.show("timeline", Timeline(bars=bars, view={**view, "critical": None}))
    assert page.page.locator('[data-action="links"]').is_hidden()
    assert page.page.locator('[data-action="critical"]').is_hidden()


def test_a_lane_is_marked_by_its_name_and_by_key(page: WidgetPage) -> None:
    page.page.click(CANVAS, position={"x": 20, "y": FIRST_LANE})
    assert page.get("timeline", "selected_lanes") == ["0"]
    page.page.click(CANVAS, position={"x": 20, "y": FIRST_LANE})
    assert page.get("timeline", "selected_lanes") == []
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("m")
    assert page.get("timeline", "selected_lanes") == ["0"]


def test_a_second_plan_is_drawn_below_with_the_difference(page: WidgetPage) -> None:
    height = page.box(CANVAS)["height"]
    bars, view = sample.timeline("B", "ZB-H1", True, 0.93)
    page.receive("timeline", bars_b=bars, view_b=view, microbatch=3, critical=True)
    page.settle()
    assert page.box(CANVAS)["height"] > 1.7 * height
    assert "W weight gradient" in page.text(".sx-legend >> nth=0")
    assert "against A" in page.page.get_attribute(CANVAS, "aria-label")
    assert "Critical path of B" in page.text(".tl-critical")
    assert "B −" in page.text(".tl-card:not(.tl-critical)"), "the difference, with a true minus"
    page.page.focus(CANVAS)
    for _ in range(9):
        page.page.keyboard.press("ArrowDown")
    assert said(page).startswith("B, ")


def test_it_dims_while_its_own_board_previews(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline(bench="one"))
    dim = ".sx-timeline.tl-dim"
    send = "(d) => document.dispatchEvent(new CustomEvent('sx-preview', {detail: d}))"
    page.page.evaluate(send, {"bench": "two", "values": {"step_time": 1}})
    assert page.page.locator(dim).count() == 0
    page.page.evaluate(send, {"bench": "one", "values": {"step_time": 1}})
    assert page.page.locator(dim).count() == 1
    page.page.evaluate(send, {"bench": "one", "values": None})
    assert page.page.locator(dim).count() == 0


def test_the_trace_is_asked_for_and_saved(page: WidgetPage, tmp_path: Path) -> None:
    page.page.click('[data-action="trace"]')
    assert page.sent("timeline") == [{"seq": 1, "kind": "trace"}]
    trace = {"traceEvents": [], "displayTimeUnit": "ms"}
    with page.page.expect_download() as download:
        page.page.evaluate(
            """(text) => {
              const content = { kind: "file", name: "trace.json", type: "application/json" };
              const buffer = new DataView(new TextEncoder().encode(text).buffer);
              const { listeners } = window.models.timeline;
              for (const listener of listeners.get("msg:custom")) listener(content, [buffer]);
            }""",
            json.dumps(trace),
        )
    path = tmp_path / "trace.json"
    download.value.save_as(path)
    assert download.value.suggested_filename == "trace.json"
    assert json.loads(path.read_text()) == trace


def test_a_table_stands_behind_the_drawing(page: WidgetPage) -> None:
    page.page.click('[data-action="table"]')
    assert page.page.locator("tbody tr").count() > 100
    assert page.page.locator(CANVAS).is_hidden()
    assert "critical path" in page.text("thead")
    page.page.evaluate("window.models.timeline.set('microbatch', 2)")
    page.page.click('[data-action="table"]')
    assert page.page.locator(CANVAS).is_visible()
    page.page.click('[data-action="table"]')
    assert "microbatch 2" in page.text("caption")
    assert page.page.locator("tbody tr").count() == 4 * 2 + 6, "two bars a stage, six transfers"


def large(lanes: int = 64, microbatches: int = 512) -> Timeline:
    rows = [
        (start := (3 * m + k) * 1e-3 + lane * 1e-4, start + 9e-4, lane, kind, lane, 0, m, 1, -1, 0)
        for lane in range(lanes)
        for m in range(microbatches)
        for k, kind in enumerate((KINDS["F"], KINDS["I"], KINDS["W"]))
    ]  # fmt: skip
    names = [{"id": str(i), "name": f"stage {i}", "busy_fraction": 0.9} for i in range(lanes)]
    view = {"name": "A", "text": "large", "end_s": rows[-1][1], "lanes": names}
    return Timeline(bars=pack(rows), view=view)


@pytest.mark.slow
def test_98304_bars_are_drawn_and_zoomed_fast(open_page: Open) -> None:
    """Decoding, index and first paint together within 0.6 s; then half of all frames within 0.1 s."""
    widget = large()
    assert len(widget.bars) == 98_304 * 4 * len(COLUMNS)
    page = open_page()
    page.show("warm", timeline())

    def first() -> float:
        page.page.evaluate("window.reset()")
        page.show("timeline", widget)
        page.page.wait_for_function("document.querySelector('.sx-timeline').dataset.drawMs")
        return float(page.page.get_attribute(".sx-timeline", "data-first-ms") or 1e9)

    def frame() -> float:
        frames = []
        for key in "wwwwdddsssss":
            page.page.keyboard.press(key)
            page.settle()
            frames.append(float(page.page.get_attribute(".sx-timeline", "data-draw-ms")))
        return median(frames)

    assert page.within(600, first)
    page.page.focus(CANVAS)
    assert page.within(100, frame)
    assert painted(page, CANVAS) > 6


def test_changed_bars_are_drawn_anew_in_the_same_window(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("w")
    zoomed, before = window(page), snapshot(page, CANVAS)
    bars, view = sample.timeline(split=True)
    page.receive("timeline", bars=bars, view={**view, "end_s": sample.timeline()[1]["end_s"]})
    assert window(page) == zoomed, "a change of the plan does not throw the view away"
    assert snapshot(page, CANVAS) != before


# -- the order by hand ----------------------------------------------------------------------------


def second_bar(page: WidgetPage) -> tuple[float, float, float]:
    """Where the second action of the first lane is on the page: left, right, and its height."""
    view, bars = timeline().view, page_bars()
    first = [bar for bar in bars if bar[2] == 0 and bar[3] <= 4]
    first.sort()
    box = page.box(CANVAS)
    room = box["width"] - LEFT - 4
    end = view["end_s"] * 1.005
    left, right = (box["x"] + LEFT + first[1][k] / end * room for k in (0, 1))
    return left, right, box["y"] + FIRST_LANE


def page_bars() -> list[tuple[float, ...]]:
    numbers = struct.unpack(f"<{len(timeline().bars) // 4}f", timeline().bars)
    return [numbers[i : i + len(COLUMNS)] for i in range(0, len(numbers), len(COLUMNS))]


def intents(page: WidgetPage) -> list[dict[str, Any]]:
    return [item for item in page.sent("timeline") if item.get("kind") == "reorder"]


def test_an_action_is_dragged_along_its_lane(page: WidgetPage) -> None:
    page.page.click('[data-action="edit-order"]')
    left, right, y = second_bar(page)
    assert page.page.get_attribute('[data-action="edit-order"]', "aria-pressed") == "true"
    assert "Drag an action" in page.text(".sx-timeline .sx-head")
    before = snapshot(page, CANVAS)
    page.page.mouse.move((left + right) / 2, y)
    page.page.mouse.down()
    page.page.mouse.move(left - (right - left) * 0.9, y, steps=5)
    page.settle()
    assert "before" in page.text(".sx-tip")
    assert snapshot(page, CANVAS) != before
    page.page.mouse.up()
    (sent,) = intents(page)
    assert sent["before"] is True
    assert sent["moved"] | {"microbatch": 0} == sent["beside"]
    assert sent["moved"]["microbatch"] == 1


def test_escape_lets_go_and_a_press_still_follows(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("o")
    left, right, y = second_bar(page)
    page.page.mouse.move((left + right) / 2, y)
    page.page.mouse.down()
    page.page.mouse.move(left - (right - left), y, steps=5)
    page.page.keyboard.press("Escape")
    page.page.mouse.up()
    assert not intents(page)
    page.page.mouse.click((left + right) / 2, y)
    assert page.get("timeline", "microbatch") == 1
    page.page.keyboard.press("o")
    left, right, y = second_bar(page)
    page.page.mouse.move((left + right) / 2, y)
    page.page.mouse.down()
    page.page.mouse.move(left - (right - left), y, steps=5)
    page.page.mouse.up()
    assert not intents(page), "the mouse pans again"


def test_keys_move_the_action_with_the_focus(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("Alt+ArrowRight")
    assert "Choose an action" in said(page)
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Alt+ArrowLeft")
    assert "end of its lane" in said(page)
    page.page.keyboard.press("Alt+ArrowRight")
    (sent,) = intents(page)
    assert sent["before"] is False
    assert (sent["moved"]["microbatch"], sent["beside"]["microbatch"]) == (0, 1)
    assert not page.leaked() or set(page.leaked()) <= {"Alt"}


def test_an_order_that_cannot_be_edited_says_why(open_page: Open) -> None:
    page = open_page()
    shown = timeline()
    shown.view = {**shown.view, "fixed": "it decides while time runs"}
    page.show("timeline", shown)
    button = page.page.locator('[data-action="edit-order"]')
    assert button.is_disabled()
    assert button.get_attribute("title") == "it decides while time runs"
    page.page.focus(CANVAS)
    page.page.keyboard.press("o")
    assert "decides while time runs" in said(page)
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("Alt+ArrowRight")
    assert not intents(page)
