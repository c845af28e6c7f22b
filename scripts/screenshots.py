"""Pictures of the workbench in a real JupyterLab for docs/images: `python scripts/screenshots.py [FOLDER]`.

Takes the whole output of the notebook, light and dark, at 1400 and at 1000 px, and one picture of each state.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from lab import CHROMIUM_FLAGS, Workbench, running_lab  # noqa: E402

OUTPUT = ".jp-OutputArea-output .xp-frame"


def chromium() -> str | None:
    """A Chromium on the PATH, or None for Playwright's own."""
    import shutil

    return next(
        (p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None
    )


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
    print(path)


def theme(bench: Workbench, name: str) -> None:
    """Switch JupyterLab's theme."""
    bench.page.evaluate(
        "(n) => { window.jupyterapp.commands.execute('apputils:change-theme', {theme: n}); return 1; }",
        f"JupyterLab {name.capitalize()}",
    )
    bench.page.wait_for_selector(
        f"body[data-jp-theme-light={'true' if name == 'light' else 'false'}]", state="attached"
    )
    bench.page.wait_for_timeout(500)


def searched(bench: Workbench) -> None:
    """A finished search."""
    bench.do("setattr(explorer, 'searcher', 'megatron')")
    bench.act("search")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "search ended", 60)
    bench.until(lambda: bench.page.locator(".js-plotly-plot").count() > 0, "chart drawn", 30)


def overfull(bench: Workbench) -> None:
    """Blocks dropped where they do not fit."""
    layers = (
        "[l.name for l in explorer.history.now.inputs.graph.layers if l.block in ('layers.20', 'layers.21')]"
    )
    bench.do(f"explorer.board.send_intent('move', layers={layers}, to_lane='0')")


def exported(bench: Workbench) -> None:
    """Files of an export."""
    bench.act("export")
    bench.page.wait_for_selector("[data-file]")


STATES: dict[str, Callable[[Workbench], None]] = {
    "overfull": overfull,
    "searched": searched,
    "exported": exported,
}


def main(folder: Path) -> None:
    """Take all pictures."""
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
        bench.until(lambda: bench.ask("not explorer.showing.reasons.under_way"), "the proposal is there", 30)
        for width in (1400, 1000):
            bench.page.set_viewport_size({"width": width, "height": 1000})
            for name in ("light", "dark"):
                theme(bench, name)
                shoot(bench, folder / f"workbench-{name}{'' if width == 1400 else f'-{width}'}.png")
        bench.page.set_viewport_size({"width": 1400, "height": 1000})
        theme(bench, "light")
        for name, make in STATES.items():
            make(bench)
            bench.settled()
            shoot(bench, folder / f"{name}.png")
        context.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
