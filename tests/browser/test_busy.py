"""While the kernel works on a field: what it does and how far it is, in the page, and a way to end it."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
from lab import Lab, Workbench, write_cell

pytestmark = pytest.mark.browser

NET = """
    import pathlib, time, torch

    for _ in range(3000):  # as long as the test wants, and never for ever
        if pathlib.Path("go").exists():
            break
        time.sleep(0.1)

    def build():
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)), (torch.zeros(1, 8),)
"""
FIELD = "[data-field=model]"
CANCEL = ".t-verdict [data-action=cancel_work]"
STALE = "() => [...document.querySelectorAll('.xp-frame .sx[data-stale]')].map((e) => e.dataset.widget)"
BATCH = "[data-field=global_batch]"


def load_own(bench: Workbench, name: str) -> None:
    """Type a module of our own into the model's field, as a user does."""
    page = bench.page
    page.locator(FIELD).select_option("other…")
    page.wait_for_selector(f"input{FIELD}")
    page.locator(f"input{FIELD}").fill(f"{name}:build")
    page.keyboard.press("Enter")
    page.wait_for_selector(CANCEL)


def test_a_model_that_takes_long_says_so_and_can_be_cancelled(lab: Lab, bench: Workbench) -> None:
    page = bench.page
    folder = lab.root / "notebooks"
    (folder / "slow_net.py").write_text(textwrap.dedent(NET), encoding="utf-8")
    before = {"model": bench.ask("explorer.model"), "step": bench.kpi("step_time")}
    said = page.inner_text(".t-text")

    load_own(bench, "slow_net")
    sentence = page.inner_text(".t-text")
    assert "Loading slow_net:build: reading the model, step 1 of 3." in sentence
    page.wait_for_selector(".c-work:has-text('Esc cancels')")  # at the field, with the seconds
    assert page.locator(f"input{FIELD}").get_attribute("aria-busy") == "true"
    assert page.locator("[data-widget=tiles]").get_attribute("data-state") == "computing"
    assert {"timeline", "graph", "heatmap"} <= set(page.evaluate(STALE)), "no figure looks current"
    meter = page.locator(".t-verdict [role=progressbar]")
    assert meter.get_attribute("aria-valuenow") == "0"

    page.keyboard.press("Escape")
    page.wait_for_selector(CANCEL, state="detached")
    page.wait_for_selector(f"select{FIELD}")
    assert page.locator(FIELD).input_value() == before["model"]
    assert bench.ask("explorer.model") == before["model"], "the kernel answers while the module still loads"
    assert bench.kpi("step_time") == before["step"]
    assert page.inner_text(".t-text").startswith(said), "reasons may be found meanwhile"
    assert not page.evaluate(STALE)
    bench.drag("[data-lane='0'] [data-block='layers.3']", "[data-lane='1'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "it can be used at once")

    (folder / "go").touch()
    load_own_again(bench)


def load_own_again(bench: Workbench) -> None:
    """The module is there now, and so is its model."""
    page = bench.page
    page.locator(FIELD).select_option("other…")
    page.wait_for_selector(f"input{FIELD}")
    page.locator(f"input{FIELD}").fill("slow_net:build")
    page.keyboard.press("Enter")
    bench.until(lambda: bench.ask("explorer.model") == "slow_net:build", "loaded")
    bench.settled()


def test_a_field_that_takes_long_keeps_gestures_in_order(bench: Workbench, slow_steps: Any) -> None:
    page = bench.page
    batch = int(bench.ask("explorer.workload.job.global_batch"))
    page.locator(BATCH).fill(str(2 * batch))
    page.keyboard.press("Enter")
    page.wait_for_selector(CANCEL)
    assert f"Working out batch {2 * batch}: simulating a step." in page.inner_text(".t-text")
    page.locator(CANCEL).click()
    page.wait_for_selector(CANCEL, state="detached")
    assert page.locator(BATCH).input_value() == str(batch), "the field shows what is true again"
    assert bench.ask("explorer.workload.job.global_batch") == batch
    page.locator(BATCH).fill(str(2 * batch))
    page.keyboard.press("Enter")
    page.wait_for_selector(CANCEL)
    bench.drag(
        "[data-lane='0'] [data-block='layers.3']", "[data-lane='1'] [data-block]"
    )  # waits for its turn
    assert bench.lane_of("layers.3") == "0"
    slow_steps()
    bench.until(lambda: bench.lane_of("layers.3") == "1", "the drop is made after it")
    assert bench.ask("explorer.workload.job.global_batch") == 2 * batch
    assert bench.ask("[p.note for p in explorer.history.points][1:]")[0] == f"batch {2 * batch}"
    bench.settled()


def test_opening_a_file_says_so_and_can_be_cancelled(bench: Workbench, slow_steps: Any) -> None:
    page = bench.page
    save = "__import__('explorer.plan', fromlist=['save_plan']).save_plan"
    bench.do(f"{save}(explorer.plan, {{'model': explorer.now().inputs.graph}}, 'kept.yaml')")
    move = "[data-lane='0'] [data-block='layers.3']", "[data-lane='1'] [data-block]"
    bench.drag(*move)
    bench.until(lambda: bench.lane_of("layers.3") == "1", "another plan")
    bench.settled()
    bench.tab("History")
    states = bench.ask("len(explorer.history.points)")
    field = page.locator("[data-field=open_path]")
    field.fill("kept.yaml")
    field.press("Enter")
    page.wait_for_selector(CANCEL)
    assert "Opening kept.yaml" in page.inner_text(".t-text")
    assert {"timeline", "graph", "heatmap"} <= set(page.evaluate(STALE)), "no figure looks current"
    page.locator(CANCEL).click()
    page.wait_for_selector(CANCEL, state="detached")
    assert bench.ask("len(explorer.history.points)") == states
    field.press("Enter")
    page.wait_for_selector(CANCEL)
    field.press("Escape")
    page.wait_for_selector(CANCEL, state="detached")
    assert bench.ask("len(explorer.history.points)") == states
    assert bench.lane_of("layers.3") == "1"
    assert not page.evaluate(STALE)

    text = bench.ask("open('kept.yaml').read()")
    page.evaluate(DROP, text)
    page.wait_for_selector(CANCEL)
    assert "Opening dropped.yaml" in page.inner_text(".t-text")
    page.keyboard.press("Escape")
    page.wait_for_selector(CANCEL, state="detached")
    assert bench.ask("len(explorer.history.points)") == states
    page.evaluate(DROP, text)
    page.wait_for_selector(CANCEL)
    slow_steps()
    bench.until(lambda: bench.lane_of("layers.3") == "0", "opened after all")
    page.wait_for_selector(CANCEL, state="detached")
    assert bench.ask("len(explorer.history.points)") == states + 1
    bench.settled()


DROP = """(text) => {
  const data = new DataTransfer();
  data.items.add(new File([text], "dropped.yaml"));
  const event = (type) => new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: data });
  const board = document.querySelector('[data-widget=board]');
  for (const type of ['dragover', 'drop']) board.dispatchEvent(event(type));
}"""
"""Drops a file on the board."""


@pytest.fixture
def slow_steps(bench: Workbench) -> Any:
    """Simulations on a thread of the kernel wait until this is called."""
    bench.do(
        "exec('''import threading, widgets.session as s\\n"
        "gate, own = threading.Event(), s.simulate\\n"
        "def held(*a, **k):\\n"
        '    threading.current_thread().name == "field" and gate.wait(120)\\n'
        "    return own(*a, **k)\\n"
        "s.simulate = held''', globals())"
    )

    def go() -> None:
        bench.do("gate.set()")

    yield go
    bench.do("(gate.set(), setattr(s, 'simulate', own))")


INTERRUPT = """() => { window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.interrupt();
                        return 1; }"""


def test_a_cell_that_loads_says_so_and_can_be_interrupted(lab: Lab, browser: Any) -> None:
    code = (
        "from widgets import Explorer\n"
        "explorer = Explorer('never_net:build', 'dgx-a100', session=None)\nexplorer"
    )
    (lab.root / "never_net.py").write_text(textwrap.dedent(NET).replace('"go"', '"never"'), encoding="utf-8")
    bench = Workbench(browser.new_page())
    page = bench.page
    bench.open(
        lab, write_cell(lab, "loading", code), ready=".jp-OutputArea-output:has-text('Loading never_net')"
    )
    said = page.inner_text(".jp-OutputArea")
    assert "reading the model, step 1 of 3. To cancel, interrupt the kernel." in said
    page.evaluate(INTERRUPT)
    page.wait_for_selector(".sx-controls .sx-notice:has-text('interrupted')")
    assert "Loading never_net" not in page.inner_text(".jp-OutputArea")
    assert page.locator(FIELD).input_value() == "never_net:build"
    page.locator(FIELD).select_option("llama3-8b")
    page.wait_for_selector("[data-lane='0'] [data-block]")
    page.close()
    assert not bench.errors, bench.errors
