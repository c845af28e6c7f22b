"""Heatmaps in a real browser with a fake model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import sample
from canvas import painted, snapshot
from harness import WidgetPage

from widgets import Heatmap

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]
CANVAS = ".hm-canvas"


def memory(**more: Any) -> Heatmap:
    cells, view = sample.memory()
    return Heatmap(cells=cells, view=view, **more)


def traffic(**more: Any) -> Heatmap:
    cells, links = sample.links()
    return Heatmap(cells=cells, view={**sample.traffic(), "links": links}, **more)


def said(page: WidgetPage) -> str:
    return page.text(".sx-heatmap .sx-live").replace("\u00a0", " ")


def test_memory_names_its_peak_and_tells_cells(open_page: Open) -> None:
    page = open_page()
    page.show("memory", memory())
    page.settle()
    assert painted(page, CANVAS) > 6
    assert "Peak 75.2" in (page.page.get_attribute(CANVAS, "aria-label") or "")
    page.page.hover(CANVAS, position={"x": 600, "y": 40})
    assert "gpu 0 at" in page.text(".sx-tip")
    assert "of capacity" in page.text(".sx-tip")


def test_pictures_are_switched_by_mouse_and_keyboard(open_page: Open) -> None:
    page = open_page()
    page.show("memory", memory())
    over_time = snapshot(page, CANVAS)
    page.page.click('[data-action="show-parts"]')
    assert page.get("memory", "shown") == "parts"
    assert snapshot(page, CANVAS) != over_time
    assert "at its peak" in page.text(".sx-head")
    page.page.hover(CANVAS, position={"x": 90, "y": 40})
    assert "gpu 0, weight" in page.text(".sx-tip")
    page.page.focus('[data-action="show-parts"]')
    page.page.keyboard.press("ArrowLeft")
    assert page.get("memory", "shown") == "time"
    assert page.page.evaluate("document.activeElement.dataset.action") == "show-time"
    assert page.leaked() == []


def test_python_chooses_the_picture(open_page: Open) -> None:
    page = open_page()
    page.show("traffic", traffic(shown="links"))
    assert "share of each link" in page.text(".sx-head")
    page.receive("traffic", shown="pairs")
    assert "row to column" in page.text(".sx-head")
    page.receive("traffic", shown="what is this")
    assert "row to column" in page.text(".sx-head"), "what is not there falls back to the first"


def test_pairs_leave_empty_cells_empty(open_page: Open) -> None:
    page = open_page()
    page.show("traffic", traffic())
    page.settle()
    page.page.hover(CANVAS, position={"x": 54 + 2.5 * 50, "y": 22 + 15})  # wider than high
    assert "gpu 0 → gpu 1" in page.text(".sx-tip")
    page.page.hover(CANVAS, position={"x": 54 + 15, "y": 22 + 15})
    assert "nothing" in page.text(".sx-tip")
    page.page.click('[data-action="table"]')
    assert page.page.locator("tbody tr").count() == len(sample.traffic()["pairs"])
    assert "log scale" in page.text(".hm-legend")


def test_links_over_time_have_a_scale_of_their_own(open_page: Open) -> None:
    page = open_page()
    page.show("traffic", traffic(shown="links"))
    page.settle()
    assert painted(page, CANVAS) > 3
    assert "%" in page.text(".hm-legend")
    page.page.hover(CANVAS, position={"x": 600, "y": 40})
    assert "gpu 0 → nvswitch at" in page.text(".sx-tip")
    page.page.click('[data-action="table"]')
    assert page.page.locator("tbody tr").count() == 8


def test_cells_are_reached_and_said_by_keyboard(open_page: Open) -> None:
    page = open_page()
    page.show("memory", memory())
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    first = said(page)
    assert first.startswith("gpu 0 at")
    page.page.keyboard.press("ArrowRight")
    assert said(page) != first
    page.page.keyboard.press("ArrowDown")
    assert said(page).startswith("gpu 1 at")
    page.page.keyboard.press("End")
    page.page.keyboard.press("Enter")
    assert page.get("memory", "selected_lanes") == ["0"]
    assert page.page.locator(".sx-tip").is_visible(), "what is said is seen as well"
    page.page.keyboard.press("Escape")
    assert page.page.locator(".sx-tip").is_hidden()
    assert page.leaked() == []


def test_a_row_is_marked_by_click_and_shown(open_page: Open) -> None:
    page = open_page()
    page.show("memory", memory())
    before = snapshot(page, CANVAS)
    page.page.click(CANVAS, position={"x": 20, "y": 34})
    assert page.get("memory", "selected_lanes") == ["0"]
    assert snapshot(page, CANVAS) != before
    page.page.click(CANVAS, position={"x": 20, "y": 34})
    assert page.get("memory", "selected_lanes") == []


@pytest.mark.parametrize("shown", ["time", "parts"])
def test_the_second_plan_stands_beside_on_the_same_scale(open_page: Open, shown: str) -> None:
    page = open_page()
    page.show("memory", memory(shown=shown))
    page.settle()
    height = page.box(CANVAS)["height"]
    cells, view = sample.memory(80)
    parts = [[2 * part for part in row] for row in view["parts"]["bytes"]]
    view_b = {**view, "name": "B: even cut", "parts": {**view["parts"], "bytes": parts}}
    page.receive("memory", view_b=view_b, cells_b=cells)
    page.settle()
    assert page.box(CANVAS)["height"] == height + 18, "beside, under a title of its own"
    label = page.page.get_attribute(CANVAS, "aria-label")
    assert "B: even cut: " in label
    page.page.focus(CANVAS)
    page.page.keyboard.press("ArrowRight")
    assert "B: even cut: " in said(page)
    page.page.click('[data-action="table"]')
    assert page.page.locator("tbody tr").count() == 16
    page.page.click('[data-action="table"]')
    page.page.set_viewport_size({"width": 700, "height": 900})
    page.settle()
    assert page.box(CANVAS)["height"] > 1.9 * height, "below where there is no room"


def test_it_repaints_when_its_cells_change(open_page: Open) -> None:
    page = open_page()
    page.show("memory", memory())
    before = snapshot(page, CANVAS)
    page.receive("memory", cells=bytes(len(sample.memory()[0])))
    assert snapshot(page, CANVAS) != before


@pytest.mark.parametrize("dark", [False, True])
def test_texts_can_be_read(open_page: Open, dark: bool) -> None:
    page = open_page(width=500, dark=dark)
    page.show("memory", memory())
    page.show("traffic", traffic(shown="links"))
    assert not [item for item in page.contrasts() if item[0] < 4.5]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 500
    assert page.page.evaluate("window.unguarded()") == []


def test_a_map_of_traffic_leaves_no_empty_column_beside_it(open_page: Open) -> None:
    page = open_page(width=560)
    page.show("traffic", traffic())
    canvas = page.page.locator(".hm-canvas")
    width, scale = page.page.evaluate(
        "() => { const c = document.querySelector('.hm-canvas');"
        " return [c.clientWidth, c.width / c.clientWidth]; }"
    )
    reach = page.page.evaluate(
        """() => { const c = document.querySelector('.hm-canvas'), g = c.getContext('2d');
                   const { data } = g.getImageData(0, 0, c.width, c.height);
                   let right = 0;
                   for (let i = 3; i < data.length; i += 4) if (data[i]) right = Math.max(right, ((i - 3) / 4) % c.width);
                   return right; }"""  # noqa: E501
    )
    assert canvas.count() == 1
    assert reach / scale > 0.85 * width


def test_one_amount_everywhere_has_no_scale(open_page: Open) -> None:
    page = open_page(width=560)
    view = sample.traffic()
    view = view | {"pairs": [[source, target, 2.0**30] for source, target, _ in view["pairs"]]}
    page.show("traffic", Heatmap(view=view))
    assert page.text(".hm-legend").replace("\u00a0", " ").strip() == "1.0 GiB wherever anything is sent"
    assert not page.page.locator(".hm-ramp").first.is_visible()
    page.show("traffic", traffic())
    assert page.page.locator(".hm-ramp").last.is_visible()


@pytest.mark.parametrize("width", [420, 560, 848])
def test_numbers_of_a_scale_do_not_touch(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    page.show("memory", memory())
    page.show("traffic", traffic())
    boxes = page.page.eval_on_selector_all(
        ".hm-ramp > span",
        """(spans) => spans.filter((span) => span.offsetParent && getComputedStyle(span).display !== "none")
             .map((span) => { const b = span.getBoundingClientRect(); return [b.top, b.left, b.right]; })""",
    )
    rows: dict[int, list[list[float]]] = {}
    for top, left, right in boxes:
        rows.setdefault(round(top), []).append([left, right])
    assert rows
    for row in rows.values():
        row.sort()
        assert all(after[0] - before[1] >= 2 for before, after in pairwise(row)), row
