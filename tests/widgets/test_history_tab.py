"""The History tab: any state by mouse and keyboard, plan B, files in and out, mistakes said at the field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
from pydantic import TypeAdapter

import explorer as core
from tests.support import view_shapes as shapes
from widgets import Explorer


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Explorer]:
    monkeypatch.chdir(tmp_path)
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32, session="s.json")
    found.set(zero=1)
    found.set(recompute="full")
    found.open_tab("History")
    yield found
    found.close()


def rows(bench: Explorer) -> list[dict[str, Any]]:
    return list(bench.history_panel.states.view["rows"])


def send(bench: Explorer, kind: str, **rest: Any) -> None:
    bench.history_panel.states.send_intent(kind, **rest)


def test_every_state_is_a_row(bench: Explorer) -> None:
    view = bench.history_panel.states.view
    TypeAdapter(shapes.StatesView).validate_python(view)
    assert [row["note"] for row in rows(bench)] == ["recomputation full", "ZeRO 1", "start"]
    assert [row["shown"] for row in rows(bench)] == [True, False, False]
    first, last = rows(bench)[-1], rows(bench)[0]
    assert first["change"] is None
    steps = [row["step_time_s"] for row in rows(bench)]
    assert last["change"] == pytest.approx(steps[0] / steps[1] - 1)
    assert last["step_time_s"] == bench.report.step_time_s
    assert "s.json" in view["saved"]


def test_it_is_drawn_only_while_it_is_looked_at(bench: Explorer) -> None:
    bench.open_tab("Export")
    before = bench.history_panel.states.view
    bench.set(zero=2)
    assert bench.history_panel.states.view is before
    bench.open_tab("History")
    assert len(rows(bench)) == 4


def test_going_to_a_state_is_no_edit(bench: Explorer) -> None:
    first = bench.history.points[0]
    send(bench, "go", number=rows(bench)[-1]["number"])
    assert bench.history.now is first
    assert len(bench.history.points) == 3
    assert bench.history.can_redo
    assert [row["shown"] for row in rows(bench)] == [False, False, True]
    send(bench, "go", number=99)
    assert bench.history.now is first


def test_comparing_with_a_state(bench: Explorer) -> None:
    send(bench, "compare", number=rows(bench)[-1]["number"])
    assert bench.other == bench.history.points[0].strategy
    assert [row["is_b"] for row in rows(bench)] == [False, False, False, True]
    bench.model = "resnet50"
    assert ": resnet50 on dgx-a100" in rows(bench)[0]["note"]
    assert rows(bench)[0]["change"] is None
    send(bench, "compare", number=rows(bench)[-1]["number"])
    assert "gpt2-small" in bench.error
    assert bench.other is None


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("bad.yaml", "a: [", "not plain YAML"),
        ("bad.json", "{", "not JSON"),
        ("other.yaml", "schema: explorer.cluster/1", "not a plan"),
        ("list.yaml", "- 1", "not a plan"),
        ("s.json", json.dumps({"schema": "explorer.session/1"}), "missing"),
        ("py.yaml", "!!python/object/apply:os.getcwd []", "not plain YAML"),
        ("picture.png", "\x00\x01", "not plain YAML"),
    ],
)
def test_wrong_files_are_said_at_the_field(bench: Explorer, name: str, text: str, said: str) -> None:
    now = bench.history.now
    send(bench, "open_text", name=name, text=text)
    error = bench.history_panel.states.view["file"]["error"]
    assert said in error
    assert name in error
    assert bench.history.now is now
    Path(name).write_text(text)
    send(bench, "open_path", path=name)
    assert bench.history_panel.states.view["file"]["value"] == name, "what was typed stays"
    assert bench.history_panel.states.view["file"]["error"]
    assert bench.history.now is now


def test_plans_and_sessions_open(bench: Explorer, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    core.save_plan(bench.history.points[0].plan(), bench.resolved().graphs, plan)
    send(bench, "open_path", path=str(plan))
    assert bench.history_panel.states.view["file"] == {"value": "", "error": None}
    assert bench.strategy == bench.history.points[0].strategy
    assert len(bench.history.points) == 4
    send(bench, "open_text", name="plan.yaml", text=plan.read_text())
    assert len(bench.history.points) == 5
    text = Path("s.json").read_text()
    send(bench, "open_text", name="elsewhere.json", text=text)
    assert len(bench.history.points) == 5
    assert len(list(tmp_path.glob("s.earlier-*"))) == 1, "the states before are kept"


def test_the_plan_can_be_saved(bench: Explorer, tmp_path: Path) -> None:
    states = bench.history_panel.states
    states.send_intent("action", action="save_plan")
    assert states.download == {"name": "gpt2-small-dgx-a100.yaml", "type": "application/yaml", "number": 1}
    (tmp_path / "again.yaml").write_bytes(states.data)
    other = Explorer(plan=tmp_path / "again.yaml", session=None)
    assert other.strategy == bench.strategy
    other.close()
    states.send_intent("action", action="make_report")
    assert states.download["number"] == 2
    assert states.data.startswith(b"<!doctype html>")


def test_an_empty_workbench_has_an_empty_list() -> None:
    bench = Explorer("gpt2-smal", "dgx-a100", session=None)
    bench.open_tab("History")
    assert bench.history_panel.states.view["rows"] == []
    assert not bench.history_panel.states.view["ready"]
    bench.close()


# -- the page -----------------------------------------------------------------------------------------


@pytest.fixture
def page(bench: Explorer, shared_page: harness.WidgetPage) -> Iterator[harness.WidgetPage]:
    shared_page.reset()
    shared_page.show("states", bench.history_panel.states)
    yield shared_page
    assert not shared_page.errors, shared_page.errors
    assert not shared_page.foreign, shared_page.foreign


def test_a_click_goes_to_a_state(page: harness.WidgetPage) -> None:
    page.page.click("[data-row='0']")
    assert page.sent("states") == [{"seq": 1, "kind": "go", "number": 0}]
    page.page.click("[aria-current]")
    assert len(page.sent("states")) == 1, "the one shown is shown already"


def test_all_by_keyboard(page: harness.WidgetPage) -> None:
    keys = page.page.keyboard
    page.page.focus("[aria-current]")
    keys.press("ArrowDown")
    keys.press("Enter")
    keys.press("End")
    keys.press("c")
    keys.press("Home")
    keys.press("Enter")
    assert [(m["kind"], m["number"]) for m in page.sent("states")] == [("go", 1), ("compare", 0)]
    keys.press("End")
    page.page.click("[data-action='compare-state']")
    assert page.sent("states")[-1]["number"] == 0
    assert page.leaked() == []
    page.page.fill("[data-field='open_path']", " plan.yaml ")
    keys.press("Enter")
    assert page.sent("states")[-1] == {"seq": 4, "kind": "open_path", "path": "plan.yaml"}


def test_names_and_contrast(page: harness.WidgetPage) -> None:
    grid = page.page.get_by_role("grid")
    assert "newest first" in grid.get_attribute("aria-label")
    assert page.page.locator("[aria-current='step']").count() == 1
    assert "recomputation full" in page.page.locator("[aria-current]").get_attribute("aria-label")
    assert min(page.contrasts())[0] >= 4.5
    assert page.page.evaluate("window.unguarded()") == []


def test_an_upload_is_sent_as_text(page: harness.WidgetPage) -> None:
    page.page.set_input_files(
        "[data-field='upload']", [{"name": "p.yaml", "mimeType": "text/yaml", "buffer": b"a: 1"}]
    )
    page.page.wait_for_function("window.models.states.sent.length")
    assert page.sent("states")[0] == {"seq": 1, "kind": "open_text", "name": "p.yaml", "text": "a: 1"}
    page.receive("states", view={"file": {"value": "", "error": "p.yaml: not a plan"}, "ready": True}, seq=1)
    assert page.text(".h-error") == "p.yaml: not a plan"


def test_a_download_is_saved_once(page: harness.WidgetPage) -> None:
    with page.page.expect_download() as caught:
        page.receive("states", data=b"x: 1\n", download={"name": "p.yaml", "type": "text/yaml", "number": 1})
    assert caught.value.suggested_filename == "p.yaml"
    assert Path(caught.value.path()).read_bytes() == b"x: 1\n"
    assert "p.yaml" in page.text(".h-files > [role=status]")


def test_the_offer_has_a_button(page: harness.WidgetPage) -> None:
    assert not page.page.is_visible(".h-offer")
    page.receive("states", view={"offer": "You were here at 14:02 with 12 changes", "rows": []})
    page.page.click("[data-action='reopen']")
    assert page.sent("states") == [{"seq": 1, "kind": "action", "action": "reopen"}]
    assert page.page.is_visible(".sx-empty")
