"""Tiles, controls, timeline, heatmap and graph in a real browser with a fake model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import Controls, GraphView, Heatmap, Tiles, Timeline
from widgets.timeline import KINDS, pack

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]


def timeline(**more: Any) -> Timeline:
    bars, view = sample.timeline()
    return Timeline(bars=bars, view=view, **more)


def painted(page: WidgetPage, selector: str) -> int:
    """How many different colours a canvas holds."""
    return int(page.page.evaluate("(s) => window.colours(s)", selector))


def snapshot(page: WidgetPage, selector: str) -> str:
    return str(page.page.evaluate("(s) => document.querySelector(s).toDataURL()", selector))


# ---- tiles


def test_tiles_carry_their_keys_and_say_value_difference_and_measurement(open_page: Open) -> None:
    page = open_page()
    page.show("tiles", Tiles(view=sample.tiles_view()))
    keys = page.page.eval_on_selector_all("[data-kpi]", "(all) => all.map((t) => t.dataset.kpi)")
    assert keys == ["step_time", "throughput", "speedup", "memory", "bubble", "mfu"]
    text = page.text('[data-kpi="step_time"]').replace("\u00a0", " ")
    assert "6.44" in text
    assert "−3.4 %" in text
    assert "measured" in text
    assert page.page.locator('[data-kpi="memory"] .sx-tri').is_visible(), "colour is never alone"
    assert not page.page.locator('[data-kpi="bubble"] .sx-tri').is_visible()
    assert "▲" in page.text('[data-kpi="mfu"]'), "measured outside the band"
    assert "▲" not in page.text('[data-kpi="step_time"]')


def test_verdict_is_announced_and_its_button_is_an_intent(open_page: Open) -> None:
    page = open_page()
    page.show("tiles", Tiles(view=sample.tiles_view()))
    assert page.page.get_attribute(".t-text", "aria-live") == "polite"
    assert "**" not in page.text(".t-text")
    page.page.click('[data-action="apply_hint"]')
    assert page.sent("tiles") == [{"seq": 1, "kind": "action", "action": "apply_hint"}]
    page.receive("tiles", view=sample.tiles_view("busy"), seq=1)
    assert page.page.locator("[role=progressbar]").is_visible()
    assert page.page.get_attribute("[role=progressbar]", "aria-valuenow") == "60"
    assert page.page.locator('[data-action="stop"]').is_visible()


def test_verdict_is_never_read_as_html(open_page: Open) -> None:
    page = open_page()
    view = sample.tiles_view()
    view["verdict"]["text"] = "<img src=x onerror=alert(1)> **<b>bold</b>**"
    page.show("tiles", Tiles(view=view))
    assert page.page.locator(".t-text img").count() == 0
    assert "<img" in page.text(".t-text")


# ---- controls


def test_controls_send_what_is_set_and_pressed(open_page: Open) -> None:
    page = open_page()
    page.show("controls", Controls(view=sample.controls_view()))
    page.page.select_option('[data-field="model"]', "gpt2-small")
    page.page.fill('[data-field="global_batch"]', "64")
    page.page.press('[data-field="global_batch"]', "Enter")
    page.page.click('[data-action="search"]')
    assert [{key: value for key, value in m.items() if key != "seq"} for m in page.sent("controls")] == [
        {"kind": "set", "key": "model", "value": "gpt2-small"},
        {"kind": "set", "key": "global_batch", "value": 64},
        {"kind": "action", "action": "search"},
    ]
    assert page.page.locator('[data-action="redo"]').is_disabled()


@pytest.mark.parametrize(
    ("text", "complaint"), [("many", "not a number"), ("0", "at least 1"), ("1.5", "a whole number")]
)
def test_a_wrong_number_is_said_at_the_field_and_kept(open_page: Open, text: str, complaint: str) -> None:
    page = open_page()
    page.show("controls", Controls(view=sample.controls_view()))
    page.page.fill('[data-field="global_batch"]', text)
    page.page.press('[data-field="global_batch"]', "Tab")
    assert page.sent("controls") == []
    assert complaint in page.text(".c-fields")
    assert page.page.input_value('[data-field="global_batch"]') == text


def test_an_error_from_python_is_said_at_the_field(open_page: Open) -> None:
    page = open_page()
    view = sample.controls_view()
    view["fields"][2]["error"] = "33 does not divide by 2 replicas"
    page.show("controls", Controls(view=view))
    assert "33 does not divide" in page.text(".c-fields")
    assert page.page.get_attribute('[data-field="global_batch"]', "aria-invalid") == "true"


# ---- timeline


def test_timeline_draws_and_says_what_it_shows(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline())
    page.page.wait_for_timeout(100)
    assert painted(page, ".tl-canvas") > 6
    assert "4 lanes" in (page.page.get_attribute(".tl-canvas", "aria-label") or "")


def test_timeline_zooms_and_pans_by_keys_buttons_and_wheel(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline())
    page.page.wait_for_timeout(100)

    def window() -> list[float]:
        page.settle()
        return [float(t) for t in page.page.get_attribute(".sx-timeline", "data-window").split()]

    whole = window()
    page.page.focus(".tl-canvas")
    page.page.keyboard.press("w")
    zoomed = window()
    assert zoomed[1] - zoomed[0] < 0.8 * (whole[1] - whole[0])
    page.page.keyboard.press("d")
    assert window()[0] > zoomed[0]
    page.page.click('[data-action="zoom-all"]')
    assert window() == whole
    box = page.box(".tl-canvas")
    page.page.mouse.move(box["x"] + 400, box["y"] + 60)
    page.page.keyboard.down("Control")
    page.page.mouse.wheel(0, -300)
    page.page.keyboard.up("Control")
    assert window()[1] - window()[0] < whole[1] - whole[0]
    assert page.leaked() == ["Control"], "plain keys stay inside"


def test_wheel_scrolls_the_page_until_the_timeline_is_focused(open_page: Open) -> None:
    page = open_page(height=200)
    page.show("timeline", timeline())
    page.page.wait_for_timeout(100)
    before = page.page.get_attribute(".sx-timeline", "data-window")
    page.page.mouse.move(500, 100)
    page.page.mouse.wheel(0, 80)
    page.page.wait_for_timeout(100)
    assert page.page.get_attribute(".sx-timeline", "data-window") == before
    assert page.page.evaluate("scrollY") > 0


def test_a_click_follows_a_microbatch_and_a_second_one_lets_go(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline())
    page.page.wait_for_timeout(100)
    before = snapshot(page, ".tl-canvas")
    place = {"x": 108 + 8, "y": 20 + 22 + 12}  # first forward of stage 0
    page.page.click(".tl-canvas", position=place)
    page.page.wait_for_timeout(60)
    assert page.get("timeline", "microbatch") == 0
    assert "Microbatch 0" in page.text(".tl-card")
    assert snapshot(page, ".tl-canvas") != before
    page.page.click(".tl-canvas", position=place)
    assert page.get("timeline", "microbatch") is None


def test_hover_says_what_a_bar_is(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline())
    page.page.wait_for_timeout(100)
    page.page.hover(".tl-canvas", position={"x": 116, "y": 54})
    assert "F forward, microbatch 0" in page.text(".sx-tip")
    page.page.hover(".tl-canvas", position={"x": 40, "y": 54})
    assert not page.page.locator(".sx-tip").is_visible()


def test_a_second_plan_is_drawn_below(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline())
    page.page.wait_for_timeout(100)
    height = page.box(".tl-canvas")["height"]
    bars, view = sample.timeline("B", "ZB-H1", True, 0.93)
    page.receive("timeline", bars_b=bars, view_b=view)
    page.page.wait_for_timeout(100)
    assert page.box(".tl-canvas")["height"] > 1.7 * height
    assert "W weight gradient" in page.text(".sx-legend")


def test_table_stands_behind_the_drawing(open_page: Open) -> None:
    page = open_page()
    page.show("timeline", timeline())
    page.page.click('[data-action="table"]')
    assert page.page.locator("tbody tr").count() > 100
    assert page.page.locator(".tl-canvas").is_hidden()
    page.page.click('[data-action="table"]')
    assert page.page.locator(".tl-canvas").is_visible()


def test_many_bars_are_drawn_fast(open_page: Open) -> None:
    lanes, microbatches = 64, 512
    rows = [
        (
            (m * 3 + k) * 0.001 + lane * 1e-4,
            (m * 3 + k + 0.9) * 0.001 + lane * 1e-4,
            lane,
            kind,
            lane,
            0,
            m,
            1,
            -1,
            0,
        )
        for lane in range(lanes)
        for m in range(microbatches)
        for k, kind in enumerate((KINDS["F"], KINDS["I"], KINDS["W"]))
    ]
    view = {
        "name": "A",
        "text": "large",
        "end_s": rows[-1][1],
        "lanes": [{"id": str(i), "name": f"stage {i}", "busy_fraction": 0.9} for i in range(lanes)],
    }
    page = open_page()
    page.show("timeline", Timeline(bars=pack(rows), view=view))
    page.page.wait_for_function("document.querySelector('.sx-timeline').dataset.drawMs")
    assert float(page.page.get_attribute(".sx-timeline", "data-draw-ms") or 1e9) < 600
    assert painted(page, ".tl-canvas") > 4


# ---- heatmap


def test_memory_heatmap_names_its_peak_and_tells_cells(open_page: Open) -> None:
    cells, view = sample.memory()
    page = open_page()
    page.show("memory", Heatmap(cells=cells, view=view))
    page.page.wait_for_timeout(100)
    assert painted(page, ".hm-canvas") > 6
    assert "Peak 75.2" in (page.page.get_attribute(".hm-canvas", "aria-label") or "")
    page.page.hover(".hm-canvas", position={"x": 600, "y": 40})
    assert "gpu 0 at" in page.text(".sx-tip")
    assert "of capacity" in page.text(".sx-tip")


def test_traffic_heatmap_leaves_empty_cells_empty(open_page: Open) -> None:
    page = open_page()
    page.show("traffic", Heatmap(view=sample.traffic()))
    page.page.wait_for_timeout(100)
    page.page.hover(".hm-canvas", position={"x": 54 + 50, "y": 22 + 15})
    assert "gpu 0 → gpu 1" in page.text(".sx-tip")
    page.page.hover(".hm-canvas", position={"x": 54 + 15, "y": 22 + 15})
    assert "nothing" in page.text(".sx-tip")
    page.page.click('[data-action="table"]')
    assert page.page.locator("tbody tr").count() == len(sample.traffic()["pairs"])


def test_heatmap_repaints_when_its_cells_change(open_page: Open) -> None:
    cells, view = sample.memory()
    page = open_page()
    page.show("memory", Heatmap(cells=cells, view=view))
    page.page.wait_for_timeout(100)
    before = snapshot(page, ".hm-canvas")
    page.receive("memory", cells=bytes(len(cells)))
    page.page.wait_for_timeout(100)
    assert snapshot(page, ".hm-canvas") != before


# ---- graph


def graph(**more: Any) -> GraphView:
    return GraphView(view=sample.graph_view(), opened="layers.17", **more)


def test_repeats_are_folded_and_one_block_is_open(open_page: Open) -> None:
    page = open_page()
    page.show("graph", graph(selection=["layers.26"]))
    spine = page.page.locator(".g-nodes >> nth=0").locator(".g-node")
    assert spine.count() == 5
    assert "block × 17" in spine.nth(1).inner_text()
    assert page.page.locator(".g-open .g-node").count() == 14
    assert page.page.locator(".g-notch:visible").get_attribute("data-label") == "26"


def test_selection_and_opening_by_mouse_and_keyboard(open_page: Open) -> None:
    page = open_page()
    page.show("graph", graph())
    page.page.click('[data-node="head"]')
    assert page.get("graph", "selection") == ["head"]
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("Enter")
    assert page.get("graph", "opened") == "layers.18"
    page.page.click('[data-node="layers.17.mlp.up"]')
    assert page.get("graph", "selection") == ["layers.17.mlp.up"]
    page.page.keyboard.press("d")
    assert page.leaked() == []


def test_boxes_of_the_graph_never_overlap_on_a_narrow_page(open_page: Open) -> None:
    page = open_page(width=520)
    page.show("graph", graph())
    boxes = page.page.evaluate("window.boxes('.g-open .g-node')")
    assert len(boxes) == 14
    for i, a in enumerate(boxes):
        assert a[2] <= 520
        for b in boxes[i + 1 :]:
            assert a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5 or a[3] <= b[1] + 0.5 or b[3] <= a[1] + 0.5


# ---- all


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1000, 1400])
def test_everything_on_one_page_can_be_read(open_page: Open, dark: bool, width: int) -> None:
    page = open_page(width=width, dark=dark)
    cells, memory = sample.memory()
    page.show("controls", Controls(view=sample.controls_view()))
    page.show("tiles", Tiles(view=sample.tiles_view("bad")))
    page.show("timeline", timeline(microbatch=7))
    page.show("memory", Heatmap(cells=cells, view=memory))
    page.show("graph", graph(selection=["layers.26"]))
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item for item in page.contrasts() if item[0] < 4.5]


@pytest.mark.parametrize("widget", [Tiles, Controls, Timeline, Heatmap, GraphView])
def test_empty_widgets_draw(open_page: Open, widget: type) -> None:
    page = open_page()
    page.show("empty", widget())
    assert page.page.locator(".sx").count() == 1
    page.receive(
        "empty", notice={"level": "error", "text": "cluster.yaml: key nodes: found -1, allowed at least 1"}
    )
    assert "cluster.yaml" in page.text(".sx-notice")
