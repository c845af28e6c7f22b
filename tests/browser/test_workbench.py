"""The workbench in a real JupyterLab: every gesture, seen in the page and in Python."""

from __future__ import annotations

import pytest
from lab import Workbench

pytestmark = pytest.mark.browser

CHIP = "[data-lane='{}'] [data-block='{}']"


def canvas(bench: Workbench, selector: str, number: int = 0) -> str:
    """What a canvas shows, once it is drawn."""
    bench.page.evaluate(
        "() => new Promise((d) => requestAnimationFrame(() => requestAnimationFrame(() => d(1))))"
    )
    return str(
        bench.page.evaluate("([s, i]) => document.querySelectorAll(s)[i].toDataURL()", [selector, number])
    )


def test_drag_reaches_python_and_repaints(bench: Workbench) -> None:
    before = {key: bench.kpi(key) for key in ("step_time", "memory", "bubble")}
    heat = [canvas(bench, ".hm-canvas", i) for i in (0, 1)]
    line = canvas(bench, ".tl-canvas")
    assert bench.lane_of("layers.3") == "0"
    bench.drag(CHIP.format(0, "layers.3"), "[data-lane='2'] [data-block]")
    bench.until(lambda: bench.lane_of("layers.3") == "2", "Python got the move")
    bench.settled()
    assert bench.page.locator(CHIP.format(2, "layers.3")).count() == 1
    assert bench.page.locator(CHIP.format(0, "layers.3")).count() == 0
    assert all(bench.kpi(key) != text for key, text in before.items())
    bench.until(lambda: canvas(bench, ".tl-canvas") != line, "timeline repainted")
    bench.until(lambda: all(canvas(bench, ".hm-canvas", i) != heat[i] for i in (0, 1)), "heatmaps repainted")
    bench.act("undo")
    bench.until(lambda: bench.lane_of("layers.3") == "0", "undone")
    bench.settled()
    assert {key: bench.kpi(key) for key in before} == before
    bench.act("redo")
    bench.until(lambda: bench.lane_of("layers.3") == "2", "done again")


def test_boundary_handle(bench: Workbench) -> None:
    layers = "len(explorer.strategy.job.stages[0].layers)"
    had = bench.ask(layers)
    handle = bench.box(".b-lanes [data-boundary]")
    mouse = bench.page.mouse
    x, y = handle["x"] + handle["w"] / 2, handle["y"] + handle["h"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x - 9, y)
    mouse.move(x - 130, y, steps=8)
    mouse.up()
    bench.until(lambda: bench.ask(layers) < had, "stage 0 gave layers")
    assert (had - bench.ask(layers)) % 14 == 0, "a handle snaps to blocks"


def test_keyboard_moves_a_block(bench: Workbench) -> None:
    chip = bench.page.locator(CHIP.format(1, "layers.12"))
    chip.focus()
    bench.page.keyboard.press("Alt+ArrowDown")
    bench.until(lambda: bench.lane_of("layers.12") == "2", "moved by Alt+Down")
    bench.settled()
    bench.page.keyboard.press("Control+z")
    bench.until(lambda: bench.lane_of("layers.12") == "1", "undone by Ctrl+Z")
    bench.page.locator(CHIP.format(1, "layers.12")).focus()
    bench.page.keyboard.press("d")
    bench.page.keyboard.press("d")
    assert bench.page.locator("[data-lane]").count() == 4, "d d does not delete the cell"


def test_several_blocks_and_an_emptied_lane(bench: Workbench) -> None:
    bench.page.locator(CHIP.format(1, "layers.9")).click()
    bench.page.keyboard.down("Shift")
    bench.page.locator(CHIP.format(1, "layers.16")).click()
    bench.page.keyboard.up("Shift")
    bench.until(lambda: len(bench.ask("explorer.selection")) == 8, "eight blocks selected, in Python too")
    bench.drag(CHIP.format(1, "layers.12"), "[data-lane='2'] [data-block]")
    bench.until(lambda: bench.ask("len(explorer.strategy.job.stages)") == 3, "stage 1 is empty")
    bench.settled()
    assert bench.page.locator("[data-lane]").count() == 4, "its lane stays"
    bench.drag(CHIP.format(2, "layers.12"), "[data-lane='1']")
    bench.until(
        lambda: "1" in bench.ask("list(explorer.history.now.scene.lane_of_layer.values())"),
        "and takes layers",
    )


def test_an_overflow_is_said_and_mended(bench: Workbench) -> None:
    bench.page.locator(CHIP.format(1, "layers.9")).click()
    bench.page.keyboard.down("Shift")
    bench.page.locator(CHIP.format(1, "layers.14")).click()
    bench.page.keyboard.up("Shift")
    bench.drag(CHIP.format(1, "layers.9"), "[data-lane='0'] [data-block]")
    bench.page.wait_for_selector(".t-verdict[data-level=bad]")
    assert "GiB over" in bench.page.inner_text(".t-verdict")
    assert (
        "▲" in bench.page.inner_text("[data-lane='0']") or bench.page.locator("[data-lane='0'] svg").count()
    )
    bench.page.locator(".t-verdict [data-action=apply_hint]").click()
    bench.until(lambda: bench.ask("explorer.report.feasible"), "the proposed change fits")


def test_a_wrong_value_is_said_at_the_field(bench: Workbench) -> None:
    field = bench.page.locator("[data-field=stages]")
    step = bench.kpi("step_time")
    field.fill("99")
    field.press("Enter")
    bench.page.wait_for_selector("[data-field=stages][aria-invalid=true]")
    assert "allowed" in bench.page.inner_text("label:has([data-field=stages]) [role=alert]")
    assert "has 8" in bench.page.inner_text(".sx [data-action=dismiss] >> xpath=..")
    assert bench.page.locator("[data-lane]").count() == 4
    assert bench.kpi("step_time") == step
    field.fill("2")
    field.press("Enter")
    bench.until(lambda: bench.page.locator("[data-lane]").count() == 2, "two stages")
    bench.settled()
    assert bench.page.locator("[data-field=stages][aria-invalid=true]").count() == 0


def test_a_wrong_model_leaves_the_board(bench: Workbench) -> None:
    bench.page.select_option("select[data-field=model]", "other…")
    field = bench.page.locator("input[data-field=model]")
    field.fill("no/such/model.json")
    field.press("Enter")
    bench.page.wait_for_selector("[data-field=model][aria-invalid=true]")
    assert "model.json" in bench.page.inner_text(".sx [data-action=dismiss] >> xpath=..")
    assert bench.page.locator("[data-lane]").count() == 4
    bench.page.locator("input[data-field=model]").fill("gpt2-small")
    bench.page.locator("input[data-field=model]").press("Enter")
    bench.until(lambda: bench.ask("explorer.model") == "gpt2-small", "another model")
    bench.page.wait_for_selector("[data-block='h.11'], [data-block$='.11']")


def test_an_exception_is_shown(bench: Workbench) -> None:
    bench.do("explorer.controls.send_intent('action', action='no-such-action')")
    bench.page.wait_for_selector(".sx [data-action=dismiss]")
    assert "no-such-action" in bench.page.inner_text(".sx [data-action=dismiss] >> xpath=..")


ENDLESS = """
import time
from explorer.search import SEARCHERS, Searcher, Space
from explorer.strategies.uniform import uniform

@SEARCHERS.add(Searcher(name="endless", title="finds the same for ever", space=Space(words="one")))
def endless(problem, evaluator):
    job = problem.workload.job
    for size in (1, 2):
        yield evaluator.evaluate(uniform(problem.graph, problem.cluster, job, stages=4, replicas=2,
                                         microbatch_size=size), f"microbatch {size}")
    while True:
        time.sleep(0.01)
        yield None
"""


def test_search_is_live_and_its_best_can_be_loaded(bench: Workbench) -> None:
    bench.do("explorer.set(recompute='full')")  # so that there is something better
    bench.do(f"exec({ENDLESS!r}, {{}})")
    bench.do("setattr(explorer, 'searcher', 'endless')")
    bench.do("setattr(explorer, 'search_budget_s', 600.0)")
    bench.act("search")
    bench.page.wait_for_selector(".t-verdict[data-level=busy]")
    bench.until(lambda: bench.ask("len(explorer.search_panel.task.runs)") == 1, "progress")
    assert bench.ask("1 + 1") == 2, "the kernel answers meanwhile"
    bench.page.wait_for_selector(".t-verdict [data-action=use_best]")
    bench.act("stop")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "stopped")
    best = bench.ask("explorer.search_panel.task.progress.best.report.step_time_s")
    bench.page.locator(".t-verdict [data-action=use_best]").click()
    bench.until(lambda: bench.ask("explorer.report.step_time_s") == best, "best is on the board")
    assert best <= bench.ask("explorer.history.points[0].report.step_time_s")
    assert "on the board" in bench.page.inner_text("[data-row=endless]")
    bench.page.wait_for_selector(".js-plotly-plot")
    assert bench.page.locator("[data-lane]").count() == bench.ask("len(explorer.history.now.groups)")


def test_selection_is_shared(bench: Workbench) -> None:
    bench.page.locator(CHIP.format(3, "layers.30")).click()
    bench.until(lambda: bench.ask("explorer.graph.selection") == ["layers.30"], "graph has it")
    assert bench.ask("explorer.memory.selected_lanes") == ["3"]
    assert bench.ask("explorer.timeline.selected_lanes") == ["3"]


def test_export_shows_files_and_downloads(bench: Workbench) -> None:
    bench.act("export")
    bench.page.wait_for_selector("[data-file='plan.yaml']")
    assert "explorer.plan/1" in bench.page.inner_text("[data-file='plan.yaml']")
    with bench.page.expect_download() as download:
        bench.page.click("[data-widget=export] [data-action=download]")
    assert "explorer.plan/1" in download.value.path().read_text("utf-8")
    assert download.value.suggested_filename == "plan.yaml"
    bench.page.click("[data-target=torchtitan]")
    bench.page.wait_for_selector("[data-file$='.py'], .ex-refused p")


def test_setting_a_trait_moves_chips(bench: Workbench) -> None:
    bench.do(
        "explorer.set_trait('strategy', __import__('explorer').uniform(explorer.history.now.inputs.graph,"
        " explorer.history.now.inputs.cluster, explorer.workload.job, stages=8))"
    )
    bench.until(lambda: bench.page.locator("[data-lane]").count() == 8, "eight lanes")


def test_run_is_live_and_stops(bench: Workbench) -> None:
    bench.do("explorer.set(model='gpt2-small', stages=2)")
    bench.do("explorer.run_panel.set('engine', 'dry')")
    bench.act("run")
    bench.page.wait_for_selector(".t-verdict[data-level=busy]")
    bench.until(lambda: bench.page.locator("[data-rank]").count() > 0, "a row for each rank")
    pid = bench.ask("explorer.run_panel.task._handle.process.pid")
    bench.act("stop")
    bench.until(lambda: not bench.ask("explorer.run_panel.task.running"), "stopped")
    # One look at all processes: one that is asked about twice may end in between.
    state = f"[p.info['status'] for p in __import__('psutil').process_iter(['status']) if p.pid == {pid}]"
    bench.until(lambda: bench.ask(state) in ([], ["zombie"], ["dead"]), "the run's process ended")


@pytest.mark.slow
def test_run_to_its_end_fills_the_table(bench: Workbench) -> None:
    bench.do("explorer.set(model='gpt2-small', stages=2)")
    bench.do("explorer.set(replicas=1)")
    bench.do("[explorer.run_panel.set('engine', 'dry'), explorer.run_panel.set('rounds', 1)]")
    bench.act("run")
    bench.page.wait_for_selector(".run-right h3:has-text('Not validated')")
    assert bench.page.locator(".t-verdict").get_attribute("data-level") in ("ok", "warn")
    rows = [row.split("\t") for row in bench.page.locator(".run-parts tbody tr").all_inner_texts()]
    assert [row[0] for row in rows] == ["compute", "communication", "bubble", "overhead", "step time"]
    assert all(row[-2].endswith("s") for row in rows)
    text = bench.page.locator(".run-right").inner_text()
    assert "Gradients were not checked" in text
    assert "order and dependencies of 1f1b on 2 ranks" in text
    bench.until(bench.page.locator(".c-bar [data-action=run]").first.is_enabled, "Run is on again")
