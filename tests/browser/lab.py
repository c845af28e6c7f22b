"""A real JupyterLab (or Notebook 7, or Voila) of our own, and a page that drives the workbench in it."""

from __future__ import annotations

import ast
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

ROOT = Path(__file__).parents[2]
CHROMIUM_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
LIMIT_S = 120.0
"""Longest wait for anything: only what never comes takes it, however busy the machine is."""
BOARD = "[data-lane] [data-block]"
"""What is there once a workbench is drawn."""
SETTINGS = {
    "@jupyterlab/apputils-extension/notification.jupyterlab-settings": {
        "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Lab:
    """A running server."""

    port: int
    token: str
    root: Path
    """Folder that it serves."""
    app: str = "lab"

    def url(self, notebook: str) -> str:
        """Address of one notebook as a single document, without a restored workspace."""
        path = {"lab": f"doc/tree/{notebook}", "notebook": f"notebooks/{notebook}", "voila": ""}[self.app]
        return f"http://127.0.0.1:{self.port}/{path}?reset&token={self.token}"


def write_cell(lab: Lab, name: str, code: str) -> str:
    """Write a notebook of one cell into the folder that a server serves; return its name."""
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": [cell | {"source": code}], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (lab.root / f"{name}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    return f"{name}.ipynb"


def write_settings(folder: Path, theme: str = "") -> None:
    """No news pop-up; optionally a theme."""
    chosen: dict[str, Any] = dict(SETTINGS)
    if theme:
        chosen["@jupyterlab/apputils-extension/themes.jupyterlab-settings"] = {"theme": theme}
    for name, value in chosen.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value), encoding="utf-8")


@contextmanager
def running_lab(folder: Path, app: str = "lab", sessions: str = "off") -> Iterator[Lab]:
    """Start a server in a session of its own with fresh folders; end it and its kernels.

    It serves a copy of the notebooks: JupyterLab saves what it has run, by itself.

    Args:
        folder: an empty folder for everything it writes.
        app: `lab`, `notebook` (7) or `voila` (serves `explore.ipynb` as an application).
        sessions: folder for saved sessions, or `off`.
    """
    root = folder / "root"
    shutil.copytree(ROOT / "notebooks", root / "notebooks", ignore=shutil.ignore_patterns(".*", "mine"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    lab = Lab(port=port, token=secrets.token_hex(16), root=root, app=app)
    environment = os.environ | {
        "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": str(ROOT),
        "EXPLORER_SESSIONS": sessions,
    }
    for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
        environment[f"JUPYTER_{name}"] = str(folder / name.lower())
    for name in ("SETTINGS_DIR", "WORKSPACES_DIR"):
        environment[f"JUPYTERLAB_{name}"] = str(folder / name.lower())
    environment["IPYTHONDIR"] = str(folder / "ipython")
    write_settings(folder / "settings_dir")
    with (folder / "lab.log").open("wb") as log:
        process = subprocess.Popen(
            _command(lab, root),
            env=environment,
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        _wait_until_up(process, lab, folder / "lab.log")
        yield lab
    finally:
        _end_group(process)


def _command(lab: Lab, root: Path) -> list[str]:
    if lab.app == "voila":
        return [
            sys.executable, "-m", "voila", "--no-browser", f"--port={lab.port}", "--Voila.ip=127.0.0.1",
            f"--token={lab.token}", str(root / "notebooks" / "explore.ipynb"),
        ]  # fmt: skip
    name = {"lab": "LabApp", "notebook": "JupyterNotebookApp"}[lab.app]
    return [
        sys.executable, "-m", "jupyterlab" if lab.app == "lab" else "notebook",
        "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={lab.port}",
        "--ServerApp.port_retries=0", f"--IdentityProvider.token={lab.token}", f"--ServerApp.root_dir={root}",
        "--LabApp.news_url=", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly", f"--{name}.expose_app_in_browser=True",
    ]  # fmt: skip


def _wait_until_up(process: subprocess.Popen[bytes], lab: Lab, log: Path) -> None:
    for _ in range(int(LIMIT_S * 5)):
        if process.poll() is not None:
            break
        try:
            path = "voila/static/voila.js" if lab.app == "voila" else "api"
            with urlopen(f"http://127.0.0.1:{lab.port}/{path}", timeout=5):
                return
        except HTTPError as error:
            if error.code < 500:  # it answers
                return
            time.sleep(0.2)
        except (URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"{lab.app} did not start: {log.read_text('utf-8', 'replace')[-2000:]}")


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Interrupt, then kill; kernels lead sessions of their own, so the server is given time to end them."""
    for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
        return


class Workbench:
    """A page on a notebook whose `explorer` is drawn."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        page.set_default_timeout(1000 * LIMIT_S)
        page.on("pageerror", lambda error: self.errors.append(str(error)))

    def open(self, lab: Lab, notebook: str = "notebooks/explore.ipynb", ready: str = BOARD) -> None:
        """Open the notebook, run all cells, wait for the board (or what is ready) or for an error."""
        page = self.page
        page.goto(lab.url(notebook))
        page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        page.wait_for_function(
            """() => { const c = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
                       return c?.status === 'idle' && c?.connectionStatus === 'connected'; }"""
        )
        self.run_all(ready)

    def run_all(self, ready: str = BOARD) -> None:
        """Run all cells of the open notebook; wait for the board or for an error."""
        page = self.page
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return 1; }")
        page.wait_for_selector(
            f"{ready}, .jp-OutputArea-output[data-mime-type='application/vnd.jupyter.error']"
        )
        wrong = page.query_selector("[data-mime-type='application/vnd.jupyter.error']")
        assert wrong is None, wrong.inner_text()
        page.wait_for_selector("[data-arriving]", state="detached")  # it comes into sight by itself

    def ask(self, expression: str) -> Any:
        """Value of a Python expression in the kernel, as JSON."""
        reply = self.page.evaluate(
            """(code) => {
              const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
              const request = kernel.requestExecute({code: '', silent: false, store_history: false,
                                                     user_expressions: {x: code}});
              const late = new Promise((_, no) => setTimeout(() => no(new Error('no answer')), 120000));
              return Promise.race([request.done.then((r) => r.content.user_expressions.x), late]);
            }""",
            f"__import__('json').dumps({expression})",
        )
        assert reply["status"] == "ok", reply
        return json.loads(ast.literal_eval(reply["data"]["text/plain"]))

    def do(self, code: str) -> None:
        """Run an expression in the kernel for its effect."""
        assert self.ask(f"({code}, True)[1]")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition of the kernel or the page."""
        for _ in range(int(LIMIT_S / 0.1)):
            if condition():
                return
            self.page.wait_for_timeout(100)
        raise AssertionError(f"never happened: {what}")

    def settled(self) -> None:
        """Wait until no widget waits for Python and two frames are drawn."""
        self.page.wait_for_function(
            "() => !document.querySelector(':is(.sx, .sx-state)[data-state=computing]')"
        )
        self.page.evaluate(
            "() => new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(() => d(1))))"
        )

    def at_rest(self) -> None:
        """Wait until no colour eases any more; what turns for ever is not waited for."""
        self.page.wait_for_function(
            "() => document.getAnimations().every("
            "(a) => a.playState !== 'running' || a.effect?.getTiming().iterations === Infinity)"
        )
        self.settled()

    def kpi(self, key: str) -> str:
        """Text of a tile's value."""
        return str(self.page.inner_text(f"[data-kpi={key}] .t-value"))

    def box(self, selector: str) -> dict[str, float]:
        """Geometry, read afresh and in view."""
        self.page.locator(selector).first.scroll_into_view_if_needed()
        found = self.page.evaluate(
            "(s) => { const r = document.querySelector(s).getBoundingClientRect();"
            " return {x: r.x, y: r.y, w: r.width, h: r.height}; }",
            selector,
        )
        return dict(found)

    def drag(self, source: str, target: str) -> None:
        """Press in the middle of one element, move in steps, release over another."""
        self.box(target)
        a = self.box(source)
        b = self.page.evaluate(
            "(s) => { const r = document.querySelector(s).getBoundingClientRect();"
            " return {x: r.x, y: r.y, w: r.width, h: r.height}; }",
            target,
        )
        mouse = self.page.mouse
        x, y = a["x"] + a["w"] / 2, a["y"] + a["h"] / 2
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + 9, y + 2)
        mouse.move(b["x"] + b["w"] / 2, b["y"] + b["h"] / 2, steps=8)
        mouse.up()

    def tab(self, title: str) -> None:
        """Bring a tab of the workbench to the front, by mouse."""
        self.page.locator(f".xp-frame .lm-TabBar-tab:has-text('{title}')").first.click()

    def theme(self, name: str) -> None:
        """Switch JupyterLab to its `Light` or `Dark` theme."""
        self.page.evaluate(
            "(n) => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: n}); return 1; }",
            f"JupyterLab {name}",
        )
        self.page.wait_for_selector(
            f"body[data-jp-theme-light={str(name == 'Light').lower()}]", state="attached"
        )

    def act(self, action: str) -> None:
        """Press the bar's button."""
        self.page.locator(f".c-bar [data-action={action}]").first.click()

    def pixels(self, selector: str) -> str:
        """What a canvas shows."""
        return str(self.page.evaluate("(s) => document.querySelector(s).toDataURL()", selector))

    def lane_of(self, block: str) -> str:
        """Lane that Python says a block is on."""
        name = json.dumps(block)
        return str(self.ask(
            "next(explorer.history.now.scene.lane_of_layer[l.name]"
            f" for l in explorer.history.now.inputs.graph.layers if l.block == {name})"
        ))  # fmt: skip
