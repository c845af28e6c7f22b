"""The tour in a real notebook with a session: offered once, walked through by keyboard, not offered again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from lab import Lab, Workbench, running_lab
from test_accessibility import findings

pytestmark = [pytest.mark.browser, pytest.mark.slow]

PARTS = ["board", "tiles", "timeline", "controls", "controls"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("tour")
    with running_lab(folder, sessions=str(folder / "sessions")) as server:
        yield server


def test_it_is_offered_once_and_walked_by_keyboard(lab: Lab, browser: Any) -> None:
    bench = Workbench(browser.new_page())
    bench.open(lab)
    page = bench.page
    page.wait_for_selector(".sx-tiles > .t-tour")
    assert findings(bench) == []
    page.focus(".t-tour [data-action=tour_start]")
    page.keyboard.press("Enter")
    for number, part in enumerate(PARTS, 1):
        page.wait_for_selector(f"section[data-widget={part}] > .t-tour >> text={number} of 5")
        bench.until(lambda: _in_sight(page), "it is in sight")
        assert page.evaluate("document.activeElement.dataset.action") == "tour_next"
        if number == 1:
            bench.do("explorer.set(microbatch_size=2)")
            page.wait_for_selector(".t-tour >> text=You did it")
            assert findings(bench) == []
        page.keyboard.press("ArrowRight")
    page.wait_for_selector(".t-tour", state="detached")
    assert page.locator(".sx-toured").count() == 0
    bench.until(lambda: bench.ask("explorer.saving.saved_s is not None"), "the session is saved")
    bench.do("explorer.saving.flush()")
    told = "__import__('pathlib').Path(explorer.saving.path).read_text().count('toured')"
    assert bench.ask(told) == 1, "so it is not offered again"
    assert not bench.errors, bench.errors


def _in_sight(page: Any) -> bool:
    box = page.locator(".t-tour").bounding_box()
    return box["y"] >= 0 and box["y"] + box["height"] <= page.viewport_size["height"]
