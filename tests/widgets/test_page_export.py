"""The Export tab in a real browser: targets, files, copy and download, by mouse and by keyboard."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sample_export as sample
from harness import WidgetPage

from widgets import ExportView

pytestmark = pytest.mark.browser

Open = Callable[..., WidgetPage]


def show(page: WidgetPage, view: dict[str, Any], **traits: Any) -> None:
    page.show("export", ExportView(view=view, target=view.get("target", "plan"), **traits))


def saved(page: WidgetPage, act: Callable[[], None]) -> tuple[str, bytes]:
    with page.page.expect_download() as info:
        act()
    return info.value.suggested_filename, Path(info.value.path()).read_bytes()


def clipboard_is(page: WidgetPage, kind: str) -> None:
    """Make the clipboard work, refuse, or be absent, and note what is copied."""
    page.page.evaluate(
        """(kind) => {
          window.copied = null;
          const write = async (text) => {
            if (kind !== "works") throw new Error("denied");
            window.copied = text;
          };
          const value = kind === "absent" ? undefined : {writeText: write};
          Object.defineProperty(navigator, "clipboard", {value, configurable: true});
          const works = kind !== "hopeless";
          document.execCommand = () => {
            if (works) window.copied = document.activeElement.value;
            return works;
          };
        }""",
        kind,
    )


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [500, 1000, 1400])
def test_every_state_can_be_read(open_page: Open, width: int, dark: bool) -> None:
    page = open_page(width=width, dark=dark)
    views = [
        {},
        sample.refused_view(),
        sample.changed_view(),
        *(sample.view(name) for name in ("plan", "torchrun", "torchtitan")),
    ]
    for view in views:
        page.reset()
        show(page, view)
        assert page.page.evaluate("document.documentElement.scrollWidth") <= width, view.get("target")
        assert not [item for item in page.contrasts() if item[0] < 4.5], view.get("target")
        assert page.page.evaluate("window.unguarded()") == []


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_nothing_yet_offers_the_files(open_page: Open, how: str) -> None:
    page = open_page()
    page.show("export", ExportView())
    button = page.page.locator("[data-action=export]")
    if how == "mouse":
        button.click()
    else:
        button.focus()
        page.page.keyboard.press("Enter")
    assert page.sent("export") == [{"seq": 1, "kind": "action", "action": "export"}]
    assert not page.page.locator("[role=tablist]").is_visible()


def test_targets_by_mouse(open_page: Open) -> None:
    page = open_page()
    show(page, sample.view())
    page.page.click("[data-target=torchtitan]")
    assert page.get("export", "target") == "torchtitan"
    page.receive("export", view=sample.view("torchtitan"), file="explorer_plan.py")
    assert page.page.get_attribute("[data-target=torchtitan]", "aria-selected") == "true"
    assert page.page.locator("pre").get_attribute("data-file") == "explorer_plan.py"


def test_targets_and_files_by_keyboard(open_page: Open) -> None:
    page = open_page()
    show(page, sample.view("schedule_csv"))
    names = page.page.locator("[role=tab]").evaluate_all("(tabs) => tabs.map((tab) => tab.dataset.target)")
    beside = names[names.index("schedule_csv") + 1]
    page.page.focus("[role=tab][aria-selected=true]")
    for key, target in (("ArrowRight", beside), ("End", names[-1]), ("ArrowRight", names[0]),
                        ("ArrowLeft", names[-1]), ("Home", names[0])):  # fmt: skip
        page.page.keyboard.press(key)
        assert page.get("export", "target") == target
        assert page.page.evaluate("document.activeElement.dataset.target") == target
        page.receive("export", view=sample.view(target))
    kept = page.page.evaluate("document.activeElement.dataset.target")
    assert kept == names[0], "the answer keeps the focus"
    assert page.page.locator("[role=tab][tabindex='0']").count() == 1
    page.receive("export", view=sample.view("torchrun"), target="torchrun", file="run.sh")
    page.page.focus("[role=option][aria-selected=true]")
    page.page.keyboard.press("ArrowDown")
    assert page.get("export", "file") == "spec.json"
    assert page.page.locator("pre").get_attribute("data-file") == "spec.json"
    assert page.leaked() == []


def test_preview_is_the_text_and_a_cut_one_says_so(open_page: Open) -> None:
    page = open_page()
    view = sample.view()
    show(page, view)
    assert page.page.locator("pre").text_content() == view["files"][0]["text"]
    assert page.page.locator("pre .ex-key").first.inner_text() == "schema"
    assert not page.page.locator(".ex-omitted").is_visible()
    long = "x: 1\n" * 10_000
    cut = {
        "name": "a.yaml",
        "text": long,
        "shown": 20_000,
        "omitted": "30000 more characters",
        "bytes": 50_000,
    }
    page.receive("export", view=view | {"files": [cut]})
    assert page.page.locator("pre").text_content() == long[:20_000]
    assert "30000 more" in page.text(".ex-omitted")
    name, content = saved(page, lambda: page.page.click("[data-action=download]"))
    assert (name, content.decode()) == ("a.yaml", long), "the download is whole"


def test_download_of_all_is_a_zip_that_python_reads(open_page: Open) -> None:
    page = open_page()
    view = sample.view("torchrun")
    show(page, view)
    page.page.focus("[data-action=download-zip]")
    name, content = saved(page, lambda: page.page.keyboard.press("Enter"))
    assert name == "torchrun.zip"
    with zipfile.ZipFile(io.BytesIO(content)) as found:
        assert found.testzip() is None
        assert {item: found.read(item).decode() for item in found.namelist()} == {
            item["name"]: item["text"] for item in view["files"]
        }
    assert "torchrun.zip, 3 files" in page.text(".ex-said")


@pytest.mark.parametrize("kind", ["works", "denied", "absent"])
def test_copy_works_with_and_without_permission(open_page: Open, kind: str) -> None:
    page = open_page()
    view = sample.view()
    show(page, view)
    clipboard_is(page, kind)
    page.page.click("[data-action=copy]")
    page.page.wait_for_function("document.querySelector('.ex-said').textContent")
    assert page.page.evaluate("window.copied") == view["files"][0]["text"]
    assert page.text(".ex-said") == "Copied plan.yaml"
    assert page.page.evaluate("document.activeElement.dataset.action") == "copy", "the focus is kept"


def test_where_nothing_copies_the_text_is_selected(open_page: Open) -> None:
    page = open_page()
    view = sample.view()
    show(page, view)
    clipboard_is(page, "hopeless")
    page.page.click("[data-action=copy]")
    page.page.wait_for_function("document.querySelector('.ex-said').textContent")
    assert "press Ctrl+C" in page.text(".ex-said")
    assert page.page.evaluate("String(getSelection())").strip() == view["files"][0]["text"].strip()


def test_refusals_are_named_with_the_way_out(open_page: Open) -> None:
    page = open_page()
    show(page, sample.refused_view())
    text = page.text(".ex-refused")
    assert "torchtitan cannot express this plan" in text
    assert "Looking for the nearest plan" in text
    row = page.page.locator(".ex-answers tr[data-feature='parameters tied across stages']").inner_text()
    assert "refused" in row
    assert "torchtitan refuses tied embeddings" in row
    assert not page.page.locator("pre").is_visible()
    assert page.page.locator("[data-action=download]").is_disabled()
    assert "refuses" in page.text("[data-target=torchtitan]")


def test_table_says_in_words_what_each_target_does(open_page: Open) -> None:
    page = open_page()
    show(page, sample.view("torchrun"))
    row = page.page.locator(".ex-answers tr[data-feature='the precision']").inner_text()
    assert "approximate" in row
    assert "run in fp32" in row
    summary = page.page.locator(".ex-table summary")
    assert not page.page.locator(".ex-table table").is_visible(), "folded until it is asked for"
    summary.focus()
    page.page.keyboard.press("Enter")
    cells = page.page.locator("[data-answer='torchrun:note']")
    assert "nearly" in cells.first.inner_text()
    page.receive("export", view=sample.view("torchrun", plan="another"))
    assert page.page.locator(".ex-table table").is_visible(), "and open until it is folded again"
    row = page.page.locator(".ex-table tr:has-text('the precision')").first.inner_text()
    assert "run in fp32" in row
    assert "Loads back to the same strategy." in page.text(".ex-checks")
    assert page.leaked() == []


@pytest.mark.parametrize("how", ["mouse", "keyboard"])
def test_the_nearest_plan_is_a_button_with_its_price(open_page: Open, how: str) -> None:
    page = open_page()
    show(page, sample.refused_view())
    assert page.page.locator("[data-action=use_nearest]").count() == 0
    near = {
        "state": "found",
        "text": "8.9 s instead of 8.6 s a step",
        "changes": ["without uneven stages (17, 15)"],
    }
    page.receive("export", view=sample.refused_view() | {"nearest": near})
    assert "8.9 s instead of 8.6 s" in page.text(".ex-nearest")
    assert "without uneven stages" in page.text(".ex-nearest")
    button = page.page.locator("[data-action=use_nearest]")
    if how == "mouse":
        button.click()
    else:
        button.focus()
        page.page.keyboard.press("Enter")
    assert page.sent("export") == [{"seq": 1, "kind": "action", "action": "use_nearest"}]
    none = near | {"state": "none", "text": "No plan near this one was found", "changes": []}
    page.receive("export", view=sample.refused_view() | {"nearest": none}, seq=1)
    assert "No plan near this one was found." in page.text(".ex-nearest")
    assert page.leaked() == []


def test_changed_lines_alone_are_copied(open_page: Open) -> None:
    page = open_page()
    view = sample.changed_view()
    show(page, view)
    assert "Changed since run.sh" in page.text(".ex-changes h3")
    row = page.page.locator("[data-key='--global-batch-size']").inner_text()
    assert row.split() == ["--global-batch-size", "64", "128"]
    clipboard_is(page, "works")
    page.page.focus("[data-action=copy-changes][data-of='run.sh']")
    page.page.keyboard.press("Enter")
    page.page.wait_for_function("document.querySelector('.ex-said').textContent")
    assert page.page.evaluate("window.copied").split() == ["--global-batch-size", "128"]
    assert page.text(".ex-said") == "Copied 1 line of run.sh"
    assert page.page.evaluate("document.activeElement.dataset.of") == "run.sh", "the focus is kept"
    same = view["changes"] | {"rows": [], "files": []}
    page.receive("export", view=view | {"changes": same})
    assert "Nothing that these files contain." in page.text(".ex-changes")
    page.receive("export", view=view | {"changes": same | {"problem": "gpipe"}})
    assert "gpipe" in page.text(".ex-changes")


def test_documentation_is_a_link_to_the_web_and_nothing_else(open_page: Open) -> None:
    page = open_page()
    view = sample.view("megatron")
    show(page, view)
    link = page.page.locator("[data-action=documentation]")
    assert link.get_attribute("href") == view["documentation"]
    assert link.get_attribute("rel") == "noopener noreferrer"
    for address in ("", "javascript:alert(1)"):
        page.receive("export", view=view | {"documentation": address})
        assert not link.is_visible()
        assert link.get_attribute("href") is None


def test_files_are_greyed_while_they_are_computed(open_page: Open) -> None:
    page = open_page()
    view = sample.view()
    show(page, view)
    page.receive("export", view=view | {"pending": True})
    assert page.page.get_attribute(".sx-export", "data-state") == "computing"
    assert page.page.get_attribute("[role=tabpanel]", "aria-busy") == "true"
    assert "computing" in page.text(".sx-head .sx-sub")
    assert page.page.locator(".ex-buttons button:enabled").count() == 0
    page.receive("export", view=view)
    assert page.page.get_attribute(".sx-export", "data-state") == "ready"
    assert page.page.locator(".ex-buttons button:disabled").count() == 0


def test_files_of_another_target_than_the_one_chosen_cannot_be_taken(open_page: Open) -> None:
    page = open_page()
    show(page, sample.view("megatron"))
    page.page.click("[data-target=torchrun]")
    assert page.page.get_attribute(".sx-export", "data-state") == "computing"
    assert page.page.locator(".ex-buttons button:enabled").count() == 0
    page.receive("export", view=sample.view("torchrun"))
    assert page.page.get_attribute(".sx-export", "data-state") == "ready"
    name, _ = saved(page, lambda: page.page.click("[data-action=download-zip]"))
    assert name == "torchrun.zip"


def test_a_check_that_would_take_long_is_a_button(open_page: Open) -> None:
    page = open_page()
    show(page, sample.view() | {"back": None})
    page.page.click("[data-action=check_export]")
    assert page.sent("export") == [{"seq": 1, "kind": "action", "action": "check_export"}]
    page.receive("export", view=sample.view(), seq=1)
    assert not page.page.locator("[data-action=check_export]").is_visible()


def test_nothing_is_read_as_html(open_page: Open) -> None:
    page = open_page()
    bad = "<img src=x onerror=alert(1)>"
    file = {"name": bad, "text": bad, "shown": len(bad), "omitted": None, "bytes": len(bad)}
    answer = {"feature": bad, "where": bad, "answer": "approximate", "how": bad, "price": bad}
    changes = {
        "against": bad, "rows": [{"key": bad, "before": bad, "after": bad}], "more": 0, "problem": None,
        "files": [{"name": bad, "text": bad, "lines": 1, "gone": 0}],
    }  # fmt: skip
    more = {"notes": [bad], "refusals": [], "answers": [answer], "changes": changes}
    show(page, sample.view() | {"files": [file]} | more)
    assert page.page.locator("img").count() == 0
    assert page.page.locator("pre").text_content() == bad
