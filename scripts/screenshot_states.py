"""States of the workbench that have a picture: how each is brought about, and what of the page shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

State = Callable[[Any], str]
"""Brings a workbench (`lab.Workbench`) to a state; returns the selectors of what is to be seen, with ` + `
between.
"""
OUTPUT = ".jp-OutputArea-output .xp-frame"
ROWS = 14
"""Rows of the leaderboard in the picture of a comparison of all searchers."""
TABS = ".xp-frame .jupyter-widget-tab"
FROM_BAR_TO_BOARD = ".xp-frame [data-widget=controls] + .xp-frame [data-widget=board]"


def dragging(bench: Any) -> str:
    """A block in the hand over another lane: everything previews."""
    start = bench.box("[data-lane='0'] [data-block='layers.3']")
    end = bench.box("[data-lane='1'] [data-block='layers.15']")
    mouse = bench.page.mouse
    mouse.move(start["x"] + start["w"] / 2, start["y"] + start["h"] / 2)
    mouse.down()
    mouse.move(start["x"] + start["w"] / 2 + 9, start["y"] + start["h"] / 2 + 2)
    mouse.move(end["x"] + end["w"] / 2, end["y"] + end["h"] / 2, steps=8)
    bench.page.wait_for_timeout(300)
    return FROM_BAR_TO_BOARD


def let_go(bench: Any) -> None:
    """End a drag without a move."""
    bench.page.keyboard.press("Escape")
    bench.page.mouse.up()


def overfull(bench: Any) -> str:
    """Blocks dropped where they do not fit."""
    blocks = tuple(f"layers.{number}" for number in range(9, 14))
    layers = f"[l.name for l in explorer.history.now.inputs.graph.layers if l.block in {blocks}]"
    bench.do(f"explorer.board.send_intent('move', layers={layers}, to_lane='0')")
    reasons_are_there(bench)
    return FROM_BAR_TO_BOARD


def held(bench: Any) -> str:
    """A pinned block, a locked lane, and the menu that moves without a drag."""
    bench.page.locator("[data-lane='1'] [data-block='layers.12']").click()
    bench.page.locator(".b-detail [data-action=pin]").click()
    bench.settled()
    bench.do("explorer.lock_lane(3)")
    bench.settled()
    bench.page.locator("[data-lane='1'] [data-block='layers.14']").click()
    bench.page.locator(".b-detail [data-action=move-to]").click()
    return ".xp-frame [data-widget=board]"


def compared(bench: Any) -> str:
    """A plan B in every view."""
    bench.act("compare")
    bench.settled()
    bench.do("explorer.set(microbatch_size=2)")
    reasons_are_there(bench)
    return OUTPUT


def searching(bench: Any) -> str:
    """All searchers, one after another."""
    bench.tab("Search")
    bench.do("setattr(explorer, 'search_budget_s', 60.0)")
    bench.page.locator("[data-action=compare_all]").click()
    bench.until(lambda: bench.ask("len(explorer.search_panel.task.runs)") > 3, "some are done")
    bench.until(lambda: bench.page.locator(".js-plotly-plot").count() > 0, "chart drawn")
    return TABS


def searched(bench: Any) -> str:
    """What they found, down to the row of a searcher in the middle: the others follow in the same way."""
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "search ended")
    bench.page.wait_for_timeout(1500)
    return f"{TABS} > .lm-TabBar + .xp-chart + {TABS} .l-table tbody tr:nth-child({ROWS})"


def frontier(bench: Any) -> str:
    """The frontier of three objectives, chosen in the tab."""
    bench.tab("Search")
    bench.do("explorer.search_panel.task.clear()")
    for key, value in (("objective", "frontier"), ("axis_colour", "energy")):
        bench.page.locator(f"[data-field={key}] >> visible=true").select_option(value)
        bench.settled()
    bench.do("setattr(explorer, 'search_budget_s', 15.0)")
    bench.page.locator("[data-action=search] >> visible=true").last.click()
    bench.until(lambda: bench.page.locator(".js-plotly-plot .colorbar").count() > 0, "chart drawn")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "search ended")
    bench.page.wait_for_timeout(1500)
    return f"{TABS} > .lm-TabBar + .xp-chart + {TABS} .l-frontier tbody tr:nth-child(3)"


def schedules(bench: Any) -> str:
    """Every schedule counted on the plan shown, one of them beside it."""
    bench.tab("Schedules")
    bench.do("explorer.schedules_panel.beside('gpipe')")
    waiting = "any(row['state'] == 'waiting' for row in explorer.schedules_panel.table.view['rows'])"
    bench.until(lambda: bench.page.locator("[data-schedule]").count() > 0, "a row for each schedule")
    bench.until(lambda: not bench.ask(waiting), "all counted")
    bench.settled()
    return f"{TABS} > .lm-TabBar + .s-table tbody"


def order(bench: Any) -> str:
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


def what_if(bench: Any) -> str:
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


def running(bench: Any) -> str:
    """Ranks at work."""
    bench.do("explorer.set(stages=2, replicas=1)")
    bench.tab("Run")
    bench.do("[explorer.run_panel.set('engine', 'dry'), explorer.run_panel.set('rounds', 2)]")
    bench.act("run")
    in_rounds = "any(row['step_s'] for row in explorer.run_panel.page.view['progress']['ranks'])"
    bench.until(lambda: bench.ask(in_rounds), "in its rounds")
    return TABS


def run_done(bench: Any) -> str:
    """Predicted against measured."""
    bench.until(lambda: not bench.ask("explorer.run_panel.task.running"), "run ended")
    return TABS


def run_failed(bench: Any) -> str:
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


def exported(bench: Any) -> str:
    """Files of an export."""
    bench.act("export")
    bench.page.locator("[data-target=torchrun]").click()
    bench.until(lambda: bench.ask("explorer.export_panel.page.view['target']") == "torchrun", "its files")
    return TABS


def refused(bench: Any) -> str:
    """A plan that a target cannot say."""
    bench.do("explorer.set(schedule='pipedream')")
    bench.act("export")
    bench.page.locator("[data-target=torchtitan]").click()
    bench.page.wait_for_selector("[data-action=use_nearest]")
    return TABS


def changed(bench: Any) -> str:
    """What changed since the session began, in a trainer's words, and the table of all targets."""
    bench.do("explorer.set(recompute='full', microbatch_size=2)")
    bench.act("export")
    bench.page.locator("[data-target=megatron]").click()
    bench.page.wait_for_selector("[data-widget=export] [data-action=copy-changes]")
    bench.page.locator("[data-widget=export] summary").click()
    return TABS


def history(bench: Any) -> str:
    """Every state, files, a wrong one said at its field."""
    bench.do("explorer.set(microbatch_size=2)")
    bench.do("explorer.set(recompute='selective')")
    bench.act("undo")
    bench.tab("History")
    bench.page.locator("[data-field=open_path]").fill("no/such/plan.yaml")
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector(".h-files [aria-invalid=true]")
    return TABS


def wrong_field(bench: Any) -> str:
    """A number that cannot be."""
    field = bench.page.locator("[data-field=stages]")
    field.fill("99")
    field.press("Enter")
    bench.page.wait_for_selector("[data-field=stages][aria-invalid=true]")
    return ".xp-frame [data-widget=controls]"


def timeline(bench: Any) -> str:
    """Critical path, and a microbatch followed through all stages."""
    bench.do("setattr(explorer.timeline, 'critical', True)")
    bench.do("setattr(explorer.timeline, 'microbatch', 6)")
    return ".xp-frame [data-widget=timeline]"


def cursor(bench: Any) -> str:
    """One cursor in all views of time, the memory there, and an area added up by lane."""
    page, box = bench.page, bench.box(".tl-canvas")
    mouse = page.mouse
    if page.locator(".tl-moment").is_hidden():
        page.locator("[data-action=moment]").first.click()
    mouse.move(box["x"] + 0.3 * box["w"], box["y"] + 80)
    page.keyboard.down("Shift")
    mouse.down()
    mouse.move(box["x"] + 0.42 * box["w"], box["y"] + 80, steps=4)
    mouse.up()
    page.keyboard.up("Shift")
    bench.until(lambda: "bubble" in page.inner_text(".tl-area"), "added up")
    if page.locator("[data-action=area-lanes][aria-pressed=false]").count():
        page.locator("[data-action=area-lanes]").click()
    box = bench.box(".tl-canvas")
    mouse.move(box["x"] + 0.6 * box["w"], box["y"] + 54, steps=3)
    waiting = "work"  # "being worked out", "working it out"
    bench.until(lambda: waiting not in page.inner_text(".tl-moment"), "memory told")
    return ".xp-frame [data-widget=timeline]"


def graph(bench: Any) -> str:
    """A layer that was searched for."""
    bench.page.locator("[data-widget=graph] input").first.fill("layers.20.mlp.down")
    bench.page.keyboard.press("Enter")
    bench.page.wait_for_selector("[data-node^='layers.20']")
    return ".xp-frame [data-widget=graph]"


def card(bench: Any) -> str:
    """The card of a layer, whose block is made again."""
    bench.do("explorer.set(tensor=2)")
    bench.do("setattr(explorer.graph, 'opened', ['layers.3/*'])")
    bench.settled()
    bench.page.wait_for_selector("[data-node='layers.3.mlp.up']")
    bench.page.click("[data-node='layers.3.mlp.up']")
    bench.page.locator('[data-scope="kept_for"][data-for="block"]').click()
    rows = bench.page.locator('[data-card="memory"] [data-choice]')
    rows.first.wait_for()
    again = rows.filter(has_text="Recompute the block").first
    bench.until(lambda: "%" in again.inner_text(), "what it comes to is simulated")
    again.click()
    bench.until(lambda: again.get_attribute("aria-checked") == "true", "it is made again")
    bench.settled()
    return ".xp-frame [data-widget=graph]"


def big(bench: Any) -> str:
    """64 lanes on 16 nodes."""
    bench.do("explorer.set(model='gpt3-175b')")
    bench.do("explorer.set(global_batch=128)")
    bench.do("explorer.set(cluster='dgx-a100-128')")
    bench.do("explorer.set(stages=64)")
    bench.until(lambda: bench.page.locator("[data-lane]").count() == 64, "64 lanes")
    bench.page.evaluate("() => document.activeElement.blur()")
    reasons_are_there(bench)
    return FROM_BAR_TO_BOARD


def tour(bench: Any) -> str:
    """The first step of the tour, at the board."""
    bench.do("explorer.tour.go(0)")
    bench.page.wait_for_selector(".sx-board > .t-tour")
    return FROM_BAR_TO_BOARD


def sure(bench: Any) -> str:
    """How sure the step time is, below the figures."""
    bench.page.locator("[data-sure=step_time]").first.click()
    bench.page.wait_for_selector(".t-sure >> visible=true")
    return ".xp-frame [data-widget=tiles]"


def huge(bench: Any) -> str:
    """Llama 3 405B on 16,384 devices, as it opens."""
    bench.do(
        "explorer.show(__import__('widgets.opening', fromlist=['opening'])"
        ".first_point('llama3-405b', 'hgx-h100-2048'))"
    )
    bench.until(lambda: bench.ask("explorer.cluster") == "hgx-h100-2048", "16,384 devices")
    bench.page.evaluate("() => document.activeElement.blur()")
    reasons_are_there(bench)
    return FROM_BAR_TO_BOARD


STATES: dict[str, State] = {
    "dragging": dragging,
    "overfull": overfull,
    "held": held,
    "compared": compared,
    "timeline": timeline,
    "cursor": cursor,
    "order": order,
    "graph": graph,
    "card": card,
    "searching": searching,
    "searched": searched,
    "frontier": frontier,
    "schedules": schedules,
    "what-if": what_if,
    "running": running,
    "run-done": run_done,
    "run-failed": run_failed,
    "exported": exported,
    "export-refused": refused,
    "export-changed": changed,
    "history": history,
    "wrong-field": wrong_field,
    "tour": tour,
    "sure": sure,
    "big": big,
    "huge": huge,
}
FOLLOWS = {"searched", "run-done", "run-failed"}
"""States that go on from the one before them."""


def reasons_are_there(bench: Any) -> None:
    """Wait for the sentences that are simulated in quiet moments."""
    bench.settled()
    bench.until(lambda: bench.ask("not explorer.showing.reasons.under_way"), "reasons")


def first_state(bench: Any) -> None:
    """Back to where it opened."""
    let_go(bench)
    bench.do("explorer.stop()")
    bench.do("explorer.tour.later()")
    bench.page.evaluate("() => document.querySelector('.t-sure:not([hidden]) button')?.click()")
    bench.do("[None for _ in iter(explorer.undo, False)]")
    bench.do(
        "[setattr(explorer.timeline, 'critical', False), setattr(explorer.timeline, 'microbatch', None)]"
    )
    bench.do("setattr(explorer, 'selection', [])")
    for shown in (
        "[data-action=moment][aria-pressed=true]",
        ".tl-area:not([hidden]) [data-action=area-clear]",
    ):
        for button in bench.page.locator(shown).all():
            button.click()
    bench.page.evaluate("() => document.activeElement.blur()")
    reasons_are_there(bench)
