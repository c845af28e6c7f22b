"""A page too slow or broken for the board to start: it comes late, or the page says so and brings it."""

from __future__ import annotations

import shutil
from typing import Any

import pytest
from lab import BOARD, Lab, Workbench

pytestmark = [pytest.mark.browser, pytest.mark.slow]

FIRST_BOARD = """
    const Own = window.Blob;
    window.Blob = class extends Own {
      constructor(parts, options) {
        const code = String(parts?.[0] ?? "");
        const board = options?.type === "text/javascript" && code.includes("No strategy yet");
        const fails = board && !window.failedOnce;
        if (fails) window.failedOnce = true;
        super(fails ? [INSTEAD] : parts, options);
      }
    };
"""
"""The code of the first board, as anywidget makes a module of it, replaced by something else."""
INSTEAD = {
    "throws": "'throw new Error(\"the board broke\")'",
    "hangs": "'await new Promise(() => {}); export default {}'",  # for longer than anywidget's two seconds
}
EXPLORE = "notebooks/explore.ipynb"
AGAIN = ".t-verdict [data-action=show_board]"


def own_copy(lab: Lab, name: str) -> str:
    """A notebook whose kernel nobody has used: the page would bring back the boards of another."""
    shutil.copy(lab.root / EXPLORE, lab.root / "notebooks" / f"{name}.ipynb")
    return f"notebooks/{name}.ipynb"


@pytest.mark.parametrize("how", INSTEAD)
def test_a_board_that_failed_is_said_and_comes_again(lab: Lab, browser: Any, how: str) -> None:
    page = browser.new_page()
    page.add_init_script(FIRST_BOARD.replace("INSTEAD", INSTEAD[how]))
    bench = Workbench(page)
    bench.open(lab, own_copy(lab, how), ready="[data-kpi=step_time]")
    page.wait_for_selector(AGAIN)
    assert page.evaluate("window.failedOnce") is True, "as it was meant to be"
    assert page.locator(BOARD).count() == 0
    assert "The board did not start." in page.inner_text(".t-text")
    page.locator("[data-field=global_batch]").fill("128")
    page.keyboard.press("Enter")  # everything else goes on as usual
    bench.until(lambda: bench.ask("explorer.workload.job.global_batch") == 128, "a field is answered")

    page.locator(AGAIN).click()
    page.wait_for_selector(BOARD)
    page.wait_for_selector(AGAIN, state="detached")
    bench.drag("[data-lane='0'] [data-block='layers.3']", "[data-lane='1'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "it can be used")
    page.wait_for_selector("[data-lane='1'] [data-block='layers.3']")
    bench.settled()
    page.close()


def test_a_processor_twenty_times_slower(lab: Lab, browser: Any) -> None:
    """Slowed down from before the cells run: the board comes, by itself or by the button that is offered."""
    page = browser.new_page()
    bench = Workbench(page)
    page.goto(lab.url(own_copy(lab, "slow")))
    page.wait_for_selector(".jp-Notebook .jp-CodeCell")
    page.wait_for_function(
        """() => { const c = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
                   return c?.status === 'idle' && c?.connectionStatus === 'connected'; }"""
    )
    slow = page.context.new_cdp_session(page)
    slow.send("Emulation.setCPUThrottlingRate", {"rate": 20})
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return 1; }")
    page.wait_for_selector(f"{BOARD}, {AGAIN}", timeout=480_000)
    if page.locator(AGAIN).count():
        page.locator(AGAIN).click()
        page.wait_for_selector(BOARD, timeout=480_000)
    page.wait_for_selector("[data-kpi=step_time]", timeout=480_000)
    slow.send("Emulation.setCPUThrottlingRate", {"rate": 1})
    for part in (".tl-canvas", ".hm-canvas", "[data-widget=graph] [data-node]"):
        page.locator(part).first.wait_for(state="visible")
    bench.drag("[data-lane='0'] [data-block='layers.3']", "[data-lane='1'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "it can be used")
    page.close()
