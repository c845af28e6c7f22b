"""Edits beyond cuts in a real JupyterLab: a layer's layout by its card, a device by dragging, and back."""

from __future__ import annotations

import pytest
from lab import Workbench

pytestmark = pytest.mark.browser

UP = "layers.3.mlp.up"
STRATEGY = "str(hash(explorer.strategy))"


def test_a_layers_layout_is_chosen_on_its_card_and_undone(bench: Workbench) -> None:
    page = bench.page
    bench.do("explorer.set(tensor=2)")
    bench.do("setattr(explorer.graph, 'opened', ['layers.3/*'])")
    bench.settled()
    before = bench.ask(STRATEGY)
    page.wait_for_selector(f'[data-node="{UP}"]')
    page.click(f'[data-node="{UP}"]')
    row = page.locator('[data-card="layout"] [data-choice="by sequence"]')
    row.wait_for()
    bench.until(lambda: "%" in row.inner_text(), "what it comes to is simulated")
    row.click()
    bench.until(lambda: row.get_attribute("aria-checked") == "true", "it is the present one")
    assert bench.ask("explorer.history.now.note") == f"{UP}: by sequence"
    assert bench.ask(STRATEGY) != before
    page.keyboard.press("Escape")
    bench.until(lambda: not page.locator(".g-card").is_visible(), "the card is closed")
    bench.do("explorer.undo()")
    assert bench.ask(STRATEGY) == before


def test_a_device_is_dragged_into_anothers_place(bench: Workbench) -> None:
    page = bench.page
    first, other = (page.locator(f"[data-lane='{lane}'] [data-device]").first for lane in (0, 1))
    one, two = (int(box.get_attribute("data-device") or -1) for box in (first, other))
    bench.drag(f"[data-device='{one}']", f"[data-device='{two}']")
    bench.until(
        lambda: bench.ask("explorer.history.now.note") == f"devices {one} and {two} changed places", "dropped"
    )
    bench.until(
        lambda: page.locator(f"[data-lane='1'] [data-device='{one}']").count() == 1, "it is drawn there"
    )
