"""What tests ask of a canvas in a widget page."""

from __future__ import annotations

from harness import WidgetPage


def painted(page: WidgetPage, selector: str) -> int:
    """How many different colours a canvas holds."""
    return int(page.page.evaluate("(s) => window.colours(s)", selector))


def snapshot(page: WidgetPage, selector: str) -> str:
    """The picture itself, for comparing."""
    page.settle()
    return str(page.page.evaluate("(s) => document.querySelector(s).toDataURL()", selector))
