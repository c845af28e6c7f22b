"""Tiles, controls and all parts at once in a real browser with a fake model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sample
from harness import WidgetPage

from widgets import Controls, GraphView, Heatmap, Tiles, Timeline

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]


def timeline(**more: Any) -> Timeline:
    bars, view = sample.timeline()
    return Timeline(bars=bars, view=view, **more)


# ---- tiles


def test_tiles_carry_their_keys_and_say_value_difference_and_measurement(open_page: Open) -> None:
    page = open_page()
    page.show("tiles", Tiles(view=sample.tiles_view()))
    keys = page.page.eval_on_selector_all("[data-kpi]", "(all) => all.map((t) => t.dataset.kpi)")
    assert keys == ["step_time", "throughput", "memory", "bubble", "mfu", "exposed_communication"]
    text = page.text('[data-kpi="step_time"]').replace("\u00a0", " ")
    assert "6.44" in text
    assert "−3.4 %" in text
    assert "measured" in text
    assert page.page.locator('[data-kpi="memory"] .sx-tri').is_visible(), "colour is never alone"
    assert not page.page.locator('[data-kpi="bubble"] .sx-tri').is_visible()
    assert "▲" in page.text('[data-kpi="mfu"]'), "measured outside the band"
    assert "▲" not in page.text('[data-kpi="step_time"]')


def test_verdict_is_announced_and_its_button_is_an_intent(open_page: Open) -> None:
    page = open_page()
    page.show("tiles", Tiles(view=sample.tiles_view()))
    assert page.page.get_attribute(".t-text", "aria-live") == "polite"
    assert "**" not in page.text(".t-text")
    page.page.click('[data-action="apply_hint"]')
    assert page.sent("tiles") == [{"seq": 1, "kind": "action", "action": "apply_hint"}]
    page.receive("tiles", view=sample.tiles_view("busy"), seq=1)
    assert page.page.locator("[role=progressbar]").is_visible()
    assert page.page.get_attribute("[role=progressbar]", "aria-valuenow") == "60"
    assert page.page.locator('[data-action="stop"]').is_visible()


def test_verdict_is_never_read_as_html(open_page: Open) -> None:
    page = open_page()
    view = sample.tiles_view()
    view["verdict"]["text"] = "<img src=x onerror=alert(1)> **<b>bold</b>**"
    page.show("tiles", Tiles(view=view))
    assert page.page.locator(".t-text img").count() == 0
    assert "<img" in page.text(".t-text")


# ---- controls


def test_a_choice_that_cannot_be_had_is_grey(open_page: Open) -> None:
    page = open_page()
    rows = [{"value": "1f1b", "label": "1f1b", "title": "One line"},
            {"value": "chimera", "label": "chimera: stages: 2 or 4", "disabled": True}]  # fmt: skip
    field = {"key": "schedule", "label": "Schedule", "kind": "select", "value": "1f1b", "options": rows}
    page.show("controls", Controls(view={"fields": [field], "buttons": []}))
    option = page.page.locator("[data-field=schedule] option")
    assert option.evaluate_all("(all) => all.map((o) => o.disabled)") == [False, True]
    rows[1]["disabled"] = False
    page.receive("controls", view={"fields": [field], "buttons": []})
    assert option.evaluate_all("(all) => all.map((o) => o.disabled)") == [False, False]


def test_controls_send_what_is_set_and_pressed(open_page: Open) -> None:
    page = open_page()
    page.show("controls", Controls(view=sample.controls_view()))
    page.page.select_option('[data-field="model"]', "gpt2-small")
    page.page.fill('[data-field="global_batch"]', "64")
    page.page.press('[data-field="global_batch"]', "Enter")
    page.page.click('[data-action="search"]')
    assert [{key: value for key, value in m.items() if key != "seq"} for m in page.sent("controls")] == [
        {"kind": "set", "key": "model", "value": "gpt2-small"},
        {"kind": "set", "key": "global_batch", "value": 64},
        {"kind": "action", "action": "search"},
    ]
    assert page.page.locator('[data-action="redo"]').is_disabled()


@pytest.mark.parametrize(
    ("text", "complaint"), [("many", "not a number"), ("0", "at least 1"), ("1.5", "a whole number")]
)
def test_a_wrong_number_is_said_at_the_field_and_kept(open_page: Open, text: str, complaint: str) -> None:
    page = open_page()
    page.show("controls", Controls(view=sample.controls_view()))
    page.page.fill('[data-field="global_batch"]', text)
    page.page.press('[data-field="global_batch"]', "Tab")
    assert page.sent("controls") == []
    assert complaint in page.text(".c-fields")
    assert page.page.input_value('[data-field="global_batch"]') == text


def test_an_error_from_python_is_said_at_the_field(open_page: Open) -> None:
    page = open_page()
    view = sample.controls_view()
    view["fields"][2]["error"] = "33 does not divide by 2 replicas"
    page.show("controls", Controls(view=view))
    assert "33 does not divide" in page.text(".c-fields")
    assert page.page.get_attribute('[data-field="global_batch"]', "aria-invalid") == "true"


# ---- theme


@pytest.mark.parametrize("told", ["system", "colab", "vscode", "background"])
@pytest.mark.parametrize("dark", [False, True])
def test_a_host_without_jupyterlabs_word_is_followed_all_the_same(
    open_page: Open, told: str, dark: bool
) -> None:
    page = open_page()
    page.page.emulate_media(color_scheme="dark" if (told == "system") == dark else "light")
    page.page.evaluate(
        """([told, dark]) => {
          delete document.body.dataset.jpThemeLight;
          for (const rule of [...document.styleSheets[0].cssRules])
            if (rule.selectorText?.startsWith(':root')) rule.selectorText = '.nothing';
          const [name, colour] = dark ? ['dark', 'rgb(20, 20, 20)'] : ['light', 'white'];
          const root = document.documentElement;
          if (told === 'colab') root.setAttribute('theme', name);
          if (told === 'vscode') document.body.dataset.vscodeThemeKind = `vscode-${name}`;
          if (told === 'background') root.style.setProperty('--jp-layout-color1', colour);
        }""",
        [told, dark],
    )
    page.show("tiles", Tiles(view=sample.tiles_view()))
    assert page.page.get_attribute(".sx-tiles", "data-dark") == str(dark).lower()
    assert not [item for item in page.contrasts() if item[0] < 4.5]


# ---- all


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1000, 1400])
def test_everything_on_one_page_can_be_read(open_page: Open, dark: bool, width: int) -> None:
    page = open_page(width=width, dark=dark)
    cells, memory = sample.memory()
    page.show("controls", Controls(view=sample.controls_view()))
    page.show("tiles", Tiles(view=sample.tiles_view("bad")))
    page.show("timeline", timeline(microbatch=7))
    page.show("memory", Heatmap(cells=cells, view=memory))
    page.show("graph", GraphView(**sample.graph_state(), selection=["layers.26"]))
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert not [item for item in page.contrasts() if item[0] < 4.5]


@pytest.mark.parametrize("widget", [Tiles, Controls, Timeline, Heatmap, GraphView])
def test_empty_widgets_draw(open_page: Open, widget: type) -> None:
    page = open_page()
    page.show("empty", widget())
    assert page.page.locator(".sx").count() == 1
    page.receive(
        "empty", notice={"level": "error", "text": "cluster.yaml: key nodes: found -1, allowed at least 1"}
    )
    assert "cluster.yaml" in page.text(".sx-notice")


def test_buttons_of_the_bar_stand_behind_its_last_field_where_there_is_room(open_page: Open) -> None:
    page = open_page(width=1230)
    fields = [
        {"key": f"f{i}", "label": f"Field {i}", "kind": "text", "value": "", "width_px": 110}
        for i in range(12)
    ]
    fields[-2]["error"] = "not a name that is known here"
    buttons = [{"action": name, "label": name, "enabled": True} for name in ("search", "compare_all")]
    page.show("controls", Controls(view={"fields": fields, "buttons": buttons}))
    box = (
        "(all) => all.map((e) => { const r = e.getBoundingClientRect(); return [r.top, r.bottom, r.right]; })"
    )
    inputs, places = (page.page.eval_on_selector_all(name, box) for name in (".c-input", ".c-field"))
    bar, button = (page.page.eval_on_selector_all(name, box)[0] for name in (".c-bar", ".c-buttons"))
    assert len({top for top, _, _ in inputs}) == 2, "an error below a field moves no other field"
    assert inputs[-1][0] <= button[0]
    assert button[1] <= max(bottom for _, bottom, _ in places) + 1, "no third row"
    assert button[2] == pytest.approx(bar[2], abs=1)


def test_a_field_that_is_worked_out_is_ended_once_and_by_its_own_bar(open_page: Open) -> None:
    """Tabs have bars of the same workbench: another request to end would end what waits its turn."""
    page = open_page()
    for name in ("controls", "settings"):
        page.show(name, Controls(view=sample.controls_view(), bench="b1"))
    page.show("tiles", Tiles(view=sample.tiles_view(), bench="b1"))
    field = page.page.locator("[data-field=global_batch]").first
    before = field.input_value()
    field.fill("4096")
    field.press("Enter")
    page.page.wait_for_selector(".t-verdict [data-action=cancel_work]")
    assert page.page.locator("[aria-busy=true]").count() == 1
    assert page.page.get_attribute("[data-widget=tiles]", "data-state") == "computing"
    field.press("Escape")
    sent = [message for name in ("controls", "settings", "tiles") for message in page.sent(name)]
    assert [message for message in sent if "cancel" in message] == [{"cancel": True}]
    page.receive("controls", seq=1)
    page.settle()
    assert page.page.locator("[aria-busy=true], [data-action=cancel_work]").count() == 0
    assert field.input_value() == before, "what is true again"
