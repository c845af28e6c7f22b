"""The plan as a text, copied and opened again; files dropped anywhere on the page; what is none of ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harness
import pytest
import sample

import explorer as core
from explorer.plan_text import packed
from widgets import Explorer, Tiles


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Explorer]:
    monkeypatch.chdir(tmp_path)
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32, session=None)
    found.set(zero=1)
    found.open_tab("History")
    yield found
    found.close()


def shared(bench: Explorer) -> dict[str, Any]:
    bench.history_panel.states.send_intent("action", action="share_plan")
    return dict(bench.history_panel.states.view["shared"])


def test_the_text_opens_everywhere(bench: Explorer) -> None:
    text = shared(bench)["text"]
    assert core.load_plan(text).plan.strategy == bench.strategy
    other = Explorer(plan=text, session=None)
    assert other.strategy == bench.strategy
    assert other.report.step_time_s == bench.report.step_time_s
    other.set(zero=0)
    other.open_tab("History")
    other.history_panel.states.send_intent("open_path", path=f"  {text} ")
    assert other.history_panel.states.view["file"] == {"value": "", "error": None}
    assert other.strategy == bench.strategy
    other.undo()
    assert other.strategy != bench.strategy, "an edit like any other"
    other.close()


def test_it_says_how_long_it_is_and_goes_with_the_next_edit(bench: Explorer) -> None:
    first = shared(bench)
    assert first["note"] == f"{len(first['text'])} characters"
    assert shared(bench)["number"] == first["number"] + 1, "asked again, it is copied again"
    bench.set(zero=2)
    assert bench.history_panel.states.view["shared"] is None


def test_it_names_the_files_that_it_does_not_carry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("schema: explorer.cluster/1\nname: mine\nextends: dgx-a100\n")
    found = Explorer("gpt2-small", "mine.yaml", session=None)
    found.open_tab("History")
    assert "it names mine.yaml" in shared(found)["note"]
    found.close()


WRONG = [
    ("explorer-plan:2:00000000:eJw", "of version 2"),
    ("explorer-plan:1:00000000:eJw", "damaged"),
    (packed({"schema": "explorer.plan/9"}), "not a plan"),
    (packed({"schema": "explorer.plan/1", "models": {"model": {"reference": "os:getcwd"}}}), ""),
]


@pytest.mark.parametrize(("text", "said"), WRONG, ids=["later", "damaged", "other", "code"])
def test_a_wrong_text_is_said_at_the_field(bench: Explorer, text: str, said: str) -> None:
    now = bench.history.now
    states = bench.history_panel.states
    states.send_intent("open_path", path=text)
    error = states.view["file"]["error"]
    assert error
    assert said in error
    assert bench.history.now is now


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("photo.png", "\x89PNG\x00\x01"),
        ("notes.txt", "buy milk"),
        ("empty.yaml", ""),
        ("other.yaml", "schema: explorer.cluster/1"),
        ("long.yaml", None),
        *((f"{i}.txt", text) for i, (text, _) in enumerate(WRONG)),
    ],
)
def test_a_dropped_file_that_is_no_plan_leaves_the_board(
    bench: Explorer, name: str, text: str | None
) -> None:
    now, lanes = bench.history.now, bench.board.view
    bench.tiles.send_intent("drop_text", name=name, text=text)
    strip = bench.controls.notice
    assert strip["level"] == "error"
    assert strip["text"].startswith(f"{name}: ")
    assert "the plan stays as it was" in strip["text"]
    assert "a session or a trainer's config" in strip["text"]
    assert bench.history.now is now
    assert bench.board.view == lanes


def test_a_dropped_plan_opens(bench: Explorer, tmp_path: Path) -> None:
    plan = tmp_path / "plan.yaml"
    core.save_plan(bench.history.points[0].plan(), bench.resolved().graphs, plan)
    bench.tiles.send_intent("drop_text", name="plan.yaml", text=plan.read_text())
    assert bench.strategy == bench.history.points[0].strategy
    bench.undo()
    bench.tiles.send_intent("drop_text", name="mail.txt", text=shared(bench)["text"])
    assert bench.strategy == bench.history.points[1].strategy


# -- the page -----------------------------------------------------------------------------------------


@pytest.mark.browser
def test_the_text_is_copied_and_can_be_taken_by_hand(bench: Explorer, browser: Any) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = harness.WidgetPage(context.new_page())
    page.show("states", bench.history_panel.states)
    page.page.click("[data-action='share_plan']")
    assert page.sent("states") == [{"seq": 1, "kind": "action", "action": "share_plan"}]
    given = shared(bench)
    page.receive("states", view=bench.history_panel.states.view, seq=1)
    page.page.wait_for_function("document.querySelector('.h-shared .sx-sub').textContent")
    assert page.text(".h-shared .sx-sub").endswith(f"{len(given['text'])} characters.")
    page.page.focus(".h-text")
    assert page.page.evaluate("getSelection().toString()") == given["text"]
    page.receive("states", view=bench.history_panel.states.view | {"shared": None})
    assert not page.page.is_visible(".h-shared")
    assert not page.errors
    context.close()


@pytest.mark.browser
def test_a_file_dropped_on_any_widget_reaches_the_workbench(shared_page: harness.WidgetPage) -> None:
    page = shared_page
    page.reset()
    page.show("tiles", Tiles(view=sample.tiles_view() | {"own": {}}, bench="b1"))
    drop = """([selector, name, text]) => {
      const data = new DataTransfer();
      data.items.add(new File([text], name));
      const event = (kind) => new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true });
      const place = document.querySelector(selector);
      return [place.dispatchEvent(event('dragover')), place.dispatchEvent(event('drop'))];
    }"""
    assert page.page.evaluate(drop, [".t-verdict", "p.yaml", "a: 1"]) == [False, False]
    page.page.wait_for_function("window.models.tiles.sent.length")
    assert page.sent("tiles") == [{"seq": 1, "kind": "drop_text", "name": "p.yaml", "text": "a: 1"}]
    page.page.evaluate(drop, [".t-own", "log.txt", "step 1"])
    page.page.wait_for_function("window.models.tiles.sent.length > 1")
    assert [m["kind"] for m in page.sent("tiles")] == ["drop_text", "measured"], "a log has its own place"
    assert not page.errors
