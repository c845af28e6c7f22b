"""What outlives a page or a kernel: history, files in and out, the report, a restart."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab import Lab, Workbench, running_lab

pytestmark = pytest.mark.browser

CHIP = "[data-lane='{}'] [data-block='{}']"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, chromium_executable: str | None) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    with running_lab(folder, sessions=str(folder / "sessions")) as server:
        yield server


def move(bench: Workbench, block: str, lane: int) -> None:
    """Move a block to the lane below, by keyboard."""
    chip = bench.page.locator(CHIP.format(lane - 1, block))
    chip.focus()
    bench.page.keyboard.press("Alt+ArrowDown")
    bench.until(lambda: bench.lane_of(block) == str(lane), f"{block} is on lane {lane}")
    bench.settled()


def test_a_history_row_goes_back(bench: Workbench) -> None:
    move(bench, "layers.3", 1)
    move(bench, "layers.12", 2)
    bench.tab("History")
    rows = bench.page.locator(".h-table tbody tr")
    bench.until(lambda: rows.count() == 3, "three states")
    assert rows.first.get_attribute("aria-current") == "step"
    rows.nth(2).click()
    bench.until(lambda: bench.lane_of("layers.3") == "0", "the first state, by mouse")
    bench.settled()
    assert rows.count() == 3, "no new state"
    rows.nth(2).focus()
    bench.page.keyboard.press("ArrowUp")
    bench.page.keyboard.press("Enter")
    bench.until(lambda: (bench.lane_of("layers.3"), bench.lane_of("layers.12")) == ("1", "1"), "by keyboard")


def test_an_export_is_downloaded(bench: Workbench, tmp_path: Path) -> None:
    page = bench.page
    bench.act("export")
    page.wait_for_selector("[data-file='plan.yaml']")
    page.locator("[data-target=torchrun]").click()
    page.wait_for_selector("[data-target=torchrun][aria-selected=true]")
    bench.until(lambda: bench.ask("explorer.export_panel.page.view['target']") == "torchrun", "its files")
    bench.settled()
    with page.expect_download() as download:
        page.locator("[data-widget=export] [data-action=download-zip]").click()
    assert download.value.suggested_filename == "torchrun.zip"
    download.value.save_as(tmp_path / "torchrun.zip")
    with zipfile.ZipFile(tmp_path / "torchrun.zip") as files:
        assert files.testzip() is None
        expected = {
            item["name"]: item["text"] for item in bench.ask("explorer.export_panel.page.view['files']")
        }
        assert {name: files.read(name).decode() for name in files.namelist()} == expected


def test_a_report_opens_offline(bench: Workbench, tmp_path: Path) -> None:
    bench.tab("History")
    with bench.page.expect_download() as download:
        bench.page.locator("[data-action=make_report]").click()
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    page = bench.page.context.new_page()
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    try:
        page.goto(path.as_uri())
        page.wait_for_selector("[data-lane='3'] [data-block]")
        assert page.locator("[data-lane]").count() == 4
        assert page.inner_text("[data-kpi=step_time] .t-value") == bench.kpi("step_time")
        drawn = "() => document.querySelector('.tl-canvas').toDataURL().length > 2000"
        page.wait_for_function(drawn)
    finally:
        page.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def test_a_wrong_file_is_said_at_its_field(bench: Workbench, tmp_path: Path) -> None:
    page = bench.page
    bench.tab("History")
    field, said = page.locator("[data-field=open_path]"), page.locator(".h-files [role=alert]")
    before = bench.kpi("step_time")
    field.fill("no/such/plan.yaml")
    field.press("Enter")
    bench.until(lambda: "no/such/plan.yaml" in said.inner_text(), "said at the field")
    assert field.input_value() == "no/such/plan.yaml", "what was typed stays"
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("schema: explorer.plan/1\nstages: seven\n", encoding="utf-8")
    page.locator("[data-field=upload]").set_input_files(wrong)
    bench.until(lambda: "wrong.yaml" in said.inner_text(), "an upload too")
    assert bench.kpi("step_time") == before
    with page.expect_download() as download:
        page.locator("[data-action=save_plan]").click()
    saved = tmp_path / "saved.yaml"
    download.value.save_as(saved)
    page.locator("[data-field=upload]").set_input_files(saved)
    bench.until(lambda: said.inner_text() == "", "a right one is opened, and the complaint goes")
    bench.until(lambda: bench.ask("explorer.history.at") == 1, "one state more")


def test_a_restarted_kernel_goes_on(bench: Workbench) -> None:
    page = bench.page
    move(bench, "layers.3", 1)
    move(bench, "layers.12", 2)
    step = bench.kpi("step_time")
    bench.until(
        lambda: bench.ask("explorer.saving.saved_s is not None and not explorer.saving._dirty"), "saved"
    )
    states = bench.ask("len(explorer.history.points)")
    page.evaluate(
        """() => { const context = window.jupyterapp.shell.currentWidget.sessionContext;
                   window.sxBack = false;
                   context.session.kernel.restart().then(() => { window.sxBack = true; }); return 1; }"""
    )
    page.wait_for_function(
        """() => window.sxBack && window.jupyterapp.shell.currentWidget.sessionContext
                   .session.kernel.status === 'idle'""",
    )
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs'); return 1; }"
    )
    page.wait_for_selector("[data-lane]", state="detached")
    bench.run_all()
    assert bench.lane_of("layers.3") == "0", "a fresh kernel"
    page.wait_for_selector(".t-verdict :text('You were here')")
    page.locator(".t-verdict [data-action=reopen]").click()
    bench.until(lambda: (bench.lane_of("layers.3"), bench.lane_of("layers.12")) == ("1", "2"), "as it was")
    bench.settled()
    assert bench.kpi("step_time") == step
    assert bench.ask("len(explorer.history.points)") == states
    bench.act("undo")
    bench.until(lambda: bench.lane_of("layers.12") == "1", "and its history is back")


KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
"""Without it JupyterLab asks."""
PARTS = """
from ipywidgets import HBox
from widgets import Explorer
explorer = Explorer("gpt2-small", "dgx-a100", session=None)
HBox([explorer.board, explorer.tiles])
"""


def test_parts_stand_alone(lab: Lab, browser: Any) -> None:
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"cells": [cell | {"source": PARTS}], "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}
    (lab.root / "parts.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
    bench = Workbench(browser.new_page())
    bench.open(lab, "parts.ipynb")
    assert {
        part: bench.page.locator(f"[data-widget={part}]").count() > 0 for part in ("tiles", "controls")
    } == {
        "tiles": True,
        "controls": False,
    }
    step = bench.kpi("step_time")
    # the last stage binds, so that a block more of its own shows in the step time
    block = bench.ask("[b['id'] for b in explorer.board.blocks if b['id'].startswith('layers.')][-1]")
    lane = bench.lane_of(block)
    bench.page.locator(CHIP.format(lane, block)).focus()
    bench.page.keyboard.press("Alt+ArrowDown")
    bench.until(lambda: bench.lane_of(block) != lane, "moved")
    bench.until(lambda: bench.kpi("step_time") != step, "the tiles follow")
    assert not bench.errors, bench.errors
    bench.page.close()
