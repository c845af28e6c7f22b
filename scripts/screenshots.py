"""Pictures of the workbench in a real JupyterLab: `python scripts/screenshots.py [FOLDER [STATE...]]`.

The whole output of the notebook, light and dark, at 1400 and at 1000 px, then every state: the part of the
page that is about it, and nothing else. Into docs/images; with states named only those are taken.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))

from lab import CHROMIUM_FLAGS, Lab, Workbench, running_lab  # noqa: E402

OUTPUT = ".jp-OutputArea-output .xp-frame"
TABS = ".xp-frame .jupyter-widget-tab"
TOP = 4200
"""Height of the page while states are taken, so that nothing has to be scrolled to."""

LARGE = 390 * 1024
"""Bytes from which a picture has its colours counted."""

State = Callable[[Workbench], str]
"""Brings the workbench to a state; the selectors, separated by ` + `, of what is to be seen of it."""


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


# -- states -----------------------------------------------------------------------------------------------

FROM_BAR_TO_BOARD = ".xp-frame [data-widget=controls] + .xp-frame [data-widget=board]"


def dragging(bench: Workbench) -> str:
    """A block in the hand over another lane: everything previews."""
    start = bench.box("[data-lane='0'] [data-block='layers.3']")
    end = bench.box("[data-lane='1'] [data-block='layers.12']")
    mouse = bench.page.mouse
    mouse.move(start["x"] + start["w"] / 2, start["y"] + start["h"] / 2)
    mouse.down()
    mouse.move(start["x"] + start["w"] / 2 + 9, start["y"] + start["h"] / 2 + 2)
    mouse.move(end["x"] + end["w"] / 2, end["y"] + end["h"] / 2, steps=8)
    bench.page.wait_for_timeout(300)
    return FROM_BAR_TO_BOARD


def let_go(bench: Workbench) -> None:
    """End a drag without a move."""
    bench.page.keyboard.press("Escape")
    bench.page.mouse.up()


def overfull(bench: Workbench) -> str:
    """Blocks dropped where they do not fit."""
    layers = (
        "[l.name for l in explorer.history.now.inputs.graph.layers if l.block in ('layers.20', 'layers.21')]"
    )
    bench.do(f"explorer.board.send_intent('move', layers={layers}, to_lane='0')")
    reasons_are_there(bench)
    return FROM_BAR_TO_BOARD


def held(bench: Workbench) -> str:
    """A pinned block, a locked lane, and the menu that moves without a drag."""
    bench.page.locator("[data-lane='1'] [data-block='layers.12']").click()
    bench.page.locator(".b-detail [data-action=pin]").click()
    bench.settled()
    bench.do("explorer.lock_lane(3)")
    bench.settled()
    bench.page.locator("[data-lane='1'] [data-block='layers.14']").click()
    bench.page.locator(".b-detail [data-action=move-to]").click()
    return ".xp-frame [data-widget=board]"


def compared(bench: Workbench) -> str:
    """A plan B in every view."""
    bench.act("compare")
    bench.settled()
    bench.do("explorer.set(microbatch_size=2)")
    reasons_are_there(bench)
    return OUTPUT


def searching(bench: Workbench) -> str:
    """All searchers, one after another."""
    bench.tab("Search")
    bench.do("setattr(explorer, 'search_budget_s', 60.0)")
    bench.page.locator("[data-action=compare_all]").click()
    bench.until(lambda: bench.ask("len(explorer.search_panel.task.runs)") > 3, "some are done")
    bench.until(lambda: bench.page.locator(".js-plotly-plot").count() > 0, "chart drawn")
    return TABS


def searched(bench: Workbench) -> str:
    """What they found."""
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "search ended")
    bench.page.wait_for_timeout(1500)
    return TABS


def schedules(bench: Workbench) -> str:
    """Every schedule counted on the plan shown, one of them beside it."""
    bench.tab("Schedules")
    bench.do("explorer.schedules_panel.beside('gpipe')")
    waiting = "any(row['state'] == 'waiting' for row in explorer.schedules_panel.table.view['rows'])"
    bench.until(lambda: bench.page.locator("[data-schedule]").count() > 0, "a row for each schedule")
    bench.until(lambda: not bench.ask(waiting), "all counted")
    bench.settled()
    return f"{TABS} > .lm-TabBar + .s-table tbody"


def order(bench: Workbench) -> str:
    """An action in the hand, over another place of its lane."""
    bench.page.locator("[data-action=edit-order]").click()
    box = bench.box(".tl-canvas")
    mouse = bench.page.mouse
    mouse.move(box["x"] + 0.4 * box["w"], box["y"] + 54)
    mouse.down()
    mouse.move(box["x"] + 0.38 * box["w"], box["y"] + 54)
    mouse.move(box["x"] + 0.33 * box["w"], box["y"] + 56, steps=6)
    bench.page.wait_for_timeout(300)
    return ".xp-frame [data-widget=timeline]"


def what_if(bench: Workbench) -> str:
    """Sliders moved, a curve drawn."""
    bench.tab("What if")
    slider = bench.page.locator("[data-slider=whatif_bandwidth] .w-range")
    slider.focus()
    for _ in range(2):
        bench.page.keyboard.press("ArrowLeft")
    bench.settled()
    bench.page.locator("[data-action=sweep_draw]").click()
    bench.until(lambda: not bench.ask("explorer.what_if_panel.curve.running"), "curve drawn")
    bench.page.wait_for_timeout(1500)
    return TABS


def running(bench: Workbench) -> str:
    """Ranks at work."""
    bench.do("explorer.set(stages=2, replicas=1)")
    bench.tab("Run")
    bench.do("[explorer.run_panel.set('engine', 'dry'), explorer.run_panel.set('rounds', 2)]")
    bench.act("run")
    in_rounds = "any(row['step_s'] for row in explorer.run_panel.page.view['progress']['ranks'])"
    bench.until(lambda: bench.ask(in_rounds), "in its rounds")
    return TABS


def run_done(bench: Workbench) -> str:
    """Predicted against measured."""
    bench.until(lambda: not bench.ask("explorer.run_panel.task.running"), "run ended")
    return TABS


def run_failed(bench: Workbench) -> str:
    """A rank that was killed; what was found before stays."""
    bench.do("explorer.run_panel.set('rounds', 20)")
    bench.act("run")
    alive = "__import__('psutil').pid_exists(explorer.run_panel.task._handle.process.pid)"
    bench.until(lambda: bench.ask(f"explorer.run_panel.task.running and {alive}"), "a process of its own")
    bench.until(lambda: bench.page.locator("[data-rank]").count() > 0, "a row for each rank")
    parent = "__import__('psutil').Process(explorer.run_panel.task._handle.process.pid)"
    bench.until(lambda: bench.ask(f"len({parent}.children(recursive=True))") > 0, "ranks are there")
    bench.page.wait_for_timeout(3000)
    bench.do(f"[rank.kill() for rank in {parent}.children(recursive=True)[-1:]]")
    bench.until(lambda: not bench.ask("explorer.run_panel.task.running"), "run failed")
    return TABS


def exported(bench: Workbench) -> str:
    """Files of an export."""
    bench.act("export")
    bench.page.locator("[data-target=torchrun]").click()
    bench.until(lambda: bench.ask("explorer.export_panel.page.view['target']") == "torchrun", "its files")
    return TABS


def refused(bench: Workbench) -> str:
    """A plan that a target cannot say."""
    bench.do("explorer.set(schedule='pipedream')")
    bench.act("export")
    bench.page.locator("[data-target=torchtitan]").click()
    bench.page.wait_for_selector(".ex-refused li")
    return TABS


def history(bench: Workbench) -> str:
    """Every state, files, a wrong one said at its field."""
    bench.do("explorer.set(microbatch_size=2)")
    bench.do("explorer.set(recompute='selective')")
    bench.act("undo")
    bench.tab("History")
    bench.page.locator("[data-field=open_path]").fill("no/such/plan.yaml")
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector(".h-files [aria-invalid=true]")
    return TABS


def wrong_field(bench: Workbench) -> str:
    """A number that cannot be."""
    field = bench.page.locator("[data-field=stages]")
    field.fill("99")
    field.press("Enter")
    bench.page.wait_for_selector("[data-field=stages][aria-invalid=true]")
    return ".xp-frame [data-widget=controls]"


def timeline(bench: Workbench) -> str:
    """Critical path, and a microbatch followed through all stages."""
    bench.do("setattr(explorer.timeline, 'critical', True)")
    bench.do("setattr(explorer.timeline, 'microbatch', 6)")
    return ".xp-frame [data-widget=timeline]"


def graph(bench: Workbench) -> str:
    """A layer that was searched for."""
    bench.page.locator("[data-widget=graph] input").first.fill("layers.20.mlp.down")
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector("[data-node^='layers.20']")
    return ".xp-frame [data-widget=graph]"


def big(bench: Workbench) -> str:
    """64 lanes on 16 nodes."""
    bench.do("explorer.set(model='gpt3-175b')")
    bench.do("explorer.set(global_batch=128)")
    bench.do("explorer.set(cluster='dgx-a100-128')")
    bench.do("explorer.set(stages=64)")
    bench.until(lambda: bench.page.locator("[data-lane]").count() == 64, "64 lanes")
    return FROM_BAR_TO_BOARD


STATES: dict[str, State] = {
    "dragging": dragging,
    "overfull": overfull,
    "held": held,
    "compared": compared,
    "timeline": timeline,
    "order": order,
    "graph": graph,
    "searching": searching,
    "searched": searched,
    "schedules": schedules,
    "what-if": what_if,
    "running": running,
    "run-done": run_done,
    "run-failed": run_failed,
    "exported": exported,
    "export-refused": refused,
    "history": history,
    "wrong-field": wrong_field,
    "big": big,
}
FOLLOWS = {"searched", "run-done", "run-failed"}
"""States that go on from the one before them."""


def reasons_are_there(bench: Workbench) -> None:
    """Wait for the sentences that are simulated in quiet moments."""
    bench.settled()
    bench.until(lambda: bench.ask("not explorer.showing.reasons.under_way"), "reasons")


def first_state(bench: Workbench) -> None:
    """Back to where it opened."""
    let_go(bench)
    bench.do("explorer.stop()")
    bench.do("[None for _ in iter(explorer.undo, False)]")
    bench.do(
        "[setattr(explorer.timeline, 'critical', False), setattr(explorer.timeline, 'microbatch', None)]"
    )
    bench.do("setattr(explorer, 'selection', [])")
    reasons_are_there(bench)


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
