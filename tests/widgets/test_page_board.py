"""Every gesture of the board, by mouse and by keyboard, in a real browser with a fake model."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sample
from harness import WidgetPage

from widgets import Board

pytestmark = pytest.mark.browser

BLOCK = '.b-chip[data-block="layers.{}"]'
LANE = '[data-lane="{}"] .b-track'
HANDLE = '[data-boundary="{}"]'


def layers_of(*numbers: int) -> list[str]:
    return [
        item["id"]
        for block in sample.blocks()
        for item in block["layers"]
        if block["id"] in {f"layers.{n}" for n in numbers}
    ]


def peak(page: WidgetPage, lane: int) -> str:
    return page.text(f'[data-lane="{lane}"] .b-mem-text b')


def test_lanes_and_blocks_are_marked(board_page: WidgetPage) -> None:
    page = board_page.page
    assert page.locator("[data-lane]").count() == 4
    assert page.locator(".b-chip[data-block]").count() == 34
    assert (
        page.locator('[data-lane="2"] .b-end').inner_text().split("\n")[0].replace("\u00a0", " ") == "351 ms"
    )
    assert "binds" in page.locator('[data-lane="2"] .b-end').inner_text()


def test_all_lanes_share_one_time_scale(board_page: WidgetPage) -> None:
    widths = [board_page.box(BLOCK.format(n))["width"] for n in (3, 12, 20, 30)]
    assert max(widths) - min(widths) < 1.5


def test_drag_sends_one_move_and_shows_it_before_the_answer(board_page: WidgetPage) -> None:
    board_page.drag(BLOCK.format(26), LANE.format(3))
    assert board_page.sent("board") == [{"seq": 1, "kind": "move", "layers": layers_of(26), "to_lane": "3"}]
    assert board_page.page.locator(f'[data-lane="3"] {BLOCK.format(26)}').count() == 1, "painted at once"
    assert board_page.page.get_attribute(".sx-board .sx-state", "data-state") == "computing"


def test_the_answer_replaces_the_estimate_and_a_stale_view_is_not_drawn(board_page: WidgetPage) -> None:
    board_page.drag(BLOCK.format(26), LANE.format(3))
    board_page.receive("board", view=sample.board_view(cuts=[(0, 9), (9, 18), (18, 28), (28, 34)]))
    assert board_page.page.locator(f'[data-lane="3"] {BLOCK.format(26)}').count() == 1, (
        "seq has not been reached"
    )
    board_page.receive("board", view=sample.board_view(cuts=[(0, 10), (10, 18), (18, 27), (27, 34)]), seq=1)
    assert board_page.page.get_attribute(".sx-board .sx-state", "data-state") == "ready"
    assert board_page.page.locator(f'[data-lane="3"] {BLOCK.format(26)}').count() == 1
    assert "block 26 moved to Stage 3" in board_page.text(".sx-board > .sx-live")


def test_a_selection_shows_while_an_answer_is_awaited(board_page: WidgetPage) -> None:
    board_page.drag(BLOCK.format(26), LANE.format(3))
    board_page.page.click(BLOCK.format(4))
    board_page.settle()
    assert board_page.page.get_attribute(".sx-board .sx-state", "data-state") == "computing"
    assert board_page.page.get_attribute(BLOCK.format(4), "aria-selected") == "true"


def test_a_refused_move_goes_back(board_page: WidgetPage) -> None:
    board_page.drag(BLOCK.format(26), LANE.format(3))
    board_page.receive("board", seq=1, notice={"level": "error", "text": "block 26 is pinned to stage 2"})
    assert board_page.page.locator(f'[data-lane="2"] {BLOCK.format(26)}').count() == 1
    assert "pinned" in board_page.text(".sx-notice")
    board_page.page.click('[data-action="dismiss"]')
    assert board_page.get("board", "notice") is None


def test_preview_while_dragging_changes_both_lanes_and_nothing_reflows(board_page: WidgetPage) -> None:
    before = [peak(board_page, lane) for lane in range(4)]
    place = board_page.box(BLOCK.format(20))
    board_page.drag(BLOCK.format(17), LANE.format(0), release=False)
    page = board_page.page
    now = [peak(board_page, lane) for lane in range(4)]
    assert now[0] != before[0]
    assert now[2] != before[2]
    assert [now[1], now[3]] == [before[1], before[3]]
    assert board_page.sent("board") == []
    assert board_page.box(BLOCK.format(20)) == place, "chips stay until release"
    assert "hole" in (page.get_attribute(BLOCK.format(17), "class") or "")
    assert "over" in page.inner_text('[data-lane="0"] .b-mem-side')
    assert "→" in page.inner_text('[data-lane="0"] .b-end b')
    assert page.locator(".b-ghost").is_visible()
    page.mouse.up()


def test_escape_cancels_a_drag(board_page: WidgetPage) -> None:
    before = peak(board_page, 0)
    board_page.drag(BLOCK.format(17), LANE.format(0), release=False)
    assert peak(board_page, 0) != before
    board_page.page.keyboard.press("Escape")
    board_page.page.mouse.up()
    board_page.settle()
    assert board_page.sent("board") == []
    assert peak(board_page, 0) == before
    assert board_page.page.locator(".b-ghost").count() == 0


def test_drop_on_its_own_lane_does_nothing(board_page: WidgetPage) -> None:
    board_page.drag(BLOCK.format(17), LANE.format(2))
    assert board_page.sent("board") == []


def test_shift_selects_a_range_and_drags_it_together(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(12))
    page.click(BLOCK.format(15), modifiers=["Shift"])
    board_page.settle()
    assert board_page.get("board", "selection") == [f"layers.{n}" for n in (12, 13, 14, 15)]
    board_page.drag(BLOCK.format(13), LANE.format(3))
    sent = board_page.sent("board")
    assert len(sent) == 1
    assert sent[0]["layers"] == layers_of(12, 13, 14, 15)


def test_control_click_adds_and_takes_away(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(3))
    page.click(BLOCK.format(20), modifiers=["Control"])
    assert board_page.get("board", "selection") == ["layers.3", "layers.20"]
    page.click(BLOCK.format(3), modifiers=["Control"])
    assert board_page.get("board", "selection") == ["layers.20"]


def test_boundary_handle_gives_blocks_to_the_neighbour(board_page: WidgetPage) -> None:
    width = board_page.box(BLOCK.format(12))["width"]
    board_page.drag(HANDLE.format("1|2"), (2.1 * width, 0))
    assert board_page.sent("board") == [
        {"seq": 1, "kind": "move_boundary", "boundary": "1|2", "before": 1, "after": 2, "layers": 28}
    ]


def test_boundary_handle_to_the_left_gives_to_the_next_stage(board_page: WidgetPage) -> None:
    width = board_page.box(BLOCK.format(12))["width"]
    board_page.drag(HANDLE.format("1|2"), (-0.9 * width, 0), release=False)
    assert "hole" in (board_page.page.get_attribute(BLOCK.format(16), "class") or "")
    board_page.page.mouse.up()
    assert board_page.sent("board")[0]["layers"] == -14


def test_overview_handle_moves_the_same_boundary(board_page: WidgetPage) -> None:
    strip = board_page.box(".b-strip")["width"]
    board_page.drag('[data-overview-boundary="0|1"]', (-strip * 0.0352 / 1.207, 0))
    assert board_page.sent("board")[0] == {
        "seq": 1,
        "kind": "move_boundary",
        "boundary": "0|1",
        "before": 0,
        "after": 1,
        "layers": -14,
    }


def test_handle_is_large_enough(board_page: WidgetPage) -> None:
    box = board_page.box(HANDLE.format("0|1"))
    assert box["width"] >= 24
    assert box["height"] >= 40


def test_alt_down_moves_to_the_next_lane_and_keeps_the_focus(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(26))
    page.keyboard.press("Alt+ArrowDown")
    board_page.settle()
    assert board_page.sent("board") == [{"seq": 1, "kind": "move", "layers": layers_of(26), "to_lane": "3"}]
    assert page.evaluate("document.activeElement.dataset.block") == "layers.26"
    assert page.evaluate("document.activeElement.closest('[data-lane]').dataset.lane") == "3"
    board_page.receive("board", view=sample.board_view(cuts=[(0, 10), (10, 18), (18, 27), (27, 34)]), seq=1)
    assert page.evaluate("document.activeElement.dataset.block") == "layers.26", "focus survives the answer"


def test_two_quick_moves_are_two_intents(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(16))
    page.keyboard.press("Alt+ArrowDown")
    page.keyboard.press("Alt+ArrowDown")
    assert [(m["seq"], m["to_lane"]) for m in board_page.sent("board")] == [(1, "2"), (2, "3")]
    assert page.evaluate("document.activeElement.closest('[data-lane]').dataset.lane") == "3"


def test_arrows_move_focus_and_shift_extends(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(12))
    page.keyboard.press("ArrowRight")
    assert board_page.get("board", "selection") == ["layers.13"]
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    assert board_page.get("board", "selection") == ["layers.13", "layers.14", "layers.15"]
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('[data-lane]').dataset.lane") == "2"


def test_one_chip_is_in_the_tab_order(board_page: WidgetPage) -> None:
    assert board_page.page.locator('.b-chip[tabindex="0"]').count() == 1
    board_page.page.click(BLOCK.format(20))
    assert board_page.page.get_attribute('.b-chip[tabindex="0"]', "data-block") == "layers.20"


@pytest.mark.parametrize(("key", "before", "layers"), [("]", 1, 14), ("[", 1, -14), ("}", 0, 14)])
def test_brackets_move_the_boundary(board_page: WidgetPage, key: str, before: int, layers: int) -> None:
    board_page.page.click(BLOCK.format(12))
    board_page.page.keyboard.press(key)
    sent = board_page.sent("board")[0]
    assert (sent["kind"], sent["before"], sent["layers"]) == ("move_boundary", before, layers)


def test_arrow_on_a_handle_moves_it(board_page: WidgetPage) -> None:
    board_page.page.focus(HANDLE.format("2|3"))
    board_page.page.keyboard.press("ArrowLeft")
    assert board_page.sent("board")[0] == {
        "seq": 1,
        "kind": "move_boundary",
        "boundary": "2|3",
        "before": 2,
        "after": 3,
        "layers": -14,
    }
    assert board_page.page.evaluate("document.activeElement.dataset.boundary") == "2|3"


def test_space_picks_up_and_drops(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(26))
    page.keyboard.press(" ")
    page.keyboard.press("ArrowUp")
    assert "target" in (page.get_attribute('[data-lane="1"]', "class") or "")
    assert board_page.sent("board") == []
    page.keyboard.press(" ")
    assert board_page.sent("board")[0]["to_lane"] == "1"


def test_escape_puts_down_what_space_picked_up(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(26))
    for key in (" ", "ArrowUp", "Escape"):
        page.keyboard.press(key)
    assert board_page.sent("board") == []
    assert page.locator(".b-lane.target").count() == 0


def test_undo_and_redo_are_intents(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.receive("board", view={**sample.board_view(), "can_undo": True, "can_redo": True})
    page.click(BLOCK.format(5))
    page.keyboard.press("Control+z")
    board_page.receive("board", seq=1)
    page.keyboard.press("Control+Shift+z")
    assert [m["kind"] for m in board_page.sent("board")] == ["undo", "redo"]


def test_nothing_to_undo_sends_nothing(board_page: WidgetPage) -> None:
    board_page.receive("board", view={**sample.board_view(), "can_undo": False})
    board_page.page.click(BLOCK.format(5))
    board_page.page.keyboard.press("Control+z")
    assert board_page.sent("board") == []
    assert "Nothing to undo" in board_page.text(".sx-board > .sx-live")


def test_d_d_never_reaches_the_notebook(board_page: WidgetPage) -> None:
    page = board_page.page
    for selector in (BLOCK.format(5), HANDLE.format("0|1"), '[data-action="fit"]'):
        page.focus(selector)
        page.keyboard.press("d")
        page.keyboard.press("d")
    assert board_page.leaked() == []
    page.keyboard.press("Control+s")
    assert "s" in board_page.leaked(), "Save must still work"


def test_every_focusable_element_suppresses_shortcuts(board_page: WidgetPage) -> None:
    board_page.page.click(BLOCK.format(5))
    board_page.page.click('[data-action="move-to"]')
    assert board_page.page.evaluate("window.unguarded()") == []


def test_enter_opens_a_block_to_its_layers(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(5))
    page.keyboard.press("Enter")
    board_page.settle()
    assert board_page.get("board", "expanded") == ["layers.5"]
    assert "block 5 opened: 14 layers" in board_page.text(".sx-board > .sx-live")
    assert page.locator(BLOCK.format(5)).count() == 14
    assert page.evaluate("document.activeElement.dataset.layer") == "layers.5.attention.norm"
    page.keyboard.press("Enter")
    board_page.settle()
    assert page.locator(BLOCK.format(5)).count() == 1


def test_a_single_layer_can_be_moved(board_page: WidgetPage) -> None:
    board_page.receive("board", expanded=["layers.26"])
    board_page.drag('[data-layer="layers.26.mlp.up"]', LANE.format(3))
    assert board_page.sent("board")[0]["layers"] == ["layers.26.mlp.up"]
    assert board_page.page.locator(f'[data-lane="3"] {BLOCK.format(26)}').count() == 1


def test_move_to_menu(board_page: WidgetPage) -> None:
    page = board_page.page
    assert page.locator('[data-action="move-to"]').is_disabled()
    page.click(BLOCK.format(26))
    page.click('[data-action="move-to"]')
    assert page.locator("[role=menuitem]").count() == 4
    assert page.get_attribute('[data-to-lane="2"]', "aria-disabled") == "true"
    assert "over" in page.inner_text('[data-to-lane="0"]')
    page.keyboard.press("Escape")
    assert page.locator(".b-menu").count() == 0
    assert page.evaluate("document.activeElement.dataset.action") == "move-to"
    page.keyboard.press("Enter")
    for _ in range(3):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert board_page.sent("board")[0]["to_lane"] == "3"


def test_time_scale_stays_until_fit(board_page: WidgetPage) -> None:
    width = board_page.box(BLOCK.format(3))["width"]
    board_page.receive("board", view=sample.overfull_view())
    assert board_page.box(BLOCK.format(3))["width"] == pytest.approx(width)
    board_page.page.click('[data-action="fit"]')
    while board_page.box(BLOCK.format(3))["width"] >= width:  # it eases; the test's time limit ends this
        board_page.settle()


def test_overflow_is_said_hatched_and_marked(board_page: WidgetPage) -> None:
    board_page.receive("board", view=sample.overfull_view())
    page = board_page.page
    assert "over" in page.inner_text('[data-lane="0"] .b-mem-side')
    assert page.locator('[data-lane="0"] .b-excess').is_visible()
    assert page.locator('[data-lane="0"] .b-mem-tri').is_visible()
    assert not page.locator('[data-lane="1"] .b-mem-tri').is_visible()
    assert "+1 transfer" in page.inner_text('[data-links="0"]')
    assert page.locator('[data-lane="0"] .b-chip.broken').count() == 1


def test_capacity_tick_is_in_the_same_place_in_every_lane(board_page: WidgetPage) -> None:
    places = [board_page.box(f'[data-lane="{i}"] .b-cap')["x"] for i in range(4)]
    assert max(places) - min(places) < 0.5


def test_colour_modes(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click('[data-action="colour-memory"]')
    board_page.settle()
    assert board_page.get("board", "colour") == "memory"
    colours = page.eval_on_selector_all(
        ".b-chip", "(all) => all.map((c) => getComputedStyle(c).backgroundColor)"
    )
    assert len(set(colours)) >= 4
    page.keyboard.press("ArrowRight")
    assert board_page.get("board", "colour") == "time"


def test_locked_board_moves_nothing(board_page: WidgetPage) -> None:
    board_page.receive("board", view={**sample.board_view(), "editable": False})
    board_page.drag(BLOCK.format(26), LANE.format(3))
    board_page.page.keyboard.press("Alt+ArrowUp")
    assert board_page.sent("board") == []


def test_roles_and_names(board_page: WidgetPage) -> None:
    page = board_page.page
    assert page.locator('[role="listbox"][aria-multiselectable="true"]').count() == 4
    name = page.get_attribute(BLOCK.format(26), "aria-label") or ""
    assert name.startswith("block 26, 35.1")
    assert "Stage 2, 14 layers" in name
    handle = page.locator(HANDLE.format("0|1"))
    assert handle.get_attribute("role") == "slider"
    assert handle.get_attribute("aria-valuenow") == "127"


def test_many_lanes_are_compact_grouped_and_collapsible(board_page: WidgetPage) -> None:
    model = sample.blocks(98)
    cuts = [(round(i * 100 / 16), round((i + 1) * 100 / 16)) for i in range(16)]
    board_page.receive("board", blocks=model, view={**sample.board_view(model, cuts), "scale_key": "other"})
    page = board_page.page
    assert page.locator("[data-group]").count() == 4
    assert board_page.box('[data-lane="3"]')["height"] <= 26
    page.click('[data-group="node 1"] [data-action="fold"]')
    board_page.settle()
    assert page.locator("[data-lane]").count() == 12
    assert board_page.get("board", "collapsed") == ["node 1"]


def test_narrow_page_keeps_everything_inside(open_page: Callable[..., WidgetPage]) -> None:
    page = open_page(width=560)
    page.show("board", Board(blocks=sample.blocks(), view=sample.board_view()))
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 560
    assert page.box(LANE.format(0))["width"] > 400
    page.drag(BLOCK.format(26), LANE.format(3))
    assert page.sent("board")[0]["to_lane"] == "3"


@pytest.mark.parametrize("dark", [False, True])
def test_text_can_be_read_in_both_themes(open_page: Callable[..., WidgetPage], dark: bool) -> None:
    page = open_page(dark=dark)
    page.show("board", Board(blocks=sample.blocks(), view=sample.overfull_view(), selection=["layers.26"]))
    found = page.contrasts()
    assert len(found) > 60
    assert not [item for item in found if item[0] < 4.5]
    assert page.get("board", "theme") == ("dark" if dark else "light")


def test_theme_switch_is_followed(board_page: WidgetPage) -> None:
    board_page.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    board_page.settle()
    assert board_page.page.get_attribute(".sx-board", "data-dark") == "true"
    assert board_page.get("board", "theme") == "dark"


def test_empty_board_says_so(open_page: Callable[..., WidgetPage]) -> None:
    page = open_page()
    page.show("board", Board())
    assert "No strategy yet" in page.text(".sx-board")
    assert page.page.locator("[data-action=fit]").is_hidden()


def test_close_leaves_nothing_behind(board_page: WidgetPage) -> None:
    board_page.page.evaluate("window.cleanups.board(); delete window.cleanups.board")
    board_page.receive("board", view=sample.overfull_view())
    assert board_page.page.locator(".sx-board").count() == 0
