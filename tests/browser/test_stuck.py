"""What the page does when it cannot go on by itself: a wrong model, a slow page, a kernel that is gone."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from lab import Lab, Workbench, running_lab

pytestmark = pytest.mark.browser

KERNEL = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
"""Without it JupyterLab asks."""
CELL = "from widgets import Explorer\nexplorer = Explorer({})\nexplorer"
RESTART = (
    """() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart(); return 1; }"""
)
IDLE = """() => { const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                   return kernel.status === 'idle' && kernel.connectionStatus === 'connected'; }"""
STRIP = ".sx-board .sx-notice[data-lasting]"
CHIP = "[data-lane='{}'] [data-block='layers.3']"

Opener = Callable[..., Workbench]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, chromium_executable: str | None) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("lab")
    with running_lab(folder, sessions=str(folder / "sessions")) as server:
        yield server


@pytest.fixture
def open_cell(lab: Lab, browser: Any) -> Iterator[Opener]:
    """`open_cell(code, ready)`: a notebook of one cell, run; afterwards nothing was uncaught."""
    opened: list[Workbench] = []

    def make(code: str, ready: str) -> Workbench:
        cell = {"cell_type": "code", "id": "a", "metadata": {}, "outputs": [], "execution_count": None}
        notebook = {
            "cells": [cell | {"source": code}],
            "metadata": KERNEL,
            "nbformat": 4,
            "nbformat_minor": 5,
        }
        (lab.root / f"cell-{len(opened)}.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
        opened.append(Workbench(browser.new_page()))
        opened[-1].open(lab, f"cell-{len(opened) - 1}.ipynb", ready)
        return opened[-1]

    yield make
    for bench in opened:
        bench.page.close()
        assert not bench.errors, bench.errors


def test_the_first_screen_has_the_figures_and_the_board(lab: Lab, browser: Any) -> None:
    page = browser.new_page()
    page.set_viewport_size({"width": 1280, "height": 800})
    bench = Workbench(page)
    bench.open(lab)
    bench.settled()
    top = "(s) => document.querySelector(s).getBoundingClientRect().top"
    assert page.evaluate(top, ".sx-controls") >= 0, "from the bar on"
    assert page.evaluate(top, ".sx-board .sx-head") <= 700
    assert page.locator(".jp-MarkdownCell summary").count() == 1, "what to do is folded"
    assert not page.locator(".jp-MarkdownCell li").first.is_visible()
    page.evaluate("() => { document.querySelector('.jp-MarkdownCell').scrollIntoView(); return 1; }")
    bench.do("explorer.set(microbatch_size=2)")
    bench.settled()
    assert page.evaluate(top, ".jp-MarkdownCell") >= 0, "it comes into sight once"
    page.close()
    assert not bench.errors, bench.errors


def test_a_wrong_model_then_a_right_one(open_cell: Opener) -> None:
    bench = open_cell(
        CELL.format("'nosuch', 'dgx-a100', session=None, global_batch=64"),
        "[data-widget=controls] .sx-notice",
    )
    page = bench.page
    assert page.locator(".sx-board").is_hidden()
    page.locator("[data-field=model]").select_option("llama3-8b")
    for part in (
        "[data-lane='0'] [data-block]",
        ".tl-canvas",
        "[data-widget=graph]",
        "[data-widget=heatmap]",
    ):
        page.locator(part).first.wait_for(state="visible")
    assert page.locator("[data-widget=controls] .sx-notice").count() == 0
    bench.drag(CHIP.format(0), "[data-lane='1'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "what has come can be used")


def test_messages_that_were_dropped_come_again(lab: Lab, browser: Any) -> None:
    """A page that is too slow: anywidget gives every model up at once, as it does after two seconds."""
    page = browser.new_page()
    page.add_init_script(
        "const wait = AbortSignal.timeout;"
        " AbortSignal.timeout = (ms) => wait.call(AbortSignal, ms === 2000 ? 0 : ms);"
    )
    bench = Workbench(page)
    bench.open(lab)  # waits for the board
    assert any("Failed to initialize model" in error for error in bench.errors), "as it was meant to be"
    for part in (".tl-canvas", ".hm-canvas", "[data-kpi=step_time]", "[data-widget=graph] [data-node]"):
        page.locator(part).first.wait_for(state="visible")
    bench.drag("[data-lane='0'] [data-block='layers.3']", "[data-lane='1'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "it can be used")
    page.wait_for_selector("[data-lane='1'] [data-block='layers.3']")
    bench.settled()
    page.close()


def workbench(open_cell: Opener) -> Workbench:
    """A workbench in which one block was moved, and the session saved."""
    bench = open_cell(
        CELL.format("'llama3-8b', 'dgx-a100', global_batch=64"),
        CHIP.format(0),
    )
    bench.drag(CHIP.format(0), "[data-lane='1'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "moved")
    bench.until(
        lambda: bench.ask("explorer.saving.saved_s is not None and not explorer.saving._dirty"), "saved"
    )
    bench.settled()
    return bench


def cut_and_look(bench: Workbench, words: str) -> None:
    """Once the kernel is gone: what is said, and that nothing can be done to what is shown."""
    page = bench.page
    page.wait_for_selector(STRIP)
    for place in (STRIP, ".t-verdict"):
        said = page.inner_text(place)
        assert words in said
        assert "Run the cells again, then press Reopen." in said
    page.wait_for_function(IDLE, timeout=60_000)
    step = bench.kpi("step_time")
    bench.drag(CHIP.format(1), "[data-lane='0'] [data-block]")
    assert page.locator(CHIP.format(1)).count() == 1, "nothing is dropped"
    page.locator(CHIP.format(1)).focus()
    page.keyboard.press("Alt+ArrowUp")
    assert page.locator(CHIP.format(1)).count() == 1
    assert bench.kpi("step_time") == step
    assert page.locator(".c-bar").evaluate_all("bars => bars.every((bar) => bar.inert)")
    assert page.locator(".t-verdict [data-action]").count() == 0
    page.locator("[data-widget=timeline] [data-action=trace]").click()
    page.wait_for_selector("[data-widget=timeline] .sx-notice[data-lasting]")  # said where it was tried
    bench.settled()


def run_again(bench: Workbench) -> None:
    """The cells are run again: the workbench is there, and goes on where it was."""
    page = bench.page
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return 1; }")
    page.wait_for_selector(".t-verdict [data-action=reopen]", timeout=60_000)
    assert page.locator(".sx-notice[data-lasting]").count() == 0
    page.wait_for_selector(CHIP.format(0))
    page.locator(".t-verdict [data-action=reopen]").click()
    bench.until(lambda: bench.lane_of("layers.3") == "1", "as it was")


def test_a_kernel_restarted(open_cell: Opener) -> None:
    bench = workbench(open_cell)
    bench.page.evaluate(RESTART)
    cut_and_look(bench, "The kernel was restarted")
    run_again(bench)


def test_a_kernel_that_died(open_cell: Opener) -> None:
    """It is started again by the server, in silence."""
    bench = workbench(open_cell)
    ok = bench.page.locator(".jp-Dialog button.jp-mod-accept")  # JupyterLab's own words, at any moment
    bench.page.add_locator_handler(ok, lambda button: button.first.click())
    os.kill(int(bench.ask("__import__('os').getpid()")), signal.SIGKILL)
    cut_and_look(bench, "The kernel was restarted")
    run_again(bench)


def test_a_kernel_gone_during_a_drag(open_cell: Opener) -> None:
    bench = workbench(open_cell)
    page = bench.page
    step = bench.kpi("step_time")
    box = bench.box(CHIP.format(1))
    page.mouse.move(box["x"] + box["w"] / 2, box["y"] + box["h"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + 9, box["y"] - 60, steps=6)
    page.wait_for_selector("[data-widget=tiles][data-state=preview]")
    page.evaluate(RESTART)
    page.wait_for_selector(STRIP)
    page.wait_for_selector("[data-widget=tiles][data-state=ready]")
    page.mouse.up()
    assert bench.kpi("step_time") == step
    assert "Esc cancels" not in page.inner_text(".t-verdict")
