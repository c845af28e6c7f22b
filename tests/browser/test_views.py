"""What other parts than the board do in a real JupyterLab: theme, width, plan B, results, what if."""

from __future__ import annotations

import pytest
from lab import Workbench

pytestmark = pytest.mark.browser

CHIP = "[data-lane='{}'] [data-block='{}']"
WIDER = """(root) => {
  const frame = document.querySelector(root).getBoundingClientRect();
  const scrolls = (element) => {
    for (let up = element.parentElement; up && !up.matches(root); up = up.parentElement)
      if (/auto|scroll|hidden|clip/.test(getComputedStyle(up).overflowX)) return true;
    return false;
  };
  return [...document.querySelectorAll(root + ' *')]
    .filter((element) => {
      const box = element.getBoundingClientRect();
      return box.width && box.height && (box.right > frame.right + 1 || box.left < frame.left - 1);
    })
    .filter((element) => !scrolls(element) && !element.closest('.sx-live'))
    .map((element) => element.outerHTML.slice(0, 120));
}"""
"""Elements that stick out of the workbench, other than in a part that scrolls by itself."""


def brightness(bench: Workbench, selector: str) -> float:
    """Mean of the top left corner of a canvas, over the background that shows through."""
    return float(bench.page.evaluate(
        """(s) => { const canvas = document.querySelector(s);
          const copy = document.createElement('canvas'); copy.width = 40; copy.height = 40;
          const pen = copy.getContext('2d');
          pen.fillStyle = getComputedStyle(canvas.closest('.sx')).backgroundColor; pen.fillRect(0, 0, 40, 40);
          pen.drawImage(canvas, 0, 0);
          const data = pen.getImageData(0, 0, 40, 40).data;
          return data.reduce((sum, value, i) => sum + (i % 4 < 3 ? value : 0), 0) / (40 * 40 * 3); }""",
        selector,
    ))  # fmt: skip


def test_the_theme_is_followed_by_canvases_and_charts(bench: Workbench) -> None:
    page = bench.page
    bench.theme("Light")
    bench.do("explorer.search_panel.start(['even'])")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "searched")
    page.wait_for_selector(".js-plotly-plot text")
    ink = "getComputedStyle(document.querySelector('.js-plotly-plot .xtitle')).fill"
    seen: list[str] = []
    for name in ("Light", "Dark"):
        bench.theme(name)
        bench.until(lambda name=name: bench.ask("explorer.board.theme") == name.lower(), "Python is told")
        for part in (".tl-canvas", ".hm-canvas"):
            bench.until(
                lambda part=part, name=name: (
                    brightness(bench, part) > 150 if name == "Light" else brightness(bench, part) < 100
                ),
                f"{part} is {name}",
            )
        bench.until(lambda: page.evaluate(f"() => {ink}") not in seen, "the chart's ink is another")
        seen.append(page.evaluate(f"() => {ink}"))
    bench.theme("Light")


@pytest.mark.parametrize("width", [700, 1000])
def test_nothing_sticks_out_when_narrow(bench: Workbench, width: int) -> None:
    page = bench.page
    bench.act("compare")
    bench.settled()
    page.set_viewport_size({"width": width, "height": 1000})
    try:
        for title in bench.ask("[panel.title for panel in explorer.panels]"):
            bench.do(f"explorer.open_tab({title!r})")
            bench.settled()
            # what draws itself anew for the width has done so some frames later
            bench.until(
                lambda: not page.evaluate(WIDER, ".jp-OutputArea-output .xp-frame"),
                f"{title} fits {width} pixels",
            )
        page.wait_for_function(
            "() => { const f = document.querySelector('.xp-frame');"
            " return f.scrollWidth <= f.clientWidth + 1; }"
        )
    finally:
        page.set_viewport_size({"width": 1400, "height": 1000})


def test_plan_b_on_and_off(bench: Workbench) -> None:
    page = bench.page
    bench.act("compare")
    button = page.locator(".c-bar [data-action=compare]").first
    bench.until(lambda: button.get_attribute("aria-pressed") == "true", "A/B is on")
    bench.settled()
    page.locator(CHIP.format(0, "layers.3")).focus()
    page.keyboard.press("Alt+ArrowDown")
    bench.until(lambda: bench.lane_of("layers.3") == "1", "moved")
    bench.settled()
    bench.until(lambda: bench.ask("bool(explorer.timeline.view_b and explorer.memory.view_b)"), "drawn too")
    assert bench.ask("explorer.board.view['other_name']")
    assert bench.ask("explorer.other != explorer.strategy")
    bench.tab("Compare")
    page.wait_for_selector(".jupyter-widget-tab td:visible:text-is('Step time')")
    button.click()
    bench.until(lambda: bench.ask("explorer.other is None"), "ended")
    bench.until(lambda: button.get_attribute("aria-pressed") == "false", "A/B is off")
    bench.until(lambda: bench.ask("not explorer.timeline.view_b"), "one plan in the timeline")
    assert bench.lane_of("layers.3") == "1", "the plan shown stays"


def test_a_result_is_loaded_by_keyboard(bench: Workbench) -> None:
    page = bench.page
    bench.tab("Search")
    bench.do("explorer.search_panel.start(['even', 'megatron'])")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "searched")
    bench.settled()
    row = page.locator("[data-widget=leaderboard] [role=grid] tbody tr").first
    row.focus()
    for _ in range(5):
        if page.evaluate("() => document.activeElement.dataset.row") == "megatron":
            break
        page.keyboard.press("ArrowDown")
    chosen = "explorer.search_panel.leaderboard.selected"
    bench.until(lambda: bench.ask(chosen) == "megatron", "the row is chosen")
    page.keyboard.press("Enter")
    best = bench.ask("explorer.search_panel.task.runs['megatron'].best.report.step_time_s")
    bench.until(lambda: bench.ask("explorer.report.step_time_s") == best, "its strategy is on the board")
    page.locator(".l-said [data-action=undo]").click()
    bench.until(lambda: bench.ask("explorer.history.at") == 0, "and taken back where it was loaded")


def test_what_if_by_slider_and_apply(bench: Workbench) -> None:
    page = bench.page
    bench.tab("What if")
    slider = page.locator("[data-slider=whatif_global_batch] .w-range")
    slider.wait_for()
    slider.focus()
    page.keyboard.press("ArrowRight")
    bench.until(lambda: bench.ask("bool(explorer.what_if_panel.changes)"), "Python varies")
    bench.settled()
    wished = bench.ask("explorer.what_if_panel.changes['global_batch']")
    assert wished > 64
    assert bench.ask("explorer.workload.job.global_batch") == 64, "nothing changes before Apply"
    cells = page.locator("[data-figure=step_time] td")
    bench.until(lambda: len(set(cells.all_inner_texts()[:2])) == 2, "now and then differ")
    page.locator("[data-action=whatif_apply]").click()
    bench.until(lambda: bench.ask("explorer.workload.job.global_batch") == wished, "applied")
    bench.until(lambda: page.input_value("[data-field=global_batch]") == f"{wished:g}", "the bar has it")
    field = page.locator("[data-slider=whatif_global_batch] .w-text")
    field.fill("many")
    field.press("Enter")
    page.wait_for_selector("[data-slider=whatif_global_batch] [aria-invalid=true]")
    assert "whole number" in page.inner_text("[data-slider=whatif_global_batch] [role=alert]")
    assert field.input_value() == "many", "what was typed stays"
    bench.do("explorer.what_if_panel.reset()")


def test_a_layer_is_found_in_the_graph(bench: Workbench) -> None:
    page = bench.page
    box = page.locator("[data-widget=graph] input").first
    box.fill("layers.20.mlp.down")
    page.keyboard.press("Enter")
    bench.until(lambda: bench.ask("explorer.selection") != [], "it is selected")
    assert "layers.20" in bench.ask("explorer.selection")[0]
    bench.page.wait_for_selector("[data-node^='layers.20']")


def test_a_microbatch_is_followed(bench: Workbench) -> None:
    page = bench.page
    canvas = page.locator(".tl-canvas").first
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    bench.until(lambda: bench.ask("explorer.timeline.microbatch") is not None, "followed")
    page.keyboard.press("c")
    bench.until(lambda: bench.ask("explorer.timeline.critical"), "critical path")
    page.keyboard.press("c")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    bench.until(lambda: bench.ask("explorer.timeline.microbatch") is None, "let go")


def test_one_cursor_and_what_the_kernel_says_of_it(bench: Workbench) -> None:
    page = bench.page
    canvas = page.locator(".tl-canvas").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 500, box["y"] + 70)
    cursors = "() => [...document.querySelectorAll('.sx[data-cursor]')].map((root) => root.dataset.cursor)"
    bench.until(lambda: len(page.evaluate(cursors)) >= 2, "a line in the timeline and in the memory")
    assert len(set(page.evaluate(cursors))) == 1
    page.click("[data-action='moment']")
    page.mouse.move(box["x"] + 520, box["y"] + 56)
    bench.until(lambda: "optimizer" in page.inner_text(".tl-moment"), "the memory is told")
    bench.until(lambda: "work" not in page.inner_text(".tl-moment"), "of where the cursor is")
    moment = bench.ask("explorer.timeline.moment['time_s']")
    assert abs(float(page.evaluate(cursors)[0]) - moment) < 1e-5
    page.keyboard.down("Shift")
    page.mouse.down()
    page.mouse.move(box["x"] + 700, box["y"] + 56, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    bench.until(lambda: "bubble" in page.inner_text(".tl-area"), "the area is added up")
    page.click("[data-action='area-zoom']")
    seen = "() => [...document.querySelectorAll('.sx[data-window]')].map((root) => root.dataset.window)"
    bench.until(lambda: len(set(page.evaluate(seen))) == 1, "all see the area")
    page.click("[data-action='zoom-all']")
    page.click("[data-action='area-clear']")
    page.click("[data-action='moment']")
