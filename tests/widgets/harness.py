"""Widgets on a page with a fake anywidget model, driven by Playwright: no server, no kernel, no network."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anywidget

HERE = Path(__file__).parent
STATIC = HERE.parents[1] / "widgets" / "static"
ORIGIN = "http://widgets.invalid"
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


YARDSTICK_MS = 60.0
"""What `slowness` counts to on a machine that does nothing else."""


def chromium() -> str | None:
    """Path of a Chromium on this machine, or None."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
        None,
    )


def state_of(widget: anywidget.AnyWidget) -> dict[str, Any]:
    """The synced traits as the page's model holds them; bytes are marked."""
    own = {
        name: getattr(widget, name)
        for name, trait in widget.traits(sync=True).items()
        if not name.startswith("_") and name not in {"layout", "tabbable", "tooltip"}
    }
    return {
        name: {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in own.items()
    }


def encode(state: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"$bytes": base64.b64encode(value).decode()} if isinstance(value, bytes) else value
        for name, value in state.items()
    }


def as_text(state: dict[str, Any]) -> str:
    """The state as one text: Playwright checks every value of anything else, which takes far longer."""
    return json.dumps(state, allow_nan=False)


class WidgetPage:
    """A Playwright page with helpers for the fake model."""

    def __init__(self, page: Any, dark: bool = False) -> None:
        self.page = page
        self.errors: list[str] = []
        self.foreign: list[str] = []
        page.set_default_timeout(240_000)  # only what never comes takes so long
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        page.route("**/*", self._serve)
        self.dark = dark
        page.goto(f"{ORIGIN}/")
        page.wait_for_function("window.ready")

    def _serve(self, route: Any) -> None:
        path = route.request.url.removeprefix(ORIGIN).lstrip("/")
        if path == "":
            sheets = [
                file for file in sorted(STATIC.glob("*.css")) if file.stem != "report"
            ]  # of a page of its own
            css = "\n".join(file.read_text() for file in sheets)
            html = (HERE / "page.html").read_text().replace("/* WIDGETS */", css)
            route.fulfill(content_type="text/html", body=html.replace("LIGHT", str(not self.dark).lower()))
        elif path == "harness.js":
            route.fulfill(content_type="text/javascript", body=(HERE / "harness.js").read_text())
        elif route.request.url.startswith(ORIGIN) and (STATIC / path).is_file():
            route.fulfill(content_type="text/javascript", body=(STATIC / path).read_text())
        else:
            self.foreign.append(route.request.url)
            route.abort()

    def reset(self) -> None:
        """Close what is shown and forget what happened."""
        self.page.mouse.up()
        self.page.evaluate("() => window.reset()")
        self.errors.clear()
        self.foreign.clear()

    def show(self, name: str, widget: anywidget.AnyWidget) -> None:
        """Draw a widget with the state of a Python one."""
        source = f"{type(widget).__name__.removesuffix('View').lower()}.js"
        self.page.evaluate(
            "([name, source, state]) => window.show(name, source, JSON.parse(state))",
            [name, f"/{source}", as_text(state_of(widget))],
        )
        self.settle()

    def settle(self) -> None:
        """Wait for two frames."""
        self.page.evaluate("window.frames2()")

    def sent(self, name: str) -> list[dict[str, Any]]:
        """Intents sent so far; what the page only considers is none."""
        sent = self.page.evaluate("(name) => window.models[name].sent", name)
        return [message for message in sent if "consider" not in message]

    def get(self, name: str, trait: str) -> Any:
        return self.page.evaluate("([name, trait]) => window.models[name].get(trait)", [name, trait])

    def receive(self, name: str, **state: Any) -> None:
        """Python's answer."""
        self.page.evaluate(
            "([name, state]) => window.models[name].receive(JSON.parse(state))",
            [name, as_text(encode(state))],
        )
        self.settle()

    def contrasts(self) -> list[tuple[float, str]]:
        """Contrast of every text with what is painted behind it."""
        return [(ratio, which) for ratio, which in self.page.evaluate("window.contrasts()")]

    def leaked(self) -> list[str]:
        """Keys that reached the document."""
        return list(self.page.evaluate("window.leaked"))

    def box(self, selector: str) -> dict[str, float]:
        """Geometry, read afresh."""
        found = self.page.evaluate("(s) => window.geometry(s)", selector)
        assert found, f"nothing matches {selector}"
        return dict(found)

    def drag(self, source: str, target: str | tuple[float, float], release: bool = True) -> None:
        """Press on one element, move in steps, release on another (or after a shift in pixels)."""
        a = self.box(source)
        x, y = a["x"] + min(12, a["width"] / 2), a["y"] + a["height"] / 2
        if isinstance(target, str):
            b = self.box(target)
            to = (b["x"] + b["width"] / 2, b["y"] + b["height"] / 2)
        else:
            to = (x + target[0], y + target[1])
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + 9, y)
        mouse.move(*to, steps=8)
        if release:
            self.release()
        self.settle()

    def release(self) -> None:
        """Let go, and wait until the board no longer waits for an answer before it draws its estimate."""
        self.page.mouse.up()
        self.page.wait_for_function("() => !document.querySelector('.b-lane.target, .b-chip.hole')")
        self.settle()

    def slowness(self) -> float:
        """How many times as long as usual this page takes for the same work, now: at least 1."""
        took = self.page.evaluate(
            """() => { const begin = performance.now();
                 let sum = 0;
                 for (let i = 0; i < 2e7; i++) sum = (sum * 31 + i) | 0;
                 window.yardstick = sum;
                 return performance.now() - begin; }"""
        )
        return max(1.0, float(took) / YARDSTICK_MS)

    def within(self, limit_ms: float, draw: Callable[[], float]) -> bool:
        """Whether some of ten drawings takes no longer than it may, on a machine as busy as this one now."""
        return any(draw() < limit_ms * self.slowness() for _ in range(10))

    def text(self, selector: str) -> str:
        return str(self.page.inner_text(selector))
