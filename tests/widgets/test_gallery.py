"""The gallery: several reports in one file, each drawn when it is chosen, without any request."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from widgets import Explorer

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
import gallery

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_each_report_is_drawn_when_it_is_chosen(browser: Any, tmp_path: Path) -> None:
    texts = []
    for stages in (2, 4):
        bench = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=None)
        bench.set(stages=stages)
        bench.open_tab("History")
        bench.history_panel.states.send_intent("action", action="share_plan")
        texts.append(bench.history_panel.states.view["shared"]["text"])
        bench.close()
    gallery.main(tmp_path / "gallery.html", texts)
    page = browser.new_page()
    asked: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((tmp_path / "gallery.html").as_uri())
    frame = page.frame_locator("iframe")
    for number, lanes in enumerate((2, 4)):
        page.locator("header button").nth(number).click()
        frame.locator(f"[data-lane='{lanes - 1}'] [data-block]").first.wait_for()
        assert frame.locator("[data-lane]").count() == lanes
        assert frame.locator("h1").inner_text() == "gpt2-small on dgx-a100"
    assert [url for url in asked if url.startswith("http")] == []
    assert errors == []
    page.close()
