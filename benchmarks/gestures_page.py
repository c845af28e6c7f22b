"""The page that the gesture benchmarks drive: a notebook of their own in a real JupyterLab, with clocks."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from lab import CHROMIUM_FLAGS, Lab, Workbench, running_lab  # noqa: E402

CLOCKS = """
(() => {
  if (window.sxClock) return;
  const clock = (window.sxClock = { done: [], sent: [], came: [] });
  const Socket = window.WebSocket;
  window.WebSocket = class extends Socket {
    constructor(...args) {
      super(...args);
      this.addEventListener("message", (event) => {
        const size = event.data.size ?? event.data.byteLength ?? event.data.length;
        clock.came.push([performance.now(), size]);
        if (clock.came.length > 400) clock.came.splice(0, 200);
      });
    }
    send(data) {
      clock.sent.push(performance.now());
      if (clock.sent.length > 400) clock.sent.splice(0, 200);
      super.send(data);
    }
  };
  document.addEventListener("pointerup", () => { clock.sent.length = clock.came.length = 0; }, true);
  const painted = (then) => {
    const channel = new MessageChannel();
    channel.port1.onmessage = () => then(performance.now());
    requestAnimationFrame(() => channel.port2.postMessage(0));
  };
  new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntriesByName("sx-repaint"))
      clock.done.push({ at: startTime, painted: startTime + duration, came: [...clock.came],
                        sent: clock.sent[0] ?? null, origin_s: performance.timeOrigin / 1e3 });
  }).observe({ type: "measure" });
  clock.first = (selector, ready) =>
    new Promise((done) => {
      const begun = performance.now();
      const look = () => {
        const found = document.querySelector(selector);
        if (found && (!ready || ready(found))) painted((at) => done(at - begun));
        else requestAnimationFrame(look);
      };
      look();
    });
})();
"""
"""Notes of every drop, from the board's own measure, with the messages that came meanwhile.

The measure ends after the first frame that shows the acknowledged view: a message that is posted in a frame
is delivered when that frame has been drawn.
"""

FAILED = "[data-mime-type='application/vnd.jupyter.error']"
"""Output of a cell that raised."""


IDLE = """() => { const c = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
                   return c?.status === 'idle' && c?.connectionStatus === 'connected'; }"""
"""Whether the kernel of the notebook in front waits for work."""


class Page(Workbench):
    """A notebook of the benchmark's own cells, run one by one."""

    def __init__(self, page: Any, lab: Lab, folder: Path) -> None:
        super().__init__(page)
        self.lab, self.folder = lab, folder
        self.console: list[str] = []
        page.on(
            "pageerror",
            lambda error: self.console.append(f"at {' '.join((error.stack or '').split())[:600]}"),
        )
        page.on("console", lambda said: self.console.append(said.text) if said.type == "error" else None)
        page.add_init_script(CLOCKS)

    def load(self, name: str, cells: list[str]) -> None:
        """Write a notebook and open it; nothing runs yet."""
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        document = {
            "cells": [cell | {"id": f"cell-{i}", "source": source} for i, source in enumerate(cells)],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (self.folder / "root" / f"{name}.ipynb").write_text(json.dumps(document), encoding="utf-8")
        self.page.goto(self.lab.url(f"{name}.ipynb"))
        self.ready()

    def ready(self, limit_s: float = 60.0) -> None:
        """Wait until the notebook that is opened can be run."""
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=limit_s * 1e3)
        self.page.wait_for_function(IDLE, timeout=limit_s * 1e3)
        self.page.evaluate(CLOCKS)
        self.page.evaluate(
            "() => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0; return 1; }"
        )

    def save(self) -> None:
        """Save the notebook: JupyterLab asks a person first who leaves one that is not saved. What it would
        show again are outputs of a kernel that was restarted since, whose widgets are not there any more.
        """
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => 1)")

    def run_cell(self, number: int, selector: str = "", ready: str = "null", limit_s: float = 90.0) -> float:
        """Run a cell; milliseconds until something it shows is painted, or until it has ended."""
        self.page.evaluate(
            """([number, selector, ready]) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = number;
              window.sxFirst = null;
              const run = window.jupyterapp.commands.execute('notebook:run-cell');
              const begun = performance.now();
              const seen = selector ? window.sxClock.first(selector, ready)
                : run.then(() => performance.now() - begun);
              seen.then((ms) => { window.sxFirst = ms; });
              return 1;
            }""".replace("window.sxClock.first(selector, ready)", f"window.sxClock.first(selector, {ready})"),
            [number, selector, ready],
        )
        self.page.wait_for_function(
            f'() => window.sxFirst != null || document.querySelector("{FAILED}")', timeout=limit_s * 1e3
        )
        failed = self.page.query_selector(FAILED)
        assert failed is None, failed.inner_text()
        return float(self.page.evaluate("() => window.sxFirst"))

    def drop_done(self, before: int) -> dict[str, Any]:
        """The drop that was painted after `before` others."""
        self.page.wait_for_function(f"() => window.sxClock.done.length > {before}", timeout=60_000)
        found: dict[str, Any] = self.page.evaluate(f"() => window.sxClock.done[{before}]")
        return found

    def spot(self, selector: str, number: int) -> tuple[float, float] | None:
        """Middle of one of the elements that match, in view; None where there are none."""
        found = self.page.evaluate(
            """([selector, number]) => {
              const all = document.querySelectorAll(selector);
              if (!all.length) return null;
              const before = all[number % all.length].getBoundingClientRect();
              if (before.top < 150 || before.bottom > innerHeight - 150)
                all[number % all.length].scrollIntoView({ block: "center" });
              const box = all[number % all.length].getBoundingClientRect();
              return [box.x + box.width / 2, box.y + box.height / 2];
            }""",
            [selector, number],
        )
        return (float(found[0]), float(found[1])) if found else None

    def drops(self) -> int:
        """How many drops were painted so far."""
        return int(self.page.evaluate("() => window.sxClock.done.length"))

    def trouble(self) -> list[str]:
        """Errors that the page shows or has reported."""
        shown = self.page.evaluate(
            "(wrong) => [...document.querySelectorAll(wrong)].map((element) => element.textContent)",
            f".sx-notice[data-level=error], .jp-OutputArea-error, {FAILED}",
        )
        return [*self.errors, *self.console, *shown]


@contextmanager
def opened(width: int = 1400, height: int = 1000) -> Iterator[Page]:
    """A server, a browser and an empty page; all end with the block."""
    from playwright.sync_api import sync_playwright

    with (
        tempfile.TemporaryDirectory() as scratch,
        sync_playwright() as playwright,
        running_lab(Path(scratch)) as lab,
    ):
        context: Any = playwright.chromium.launch_persistent_context(
            Path(scratch) / "chromium", executable_path=chromium(), headless=True,
            viewport={"width": width, "height": height}, args=CHROMIUM_FLAGS,
        )  # fmt: skip
        try:
            yield Page(context.new_page(), lab, Path(scratch))
        finally:
            context.close()


def chromium() -> str | None:
    """A Chromium on the PATH, or None for Playwright's own."""
    import shutil

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)
