"""Pictures of the workbench in a real JupyterLab: `python scripts/screenshots.py [FOLDER [STATE...]]`.

The whole output of the notebook, light and dark, at 1400 and at 1000 px, then every state: the part of the
page that is about it, and nothing else. Into docs/images; with states named only those are taken.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from lab import CHROMIUM_FLAGS, Lab, Workbench, running_lab  # noqa: E402
from screenshot_states import FOLLOWS, OUTPUT, STATES, first_state, reasons_are_there  # noqa: E402

TOP = 4200
"""Height of the page while states are taken, so that nothing has to be scrolled to."""

LARGE = 390 * 1024
"""Bytes from which a picture has its colours counted."""


def chromium() -> str | None:
    """A Chromium on the PATH, or None for Playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next((path for name in names if (path := shutil.which(name))), None)


def shoot(bench: Workbench, path: Path) -> None:
    """The whole workbench as a picture; the notebook is made as high as it is first."""
    page = bench.page
    width = page.viewport_size["width"]
    page.set_viewport_size({"width": width, "height": 1000})
    page.wait_for_timeout(300)
    height = page.evaluate("(s) => document.querySelector(s).getBoundingClientRect().height", OUTPUT)
    page.set_viewport_size({"width": width, "height": min(6000, int(height) + 600)})
    page.wait_for_timeout(700)
    page.locator(OUTPUT).first.screenshot(path=path)
    shrink(path)


def shoot_part(bench: Workbench, parts: str, path: Path) -> None:
    """What several elements span, from the first one's top to the last one's bottom."""
    bench.settled()
    bench.page.wait_for_timeout(500)
    boxes = bench.page.evaluate(
        """(all) => all.map((s) => { const r = document.querySelector(s).getBoundingClientRect();
                                     return [r.left, r.top, r.right, r.bottom]; })""",
        parts.split(" + "),
    )
    left, top = min(box[0] for box in boxes), min(box[1] for box in boxes)
    right, bottom = max(box[2] for box in boxes), max(box[3] for box in boxes)
    bench.page.screenshot(
        path=path, clip={"x": left, "y": top, "width": right - left, "height": bottom - top}
    )
    shrink(path)


def shrink(path: Path) -> None:
    """At most 256 colours where it would be large; left as it is where Pillow is not installed."""
    if path.stat().st_size > LARGE:
        with suppress(ImportError):
            from PIL import Image

            with Image.open(path) as picture:
                few = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            few.save(path, optimize=True)
    print(f"{path.name}: {path.stat().st_size // 1024} KiB", flush=True)


def theme(bench: Workbench, name: str) -> None:
    """Switch JupyterLab's theme."""
    bench.theme(name.capitalize())
    bench.page.wait_for_timeout(500)


def take_wholes(bench: Workbench, folder: Path) -> None:
    """As it opens: two widths, two themes."""
    for width in (1400, 1000):
        bench.page.set_viewport_size({"width": width, "height": 1000})
        for name in ("light", "dark"):
            theme(bench, name)
            shoot(bench, folder / f"workbench-{name}{'' if width == 1400 else f'-{width}'}.png")
    theme(bench, "light")


def take_states(bench: Workbench, folder: Path, names: list[str]) -> None:
    """One picture of each state."""
    bench.page.set_viewport_size({"width": 1400, "height": TOP})
    for name, make in STATES.items():
        if names and name not in names:
            continue
        if name not in FOLLOWS:
            first_state(bench)
        shoot_part(bench, make(bench), folder / f"{name}.png")


def take_empty(bench: Workbench, lab: Lab, root: Path, folder: Path) -> None:
    """A model that is not there."""
    source = "from widgets import Explorer\nExplorer('nope')"
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": [cell | {"source": source}], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (root / "empty.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    bench.page.set_viewport_size({"width": 1400, "height": 1000})
    bench.open(lab, "empty.ipynb", ready=".xp-frame [data-widget=tiles]")
    bench.page.wait_for_timeout(1500)
    bench.page.locator(OUTPUT).first.screenshot(path=folder / "empty.png")
    shrink(folder / "empty.png")


def main(folder: Path, names: list[str]) -> None:
    """Take all pictures, or those named."""
    from playwright.sync_api import sync_playwright

    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as scratch,
        sync_playwright() as playwright,
        running_lab(Path(scratch)) as lab,
    ):
        context: Any = playwright.chromium.launch_persistent_context(
            Path(scratch) / "chromium",
            executable_path=chromium(),
            headless=True,
            viewport={"width": 1400, "height": 1000},
            args=CHROMIUM_FLAGS,
        )
        bench = Workbench(context.new_page())
        bench.open(lab)
        reasons_are_there(bench)
        if not names or "workbench" in names:
            take_wholes(bench, folder)
        take_states(bench, folder, names)
        if not names or "empty" in names:
            take_empty(bench, lab, Path(scratch) / "root", folder)
        if bench.errors:
            raise SystemExit(f"the page reported errors: {bench.errors}")
        context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images", sys.argv[2:])
