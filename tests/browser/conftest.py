"""One JupyterLab, browser and open notebook for all tests of a module; each starts from the same state.

They end with their module: while Playwright is there an event loop runs, which other tests need to be absent.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from lab import CHROMIUM_FLAGS, Lab, Workbench, running_lab


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, chromium_executable: str | None) -> Iterator[Lab]:
    with running_lab(tmp_path_factory.mktemp("lab")) as server:
        yield server


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, chromium_executable: str | None) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        context = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("chromium"), executable_path=chromium_executable, headless=True,
            viewport={"width": 1400, "height": 1000}, args=CHROMIUM_FLAGS,
        )  # fmt: skip
        yield context
        context.close()


@pytest.fixture(scope="module")
def opened(lab: Lab, browser: Any) -> Workbench:
    found = Workbench(browser.new_page())
    found.open(lab)
    return found


@pytest.fixture
def bench(opened: Workbench) -> Iterator[Workbench]:
    """The open workbench, back at its first state."""
    opened.do("explorer.stop()")
    opened.do("[None for _ in iter(explorer.undo, False)]")
    opened.do("setattr(explorer, 'selection', [])")
    opened.settled()
    opened.errors.clear()
    yield opened
    assert not opened.errors, opened.errors
