"""The What-if sliders in a real browser: mouse, keyboard, typing, wrong numbers, narrow and dark pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import WhatIf

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]


def show(page: WidgetPage, **more: Any) -> None:
    page.show("whatif", WhatIf(view=sample.what_if_view() | more))


def sent(page: WidgetPage) -> list[tuple[Any, ...]]:
    return [(m["kind"], m.get("key") or m.get("action"), m.get("value")) for m in page.sent("whatif")]


def test_a_key_moves_a_slider_by_one_stop(open_page: Open) -> None:
    page = open_page()
    show(page)
    slider = page.page.locator('[data-field="whatif_bandwidth"]')
    assert slider.get_attribute("aria-valuetext") == "1 ×, as now"
    slider.focus()
    page.page.keyboard.press("ArrowRight")
    assert sent(page) == [("set", "whatif_bandwidth", 2)]
    assert slider.get_attribute("aria-valuetext") == "2 ×"
    assert page.page.input_value('[data-field="whatif_bandwidth.text"]') == "2"
    assert page.leaked() == []


def test_while_an_answer_is_awaited_only_the_newest_value_is_kept(open_page: Open) -> None:
    page = open_page()
    show(page)
    page.page.focus('[data-field="whatif_bandwidth"]')
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
    assert sent(page) == [("set", "whatif_bandwidth", 2)]
    view = sample.what_if_view()
    view["sliders"][0] |= {"value": 2.0, "changed": True}
    page.receive("whatif", view=view, seq=1)
    assert sent(page)[1:] == [("set", "whatif_bandwidth", 10)]
    assert page.page.input_value('[data-field="whatif_bandwidth.text"]') == "10", "no jump back"
    view["sliders"][0] |= {"value": 10.0}
    page.receive("whatif", view={**view}, seq=2)
    assert page.page.input_value('[data-field="whatif_bandwidth.text"]') == "10"


def test_any_number_can_be_typed(open_page: Open) -> None:
    page = open_page()
    show(page)
    for value in ("48", "16 384", "many"):
        page.page.fill('[data-field="whatif_global_batch.text"]', value)
        page.page.press('[data-field="whatif_global_batch.text"]', "Enter")
    assert [value for _, _, value in sent(page)] == [48, 16384, "many"]


def test_a_wrong_number_is_said_at_its_field_and_stays(open_page: Open) -> None:
    page = open_page()
    show(page)
    field = page.page.locator('[data-field="whatif_sequence_length.text"]')
    assert field.input_value() == "many"
    assert field.get_attribute("aria-invalid") == "true"
    assert "a whole number" in page.text('[data-slider="whatif_sequence_length"] [role=alert]')
    assert page.page.input_value('[data-field="whatif_sequence_length"]') == "2", "it stays"


def test_figures_now_and_then(open_page: Open) -> None:
    page = open_page()
    show(page)
    row = page.text('[data-figure="step_time"]').replace("\u00a0", " ")
    assert "6.44 s" in row
    assert "12.1 s" in row
    assert "+87.9 %" in row
    assert page.page.locator('[data-figure="memory"] .sx-tri').is_visible(), "colour is never alone"
    assert not page.page.locator('[data-figure="step_time"] .sx-tri').is_visible()
    view = sample.what_if_view()
    view["rows"][0]["then"] = None
    page.receive("whatif", view=view)
    assert "–" in page.text('[data-figure="step_time"]')


def test_apply_is_off_where_nothing_can_be_applied(open_page: Open) -> None:
    page = open_page()
    show(page)
    page.page.dispatch_event('[data-action="whatif_apply"]', "click")
    assert sent(page) == []
    page.page.click('[data-action="whatif_reset"]')
    assert sent(page) == [("action", "whatif_reset", None)]


def test_without_a_plan_it_says_so(open_page: Open) -> None:
    page = open_page()
    page.show("whatif", WhatIf())
    assert "choose a model" in page.text(".sx-empty")
    assert page.page.locator("input").count() == 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [520, 1000, 1400])
def test_it_fits_and_can_be_read(open_page: Open, width: int, *, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    show(page)
    assert not [found for found in page.contrasts() if found[0] < 4.5]
    assert page.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
    sliders, table = page.box(".w-sliders"), page.box(".w-table")
    if width >= 1000:
        assert sliders["x"] + sliders["width"] < table["x"], "side by side"
    else:
        assert sliders["y"] + sliders["height"] <= table["y"], "one above the other"
    names = page.page.eval_on_selector_all("input", "(all) => all.map((e) => e.getAttribute('aria-label'))")
    assert all(names)
