"""Everything that the mouse can do on the board by keyboard, and no key that reaches the notebook."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from lab import Workbench

pytestmark = pytest.mark.browser

CHIP = "[data-lane='{}'] [data-block='{}']"
CELLS = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"


def focus(bench: Workbench, lane: int, block: str) -> None:
    """Focus a chip, as Tab and arrows would."""
    bench.page.locator(CHIP.format(lane, block)).first.focus()


def press(bench: Workbench, *keys: str) -> None:
    """Press keys, one after the other."""
    for key in keys:
        bench.page.keyboard.press(key)


def layers_of(bench: Workbench, stage: int) -> int:
    """How many layers a stage has."""
    return int(bench.ask(f"len(explorer.strategy.job.stages[{stage}].layers)"))


def test_alt_arrows_move_up_and_down(bench: Workbench) -> None:
    focus(bench, 1, "layers.12")
    press(bench, "Alt+ArrowUp")
    bench.until(lambda: bench.lane_of("layers.12") == "0", "moved up")
    bench.settled()
    assert bench.page.evaluate("() => document.activeElement.dataset.block") == "layers.12", (
        "focus goes along"
    )
    press(bench, "Alt+ArrowDown")
    bench.until(lambda: bench.lane_of("layers.12") == "1", "moved down again")


def test_shift_arrows_select_and_move_several(bench: Workbench) -> None:
    focus(bench, 1, "layers.10")
    press(bench, "Shift+ArrowRight", "Shift+ArrowRight")
    bench.until(lambda: len(bench.ask("explorer.selection")) == 3, "three blocks")
    press(bench, "Alt+ArrowDown")
    moved = ("layers.10", "layers.11", "layers.12")
    bench.until(lambda: {bench.lane_of(block) for block in moved} == {"2"}, "all three moved")


def test_brackets_move_the_boundary(bench: Workbench) -> None:
    had = layers_of(bench, 0)
    focus(bench, 0, "layers.3")
    press(bench, "[")
    bench.until(lambda: layers_of(bench, 0) == had - 14, "stage 0 gave a block")
    bench.settled()
    press(bench, "]")
    bench.until(lambda: layers_of(bench, 0) == had, "and took it back")
    bench.settled()
    bench.page.locator(".b-lanes [data-boundary]").first.focus()
    press(bench, "ArrowLeft")
    bench.until(lambda: layers_of(bench, 0) == had - 14, "by the handle itself")


def test_space_carries_with_a_preview(bench: Workbench) -> None:
    states = bench.ask("len(explorer.history.points)")
    focus(bench, 0, "layers.3")
    press(bench, "Space", "ArrowDown")
    bench.page.wait_for_selector("[data-kpi=step_time] :text('against now')")
    press(bench, "Escape")
    gone = bench.page.locator(":text('against now')")
    bench.until(lambda: gone.count() == 0, "the preview is over")
    assert bench.ask("len(explorer.history.points)") == states, "cancelled"
    press(bench, "Space", "ArrowDown", "ArrowDown", "Space")
    bench.until(lambda: bench.lane_of("layers.3") == "2", "dropped two lanes below")


def test_undo_and_redo_by_key(bench: Workbench) -> None:
    focus(bench, 1, "layers.12")
    press(bench, "Alt+ArrowDown")
    bench.until(lambda: bench.lane_of("layers.12") == "2", "moved")
    press(bench, "Control+z")
    bench.until(lambda: bench.lane_of("layers.12") == "1", "undone")
    bench.settled()
    press(bench, "Control+Shift+z")
    bench.until(lambda: bench.lane_of("layers.12") == "2", "done again")


def test_pin_and_lock_by_key_and_by_mouse(bench: Workbench) -> None:
    page = bench.page
    pinned, locked = (
        "len(explorer.search_panel.problem(explorer.now(), start=False).pins)",
        "[l['locked'] for l in explorer.board.view['lanes']]",
    )
    focus(bench, 1, "layers.12")
    press(bench, "p")
    bench.until(lambda: bench.ask("len(explorer.board.view['pinned'])") == 14, "P pins its layers")
    press(bench, "Alt+ArrowDown")
    bench.page.wait_for_selector(".b-facts :text('pinned to its devices')")
    assert bench.lane_of("layers.12") == "1", "and it stays"
    assert bench.ask(pinned) > 0, "searchers are told"
    press(bench, "p")
    bench.until(lambda: bench.ask("explorer.board.view['pinned']") == [], "P again releases")
    page.locator(CHIP.format(1, "layers.12")).click()
    page.locator(".b-detail [data-action=pin]").click()
    bench.until(lambda: bench.ask("len(explorer.board.view['pinned'])") == 14, "pinned by the button")
    page.locator(".b-detail [data-action=lock]").click()
    bench.until(lambda: bench.ask(locked) == [False, True, False, False], "locked by the button")
    focus(bench, 1, "layers.12")
    press(bench, "l")
    bench.until(lambda: bench.ask(locked) == [False] * 4, "L unlocks")


def test_move_to_menu(bench: Workbench) -> None:
    page = bench.page
    page.locator(CHIP.format(1, "layers.12")).click()
    page.locator(".b-detail [data-action=move-to]").click()
    menu = page.locator(".b-menu[role=menu]")
    assert "here now" in menu.locator("[data-to-lane='1']").inner_text()
    assert "GiB" in menu.locator("[data-to-lane='3']").inner_text(), "says what the move would do"
    menu.locator("[data-to-lane='3']").click()
    bench.until(lambda: bench.lane_of("layers.12") == "3", "moved by the menu")
    bench.settled()
    focus(bench, 3, "layers.12")
    press(bench, "m", "Enter")
    bench.until(lambda: bench.lane_of("layers.12") == "0", "moved by the menu, with two keys")
    bench.settled()
    focus(bench, 0, "layers.12")
    press(bench, "m", "Escape")
    assert menu.count() == 0
    assert page.evaluate("() => document.activeElement.dataset.block") == "layers.12", "focus is back"


def _nothing(bench: Workbench) -> None:
    del bench


def _searched(bench: Workbench) -> None:
    bench.do("explorer.search_panel.start(['even'])")
    bench.until(lambda: not bench.ask("explorer.search_panel.task.running"), "searched")


SPOTS: dict[str, tuple[str, Callable[[Workbench], Any]]] = {
    "chip": (".b-lanes .b-chip", _nothing),
    "boundary": (".b-lanes [data-boundary]", _nothing),
    "timeline": (".tl-canvas", lambda bench: press(bench, "ArrowRight")),
    "heatmap": (".hm-canvas", _nothing),
    "graph node": (".g-node[tabindex='0']", _nothing),
    "leaderboard row": ("[data-row=even]", _searched),
    "export tab": (".xp-frame [data-target=plan]", lambda bench: bench.act("export")),
    "history row": (".h-table tbody tr", lambda bench: bench.tab("History")),
    "slider": (".w-range", lambda bench: bench.tab("What if")),
    "button": (".c-bar [data-action=search]", _nothing),
}


@pytest.mark.parametrize("spot", SPOTS)
def test_d_d_never_deletes_the_cell(bench: Workbench, spot: str) -> None:
    selector, prepare = SPOTS[spot]
    prepare(bench)
    element = bench.page.locator(selector).first
    element.wait_for()
    element.focus()
    press(bench, "d", "d")
    bench.page.wait_for_timeout(100)
    assert bench.page.evaluate(CELLS) == 4
    held = f"() => document.activeElement.closest({json.dumps(selector)}) != null"
    assert bench.page.evaluate(held), "the focus was there and stays"


def test_d_d_deletes_a_cell_elsewhere(bench: Workbench) -> None:
    """What the test above would see if keys got through."""
    bench.page.evaluate(
        """() => { const spot = document.createElement('div'); spot.tabIndex = 0;
                   document.querySelector('.jp-MarkdownCell').append(spot); spot.focus(); }"""
    )
    press(bench, "d", "d")
    bench.page.wait_for_function(f"() => ({CELLS})() === 3")
    bench.page.evaluate(
        "() => { window.jupyterapp.commands.execute('notebook:undo-cell-action'); return 1; }"
    )
    bench.page.wait_for_function(f"() => ({CELLS})() === 4")
