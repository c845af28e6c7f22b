"""The table of schedules in a real browser with a fake model: what it shows, its buttons, light and dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import WidgetPage

from widgets import Explorer
from widgets.jobs import at_once
from widgets.schedules.view import Schedules

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]
ROOT = ".sx-schedules"


@pytest.fixture(scope="module")
def view() -> dict[str, Any]:
    explorer = Explorer("gpt2-small", "dgx-a100", session=None, global_batch=16)
    panel = explorer.schedules_panel
    panel.table.visible = True
    panel.beside("gpipe")
    at_once(panel._work)
    return dict(panel.table.view)


def table(view: dict[str, Any]) -> Schedules:
    return Schedules(view=view, visible=True)


def test_every_schedule_stands_under_its_group(open_page: Open, view: dict[str, Any]) -> None:
    page = open_page()
    page.show("schedules", table(view))
    shown = page.page.locator(f"{ROOT} tr[data-schedule]")
    assert shown.count() == len(view["rows"])
    for row in view["rows"]:
        own = page.page.locator(f'{ROOT} tr[data-schedule="{row["name"]}"]')
        assert own.locator("xpath=../tr[1]//b").first.inner_text().lower() == row["group"].lower()
        text = own.inner_text()
        assert row["title"] in text
        assert row["paper"] in text
        assert (row["problem"] or "") in text
        if row["figures"]:
            bars = own.locator(".s-bars i")
            assert bars.count() == len(row["figures"]["activation_bytes"])
    assert "on the board" in page.text(f"{ROOT} tr.shown")
    assert "differ after" in page.text(f"{ROOT} .s-said")


def test_buttons_ask_for_their_schedule_by_mouse_and_key(open_page: Open, view: dict[str, Any]) -> None:
    page = open_page()
    page.show("schedules", table(view))
    page.page.click(f'{ROOT} tr[data-schedule="zb_h1"] [data-kind="use"]')
    page.page.focus(f'{ROOT} tr[data-schedule="chimera"] [data-kind="beside"]')
    page.page.keyboard.press("Enter")
    asked = [(item["kind"], item["schedule"]) for item in page.sent("schedules") if "schedule" in item]
    assert asked == [("use", "zb_h1"), ("beside", "chimera")]
    assert page.page.locator(f"{ROOT} tr.shown button:visible").count() == 0
    assert page.page.locator(f'{ROOT} tr[data-schedule="gpipe"] [data-kind="beside"]').is_hidden()


def test_it_says_when_it_is_in_sight(open_page: Open, view: dict[str, Any]) -> None:
    page = open_page()
    page.show("schedules", Schedules())
    page.page.wait_for_function("document.querySelector('.sx-schedules')")
    page.settle()
    assert page.get("schedules", "visible") is True


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read(open_page: Open, view: dict[str, Any], dark: bool) -> None:
    page = open_page(dark=dark)
    page.show("schedules", table(view))
    page.settle()
    worst = sorted(page.contrasts())[:3]
    assert worst[0][0] >= 4.5, worst


def test_a_narrow_page_needs_no_second_scroll_bar(open_page: Open, view: dict[str, Any]) -> None:
    page = open_page(width=700)
    page.show("schedules", table(view))
    page.settle()
    assert page.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
