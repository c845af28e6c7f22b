"""\"I measured ...\" in a real browser: by keyboard, by a dropped log, what it says and how it looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import Tiles

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]

TOLD: dict[str, Any] = {
    "text": "Predicted 9.95 s, measured **10.9 s**, now 10.7 s.",
    "band": "±22% → ±9%",
    "lines": ["Kernels on h100-sxm-80gb: 5.1% slower (±20% -> ±9%).", "Kernels of llama3-8b: 1.8% slower."],
    "next": "Next, a run with microbatch 2 would tell most.",
    "file": "hgx-h100-calibrated.yaml",
}


def show(page: WidgetPage, own: dict[str, Any] | None) -> None:
    page.show("tiles", Tiles(view=sample.tiles_view() | {"own": own}, bench="b1"))


def test_a_step_is_typed_by_keyboard(open_page: Open) -> None:
    page = open_page()
    show(page, {})
    page.page.locator(".t-own > summary").focus()
    page.page.keyboard.press("Enter")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("2.31 s")
    page.page.keyboard.press("Tab")
    page.page.keyboard.type("41.5 GiB")
    page.page.keyboard.press("Enter")
    assert page.sent("tiles") == [
        {"seq": 1, "kind": "measured", "time": "2.31 s", "memory": "41.5 GiB", "log": ""}
    ]


def test_what_changed_is_told_and_one_click_undoes_it(open_page: Open) -> None:
    page = open_page()
    show(page, TOLD)
    said = page.text(".t-own-said")
    for part in ("measured 10.9 s", "±9 %", "5.1 % slower", "microbatch 2", "hgx-h100-calibrated.yaml"):
        assert part in said.replace("\u00a0", " ").replace("\u202f", " ")
    page.page.get_by_role("button", name="Undo").click()
    assert page.sent("tiles")[-1]["action"] == "undo"


def test_an_error_is_an_alert_at_the_field(open_page: Open) -> None:
    page = open_page(dark=True)
    show(page, {"error": "time: 2 of what unit?"})
    assert page.page.get_by_role("alert").inner_text() == "time: 2 of what unit?"
    assert page.page.locator(".t-own").get_attribute("open") is not None
    assert page.leaked() == []


def test_a_log_is_sent_as_text_and_a_long_one_in_part(open_page: Open) -> None:
    page = open_page()
    show(page, {})
    page.page.locator(".t-own > summary").click()
    long = "head\n" + "x" * 3_000_000 + "\ntail"
    for text in ("iteration 2/ 10", long):
        file = {"name": "train.log", "mimeType": "text/plain", "buffer": text.encode()}
        page.page.locator(".t-own input[type=file]").set_input_files(file)
        page.settle()
    first, second = (message["log"] for message in page.sent("tiles"))
    assert first == "iteration 2/ 10"
    assert second.startswith("head\n")
    assert second.endswith("\ntail")
    assert len(second) < 2_300_000


def test_without_a_kernel_nothing_is_asked(open_page: Open) -> None:
    page = open_page()
    show(page, None)
    assert page.page.locator(".t-own").is_hidden()
