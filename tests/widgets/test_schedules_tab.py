"""The Schedules tab: all schedules by group, counted by simulation while in sight, used, and set beside."""

from __future__ import annotations

from typing import Any

import pytest

from explorer.schedules import SCHEDULES
from explorer.schedules.groups import group_of
from widgets import Explorer
from widgets.jobs import at_once
from widgets.schedules.figures import figures_of, known_figures


@pytest.fixture
def explorer() -> Explorer:
    found = Explorer("gpt2-small", "dgx-a100", session=None, global_batch=16)
    found.set(microbatch_size=1)
    found.schedules_panel.table.visible = True
    return found


def rows(explorer: Explorer) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in explorer.schedules_panel.table.view["rows"]}


def counted(explorer: Explorer) -> dict[str, dict[str, Any]]:
    explorer.schedules_panel.draw()
    at_once(explorer.schedules_panel._work)
    return rows(explorer)


def test_nothing_is_drawn_or_counted_out_of_sight() -> None:
    explorer = Explorer("gpt2-small", "dgx-a100", session=None)
    assert not explorer.schedules_panel.table.view
    assert "schedule figures" not in explorer.now().outcome.kept


def test_every_registered_schedule_has_a_row_in_its_group(explorer: Explorer) -> None:
    found = rows(explorer)
    assert set(found) == set(SCHEDULES.names())
    for name, row in found.items():
        schedule = SCHEDULES.get(name)
        assert row["group"] == group_of(schedule).name
        assert (row["title"], row["paper"], row["needs"]) == (
            schedule.title, schedule.paper, schedule.needs.words(),
        )  # fmt: skip


def test_figures_are_those_of_the_plan_under_the_schedule(explorer: Explorer) -> None:
    for name, row in counted(explorer).items():
        schedule = SCHEDULES.get(name)
        if row["problem"]:
            assert row["figures"] is None
            continue
        if (schedule.costly or schedule.literal) and not row["shown"]:
            assert row["state"] == "asked"
            continue
        assert row["state"] == "counted"
        explorer.set(schedule=name)
        assert row["figures"] == figures_of(explorer.now()).as_dict(), name
        assert row["figures"]["bubble"] == explorer.now().report.bubble_fraction
        explorer.undo()


def test_counting_again_asks_nothing_new(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    counted(explorer)
    monkeypatch.setattr("widgets.schedules.panel.count", None)
    counted(explorer)


def test_a_schedule_that_cannot_be_had_after_all_says_why(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from explorer.base.errors import InputError

    def count(_point: object, name: str) -> None:
        raise InputError(f"{name} has no order here")

    monkeypatch.setattr("widgets.schedules.panel.count", count)
    found = counted(explorer)["gpipe"]
    assert (found["state"], found["problem"]) == ("impossible", "gpipe has no order here")


def test_use_is_an_edit_and_beside_is_plan_b(explorer: Explorer) -> None:
    table = explorer.schedules_panel.table
    table.send_intent("beside", schedule="gpipe")
    now = explorer.now()
    assert now.other is not None
    assert now.other.strategy.job.schedule == "gpipe"
    assert now.strategy.job.schedule == "1f1b"
    assert explorer.timeline.view_b["text"] == "gpipe"
    assert rows(explorer)["gpipe"]["beside"]
    said = " ".join(table.view["difference"])
    assert "they differ after 0F3: 1f1b runs 0B0, gpipe 0F4" in said
    assert "differ after 0F3: A runs 0B0, B 0F4" in explorer.compare_panel.table.value
    table.send_intent("use", schedule="zb_h1")
    assert explorer.now().strategy.job.schedule == "zb_h1"
    assert "splits each backward pass" in " ".join(table.view["difference"])
    explorer.undo()
    explorer.undo()
    assert explorer.now().other is None
    assert not table.view["difference"]


@pytest.mark.parametrize(("kind", "name"), [("beside", "1f1b"), ("use", "nosuch"), ("count", "nosuch")])
def test_impossible_wishes_are_said_and_change_nothing(explorer: Explorer, kind: str, name: str) -> None:
    before = explorer.now()
    explorer.schedules_panel.table.send_intent(kind, schedule=name)
    assert name in explorer.error
    assert explorer.now() is before


def test_a_large_plan_is_counted_only_on_request(explorer: Explorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("widgets.schedules.panel.MOST_TASKS", 10)
    found = counted(explorer)
    assert {row["state"] for row in found.values() if not row["problem"]} == {"asked", "counted"}
    assert [name for name, row in found.items() if row["state"] == "counted"] == ["1f1b"]
    explorer.schedules_panel.table.send_intent("count", schedule="gpipe")
    assert rows(explorer)["gpipe"]["state"] == "counted"
    assert set(known_figures(explorer.now())) == {"1f1b", "gpipe"}
