"""The board beyond plain moves: previews told to the page, pins and locks, plan B, many lanes, touch."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import Board

pytestmark = pytest.mark.browser

BLOCK = '.b-chip[data-block="layers.{}"]'
LANE = '[data-lane="{}"] .b-track'
HANDLE = '.b-lanes [data-boundary="{}"]'
LISTEN = """() => {
  window.told = [];
  document.onpreview ??= (event) => window.told.push(structuredClone(event.detail));
  document.addEventListener("sx-preview", document.onpreview);
}"""
MEASURE = """() => {
  const entry = performance.getEntriesByName("sx-repaint")[0];
  return [entry.startTime, entry.duration];
}"""
WATCH = """() => {
  window.changed = [];
  new MutationObserver((all) => all.forEach((m) => {
    const at = (m.target.nodeType === 1 ? m.target : m.target.parentElement).closest("[data-lane]");
    if (at) window.changed.push([at.dataset.lane, m.target.className, m.attributeName]);
  })).observe(document.querySelector(".b-lanes"),
    {subtree: true, childList: true, attributes: true, characterData: true});
}"""


def plain(text: str | None) -> str:
    return (text or "").replace("\u00a0", " ").replace("\u202f", " ")


def told(page: WidgetPage) -> list[dict[str, Any]]:
    return list(page.page.evaluate("window.told"))


def active(page: WidgetPage, key: str) -> Any:
    return page.page.evaluate("(key) => document.activeElement.dataset[key]", key)


def many(lanes: int, blocks: int, per_node: int = 8) -> dict[str, Any]:
    """State of a board with evenly cut lanes."""
    model = sample.blocks(blocks - 2)
    cuts = [round(i * blocks / lanes) for i in range(lanes + 1)]
    view = sample.board_view(model, list(pairwise(cuts)), per_node=per_node)
    return {"blocks": model, "view": {**view, "scale_key": f"{lanes}|{blocks}"}}


# ---- previews


def test_a_drag_tells_the_page_what_the_tiles_would_say(board_page: WidgetPage) -> None:
    board_page.page.evaluate(LISTEN)
    board_page.receive("board", bench="bench 7")
    board_page.drag(BLOCK.format(17), LANE.format(0), release=False)
    last = told(board_page)[-1]
    before = sample.board_view()["estimate"]["step_s"]
    assert last["bench"] == "bench 7"
    assert last["values"]["step_time"] > before
    assert last["values"]["memory"] > 1
    assert last["levels"] == {"memory": "bad"}
    assert last["verdict"]["level"] == "bad"
    assert plain(last["verdict"]["text"]).startswith("**Would not fit.** Stage 0:")
    assert "Running out of order: +1 transfer each way" in plain(last["verdict"]["text"])
    assert last["verdict"]["note"] == "Estimate. Esc cancels."
    board_page.page.keyboard.press("Escape")
    assert told(board_page)[-1]["values"] is None
    board_page.page.mouse.up()


def test_the_end_of_a_drop_is_told(board_page: WidgetPage) -> None:
    board_page.page.evaluate(LISTEN)
    board_page.drag(BLOCK.format(26), LANE.format(3))
    assert [item["values"] is None for item in told(board_page)].count(True) == 1
    assert told(board_page)[-1]["values"] is None


def test_keyboard_pick_up_previews_like_a_drag(board_page: WidgetPage) -> None:
    page = board_page.page
    page.evaluate(LISTEN)
    page.click(BLOCK.format(17))
    for key in (" ", "ArrowUp", "ArrowUp"):
        page.keyboard.press(key)
    assert told(board_page)[-1]["verdict"]["level"] == "bad"
    assert "+1 transfer each way" in plain(page.inner_text('[data-links="0"]'))
    assert "hole" in (page.get_attribute(BLOCK.format(17), "class") or "")
    assert "→" in page.inner_text('[data-lane="0"] .b-end b')
    assert "over capacity" in plain(board_page.text(".sx-board > .sx-live"))
    page.keyboard.press("Escape")
    assert told(board_page)[-1]["values"] is None
    assert "transfer each way" not in page.inner_text('[data-links="0"]')


def test_a_boundary_can_be_picked_up_moved_and_dropped_by_keyboard(board_page: WidgetPage) -> None:
    page = board_page.page
    page.focus(HANDLE.format("1|2"))
    for key in (" ", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    assert board_page.sent("board") == []
    assert "hole" in (page.get_attribute(BLOCK.format(18), "class") or "")
    assert page.get_attribute(HANDLE.format("1|2"), "aria-valuenow") == str(239 + 28)
    page.keyboard.press("Enter")
    assert [(m["kind"], m["layers"]) for m in board_page.sent("board")] == [("move_boundary", 28)]


def test_escape_puts_a_boundary_back(board_page: WidgetPage) -> None:
    page = board_page.page
    page.focus(HANDLE.format("1|2"))
    for key in (" ", "ArrowLeft", "Escape"):
        page.keyboard.press(key)
    assert board_page.sent("board") == []
    assert page.locator(".b-chip.hole").count() == 0
    assert "cancelled" in board_page.text(".sx-board > .sx-live")


def test_home_and_end_take_a_boundary_to_its_limits(board_page: WidgetPage) -> None:
    board_page.page.focus(HANDLE.format("0|1"))
    board_page.page.keyboard.press("End")
    boundary = sample.board_view()["boundaries"][0]
    assert board_page.sent("board")[0]["layers"] == boundary["maximum"] - boundary["at"]


def test_preview_of_a_boundary_shows_both_lanes_and_where_the_cut_would_be(board_page: WidgetPage) -> None:
    page = board_page.page
    cut = '[data-overview-boundary="1|2"]'
    before = board_page.box(cut)["x"]
    width = board_page.box(BLOCK.format(12))["width"]
    board_page.drag(HANDLE.format("1|2"), (2.1 * width, 0), release=False)
    assert "→" in page.inner_text('[data-lane="1"] .b-end b')
    assert "→" in page.inner_text('[data-lane="2"] .b-end b')
    assert "would bind" in page.inner_text('[data-lane="1"] .b-end')
    assert page.locator('[data-lane="1"] .b-was').is_visible()
    assert page.locator('[data-lane="2"] .b-was').is_visible()
    assert board_page.box(cut)["x"] > before
    page.mouse.up()


def test_fill_before_is_a_tick_only_while_it_differs(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.drag(BLOCK.format(17), LANE.format(0), release=False)
    assert page.locator('[data-lane="0"] .b-was').is_visible()
    assert not page.locator('[data-lane="1"] .b-was').is_visible()
    page.keyboard.press("Escape")
    page.mouse.up()
    assert not page.locator('[data-lane="0"] .b-was').is_visible()


def test_the_board_keeps_its_height_during_a_drag(board_page: WidgetPage) -> None:
    board_page.page.click(BLOCK.format(17))
    before = board_page.box(".sx-board")["height"]
    board_page.drag(BLOCK.format(17), LANE.format(0), release=False)
    assert board_page.box(".sx-board")["height"] == before
    board_page.page.mouse.up()


def test_drop_and_repaint_are_measured(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.drag(BLOCK.format(26), LANE.format(3))
    assert page.evaluate("performance.getEntriesByName('sx-drop').length") == 1
    assert page.evaluate("performance.getEntriesByName('sx-repaint').length") == 0
    board_page.receive("board", view=sample.board_view(cuts=[(0, 10), (10, 18), (18, 27), (27, 34)]), seq=1)
    page.wait_for_function("performance.getEntriesByName('sx-repaint').length === 1")
    start, length = page.evaluate(MEASURE)
    assert start == page.evaluate("performance.getEntriesByName('sx-drop')[0].startTime")
    assert length > 0


def test_an_answer_touches_only_what_it_changes(board_page: WidgetPage) -> None:
    page = board_page.page
    page.evaluate(WATCH)
    board_page.receive("board", view=json.loads(json.dumps(sample.board_view())))
    assert page.evaluate("window.changed") == []
    board_page.receive("board", view=sample.board_view(cuts=[(0, 10), (10, 18), (18, 27), (27, 34)]))
    changed = page.evaluate("window.changed")
    assert {lane for lane, _, _ in changed} == {"0", "1", "2", "3"}
    assert {name for lane, name, _ in changed if lane == "1"} == {"b-handle"}, "only its limit is another"
    assert not [name for lane, name, _ in changed if lane == "0" and "b-chip" in (name or "")], "only binds"


def test_numbers_turn_grey_only_when_the_answer_takes_its_time(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.drag(BLOCK.format(26), LANE.format(3))
    page.wait_for_selector(".sx-board.b-waiting")
    board_page.receive("board", seq=1)
    assert page.locator(".sx-board.b-waiting").count() == 0


def test_two_boards_tell_apart_whose_preview_it_is(board_page: WidgetPage) -> None:
    board_page.show("other", Board(blocks=sample.blocks(), view=sample.board_view(), bench="b"))
    board_page.page.evaluate(LISTEN)
    board_page.drag(f"#host-other {BLOCK.format(17)}", f"#host-other {LANE.format(0)}", release=False)
    assert {item["bench"] for item in told(board_page)} == {"b"}
    assert board_page.page.locator("#host-board .b-lane.target").count() == 0
    board_page.page.mouse.up()


# ---- pins and locks


def test_p_pins_the_selection_and_releases_it(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(20))
    page.keyboard.press("p")
    sent = board_page.sent("board")
    assert [(m["kind"], m["on"], len(m["layers"])) for m in sent] == [("pin", True, 14)]
    assert "pinned" in (page.get_attribute(BLOCK.format(20), "class") or ""), "shown at once"
    board_page.receive("board", view=sample.held_view(locked=0, pinned=("layers.20",)), seq=1)
    assert "pinned" in (page.get_attribute(BLOCK.format(20), "aria-label") or "")
    assert page.inner_text('[data-action="pin"]') == "Unpin"
    page.keyboard.press("P")
    assert board_page.sent("board")[1]["on"] is False


def test_l_and_the_buttons_lock_and_unlock_a_lane(board_page: WidgetPage) -> None:
    page = board_page.page
    page.click(BLOCK.format(12))
    page.keyboard.press("l")
    assert board_page.sent("board") == [{"seq": 1, "kind": "lock", "lane": "1", "on": True}]
    board_page.receive("board", view=sample.held_view(), seq=1)
    assert "locked" in page.inner_text('[data-lane="1"]')
    assert "locked" in (page.get_attribute('[data-lane="1"] [role=listbox]', "aria-label") or "")
    assert page.inner_text('[data-action="lock"]') == "Unlock Stage 1"
    page.click('[data-lane="1"] [data-action="unlock"]')
    page.click(BLOCK.format(3))
    page.click('[data-action="lock"]')
    assert [(m["lane"], m["on"]) for m in board_page.sent("board")[1:]] == [("1", False), ("0", True)]


def test_a_locked_lane_is_no_drop_target_and_says_why(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.receive("board", view=sample.held_view())
    page.evaluate(LISTEN)
    board_page.drag(BLOCK.format(18), LANE.format(1), release=False)
    assert "refused" in (page.get_attribute('[data-lane="1"]', "class") or "")
    assert "Stage 1 is locked" in page.inner_text('[data-lane="1"] .b-slot')
    assert "Stage 1 is locked" in page.inner_text(".b-ghost")
    assert told(board_page)[-1]["verdict"]["text"].startswith("**Cannot move.** Stage 1 is locked")
    page.mouse.up()
    board_page.settle()
    assert board_page.sent("board") == []
    assert "Stage 1 is locked" in page.inner_text(".b-detail"), "and stays readable"
    assert "Stage 1 is locked" in board_page.text(".sx-board > .sx-live")


@pytest.mark.parametrize(
    ("block", "keys"), [(20, ["Alt+ArrowDown"]), (20, [" ", "ArrowDown", " "]), (12, ["]"])]
)
def test_held_layers_do_not_move_by_keyboard(board_page: WidgetPage, block: int, keys: list[str]) -> None:
    board_page.receive("board", view=sample.held_view())
    board_page.page.click(BLOCK.format(block))
    for key in keys:
        board_page.page.keyboard.press(key)
    board_page.settle()
    assert board_page.sent("board") == []
    assert ("pinned" if block == 20 else "locked") in board_page.page.inner_text(".b-detail")


def test_handles_at_a_locked_lane_do_not_move(board_page: WidgetPage) -> None:
    board_page.receive("board", view=sample.held_view())
    handle = board_page.page.locator(HANDLE.format("1|2"))
    assert handle.get_attribute("aria-disabled") == "true"
    assert "locked" in (handle.get_attribute("aria-valuetext") or "")
    board_page.drag(HANDLE.format("1|2"), (150, 0))
    assert board_page.sent("board") == []


def test_the_menu_shows_what_is_held(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.receive("board", view=sample.held_view())
    page.click(BLOCK.format(18))
    page.click('[data-action="move-to"]')
    assert page.get_attribute('[data-to-lane="1"]', "aria-disabled") == "true"
    assert "locked" in page.inner_text('[data-to-lane="1"]')
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert [(m["kind"], m["on"]) for m in board_page.sent("board")] == [("pin", True)]


# ---- plan B


def test_plan_b_is_drawn_below_each_lane_and_said(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.receive(
        "board", view=sample.with_other(sample.board_view(), [(0, 9), (9, 18), (18, 27), (27, 34)])
    )
    assert plain(page.inner_text('[data-lane="0"] .b-other')).startswith("B 284")
    assert "8" in page.inner_text('[data-lane="1"] .b-other .only')
    assert page.locator('[data-lane="0"] .b-other .only').count() == 0
    assert page.locator('[data-lane="0"] .b-then').is_visible()
    name = page.get_attribute(BLOCK.format(8), "aria-label") or ""
    assert name.endswith("on Stage 1 in B: even cut")
    assert "in B" not in (page.get_attribute(BLOCK.format(3), "aria-label") or "")
    assert "B: Stage 1" in page.inner_text(BLOCK.format(8))
    page.click(BLOCK.format(8))
    assert "in B: even cut Stage 1" in " ".join(plain(page.inner_text(".b-detail")).split())
    board_page.receive("board", view=sample.board_view())
    assert not page.locator('[data-lane="0"] .b-other').is_visible()
    assert "in B" not in (page.get_attribute(BLOCK.format(8), "aria-label") or "")


# ---- many lanes


@pytest.fixture
def tall(open_page: Callable[..., WidgetPage]) -> WidgetPage:
    page = open_page(height=800)
    page.show("board", Board(**many(80, 240)))
    page.page.wait_for_function("document.querySelector('[data-lane=\"2\"] .b-chip')")
    page.settle()
    return page


def test_far_lanes_are_not_built_and_come_when_scrolled_to(tall: WidgetPage) -> None:
    page = tall.page
    assert page.locator("[data-lane]").count() == 80
    assert page.locator('[data-lane="2"] .b-chip').count() > 0
    assert page.locator('[data-lane="79"] .b-chip').count() == 0
    assert tall.box(".b-stage")["height"] <= 640
    page.evaluate("document.querySelector('.b-stage').scrollTop = 1e6")
    page.wait_for_selector('[data-lane="79"] .b-chip')
    page.wait_for_function("!document.querySelector('[data-lane=\"2\"] .b-chip')")


def test_arrows_reach_lanes_that_are_not_built(tall: WidgetPage) -> None:
    page = tall.page
    page.click(BLOCK.format(1))
    for _ in range(9):
        page.keyboard.press("PageDown")
    assert page.evaluate("document.activeElement.closest('[data-lane]').dataset.lane") == "72"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('[data-lane]').dataset.lane") == "73"


def test_the_overview_is_a_scroll_brush(tall: WidgetPage) -> None:
    page = tall.page
    assert page.evaluate("document.querySelector('.b-stage').scrollTop") == 0
    before = tall.box(".b-brush")
    strip = tall.box(".b-strip")
    assert before["width"] < strip["width"] / 2
    tall.drag(".b-brush", (strip["width"] / 2, 0))
    page.wait_for_function("document.querySelector('.b-stage').scrollTop > 500")
    page.wait_for_function(
        "(x) => document.querySelector('.b-brush').getBoundingClientRect().x > x",
        arg=before["x"] + strip["width"] / 4,
    )
    assert tall.sent("board") == []


def test_a_drag_near_the_edge_scrolls_the_lanes(tall: WidgetPage) -> None:
    page = tall.page
    chip, stage = tall.box(BLOCK.format(1)), tall.box(".b-stage")
    page.mouse.move(chip["x"] + 9, chip["y"] + 9)
    page.mouse.down()
    page.mouse.move(chip["x"] + 30, stage["y"] + stage["height"] - 8, steps=6)
    page.wait_for_function("document.querySelector('.b-stage').scrollTop > 300")
    target = page.locator(".b-lane.target").get_attribute("data-lane")
    assert int(target or 0) > 20, "what is under the pointer follows the scrolling"
    tall.release()
    at = page.evaluate("document.querySelector('.b-stage').scrollTop")
    tall.settle()
    assert page.evaluate("document.querySelector('.b-stage').scrollTop") == at, "it stops with the drag"
    assert tall.sent("board")[0]["kind"] == "move"


def test_a_drag_near_the_edge_scrolls_the_notebook(open_page: Callable[..., WidgetPage]) -> None:
    page = open_page(height=360)
    page.show("board", Board(blocks=sample.blocks(), view=sample.board_view()))
    chip = page.box(BLOCK.format(1))
    mouse = page.page.mouse
    mouse.move(chip["x"] + 9, chip["y"] + 9)
    mouse.down()
    mouse.move(chip["x"] + 30, 352, steps=6)
    page.page.wait_for_function("document.scrollingElement.scrollTop > 60")
    mouse.up()


def test_a_folded_group_shows_sum_and_worst_member(board_page: WidgetPage) -> None:
    page = board_page.page
    board_page.receive("board", **many(16, 100))
    page.click('[data-group="node 1"] [data-action="fold"]')
    board_page.settle()
    text = plain(page.inner_text('[data-group="node 1"]'))
    assert "8 lanes" in text
    assert "slowest Stage 15: 255 ms" in text
    fullest = max(lane["peak_bytes"] for lane in many(16, 100)["view"]["lanes"][8:])
    assert re.search(rf"fullest Stage \d+: {fullest / 2**30:.1f} GiB a device", text)
    assert "GiB in all" not in text
    assert page.locator('[data-group="node 1"] .b-mem').is_visible()
    page.focus('[data-group="node 1"] [data-action="fold"]')
    page.keyboard.press("Enter")
    board_page.settle()
    assert board_page.get("board", "collapsed") == []


def test_nothing_stands_over_the_devices_of_a_lane_that_does_not_fit(board_page: WidgetPage) -> None:
    """Thousands of devices: the sign of too much memory has its own place, and the devices are said whole."""
    given = many(16, 100)
    for i, lane in enumerate(given["view"]["lanes"]):
        first = 1024 * i
        lane |= {
            "group": f"nodes {128 * i}–{128 * i + 127}", "device_count": 1024, "span": [first, first + 1023],
            "replicas": [[first + 8 * j, first + 8 * j + 7] for j in range(8)], "replica_count": 128,
            "peak_bytes": 2.0 * lane["capacity_bytes"],
        }  # fmt: skip
    board_page.receive("board", **given)
    headings = board_page.page.locator("[data-group]").count()
    assert headings == 0, "one would say what its only lane says"
    found = board_page.page.evaluate(
        """() => {
            const row = document.querySelector('[data-lane="15"]');
            const parts = ['.b-device', '.b-mem-tri', '.b-mem-text b'];
            const [name, sign, words] = parts.map((s) => row.querySelector(s));
            const box = (e) => { const r = e.getBoundingClientRect(); return [r.left, r.right]; };
            return {
                text: name.textContent, cut: name.scrollWidth > name.clientWidth,
                name: box(name), sign: box(sign), words: box(words),
            };
        }"""
    )
    assert (found["text"], found["cut"]) == ("15360–16383", False)
    assert found["name"][1] <= found["sign"][0] < found["sign"][1] <= found["words"][0]


def test_a_drag_resting_over_a_folded_group_unfolds_it(board_page: WidgetPage) -> None:
    board_page.receive("board", **many(16, 100), collapsed=["node 1"])
    board_page.drag(BLOCK.format(3), '[data-group="node 1"]', release=False)
    board_page.page.wait_for_selector('[data-lane="9"]')
    board_page.page.keyboard.press("Escape")
    board_page.page.mouse.up()


def test_every_lane_can_be_reached_by_drag_when_compact(board_page: WidgetPage) -> None:
    board_page.receive("board", **many(16, 100))
    board_page.drag(BLOCK.format(3), LANE.format(2))
    assert board_page.sent("board")[0]["to_lane"] == "2"
    assert "state" in board_page.page.inner_text(".b-detail")


# ---- touch, empty lanes


def test_touch_taps_select_and_a_long_press_asks_where_to(open_page: Callable[..., WidgetPage]) -> None:
    page = open_page(has_touch=True)
    page.show("board", Board(blocks=sample.blocks(), view=sample.board_view()))
    page.page.tap(BLOCK.format(5))
    page.settle()
    assert page.get("board", "selection") == ["layers.5"]
    box = page.box(BLOCK.format(26))
    at = {"x": box["x"] + 20, "y": box["y"] + 20}
    cdp = page.page.context.new_cdp_session(page.page)
    cdp.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    page.page.wait_for_selector(".b-menu")
    cdp.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    page.settle()
    assert page.get("board", "selection") == ["layers.26"]
    page.page.tap('[data-to-lane="3"]')
    assert page.sent("board")[0]["to_lane"] == "3"


def test_an_empty_lane_invites_and_takes_layers(board_page: WidgetPage) -> None:
    view = sample.board_view(cuts=[(0, 10), (10, 18), (18, 34), (33, 34)])
    view["lanes"][3] |= {"runs": [], "forward_s": 0.0, "backward_s": 0.0, "name": "Empty"}
    board_page.receive("board", view={**view, "boundaries": view["boundaries"][:2]})
    assert "drop layers here" in board_page.page.inner_text('[data-lane="3"]')
    board_page.drag(BLOCK.format(20), LANE.format(3))
    assert board_page.sent("board")[0]["to_lane"] == "3"
    board_page.page.keyboard.press("Alt+ArrowUp")
    assert board_page.sent("board")[1]["to_lane"] == "2"


@pytest.mark.parametrize("dark", [False, True])
def test_every_mark_can_be_read_in_both_themes(open_page: Callable[..., WidgetPage], dark: bool) -> None:
    page = open_page(dark=dark)
    view = sample.with_other(sample.held_view(), [(0, 9), (9, 18), (18, 27), (27, 34)])
    page.show("board", Board(blocks=sample.blocks(), view=view, selection=["layers.26"]))
    page.drag(BLOCK.format(3), LANE.format(1), release=False)
    found = page.contrasts()
    page.page.mouse.up()
    assert len(found) > 60
    assert not [item for item in found if item[0] < 4.5]


@pytest.mark.parametrize("width", [900, 1100, 1200, 1300, 1400, 1800])
def test_block_numbers_of_one_and_two_digits_come_and_go_together(
    open_page: Callable[..., WidgetPage], width: int
) -> None:
    """31 blocks on one lane: the narrower the page, the narrower their chips."""
    page = open_page(width=width)
    view = sample.board_view(cuts=[(0, 31), (31, 32), (32, 33), (33, 34)])
    page.show("board", Board(blocks=sample.blocks(), view=view))
    chips = page.page.eval_on_selector_all(
        ".b-chip[data-block^='layers.']",
        """(chips) => chips.map((chip) => {
          const label = chip.querySelector(".b-label"), box = chip.getBoundingClientRect();
          return [box.width, label.textContent, label.getBoundingClientRect().right - box.right];
        })""",
    )
    assert len(chips) == 32
    assert {bool(text) for wide, text, _ in chips if wide >= 20} <= {True}
    assert {bool(text) for wide, text, _ in chips if wide < 18} <= {False}
    assert not [chip for chip in chips if chip[1] and chip[2] > 0.5], "a number stands out of its chip"


@pytest.mark.parametrize("width", [848, 1168, 1488])
def test_devices_of_a_lane_stand_whole_beside_how_many_more_there_are(
    open_page: Callable[..., WidgetPage], width: int
) -> None:
    """Eight replicas, of one and of two digits: no box is cut, and none reaches the memory bar."""
    page = open_page(width=width)
    view = sample.board_view()
    for number, lane in enumerate(view["lanes"]):
        lane["replicas"] = [[device] for device in range(8 * number, 8 * number + 4)]
        lane["replica_count"] = 8
    page.show("board", Board(blocks=sample.blocks(), view=view))
    found = page.page.eval_on_selector_all(
        ".b-lane",
        """(lanes) => lanes.map((lane) => {
          const boxes = [...lane.querySelectorAll(".b-device")];
          const memory = lane.querySelector(".b-name + *").getBoundingClientRect().left;
          return [boxes.some((box) => box.scrollWidth > box.clientWidth), memory - boxes.at(-1).getBoundingClientRect().right,
                  boxes.at(-1).textContent];
        })""",  # noqa: E501
    )
    assert len(found) == 4
    assert not [item for item in found if item[0] or item[1] < 0], found
    assert {text[0] for _, _, text in found} == {"+"}
