"""Editing of an order: a move keeps all work, is refused where it cannot run, and can be undone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.actions import UPDATE, Action, parse_action
from explorer.base.errors import InputError
from explorer.schedules import SCHEDULES, make_order
from explorer.schedules.check import coverage
from explorer.strategies.bare_shape import bare_shape
from widgets import Explorer
from widgets.order_edit import Bar, with_action_moved
from widgets.session import Point


def bar(text: str) -> Bar:
    return shown(parse_action(text))


def shown(action: Action) -> Bar:
    first = -1 if action.op == UPDATE else action.first_microbatch
    return Bar(op=action.op, stage=action.stage, microbatch=first, copy=action.copy)


@pytest.fixture(scope="module")
def start() -> Point:
    return eight_microbatches().now()


def eight_microbatches(**more: Any) -> Explorer:
    explorer = Explorer("gpt2-small", "dgx-a100", global_batch=16, **{"session": None, **more})
    if explorer.now().strategy.job.stages[0].microbatch_samples != 2:
        explorer.set(microbatch_size=1)
    return explorer


def lanes(point: Point) -> list[list[str]]:
    job = point.strategy.job
    shape = bare_shape(point.inputs.graph, point.inputs.job, job)
    order = make_order(job.schedule, shape, options=dict(job.options))
    assert not coverage(order, shape)
    return [list(map(str, lane)) for lane in order.lanes]


def test_the_action_stands_where_it_was_put_and_nothing_else_moves(start: Point) -> None:
    was = lanes(start)
    point = with_action_moved(start, bar("3F1"), bar("3B0"), before=True)
    now = lanes(point)
    assert SCHEDULES.get(point.strategy.job.schedule).literal
    assert now[3].index("3F1") == now[3].index("3B0") - 1
    assert now[:3] == was[:3]
    assert [name for name in now[3] if name != "3F1"] == [name for name in was[3] if name != "3F1"]


def test_it_can_be_edited_again_and_put_back(start: Point) -> None:
    once = with_action_moved(start, bar("3F1"), bar("3B0"), before=True)
    back = with_action_moved(once, bar("3F1"), bar("3B0"), before=False)
    assert lanes(back) == lanes(start)
    assert back.report.step_time_s == pytest.approx(start.report.step_time_s, rel=1e-12)


@pytest.mark.parametrize(
    ("moved", "beside", "before", "reason"),
    [
        ("0B0", "0F0", True, "backward before forward"),
        ("0U0-7", "0B1", True, "update before backward"),
        ("1F5", "1F0", True, "deadlock: .* waits for 0F5 on lane 0"),
        ("0F1", "1F0", True, "another lane"),
        ("0F1", "0F0", False, "stands there already"),
        ("0F77", "0F0", True, "no actions"),
        ("0I1", "0F0", True, "no actions"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(
    start: Point, moved: str, beside: str, before: bool, reason: str
) -> None:
    with pytest.raises(InputError, match=reason):
        with_action_moved(start, bar(moved), bar(beside), before=before)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_every_move_runs_the_same_work_or_is_refused(start: Point, data: st.DataObject) -> None:
    job = start.strategy.job
    shape = bare_shape(start.inputs.graph, start.inputs.job, job)
    lane = list(data.draw(st.sampled_from(make_order(job.schedule, shape).lanes)))
    moved, beside = data.draw(st.sampled_from(lane)), data.draw(st.sampled_from(lane))
    try:
        point = with_action_moved(start, shown(moved), shown(beside), before=data.draw(st.booleans()))
    except InputError:
        return
    assert [sorted(now) for now in lanes(point)] == [sorted(was) for was in lanes(start)]
    assert point.report.busy_s == pytest.approx(start.report.busy_s)


@pytest.mark.parametrize("schedule", [item.name for item in SCHEDULES if item.dispatch or not item.flush])
def test_schedules_without_an_order_of_one_step_say_so(schedule: str) -> None:
    explorer = Explorer("gpt2-small", "dgx-a100", session=None, global_batch=16)
    try:
        explorer.set(schedule=schedule)
    except InputError:
        pytest.skip("this plan cannot have it")
    assert "step that ends with its updates" in explorer.timeline.view["fixed"]
    explorer.timeline.send_intent(
        "reorder", moved={"op": "F", "stage": 0, "microbatch": 0}, before=True,
        beside={"op": "F", "stage": 0, "microbatch": 1},
    )  # fmt: skip
    assert explorer.timeline.notice["level"] == "error"


def intent(moved: str, beside: str) -> dict[str, Any]:
    both = {}
    for name, text in (("moved", moved), ("beside", beside)):
        found = bar(text)
        both[name] = {
            "op": found.op,
            "stage": found.stage,
            "microbatch": found.microbatch,
            "copy": found.copy,
        }
    return {**both, "before": True}


def test_undo_redo_refusals_and_the_session(tmp_path: Path) -> None:
    """What is refused changes nothing and says so on the timeline; the rest is a state like any other."""
    file = tmp_path / "session.yaml"
    explorer = eight_microbatches(session=file)
    explorer.timeline.send_intent("reorder", **intent("3F1", "3B0"))
    edited = explorer.now().strategy
    assert "3F1 before 3B0" in explorer.now().note
    explorer.timeline.send_intent("reorder", **intent("0B0", "0F0"))
    assert explorer.now().strategy is edited
    assert "backward before forward" in explorer.timeline.notice["text"]
    assert explorer.undo()
    assert explorer.timeline.notice is None
    assert explorer.redo()
    assert explorer.now().strategy == edited
    explorer.saving.flush()
    explorer.close()
    again = Explorer("gpt2-small", "dgx-a100", session=file, reopen=True, global_batch=16)
    assert again.now().strategy == edited
    again.close()
