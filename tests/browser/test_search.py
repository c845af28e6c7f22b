"""The Search tab in a real JupyterLab: a frontier chosen, drawn and loaded; names of curves apart."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
from lab import Workbench

pytestmark = pytest.mark.browser

POINTS = ".l-frontier [data-point]"
PLOT = ".xp-chart .js-plotly-plot"
TRACE = "(name) => document.querySelector('.xp-chart .js-plotly-plot').data.find((t) => t.name === name)"
FIELD = "[data-field={}] >> visible=true"


@pytest.fixture(autouse=True)
def as_before(bench: Workbench) -> Iterator[None]:
    """Leave the tab as it was found."""
    yield
    bench.do("explorer.stop()")
    for key, value in (("objective", "time"), ("searcher", "auto"), ("search_budget_s", "20")):
        bench.do(f"explorer.search_panel.set({key!r}, {value!r})")
    bench.do("explorer.search_panel.task.clear()")
    bench.settled()


def heads(bench: Workbench) -> list[str]:
    return list(bench.page.locator(".l-frontier thead th").all_inner_texts())


def test_a_frontier_of_three_is_chosen_by_keyboard_drawn_and_loaded(bench: Workbench) -> None:
    page = bench.page
    bench.tab("Search")
    bench.do("explorer.search_panel.set('searcher', 'exhaustive')")
    objective = page.locator(FIELD.format("objective"))
    objective.focus()
    page.keyboard.press("End")  # the last one
    page.wait_for_selector("[data-field=axis_up]")
    bench.settled()
    fields = [page.locator(FIELD.format(f"axis_{key}")) for key in ("up", "across", "colour")]
    assert [field.input_value() for field in fields] == ["time", "memory", ""]
    off = page.locator("[data-field=axis_up] option[disabled]")
    assert off.all_inner_texts() == ["time to accuracy (the workload states no epochs)"]
    page.locator(FIELD.format("axis_colour")).select_option("devices")
    bench.settled()
    page.locator(FIELD.format("axis_across")).select_option("devices")
    bench.settled()
    assert page.locator(FIELD.format("axis_colour")).input_value() == "memory", "the two are swapped"
    assert bench.ask("explorer.search_panel.settings.objective") == "frontier:time,devices,memory"
    bench.do("explorer.search_panel.set('search_budget_s', '600')")
    page.locator("[data-widget=controls] [data-action=search] >> visible=true").last.click()
    bench.until(lambda: page.locator(POINTS).count() > 4, "points are found")
    bench.do("explorer.stop()")
    page.wait_for_selector(f"{PLOT} .colorbar", state="attached")
    assert heads(bench) == ["step", "devices used", "memory", "strategy", "found by"]

    drawn = f"() => ({TRACE})('frontier points').x.length"
    view = "explorer.search_panel.leaderboard.view"
    count = f"len({view}['points']) + {view}['points_omitted']"
    bench.until(lambda: page.evaluate(drawn) == bench.ask(count), "every point is drawn")
    layout = page.evaluate(f"""() => {{
      const {{ yaxis, xaxis, coloraxis }} = document.querySelector('{PLOT}').layout;
      return [yaxis, xaxis, coloraxis.colorbar].map((axis) => axis.title.text); }}""")
    assert layout[0].startswith("step time, s")
    assert layout[1:] == ["devices used", "worst device memory, GiB"]

    chosen = page.locator(POINTS).nth(2)
    values = bench.ask("explorer.search_panel.leaderboard.view['points'][2]['values']")
    chosen.focus()
    page.keyboard.press("Enter")
    ours = (
        "[explorer.report.step_time_s, len(explorer.report.devices), max(explorer.report.peak_memory_bytes)]"
    )
    bench.until(lambda: bench.ask(ours) == values, "its strategy is on the board")
    page.locator(".l-said [data-action=undo]").click()
    bench.until(lambda: bench.ask("explorer.history.at") == 0, "taken back")
    bench.settled()

    page.locator(PLOT).scroll_into_view_if_needed()
    bench.settled()
    for _ in range(5):  # what is said above may still move the figure
        spot = page.evaluate(LONELY)
        assert "devices" in spot["hover"]
        assert "GiB" in spot["hover"]
        x, y = spot["at"]
        page.mouse.move(x - 2, y)
        page.mouse.move(x, y)
        page.wait_for_selector(f"{PLOT} .hoverlayer .hovertext")
        page.mouse.click(x, y)
        if _loaded_soon(bench, spot["steps"]):
            return
    pytest.fail("a click loads no point")


def _loaded_soon(bench: Workbench, steps: list[float]) -> bool:
    """Tell whether a plan of one of these step times is on the board within some seconds."""
    for _ in range(50):
        if bench.ask("explorer.report.step_time_s") in steps:
            return True
        bench.page.wait_for_timeout(100)
    return False


LONELY = f"""() => {{
  const plot = document.querySelector('{PLOT}'), t = ({TRACE})('frontier points');
  const box = plot.querySelector('.nsewdrag').getBoundingClientRect();
  const {{ xaxis, yaxis }} = plot._fullLayout;
  const at = [...t.x.keys()].map((i) => [box.left + xaxis.d2p(t.x[i]), box.top + yaxis.d2p(t.y[i])]);
  const far = (i) => at.map((a) => Math.hypot(a[0] - at[i][0], a[1] - at[i][1]));
  const seen = ([x, y]) => x > box.left + 4 && x < box.right - 4 && y > box.top + 4 && y < box.bottom - 4;
  const room = at.map((a, i) => (seen(a) ? Math.min(...far(i).filter((d, k) => k !== i)) : -1));
  const one = room.indexOf(Math.max(...room));
  return {{ at: at[one], hover: t.customdata[one], steps: [...t.y].filter((y, k) => far(one)[k] < 10) }};
}}"""
"""The point of the frontier with the most room around it, and the step times of all within a click of it."""
BOXES = """() => [...document.querySelectorAll('.xp-chart .js-plotly-plot .subplot.x2y2 .scatterlayer text')]
  .map((t) => [t.textContent, t.getBoundingClientRect()])
  .map(([text, r]) => [text, r.left, r.top, r.right, r.bottom])"""
MANY = """
from explorer.search import SEARCHERS
from explorer.search.comparison import Mark
from widgets.search.task import Entrant
task = explorer.search_panel.task
run = task.entrants["even"].run
for i, name in enumerate(sorted(SEARCHERS.names())):
    curve = tuple(Mark(k + 1, 0.02 * (k + 1), {value}) for k in range(3))
    task.entrants[name] = Entrant(name=name, run=run, own=True, curve=curve)
explorer.search_panel.draw_figure()
"""
"""All searchers, in a comparison that has found values of a certain spread."""


@pytest.mark.parametrize("value", ["7 + (2 - k) + i / 1000", "7 + (2 - k) + i / 5", "7.0 + i // 3"])
def test_names_of_many_curves_never_touch(bench: Workbench, value: str) -> None:
    page = bench.page
    bench.tab("Search")
    bench.do("explorer.search_panel.start(['even'])")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "searched")
    page.wait_for_selector(f"{PLOT} .subplot.x2y2 text")
    code = MANY.format(value=value)
    bench.do(f"exec({code!r}, {{'explorer': explorer}})")
    bench.until(lambda: any(box[0].startswith("auto") for box in page.evaluate(BOXES)), "drawn")
    boxes = page.evaluate(BOXES)
    assert len(boxes) == 7, boxes
    for (a, *first), (b, *second) in combinations(boxes, 2):
        wide = min(first[2], second[2]) - max(first[0], second[0])
        tall = min(first[3], second[3]) - max(first[1], second[1])
        assert min(wide, tall) <= 1.0, (a, b)
    frame = page.evaluate(f"() => document.querySelector('{PLOT}').getBoundingClientRect().right")
    assert all(box[3] <= frame + 1 for box in boxes), "all inside the chart"
    assert "named on hover" in (page.text_content(f"{PLOT} .infolayer") or "")


def test_lines_of_the_chart_keep_their_looks_when_it_is_drawn_again(bench: Workbench) -> None:
    """A batch of plotly's own would reset in the page what only some traces change."""
    page = bench.page
    bench.tab("Search")
    for searcher in ("even", "megatron"):
        bench.do(f"explorer.search_panel.start([{searcher!r}])")
        bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "searched")
        page.wait_for_selector(f"{PLOT} text")
        bench.until(lambda s=searcher: page.evaluate(TRACE, s) is not None, "its curve is there")
        looks: dict[str, Any] = {
            name: page.evaluate(TRACE, name) for name in ("bound", "bests", "names", "perhaps")
        }
        assert looks["bound"]["line"]["dash"] == "dash"
        assert looks["bests"]["marker"]["size"] == 10
        assert looks["names"]["textposition"] == "middle right"
        assert looks["perhaps"]["line"]["width"] == 0
        colours = "{t.name: t.line.color for t in explorer.search_panel.chart.figure.widget.data}"
        assert page.evaluate(TRACE, searcher)["line"]["color"] == bench.ask(colours)[searcher]
