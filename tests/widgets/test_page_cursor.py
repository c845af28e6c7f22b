"""One cursor and one stretch of time in timeline, memory and links, by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
import sample_moment
from axe_playwright_python.sync_playwright import Axe
from canvas import snapshot
from harness import WidgetPage

from widgets import Heatmap, Timeline
from widgets.timeline import KINDS, pack

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]
CANVAS = "#host-timeline .tl-canvas"
OVER = "#host-timeline .tl-over"
LEFT = 108
FIRST_LANE = 20 + 22 + 12
LINE = ["timeline", "memory", "links"]


def timeline(**more: Any) -> Timeline:
    bars, view = sample.timeline()
    return Timeline(bars=bars, view=view, **{"bench": "one", "asks": True, **more})


def views(page: WidgetPage, **more: Any) -> WidgetPage:
    """Timeline, memory and links of one workbench."""
    page.show("timeline", timeline(**more))
    cells, view = sample.memory()
    page.show("memory", Heatmap(cells=cells, view=view, bench="one"))
    cells, links = sample.links()
    page.show(
        "links", Heatmap(cells=cells, view={**sample.traffic(), "links": links}, shown="links", bench="one")
    )
    page.settle()
    return page


@pytest.fixture
def page(open_page: Open) -> WidgetPage:
    return views(open_page())


def of(page: WidgetPage, name: str, data: str) -> str | None:
    found: str | None = page.page.get_attribute(f"#host-{name} .sx", f"data-{data}")
    return found


def cursors(page: WidgetPage) -> list[float | None]:
    page.settle()
    return [None if (text := of(page, name, "cursor")) is None else float(text) for name in LINE]


def windows(page: WidgetPage) -> list[list[float]]:
    page.settle()
    return [[float(t) for t in (of(page, name, "window") or "").split()] for name in LINE]


def said(page: WidgetPage) -> str:
    return page.text("#host-timeline .sx-live").replace("\u00a0", " ").replace("\u202f", " ")


def plain(page: WidgetPage, selector: str) -> str:
    return page.text(selector).replace("\u00a0", " ").replace("\u202f", " ")


def shift_drag(page: WidgetPage, start: int, end: int) -> None:
    box = page.box(CANVAS)
    page.page.keyboard.down("Shift")
    page.page.mouse.move(box["x"] + start, box["y"] + 70)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + end, box["y"] + 70, steps=5)
    page.page.mouse.up()
    page.page.keyboard.up("Shift")
    page.settle()


def answer(page: WidgetPage) -> dict[str, Any]:
    """Answer the last intent as Python would."""
    last = page.sent("timeline")[-1]
    if last["kind"] == "moment":
        told = {"moment": sample_moment.moment(last["time_s"], last["lane"], last["plan"])}
    else:
        plans = [sample_moment.area(last["from_s"], last["to_s"])]
        told = {"area": {"from_s": last["from_s"], "to_s": last["to_s"], "plans": plans}}
    page.receive("timeline", seq=last["seq"], **told)
    return last


def count_draws(page: WidgetPage) -> None:
    """Count how often the bars are drawn, and how often colours were read anew, which draws them as well."""
    page.settle()
    page.page.evaluate(
        """() => { window.drawn = window.themes = 0;
             const count = () => { window.themes += 1; };
             document.querySelector('#host-timeline .sx').addEventListener('sx-theme', count);
             const canvas = document.querySelector('#host-timeline .tl-canvas');
             const g = canvas.getContext('2d'), clear = g.clearRect.bind(g);
             g.clearRect = (...box) => { window.drawn += 1; clear(...box); }; }"""
    )


def test_the_mouse_on_one_shows_a_line_in_all(page: WidgetPage) -> None:
    assert cursors(page) == [None, None, None]
    before = [snapshot(page, f"#host-{name} canvas:last-of-type") for name in LINE]
    page.page.hover(CANVAS, position={"x": 500, "y": FIRST_LANE})
    first = cursors(page)
    assert first[0] is not None
    assert first == [first[0]] * 3
    assert all(
        snapshot(page, f"#host-{name} canvas:last-of-type") != old
        for name, old in zip(LINE, before, strict=True)
    )
    page.page.hover("#host-memory .hm-canvas", position={"x": 700, "y": 40})
    second = cursors(page)
    assert second[0] is not None
    assert second == [second[0]] * 3 != first
    page.page.mouse.move(1, 1)
    assert cursors(page) == [None, None, None]


def test_the_base_drawing_is_left_alone_by_the_cursor(page: WidgetPage) -> None:
    count_draws(page)
    for x in range(300, 700, 40):
        page.page.hover(CANVAS, position={"x": x, "y": FIRST_LANE})
    page.settle()
    assert page.page.evaluate("window.drawn <= window.themes")
    page.page.focus(CANVAS)
    page.page.keyboard.press("w")
    page.settle()
    assert page.page.evaluate("window.drawn > window.themes")


def test_zooming_one_zooms_all(page: WidgetPage) -> None:
    whole = windows(page)
    assert whole == [whole[0]] * 3
    page.page.focus(CANVAS)
    for key in "wwd":
        page.page.keyboard.press(key)
    zoomed = windows(page)
    assert zoomed == [zoomed[0]] * 3
    assert zoomed[0][1] - zoomed[0][0] < 0.6 * (whole[0][1] - whole[0][0])
    page.page.focus("#host-memory .hm-canvas")
    page.page.keyboard.press("0")
    assert windows(page) == whole
    page.page.keyboard.press("w")
    page.page.keyboard.press("a")
    back = windows(page)
    assert back == [back[0]] * 3 != whole
    page.page.keyboard.press("s")
    assert windows(page) == whole
    box = page.box("#host-links .hm-canvas")
    page.page.mouse.move(box["x"] + 500, box["y"] + 40)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    by_wheel = windows(page)
    assert by_wheel == [by_wheel[0]] * 3 != whole
    assert set(page.leaked()) <= {"Control"}


def test_a_zoomed_map_says_what_is_under_the_pointer(page: WidgetPage) -> None:
    page.page.focus("#host-memory .hm-canvas")
    for key in "www":
        page.page.keyboard.press(key)
    page.page.hover("#host-memory .hm-canvas", position={"x": 700, "y": 40})
    at = cursors(page)[0]
    start, end = windows(page)[1]
    assert at is not None
    assert start < at < end
    tip = plain(page, "#host-memory .sx-tip")
    told = float(tip.split(" at ")[1].split(" ")[0])
    assert told == pytest.approx(at, abs=0.02), tip


def test_another_workbench_and_a_run_keep_their_own_time(open_page: Open) -> None:
    page = views(open_page())
    bars, view = sample.timeline()
    page.show("other", Timeline(bars=bars, view=view, bench="two"))
    page.show("ran", Timeline(bars=bars, view={**view, "of_run": True}, bench="one", asks=True))
    page.settle()
    whole = windows(page)[0]
    page.page.focus(CANVAS)
    page.page.keyboard.press("w")
    page.page.hover(CANVAS, position={"x": 500, "y": FIRST_LANE})
    page.settle()
    for name in ("other", "ran"):
        assert [float(t) for t in (of(page, name, "window") or "").split()] == whole
        assert of(page, name, "cursor") is None
    assert page.page.locator('#host-ran [data-action="moment"]').is_hidden(), "nothing can be asked of a run"


def test_the_keyboards_bar_is_the_cursor_and_shift_moves_it(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    at = cursors(page)
    assert at[0] is not None
    assert at == [at[0]] * 3
    page.page.keyboard.press("Shift+ArrowRight")
    later = cursors(page)
    whole = windows(page)[0]
    assert later[0] == pytest.approx(at[0] + 0.01 * (whole[1] - whole[0]), abs=1e-5)
    assert "Cursor at" in said(page)
    page.page.keyboard.press("Shift+ArrowLeft")
    assert cursors(page)[2] == pytest.approx(at[0], abs=1e-5)
    page.page.focus("#host-memory .hm-canvas")
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("End")
    end = cursors(page)
    assert end == [end[0]] * 3
    assert end[0] > later[0]
    page.page.keyboard.press("Escape")
    assert cursors(page) == [None, None, None]
    assert page.leaked() == []


def test_memory_at_the_cursor_is_asked_for_and_told(page: WidgetPage) -> None:
    assert page.page.locator(".tl-moment").is_hidden()
    page.page.click('[data-action="moment"]')
    page.page.wait_for_function("window.models.timeline.sent.length === 1")
    answer(page)
    page.page.hover(CANVAS, position={"x": 500, "y": FIRST_LANE})
    page.page.hover(CANVAS, position={"x": 520, "y": FIRST_LANE + 31})
    assert "working it out" in page.text(".tl-moment")
    at = cursors(page)[0]
    while True:
        page.page.wait_for_function(
            "() => window.models.timeline.sent.at(-1).seq > window.models.timeline.get('seq')"
        )
        asked = answer(page)
        if asked["time_s"] == pytest.approx(at, abs=1e-6):
            break
    assert (asked["lane"], asked["plan"]) == (1, 0)
    assert asked["time_s"] == pytest.approx(at, abs=1e-6)
    card = plain(page, ".tl-moment")
    assert "stage 1 at" in card
    assert "of 79.2 GiB" in card
    for words in (
        "weights",
        "optimizer",
        "activations",
        "mlp.silu_mul, activations, 32 tensors",
        "41 smaller ones",
    ):
        assert words in card
    assert "work" not in card
    page.page.mouse.move(1, 1)
    assert cursors(page)[0] == at, "it stays where its memory is told"
    height = page.box("#host-timeline")["height"]
    page.page.hover(CANVAS, position={"x": 620, "y": FIRST_LANE})
    assert page.box("#host-timeline")["height"] == height, "hovering never moves anything"


def test_memory_is_asked_once_at_a_time_and_again_where_the_cursor_went(page: WidgetPage) -> None:
    page.page.click('[data-action="moment"]')
    page.page.hover(CANVAS, position={"x": 400, "y": FIRST_LANE})
    page.page.wait_for_function("window.models.timeline.sent.length === 1")
    for x in range(420, 700, 20):
        page.page.hover(CANVAS, position={"x": x, "y": FIRST_LANE})
    page.page.wait_for_timeout(400)
    assert len(page.sent("timeline")) == 1, "while one is under way no other is asked"
    first = answer(page)
    page.page.wait_for_function("window.models.timeline.sent.length === 2")
    last = answer(page)
    assert last["time_s"] != first["time_s"]
    assert last["time_s"] == pytest.approx(cursors(page)[0], abs=1e-6)
    page.page.wait_for_timeout(300)
    assert len(page.sent("timeline")) == 2, "known now"


def test_memory_by_keyboard_is_said(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("t")
    page.page.wait_for_function("window.models.timeline.sent.length === 1")
    answer(page)
    assert "stage 0 at" in said(page)
    assert "in use; largest: mlp.up.weight, optimizer, 8 tensors" in said(page)
    page.page.keyboard.press("t")
    assert page.page.locator(".tl-moment").is_hidden()
    assert page.leaked() == []


def test_an_area_is_marked_by_shift_and_a_drag(page: WidgetPage) -> None:
    before = snapshot(page, OVER)
    shift_drag(page, 400, 700)
    assert snapshot(page, OVER) != before
    assert page.get("timeline", "microbatch") is None
    assert windows(page)[0][0] == 0, "not panned"
    asked = page.sent("timeline")[-1]
    assert asked["kind"] == "area"
    assert 0 < asked["from_s"] < asked["to_s"]
    assert "being added up" in page.text(".tl-area")
    answer(page)
    card = plain(page, ".tl-area")
    assert "computing" in card
    assert "bubble" in card
    assert "sent, all of it transfers" in card
    assert "computing" in said(page)
    page.page.click('[data-action="area-lanes"]')
    assert page.page.locator(".tl-area tbody tr").count() == 5, "all devices, and four lanes"
    page.page.click('[data-action="area-zoom"]')
    assert windows(page)[2] == pytest.approx([asked["from_s"], asked["to_s"]], abs=1e-5)
    page.page.click('[data-action="area-clear"]')
    assert page.page.locator(".tl-area").is_hidden()


def test_an_area_is_marked_by_keys(page: WidgetPage) -> None:
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("b")
    assert "The area begins at" in said(page)
    begin = cursors(page)[0]
    for _ in range(6):
        page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("e")
    end = cursors(page)[0]
    asked = answer(page)
    assert [asked["from_s"], asked["to_s"]] == pytest.approx([begin, end], abs=1e-5)
    assert "sent" in said(page)
    page.page.keyboard.press("z")
    assert windows(page)[0] == pytest.approx([begin, end], abs=1e-5)
    page.page.keyboard.press("Escape")
    assert page.page.locator(".tl-area").is_hidden()
    assert "No area" in said(page)
    assert page.leaked() == []


def test_an_area_without_length_and_a_press_is_none(page: WidgetPage) -> None:
    page.page.click(CANVAS, position={"x": 500, "y": 70}, modifiers=["Shift"])
    assert page.page.locator(".tl-area").is_hidden()
    assert page.sent("timeline") == []
    page.page.focus(CANVAS)
    page.page.keyboard.press("b")
    page.page.keyboard.press("e")
    assert page.page.locator(".tl-area").is_hidden()
    assert page.sent("timeline") == []


def test_another_plan_is_asked_about_again(page: WidgetPage) -> None:
    shift_drag(page, 400, 700)
    answer(page)
    bars, view = sample.timeline()
    page.receive("timeline", bars=bars, view={**view, "text": "another"}, area={}, moment={})
    assert len(page.sent("timeline")) == 2, "the same area of the new plan"
    answer(page)
    assert "computing" in page.text(".tl-area")
    short, view = sample.timeline(scale=0.1)
    page.receive("timeline", bars=short, view=view, area={}, moment={})
    assert page.page.locator(".tl-area").is_hidden(), "beyond the end of the step there is nothing to mark"


def test_pointing_at_a_microbatch_draws_its_way(page: WidgetPage) -> None:
    page.page.hover(CANVAS, position={"x": LEFT + 8, "y": FIRST_LANE})
    page.settle()
    assert of(page, "timeline", "arrows") == "6", "three transfers there, three back"
    with_arrows = snapshot(page, OVER)
    page.page.hover(CANVAS, position={"x": 40, "y": FIRST_LANE})
    page.settle()
    assert of(page, "timeline", "arrows") == "0"
    assert snapshot(page, OVER) != with_arrows
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    page.settle()
    assert of(page, "timeline", "arrows") == "6", "by keyboard as well"
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Escape")
    page.settle()
    assert of(page, "timeline", "arrows") == "0"


def test_without_python_nothing_is_offered(open_page: Open) -> None:
    page = views(open_page(), asks=False)
    assert page.page.locator('[data-action="moment"]').is_hidden()
    page.page.focus(CANVAS)
    for key in "tbez":
        page.page.keyboard.press(key)
    shift_drag(page, 400, 700)
    assert page.sent("timeline") == []
    assert page.page.locator(".tl-area, .tl-moment").first.is_hidden()


def many(lanes: int = 64, microbatches: int = 512) -> Timeline:
    rows = [
        (start := (3 * m + k) * 1e-3 + lane * 1e-4, start + 9e-4, lane, kind, lane, 0, m, 1, -1, 0)
        for lane in range(lanes)
        for m in range(microbatches)
        for k, kind in enumerate((KINDS["F"], KINDS["I"], KINDS["W"]))
    ]  # fmt: skip
    names = [{"id": str(i), "name": f"stage {i}", "busy_fraction": 0.9} for i in range(lanes)]
    return Timeline(
        bars=pack(rows), view={"name": "A", "text": "", "end_s": rows[-1][1], "lanes": names}, bench="one"
    )


@pytest.mark.slow
def test_the_cursor_is_cheap_over_98304_bars(open_page: Open) -> None:
    """The overlay of half of all moves within 8 ms, and none of them draws the bars anew."""
    page = open_page()
    page.show("timeline", many())
    count_draws(page)

    def median_move() -> float:
        took: float = page.page.evaluate(
            """async () => { const canvas = document.querySelector('.tl-canvas');
                 const box = canvas.getBoundingClientRect(), took = [];
                 for (let k = 0; k < 40; k++) {
                   const at = {clientX: box.left + 200 + 20 * k, clientY: box.top + 60, bubbles: true};
                   const began = performance.now();
                   canvas.dispatchEvent(new PointerEvent('pointermove', at));
                   took.push(performance.now() - began);
                   await window.frames2();
                   took[k] += Number(document.querySelector('.sx-timeline').dataset.overMs);
                 }
                 return took.sort((a, b) => a - b)[20]; }"""
        )
        return took

    assert page.within(8, median_move)
    drawn, themes = page.page.evaluate("[window.drawn, window.themes]")
    assert drawn <= themes, "no bar is drawn anew"


@pytest.mark.parametrize("dark", [False, True])
def test_what_is_told_can_be_read_by_everyone(open_page: Open, dark: bool) -> None:
    page = views(open_page(width=864, dark=dark))
    shift_drag(page, 300, 500)
    answer(page)
    page.page.click('[data-action="area-lanes"]')
    page.page.click('[data-action="moment"]')
    page.page.wait_for_function("window.models.timeline.sent.at(-1).kind === 'moment'")
    answer(page)
    page.page.hover(CANVAS, position={"x": 500, "y": FIRST_LANE})
    grave = [
        f"{item['id']}: {item['nodes'][0]['html'][:120]}"
        for item in Axe().run(page.page, context="#cell").response["violations"]
        if item["impact"] in {"serious", "critical"}
    ]
    assert grave == []
    assert [(ratio, which) for ratio, which in page.contrasts() if ratio < 4.5] == []
    assert page.page.evaluate("window.unguarded()") == []


def test_while_the_order_is_edited_shift_still_marks(page: WidgetPage) -> None:
    page.page.click('[data-action="edit-order"]')
    shift_drag(page, 400, 700)
    assert page.sent("timeline")[-1]["kind"] == "area"
    assert page.page.locator(".tl-area").is_visible()


def test_what_python_refuses_is_not_waited_for(page: WidgetPage) -> None:
    shift_drag(page, 400, 700)
    page.receive("timeline", seq=1, notice={"level": "error", "text": "no"})
    assert "could not be added up" in page.text(".tl-area")
