"""The sheet of keys: opened by `?` or its button, closed by Escape, and never opened by someone who types."""

from __future__ import annotations

import pytest
from harness import WidgetPage

pytestmark = pytest.mark.browser
SHEET = "dialog.sx-keys"


def test_it_opens_by_key_and_the_focus_comes_back(board_page: WidgetPage) -> None:
    page = board_page.page
    page.locator('.b-chip[data-block="layers.3"]').focus()
    page.keyboard.press("?")
    page.locator(f"{SHEET}[open]").wait_for()
    assert "move the boundary after this stage" in page.locator(SHEET).inner_text()
    page.keyboard.press("m")
    assert page.locator(".b-menu").count() == 0, "keys do not reach the board behind it"
    page.keyboard.press("Escape")
    page.locator(SHEET).wait_for(state="detached")  # a dialog says that it closed in a task of its own
    assert page.evaluate("document.activeElement.dataset.block") == "layers.3"
    assert not board_page.sent("board")


def test_it_opens_by_its_button_and_can_be_read(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click('.sx-board [data-action="keys"]')
    rows = page.locator(f"{SHEET} tr")
    assert rows.count() == page.locator(f"{SHEET} th").count() > 5
    box = page.locator(SHEET).bounding_box()
    assert box is not None
    fits = "(d) => d.scrollWidth <= d.clientWidth && d.scrollHeight <= d.clientHeight"
    assert page.locator(SHEET).evaluate(fits)
    page.click('[data-action="close-keys"]')
    page.wait_for_selector(SHEET, state="detached")


def test_who_types_a_question_mark_is_not_interrupted(board_page: WidgetPage) -> None:
    page = board_page.page
    page.evaluate("document.querySelector('.sx-board').append(document.createElement('input'))")
    page.locator(".sx-board input").focus()
    page.keyboard.type("?")
    assert page.locator(SHEET).count() == 0
    assert page.locator(".sx-board input").input_value() == "?"
