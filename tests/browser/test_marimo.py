"""The board in a marimo notebook, through marimo's own bridge to anywidget."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from lab import LIMIT_S, ROOT, _end_group

pytestmark = [pytest.mark.browser, pytest.mark.slow]

APP = """
import marimo

app = marimo.App(width="full")


@app.cell
def make():
    import marimo as mo
    from widgets import Explorer

    explorer = Explorer("llama3-8b", "dgx-a100", global_batch=64, sequence_length=4096, session=None)
    return explorer, mo


@app.cell
def show(explorer, mo):
    mo.vstack([mo.ui.anywidget(part) for part in (explorer.tiles, explorer.board, explorer.timeline)])
    return


if __name__ == "__main__":
    app.run()
"""


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "app.py").write_text(APP)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [
        sys.executable, "-m", "marimo", "run", str(tmp_path / "app.py"), "--headless", "--no-token",
        "--host", "127.0.0.1", "--port", str(port),
    ]  # fmt: skip
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path, stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        _wait_for(f"http://127.0.0.1:{port}", process, tmp_path / "log")
        yield f"http://127.0.0.1:{port}"
    finally:
        _end_group(process)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(int(LIMIT_S * 5)):
        if process.poll() is not None:
            break
        try:
            with urlopen(url, timeout=5):
                return
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"marimo did not start: {log.read_text('utf-8', 'replace')[-2000:]}")


def test_board_tiles_and_timeline_are_drawn_and_answered(address: str, browser: Any) -> None:
    page = browser.new_page()
    page.set_default_timeout(1000 * LIMIT_S)
    page.goto(address)
    page.wait_for_selector("[data-lane] [data-block]")
    assert page.locator("section[data-widget=board] [data-lane]").count() == 4
    assert "s" in page.locator("[data-kpi=step_time]").first.inner_text()
    page.locator("[data-lane='1'] [data-block='layers.12']").click()
    page.wait_for_selector("[data-block='layers.12'][aria-selected=true]")
    page.keyboard.press("p")
    page.wait_for_selector("[data-block='layers.12'].pinned")
