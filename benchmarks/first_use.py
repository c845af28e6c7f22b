"""A new user with a stopwatch: from `make explore` to an exported plan. `python benchmarks/first_use.py`

Starts `scripts/explore.sh`, which is what `make explore` runs, in a folder of its own with fresh settings,
opens the address it prints in a browser, and does with the mouse what the page shows: run all cells, drag a
boundary, search, put the best on the board, export, download. The environment is installed already. The time
in which a person reads and thinks is not measured: `THINK_S` seconds for every action stand for it.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from gestures_page import chromium  # noqa: E402
from lab import CHROMIUM_FLAGS, _end_group  # noqa: E402

THINK_S = 2.0
"""For every action of a person."""
BOUND_S = 180.0
"""Asked of the whole."""
TARGET = "torchtitan"
"""Export that is wanted; the first that takes the plan where this one refuses it."""
ADDRESS = re.compile(r"http://127\.0\.0\.1:\S+token=\w+")
START_LIMIT_S = 90


class Stopwatch:
    """Seconds of each step, in their order."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float, int]] = []
        self._since = time.perf_counter()

    def lap(self, name: str, actions: int = 1) -> None:
        """A step is over; how many actions of a person it took."""
        now = time.perf_counter()
        self.steps.append((name, now - self._since, actions))
        self._since = now


def new_checkout(folder: Path) -> Path:
    """What `make explore` needs of the repository, in a folder that nobody has used."""
    place = folder / "checkout"
    (place / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "explore.sh", place / "scripts")
    shutil.copytree(ROOT / "notebooks", place / "notebooks", ignore=shutil.ignore_patterns(".*", "mine"))
    (place / "venv").symlink_to(sys.prefix)
    return place


@contextmanager
def explored(folder: Path) -> Iterator[str]:
    """Start the command as a new user; the address that it prints."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTERLAB_SETTINGS_DIR",
             "JUPYTERLAB_WORKSPACES_DIR", "IPYTHONDIR")  # fmt: skip
    fresh = {name: str(folder / name.lower()) for name in names}
    log = folder / "explore.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["scripts/explore.sh", "venv", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0"],
            cwd=new_checkout(folder), env=os.environ | fresh | {"PYTHONPATH": str(ROOT)},
            stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        yield _address(process, log)
    finally:
        _end_group(process)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    for _ in range(START_LIMIT_S * 10):
        text = log.read_text("utf-8", "replace")
        found = ADDRESS.search(text)
        if found:
            return found[0]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise AssertionError(f"no address was printed: {log.read_text('utf-8', 'replace')[-2000:]}")


def use(page: Any, address: str, watch: Stopwatch, saved: Path) -> str:
    """Do what a new user does; which export was downloaded, in words."""
    page.goto(address)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=90_000)
    # JupyterLab asks for a kernel if cells are run while the notebook's own is being started
    page.locator("#jp-main-statusbar").get_by_text("| Idle").wait_for(timeout=90_000)
    watch.lap("open the address, until the notebook and its kernel are there")
    page.locator(".lm-MenuBar-itemLabel", has_text="Run").first.click()
    page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Run All Cells$")).click()
    page.wait_for_selector("[data-lane] [data-block]", timeout=90_000)
    watch.lap("Run, Run All Cells, until the board is there", 2)
    watch.lap(f"drag a boundary, until the tiles are new ({drag(page)})")
    page.locator(".c-bar [data-action=search]").first.click()
    page.wait_for_selector(".t-verdict[data-level=busy]", timeout=60_000)
    page.wait_for_selector(".t-verdict:not([data-level=busy]) [data-action=use_best]", timeout=90_000)
    watch.lap("Search, until it is over")
    page.locator(".t-verdict [data-action=use_best]").click()
    page.wait_for_selector(".l-said:not([hidden])")
    watch.lap("Use its best, until it is on the board")
    page.locator(".c-bar [data-action=export]").first.click()
    page.wait_for_selector("[data-target]")
    watch.lap("Export, until the files are there")
    target = choose(page)
    watch.lap(f"choose {target}")
    with page.expect_download() as download:
        page.locator("[data-widget=export] [data-action=download-zip]").click()
    download.value.save_as(saved)
    watch.lap("Download .zip")
    with zipfile.ZipFile(saved) as files:
        return f"{download.value.suggested_filename}: {', '.join(files.namelist())}"


def drag(page: Any) -> str:
    """Give a block over the first boundary; the tiles before and after it."""
    tiles = "[data-kpi=step_time] .t-value, [data-kpi=memory] .t-value"
    read = f"() => [...document.querySelectorAll('{tiles}')].map((tile) => tile.innerText).join(', ')"
    before = page.evaluate(read)
    handle = page.locator(".b-lanes [data-boundary]").first
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    chip = page.locator(".b-lanes .b-chip").nth(2).bounding_box()["width"]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - chip - 5, y, steps=8)
    page.mouse.up()
    page.wait_for_function(f"(old) => ({read})() !== old", arg=before)
    return f"{before} to {page.evaluate(read)}".replace("\n", " ")


def choose(page: Any) -> str:
    """The target wanted, or the first one that does not refuse."""
    names = page.eval_on_selector_all("[data-target]", "(all) => all.map((tab) => tab.dataset.target)")
    for name in [TARGET, *(name for name in names if name != TARGET)]:
        page.locator(f"[data-target={name}]").click()
        page.wait_for_selector(f"[data-target={name}][aria-selected=true]")
        page.wait_for_function(
            "() => !document.querySelector('[data-widget=export]').matches('[data-state=computing]')"
        )
        page.wait_for_timeout(300)
        if page.locator("[data-widget=export] [data-action=download-zip]").is_enabled():
            return str(name)
    raise AssertionError("every target refuses this plan")


def main() -> None:
    """Print the table; fail where it takes too long."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch, sync_playwright() as playwright:
        folder = Path(scratch)
        context: Any = playwright.chromium.launch_persistent_context(
            folder / "chromium", executable_path=chromium(), headless=True,
            viewport={"width": 1400, "height": 1000}, args=CHROMIUM_FLAGS,
        )  # fmt: skip
        watch = Stopwatch()
        with explored(folder) as address:
            watch.lap("`make explore`, until it prints its address (installed already)")
            files = use(context.pages[0], address, watch, folder / "export.zip")
        context.close()
    measured = sum(seconds for _, seconds, _ in watch.steps)
    thinking = THINK_S * sum(actions for _, _, actions in watch.steps)
    print("| llama3-8b on dgx-a100, a new user | s |\n|---|---|")
    for name, seconds, _ in watch.steps:
        print(f"| {name} | {seconds:.1f} |")
    print(f"| thinking: {THINK_S:.0f} s for every action | {thinking:.0f} |")
    print(f"| together, to {files} (asked: {BOUND_S:.0f}) | {measured + thinking:.0f} |")
    if measured + thinking > BOUND_S:
        raise SystemExit("it took too long")


if __name__ == "__main__":
    main()
