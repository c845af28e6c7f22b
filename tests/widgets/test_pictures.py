"""Figures taken along: a widget as PNG on the clipboard, or saved, and as an SVG that shows it alone."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import Board, GraphView, Heatmap, Timeline

pytestmark = pytest.mark.browser


def show(page: WidgetPage, name: str) -> None:
    """Draw a widget with the sample's state."""
    if name == "board":
        page.show(name, Board(blocks=sample.blocks(), view=sample.board_view()))
    elif name == "graph":
        page.show(name, GraphView(**sample.graph_state()))
    elif name == "timeline":
        bars, view = sample.timeline()
        page.show(name, Timeline(bars=bars, view=view))
    else:
        cells, view = sample.memory()
        page.show(name, Heatmap(cells=cells, view=view))


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height that a PNG states."""
    return int.from_bytes(png[16:20], "big"), int.from_bytes(png[20:24], "big")


@pytest.mark.parametrize("name", ["board", "timeline", "graph", "heatmap"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_figure_shows_alone_what_the_page_shows(browser: Any, name: str, dark: bool) -> None:
    context = browser.new_context(viewport={"width": 1168, "height": 900})
    page = WidgetPage(context.new_page(), dark)
    show(page, name)
    with page.page.expect_download() as caught:
        page.page.click(f"[data-widget={name}] [data-action=save-svg]")
    text = Path(caught.value.path()).read_text(encoding="utf-8")
    assert caught.value.suggested_filename.endswith(".svg")
    assert text.startswith("<svg")
    assert "http://widgets" not in text, "nothing is asked of any network"
    assert "data-action" not in text, "no buttons"
    own = page.page.locator(f"section[data-widget={name}]").bounding_box()
    alone = context.new_page()
    alone.set_content(f"<body style='margin:0'>{text}</body>")
    picture = alone.locator("svg").first.bounding_box()
    assert picture["width"] == pytest.approx(own["width"], abs=1)
    words = page.page.locator(f"section[data-widget={name}] h2").first.inner_text()
    assert alone.locator("h2").first.inner_text() == words
    ground = "(s) => getComputedStyle(document.querySelector(s)).backgroundColor"
    assert alone.evaluate(ground, ".sx") == page.page.evaluate(ground, f"section[data-widget={name}]")
    assert not page.errors
    context.close()


def test_a_png_is_copied_at_twice_the_size(browser: Any) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = WidgetPage(context.new_page())
    page.page.evaluate("() => { window.ClipboardItem = class { constructor(data) { this.data = data; } }; }")
    page.page.evaluate(
        "() => Object.defineProperty(navigator, 'clipboard', {value: {write: async ([item]) => {"
        " const reader = new FileReader(); const blob = await item.data['image/png'];"
        " await new Promise((done) => { reader.onload = done; reader.readAsDataURL(blob); });"
        " window.copied = reader.result.split(',')[1]; }}})"
    )
    show(page, "board")
    page.page.click("[data-action=copy-png]")
    page.page.wait_for_function("window.copied")
    png = base64.b64decode(page.page.evaluate("window.copied"))
    box = page.page.locator("section[data-widget=board]").bounding_box()
    assert size_of(png) == pytest.approx((2 * box["width"], 2 * box["height"]), abs=3)
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed").open(io.BytesIO(png))
    colours = image.convert("RGB").getcolors(1 << 24)
    assert len(colours) > 20, "more than an empty page"
    assert page.text("[data-action=copy-png]") == "Copied"
    assert not page.errors
    context.close()


def test_without_a_clipboard_it_is_saved(browser: Any) -> None:
    context = browser.new_context()
    page = WidgetPage(context.new_page())
    page.page.evaluate("() => Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    show(page, "heatmap")
    with page.page.expect_download() as caught:
        page.page.click("[data-action=copy-png]")
    assert caught.value.suggested_filename.endswith(".png")
    assert Path(caught.value.path()).read_bytes().startswith(b"\x89PNG")
    context.close()
