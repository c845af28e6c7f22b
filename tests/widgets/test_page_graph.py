"""The layer graph in a real browser with a fake model; the real views answer what the page opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
from harness import WidgetPage

from explorer.models.builder import GraphBuilder
from explorer.views import graph_view
from widgets import GraphView

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]
UP = "layers.17.mlp.up"


def show(page: WidgetPage, opened: tuple[str, ...] = sample.graph_state()["opened"], **more: Any) -> None:
    page.show("graph", GraphView(**sample.graph_state(opened), **more))


def answer(page: WidgetPage) -> None:
    """What Python does when `opened` changes."""
    page.settle()
    view = graph_view(sample.graph_scene(), opened=page.get("graph", "opened"))
    page.receive("graph", view=view, opened=view["opened"])


def shown(page: WidgetPage) -> list[str]:
    """Ids of the nodes, frames too."""
    return list(page.page.eval_on_selector_all("[data-node]", "(all) => all.map((e) => e.dataset.node)"))


def focused(page: WidgetPage) -> str | None:
    found = page.page.evaluate("document.activeElement.dataset.node ?? null")
    return None if found is None else str(found)


def press(page: WidgetPage, *keys: str) -> None:
    for key in keys:
        page.page.keyboard.press(key)


# ---- drawing


def test_repeats_are_folded_and_an_open_part_stands_in_its_frame(open_page: Open) -> None:
    page = open_page()
    show(page, selection=["layers.26"])
    assert "block × 17" in page.text('[data-node="layers.0×17"]')
    assert page.page.locator(".g-frame").count() == 3
    frame, inner = page.box('[data-key="layers.17"].g-frame'), page.box(f'[data-node="{UP}"]')
    assert frame["x"] < inner["x"]
    assert inner["y"] + inner["height"] < frame["y"] + frame["height"]
    assert page.page.locator(".g-notch:visible").get_attribute("data-label") == "26"


@pytest.mark.parametrize("width", [480, 680, 1000])
@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_at_every_width_in_both_themes(open_page: Open, width: int, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    show(page, selection=["layers.26", UP])
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    for mode in ("time", "memory", "traffic", "device"):
        page.page.click(f'[data-action="colour-{mode}"]')
        page.settle()
        assert not [item for item in page.contrasts() if item[0] < 4.5]
    boxes = page.page.evaluate("window.boxes('.g-node:not(.frame)')")
    for i, a in enumerate(boxes):
        assert a[2] <= width
        for b in boxes[i + 1 :]:
            assert a[2] <= b[0] + 0.5 or b[2] <= a[0] + 0.5 or a[3] <= b[1] + 0.5 or b[3] <= a[1] + 0.5
    texts = page.page.evaluate(
        "[...document.querySelectorAll('.g-value')].filter((e) => e.scrollWidth > e.clientWidth).length"
    )
    assert texts == 0, "a value is never cut off"


def test_the_legend_has_numbers_and_every_node_its_value(open_page: Open) -> None:
    page = open_page()
    show(page)
    for mode, unit in (("time", "s"), ("memory", "iB"), ("traffic", "iB")):
        page.page.click(f'[data-action="colour-{mode}"]')
        page.settle()
        assert page.text(".sx-legend").count(unit) >= 2
        values = page.page.locator(".g-node:not(.frame) .g-value").all_inner_texts()
        assert all(any(c.isdigit() for c in text) for text in values)
    page.page.click('[data-action="colour-device"]')
    page.settle()
    where = page.page.locator(".g-node:not(.frame) .g-where").all_inner_texts()
    assert all("st" in text for text in where), "colour is never alone"


def test_error_is_off_with_its_reason_until_there_is_a_run(open_page: Open) -> None:
    page = open_page()
    show(page)
    button = page.page.locator('[data-action="colour-error"]')
    assert button.get_attribute("aria-disabled") == "true"
    assert "no run yet" in button.inner_text()
    button.dispatch_event("click")
    assert page.get("graph", "colour") == "time"
    assert "no run yet" in page.text(".sx-graph > .sx-live")
    errors = {name: 0.12 if name.endswith("up") else -0.04 for name in sample.graph_index()["layers"]}
    page.receive("graph", view=sample.graph_view(errors=errors))
    button.click()
    page.settle()
    assert page.get("graph", "colour") == "error"
    assert "+12" in page.text(f'[data-node="{UP}"]')
    assert "−4.0" in page.text('[data-node="layers.17.mlp.down"]')
    assert "+ too slow" in page.text(".sx-legend")
    assert not [item for item in page.contrasts() if item[0] < 4.5]


def test_a_second_plan_marks_what_stands_elsewhere(open_page: Open) -> None:
    page = open_page()
    view = sample.graph_view(("layers.17",))
    for node in view["nodes"]:
        moved = node["id"].startswith("layers.17")
        node |= {
            "other_lanes": node["lanes"],
            "other_stages": [3] if moved else node["stages"],
            "moved": 7 * moved,
        }
    page.show("graph", GraphView(view=view | {"other_name": "B"}, index=sample.graph_index()))
    assert "2 → 3" in page.text('[data-node="layers.17"]').replace("stage ", "")
    assert page.page.locator(".g-node.moved").count() == 1, "said once, by the frame"
    name = page.page.get_attribute('[data-node="layers.17.mlp"]', "aria-label")
    assert name is not None
    assert "in B stage 3" in name


# ---- opening


def test_double_click_opens_and_close_closes(open_page: Open) -> None:
    page = open_page()
    show(page, ())
    page.page.dblclick('[data-node="layers.0×32"]')
    answer(page)
    assert page.get("graph", "opened") == ["layers.0"]
    assert "layers.0.attention" in shown(page)
    page.page.dblclick('[data-node="layers.0.attention"]')
    answer(page)
    assert "layers.0.attention.q" in shown(page)
    page.page.click('[data-close="layers.0"]')
    answer(page)
    assert page.get("graph", "opened") == [], "what was open inside is closed as well"
    assert "layers.0×32" in shown(page)


def test_enter_opens_escape_closes_and_the_focus_stays_where_one_is(open_page: Open) -> None:
    page = open_page()
    show(page, ())
    page.page.focus('[data-node="embed"]')
    press(page, "ArrowRight", "Enter")
    answer(page)
    assert page.get("graph", "opened") == ["layers.0"]
    assert focused(page) == "layers.0"
    assert page.page.get_attribute('[data-node="layers.0"]', "aria-expanded") == "true"
    press(page, "ArrowDown", "Enter")
    answer(page)
    press(page, "ArrowDown", "ArrowRight")
    assert focused(page) == "layers.0.attention.q"
    press(page, "Backspace")
    answer(page)
    assert focused(page) == "layers.0.attention"
    press(page, "Escape")
    answer(page)
    assert page.get("graph", "opened") == []
    assert focused(page) == "layers.0×32", "what the part is in now"
    press(page, "d", "d")
    assert page.leaked() == []


def test_shift_enter_opens_all_levels(open_page: Open) -> None:
    page = open_page()
    show(page, ())
    page.page.focus('[data-node="layers.0×32"]')
    press(page, "Shift+Enter")
    answer(page)
    assert page.get("graph", "opened") == ["layers.0", "layers.0.attention", "layers.0.mlp"]


def test_a_fold_opens_at_its_selected_member(open_page: Open) -> None:
    page = open_page()
    show(page, (), selection=["layers.26"])
    page.page.focus('[data-node="layers.0×32"]')
    press(page, "Enter")
    answer(page)
    assert page.get("graph", "opened") == ["layers.26"]
    assert page.page.get_attribute('[data-node="layers.26"]', "aria-selected") == "true"


def test_repeats_are_unfolded_and_folded_by_key_and_button(open_page: Open) -> None:
    page = open_page()
    show(page, ())
    page.page.focus('[data-node="layers.0×32"]')
    press(page, "u")
    answer(page)
    assert page.page.locator("[data-node]").count() == 36
    assert focused(page) == "layers.0"
    page.page.click('[data-action="fold"]')
    answer(page)
    assert page.page.locator("[data-node]").count() == 5


def test_arrows_walk_along_the_edges(open_page: Open) -> None:
    page = open_page()
    show(page)
    page.page.focus('[data-node="embed"]')
    seen = []
    for _ in range(30):
        press(page, "ArrowRight")
        seen.append(focused(page))
    assert seen[:3] == ["layers.0×17", "layers.17.attention.norm", "layers.17.attention.q"]
    assert "layers.17.mlp.norm" in seen
    assert seen[-1] == "loss"
    for _ in range(30):
        press(page, "ArrowLeft")
    assert focused(page) == "embed"


# ---- selecting


def test_selection_is_the_boards(open_page: Open) -> None:
    page = open_page()
    show(page)
    page.page.click('[data-node="head"]')
    assert page.get("graph", "selection") == ["head"]
    page.page.click('[data-node="layers.18×14"]', modifiers=["Shift"])
    assert page.get("graph", "selection") == ["head", *(f"layers.{i}" for i in range(18, 32))]
    page.page.focus(f'[data-node="{UP}"]')
    press(page, " ")
    assert page.get("graph", "selection") == [UP]
    assert page.page.locator(".g-node.selected").get_attribute("data-node") == UP
    page.receive("graph", selection=["layers.3", "layers.4"])
    assert page.page.locator(".g-notch:visible").get_attribute("data-label") == "2 selected"


def test_the_strip_tells_about_the_node_in_focus(open_page: Open) -> None:
    page = open_page()
    show(page)
    assert "Enter opens" in page.text(".g-strip")
    page.page.focus(f'[data-node="{UP}"]')
    page.settle()
    text = page.text(".g-strip").replace("\u00a0", " ").replace("\n", " ")
    for said in ("up", "58.7 M", "FLOPs", "forward", "backward", "saved", "output", "stage 2", "reads norm"):
        assert said in text
    assert page.page.locator(".g-size path.near").count() >= 2, "its edges are brought out"


# ---- search


def test_search_opens_the_way_to_a_layer(open_page: Open) -> None:
    page = open_page()
    show(page, ())
    page.page.focus('[data-node="embed"]')
    press(page, "/")
    page.page.keyboard.type("mlp.up")
    page.settle()
    assert "32 layers" in page.text(".g-drop")
    page.page.fill(".g-input", "23 up")
    page.settle()
    assert page.page.locator(".g-hit").all_inner_texts() == ["layers.23.mlp.up"]
    press(page, "Enter")
    answer(page)
    assert page.get("graph", "opened") == ["layers.23", "layers.23.mlp"]
    assert page.get("graph", "selection") == ["layers.23.mlp.up"]
    assert focused(page) == "layers.23.mlp.up"
    assert page.page.locator(".g-drop").is_hidden()


def test_search_by_mouse_and_what_is_not_there(open_page: Open) -> None:
    page = open_page()
    show(page, ())
    page.page.fill(".g-input", "nonsense")
    page.settle()
    assert "No layer has “nonsense” in its name." in page.text(".g-drop")
    assert page.text(".sx-graph > .sx-live") == page.text(".g-count")
    press(page, "Escape")
    assert page.page.locator(".g-drop").is_hidden()
    page.page.fill(".g-input", "head")
    page.page.click(".g-hit")
    page.settle()
    assert focused(page) == "head"


# ---- roles, size


def test_every_element_in_the_tree_is_an_item_and_keeps_shortcuts_away(open_page: Open) -> None:
    page = open_page()
    show(page)
    assert page.page.evaluate("window.unguarded()") == []
    wrong = page.page.evaluate(
        "[...document.querySelectorAll('[role=tree] > *')].filter((e) => !(e.matches('[role=treeitem]')"
        " && e.getAttribute('aria-level') && e.getAttribute('aria-label'))).length"
    )
    assert wrong == 0
    assert page.page.locator('[role=treeitem][tabindex="0"]').count() == 1


def test_what_is_shown_of_a_large_model_is_drawn_at_once(open_page: Open) -> None:
    """Five thousand operators in a chain with residuals, one of them sought."""
    b = GraphBuilder("large")
    x = skip = b.input("x", {"embed": 64})
    for i in range(5000):
        x = b.add(f"op{i}", x, skip) if i % 10 == 9 else b.norm(f"op{i}", x)
        skip = x if i % 10 == 9 else skip
    view = graph_view(sample.graph_scene(b.build()), opened=["op2503"])
    page = open_page()

    def drawn() -> float:
        page.page.evaluate("window.reset()")
        page.show("graph", GraphView(view=view, opened=view["opened"]))
        return float(page.page.get_attribute(".sx-graph", "data-draw-ms") or 1e9)

    assert page.within(500, drawn)
    assert page.page.locator("[data-node]").count() < 120


def test_no_model_yet(open_page: Open) -> None:
    page = open_page()
    page.show("graph", GraphView())
    assert "No model yet" in page.text(".sx-graph")
    assert page.page.locator(".g-input").is_hidden()
