"""Fixtures for widget pages: one browser for all tests of a module, a fresh page each."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import harness
import sample

from widgets import Board


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: needs Chromium and Playwright")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium, or a skip that says what is missing.

    Ends with its module: while Playwright is there an event loop runs, which other tests need to be absent.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = harness.chromium()
    with playwright.sync_playwright() as driver:
        try:
            found = driver.chromium.launch(executable_path=path, args=harness.CHROMIUM_FLAGS)
        except playwright.Error as error:
            pytest.skip(
                f"no Chromium: none on the PATH and none of Playwright's own ({str(error).splitlines()[0]})"
            )
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., harness.WidgetPage]]:
    """`open_page(width=1400, dark=False)`; afterwards no error and no foreign request may have happened."""
    pages: list[harness.WidgetPage] = []

    def make(width: int = 1400, height: int = 900, dark: bool = False, **options: Any) -> harness.WidgetPage:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        pages.append(harness.WidgetPage(context.new_page(), dark))
        return pages[-1]

    yield make
    for page in pages:
        errors, foreign = page.errors, page.foreign
        page.page.context.close()
        assert not errors, errors
        assert not foreign, foreign


@pytest.fixture(scope="module")
def shared_page(browser: Any) -> Iterator[harness.WidgetPage]:
    """One page for the many tests that need no page of their own."""
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    yield harness.WidgetPage(context.new_page())
    context.close()


@pytest.fixture
def board_page(shared_page: harness.WidgetPage) -> Iterator[harness.WidgetPage]:
    """A clean page with the llama3-8b board; afterwards no error and no foreign request may have happened."""
    shared_page.reset()
    shared_page.show("board", Board(blocks=sample.blocks(), view=sample.board_view()))
    yield shared_page
    assert not shared_page.errors, shared_page.errors
    assert not shared_page.foreign, shared_page.foreign
