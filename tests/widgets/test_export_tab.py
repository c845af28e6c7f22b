"""The Export tab: files of the state shown, which follow every edit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import traitlets
from pydantic import TypeAdapter

from explorer.base.units import format_seconds
from tests.support import view_shapes as shapes
from widgets import Explorer, ExportView
from widgets.base import refuse_unsendable

SCRIPT = Path(__file__).parents[1] / "export" / "trainers" / "megatron" / "defaults_llama.sh"


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("llama3-8b", "dgx-a100")
    assert not found.error
    yield found
    found.close()


def move(bench: Explorer) -> None:
    """One block to another lane."""
    layers = [layer["id"] for layer in bench.board.blocks[4]["layers"]]
    bench.board.send_intent("move", layers=layers, to_lane="3")
    assert not bench.error


def text(bench: Explorer) -> str:
    return str(bench.export_panel.page.view["files"][0]["text"])


def test_nothing_is_made_until_it_is_asked_for(bench: Explorer) -> None:
    page = bench.export_panel.page
    assert page.view == {}
    assert repr(page) == "<ExportView: nothing yet>"
    move(bench)
    assert page.view == {}, "an edit costs nothing while nobody looks"
    page.send_intent("action", action="export")
    assert bench.tabs_title() == "Export"
    TypeAdapter(shapes.ExportViewShape).validate_python(page.view)
    refuse_unsendable(page.view, "view")
    assert page.file == "plan.yaml"
    assert repr(page) == "<ExportView: plan: plan.yaml>"


def test_files_follow_edits_and_undo(bench: Explorer) -> None:
    bench.controls.send_intent("action", action="export")
    first = text(bench)
    move(bench)
    assert text(bench) != first
    assert bench.export_panel.page.view["pending"] is False
    bench.undo()
    assert text(bench).partition("provenance")[0] == first.partition("provenance")[0]


class Later:
    """Keeps what is to be done in the next quiet moment."""

    def __init__(self) -> None:
        self.work: Callable[[], None] | None = None

    def later(self, work: Callable[[], None]) -> bool:
        self.work = work
        return True

    def cancel(self) -> None:
        self.work = None


def test_files_are_greyed_until_a_quiet_moment(bench: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.controls.send_intent("action", action="export")
    later = Later()
    monkeypatch.setattr(bench.export_panel, "_idle", later)
    first, page = text(bench), bench.export_panel.page
    move(bench)
    assert page.view["pending"]
    assert text(bench) == first, "greyed, not gone"
    assert later.work is not None
    later.work()
    assert not page.view["pending"]
    assert text(bench) != first


def test_target_and_file_are_traits_of_both_sides(bench: Explorer) -> None:
    page = bench.export_panel.page
    bench.controls.send_intent("action", action="export")
    page.target = "torchtitan"
    assert page.view["target"] == "torchtitan"
    assert page.file == "explorer_plan.py"
    page.file = "run.sh"
    bench.set(recompute="full")
    assert page.view["state"] == "ready"
    assert page.file == "run.sh", "an edit keeps the file that is read"
    move(bench)
    assert page.view["state"] == "refused", "the stages are no chain now"
    assert page.file == "run.sh", "and so does a refusal"
    page.target = "plan"
    assert page.file == "plan.yaml"
    with pytest.raises(traitlets.TraitError, match=r"unknown target 'pdf': one of .*plan"):
        page.target = "pdf"
    assert page.target == "plan"


def test_what_a_target_cannot_express_is_refused_by_name() -> None:
    bench = Explorer("gpt2-small", "dgx-a100-4")
    try:
        page = bench.export_panel.page
        page.target = "torchtitan"
        assert page.view == {}, "choosing is not asking"
        bench.controls.send_intent("action", action="export")
        assert page.view["state"] == "refused"
        assert any("gpt2-small" in item["what"] for item in page.view["refusals"])
        assert page.file == ""
        assert not bench.error
    finally:
        bench.close()


def test_the_nearest_plan_goes_on_the_board_and_undo_takes_it_back(bench: Explorer) -> None:
    page = bench.export_panel.page
    bench.set(schedule="zb_h1")
    page.target = "megatron"
    page.send_intent("action", action="export")
    view = page.view
    TypeAdapter(shapes.ExportViewShape).validate_python(view)
    refuse_unsendable(view, "view")
    assert view["state"] == "refused"
    assert view["nearest"]["state"] == "found"
    assert any(row["price"] for row in view["answers"] if row["answer"] == "refused")
    asked = bench.strategy
    page.send_intent("action", action="use_nearest")
    assert not bench.error
    assert bench.history.points[-1].note == "nearest plan that megatron can run"
    assert bench.strategy.job.schedule == "1f1b"
    assert page.view["state"] == "ready"
    assert page.view["nearest"] is None
    figures = bench.history.points[-1].figures
    assert f"{format_seconds(figures.step_time_s)} " in view["nearest"]["text"], "at the price that was told"
    bench.undo()
    assert bench.strategy == asked
    assert page.view["state"] == "refused"


def test_a_plan_that_runs_as_it_is_has_no_nearer_one(bench: Explorer) -> None:
    page = bench.export_panel.page
    page.send_intent("action", action="export")
    states = len(bench.history.points)
    page.send_intent("action", action="use_nearest")
    assert "plan runs the plan as it is" in bench.error
    assert len(bench.history.points) == states


def test_changes_are_said_since_the_session_began(bench: Explorer) -> None:
    page = bench.export_panel.page
    page.target = "megatron"
    page.send_intent("action", action="export")
    assert page.view["changes"]["rows"] == []
    bench.set(global_batch=128)
    changes = page.view["changes"]
    assert changes["against"] == "where the session began"
    assert "--global-batch-size" in [row["key"] for row in changes["rows"]]
    bench.undo()
    assert page.view["changes"]["rows"] == []


def test_changes_are_said_since_the_import(tmp_path: Path) -> None:
    from explorer.importing import import_file
    from explorer.plan import save_plan

    found = import_file(SCRIPT, "megatron").resolved
    save_plan(found.plan, found.graphs, tmp_path / "today.yaml")
    bench = Explorer("llama3-8b", "dgx-a100")
    try:
        bench.set(recompute="full")
        bench.open_plan(tmp_path / "today.yaml")
        page = bench.export_panel.page
        page.target = "megatron"
        page.send_intent("action", action="export")
        assert page.view["changes"]["against"] == f"{SCRIPT.name}, a Megatron-LM config"
        assert page.view["changes"]["rows"] == []
        bench.set(recompute="full")
        assert [row["key"] for row in page.view["changes"]["rows"]][:1] == ["--recompute-granularity"]
        assert not bench.error
    finally:
        bench.close()


def test_models_from_files_are_read_back_only_when_asked(tmp_path: Path) -> None:
    from explorer.models import load_model
    from explorer.models.saved import save

    path = tmp_path / "mine.json"
    save(load_model("gpt2-small"), path)
    bench = Explorer(str(path), "dgx-a100")
    try:
        assert not bench.error
        page = bench.export_panel.page
        bench.controls.send_intent("action", action="export")
        assert page.view["back"] is None
        assert page.view["can_check"]
        page.send_intent("action", action="check_export")
        assert page.view["back"]["ok"] is True
    finally:
        bench.close()


def test_with_nothing_loaded_it_stays_empty() -> None:
    bench = Explorer("no-such-model", "dgx-a100")
    try:
        bench.export_panel.page.send_intent("action", action="export")
        assert bench.export_panel.page.view == {}
    finally:
        bench.close()


def test_it_is_a_widget_of_its_own() -> None:
    page = ExportView(target="torchrun")
    assert page.target == "torchrun"
    assert page.view == {}
