"""Tiles, sentence and reasons in a real browser: previews of a drag, keyboard, narrow and dark pages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import Tiles

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]

ESTIMATE: dict[str, Any] = {
    "bench": "b1",
    "values": {"step_time": 6.7816, "throughput": 19319.0, "memory": 1.13, "bubble": 0.276, "mfu": 0.398},
    "levels": {"memory": "bad"},
    "verdict": {"level": "bad", "text": "**Would not fit.** Stage 0: 10.3 GiB over capacity.",
                "note": "Estimate. Esc cancels."},
}  # fmt: skip


def show(page: WidgetPage, **more: Any) -> None:
    page.show("tiles", Tiles(view=sample.tiles_view() | more, bench="b1"))


def preview(page: WidgetPage, **detail: Any) -> None:
    page.page.evaluate(
        "(detail) => document.dispatchEvent(new CustomEvent('sx-preview', { detail }))", ESTIMATE | detail
    )
    page.settle()


def text(page: WidgetPage, selector: str) -> str:
    return page.text(selector).replace("\u00a0", " ").replace("\u202f", " ")


def focused(page: WidgetPage, attribute: str) -> str | None:
    found = page.page.evaluate("(name) => document.activeElement.getAttribute(name)", attribute)
    return None if found is None else str(found)


def places(page: WidgetPage) -> list[dict[str, float]]:
    return [page.box(part) for part in (".t-tiles", ".t-verdict", ".t-why", '[data-kpi="mfu"]')]


# ---- previews


@pytest.mark.parametrize("width", [1000, 1400])
def test_a_drag_shows_the_estimate_and_moves_nothing(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    show(page)
    before, said = places(page), page.text(".t-text")
    preview(page)
    assert places(page) == before
    step = text(page, '[data-kpi="step_time"]')
    assert "6.78" in step
    assert "+5.3 %" in step
    assert "against now" in step
    assert "now" in step
    assert "6.44 s" in step
    memory = page.page.locator('[data-kpi="memory"]')
    assert memory.locator(".sx-tri").is_visible()
    assert "bad" in str(memory.get_attribute("class"))
    assert "known on release" in page.text('[data-kpi="exposed_communication"]')
    assert "Would not fit." in page.text(".t-text")
    assert "Estimate. Esc cancels." in page.text(".t-note")
    assert page.page.locator(".t-verdict button").count() == 0
    assert page.page.get_attribute(".t-text", "aria-live") == "off", "not read out at every pixel"
    preview(page, values=None)
    assert places(page) == before
    assert page.text(".t-text") == said
    assert page.page.get_attribute(".t-text", "aria-live") == "polite"
    assert page.sent("tiles") == []


def test_another_workbenchs_drag_is_not_ours(open_page: Open) -> None:
    page = open_page()
    show(page)
    preview(page, bench="b2")
    assert "6.44" in text(page, '[data-kpi="step_time"] .t-value')
    preview(page)
    preview(page, bench="b2", values=None)
    assert "6.78" in text(page, '[data-kpi="step_time"] .t-value')


def test_an_answer_in_the_middle_of_a_preview_is_not_shown_before_it_ends(open_page: Open) -> None:
    page = open_page()
    show(page)
    preview(page)
    view = sample.tiles_view()
    view["tiles"][0]["value"] = 5.0
    page.receive("tiles", view=view)
    assert "6.78" in text(page, '[data-kpi="step_time"] .t-value')
    preview(page, values=None)
    assert "5.00" in text(page, '[data-kpi="step_time"] .t-value')


def test_a_closed_widget_listens_no_more(open_page: Open) -> None:
    page = open_page()
    show(page)
    page.reset()
    preview(page)


# ---- why


def test_reasons_are_listed_and_applied_by_keyboard(open_page: Open) -> None:
    page = open_page()
    show(page)
    shown = page.page.eval_on_selector_all("[data-reason]", "(all) => all.map((r) => r.dataset.reason)")
    assert shown == ["balance"]
    assert "16 %" in text(page, '[data-reason="balance"]')
    page.page.focus('[data-action="why"]')
    page.page.keyboard.press("Enter")
    assert page.page.get_attribute('[data-action="why"]', "aria-expanded") == "true"
    shown = page.page.eval_on_selector_all("[data-reason]", "(all) => all.map((r) => r.dataset.reason)")
    assert shown == ["balance", "bubble", "memory", "shape"]
    assert page.page.locator('[data-reason="shape"]').is_visible()
    assert not page.page.locator('[data-reason="shape"] button').is_visible()
    page.page.keyboard.press("Tab")
    assert focused(page, "aria-label") == "Apply: Move block 26 to stage 3"
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("Space")
    assert page.sent("tiles") == [{"seq": 1, "kind": "action", "action": "apply_reason:bubble"}]
    assert page.leaked() == []


def test_old_reasons_stay_grey_without_working_buttons(open_page: Open) -> None:
    page = open_page()
    show(page, reasons=sample.reasons(old=True), reasoning=True)
    assert "former plan" in page.text(".t-why-status")
    button = page.page.locator('[data-reason="balance"] button')
    assert button.get_attribute("aria-disabled") == "true"
    button.focus()
    page.page.keyboard.press("Enter")
    button.dispatch_event("click")
    assert page.sent("tiles") == []
    assert not [found for found in page.contrasts() if found[0] < 4.5]


def test_focus_stays_with_its_reason_when_the_list_is_sorted(open_page: Open) -> None:
    page = open_page()
    show(page)
    page.page.click('[data-action="why"]')
    page.page.focus('[data-reason="bubble"] button')
    rows = sample.reasons()
    page.receive("tiles", view=sample.tiles_view() | {"reasons": [rows[1], rows[0], rows[2]]})
    assert focused(page, "data-action") == "apply_reason:bubble"
    page.receive("tiles", view=sample.tiles_view() | {"reasons": [rows[0], rows[2], rows[3]]})
    assert focused(page, "data-action") == "apply_reason:balance", "its row is gone"


@pytest.mark.parametrize("opened", [False, True])
def test_the_list_keeps_its_height_while_reasons_come(open_page: Open, *, opened: bool) -> None:
    page = open_page(width=1000)
    show(page, reasons=sample.reasons()[:3])
    if opened:
        page.page.click('[data-action="why"]')
    height = page.box(".t-why")["height"]
    for count in (0, 1, 2):
        page.receive(
            "tiles", view=sample.tiles_view() | {"reasons": sample.reasons()[:count], "reasoning": True}
        )
        assert page.box(".t-why")["height"] == pytest.approx(height, abs=1)
    page.receive("tiles", view=sample.tiles_view() | {"reasons": [], "reasoning": False})
    assert not page.page.locator(".t-why").is_visible()


@pytest.mark.parametrize("width", [760, 848, 1168, 1488])
def test_why_is_one_row_until_it_is_opened(open_page: Open, width: int) -> None:
    page = open_page(width=width)
    show(page)
    assert page.box(".t-why")["height"] <= 64
    assert page.page.locator('[data-reason="balance"]').is_visible()
    assert not page.page.locator('[data-reason="bubble"]').is_visible()
    page.page.focus('[data-action="why"]')
    page.page.keyboard.press("Enter")
    assert page.page.get_attribute('[data-action="why"]', "aria-expanded") == "true"
    assert page.page.locator('[data-reason="shape"]').is_visible()
    page.page.click('[data-reason="balance"] button')
    assert page.sent("tiles")[-1]["action"] == "apply_reason:balance"


def test_reasons_are_never_read_as_html(open_page: Open) -> None:
    page = open_page()
    rows = sample.reasons()
    rows[0] |= {"text": "<img src=x onerror=alert(1)> **<b>bold</b>**", "topic": "<i>x</i>"}
    show(page, reasons=rows)
    assert page.page.locator('[data-reason="balance"] img, [data-reason="balance"] i').count() == 0


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [700, 1000, 1400])
def test_nothing_is_clipped_and_all_can_be_read(open_page: Open, width: int, *, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    show(page)
    for estimate in (False, True):
        if estimate:
            preview(page)
        assert not [found for found in page.contrasts() if found[0] < 4.5]
        wide = page.page.evaluate(
            "() => [...document.querySelectorAll('.t-number, .t-value, .t-why-text')]"
            ".filter((e) => e.offsetParent && e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
            ".map((e) => e.className)"
        )
        assert not wide
        assert page.page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")


def test_the_band_is_drawn_where_there_is_room(open_page: Open) -> None:
    page = open_page(width=1400)
    show(page)
    band = page.page.locator('[data-kpi="step_time"] .t-band svg')
    assert band.is_visible()
    assert band.locator("circle").count() == 1, "measured"
    assert not page.page.locator('[data-kpi="exposed_communication"] .t-band svg').is_visible()
    show(two_rows := open_page(width=1000))
    assert two_rows.page.locator('[data-kpi="step_time"] .t-band svg').is_visible()
    narrow = open_page(width=600)
    show(narrow)
    assert not narrow.page.locator('[data-kpi="step_time"] .t-band').is_visible()


def test_how_sure_is_told_below_by_mouse_and_keyboard(open_page: Open) -> None:
    page = open_page(width=1000)
    band = {
        "low": 8.19,
        "high": 9.07,
        "band_from": "80 % band from the profile's sources",
        "narrow": "Measure it.",
    }
    tiles = sample.tiles_view()["tiles"]
    page.show(
        "tiles",
        Tiles(view={"tiles": [tiles[0] | {"value": 8.6} | band, tiles[1] | {"low": None, "high": None}]}),
    )
    first, second = (f"[data-sure={tile['key']}]" for tile in tiles[:2])
    assert not page.page.is_visible(".t-sure")
    page.page.focus(first)
    page.page.keyboard.press("Enter")
    said = page.text(".t-sure")
    for part in ("between 8.19", "profile's sources", "Measure it."):
        assert part in said.replace("\u00a0", " ")
    assert page.page.get_attribute(first, "aria-expanded") == "true"
    page.page.keyboard.press("Escape")
    assert not page.page.is_visible(".t-sure")
    assert page.page.evaluate("document.activeElement.dataset.sure") == tiles[0]["key"]
    page.page.click(second)
    assert "No band yet" in page.text(".t-sure")
    page.page.click(".t-sure [data-action=close-sure]")
    assert not page.page.is_visible(".t-sure")
    assert min(page.contrasts())[0] >= 4.5


@pytest.mark.parametrize("width", [848, 1168, 1488])
def test_long_figures_and_names_are_not_cut(open_page: Open, width: int) -> None:
    """Three digits of a worst memory, the longest name, and a long difference: each whole, none by dots."""
    page = open_page(width=width)
    view = sample.tiles_view()
    tiles = [
        tile | ({"value": 2.575, "level": "bad"} if tile["key"] == "memory" else {}) for tile in view["tiles"]
    ]
    show(page, tiles=tiles)
    cut = page.page.evaluate(
        "() => [...document.querySelectorAll('.t-tiles *')].filter((e) => e.offsetParent"
        " && e.clientWidth && !e.querySelector('*') && e.scrollWidth > e.clientWidth + 1)"
        ".map((e) => [e.className, e.textContent])"
    )
    assert not cut
    assert "258" in text(page, '[data-kpi="memory"]')
    assert "of 79.2 GiB" in text(page, '[data-kpi="memory"]')
    assert "Exposed communication" in text(page, '[data-kpi="exposed_communication"]')
