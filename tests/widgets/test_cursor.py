"""The cursor's memory and an area's sums in a workbench: answered for the plan shown, forgotten with it."""

from __future__ import annotations

import pytest

from widgets import Explorer


@pytest.fixture(scope="module")
def bench() -> Explorer:
    return Explorer(model="gpt2-small", cluster="dgx-a100", global_batch=32, session=None)


def test_the_page_may_ask_and_is_answered(bench: Explorer) -> None:
    line = bench.timeline
    assert line.asks
    end = line.view["end_s"]
    line.send_intent("moment", time_s=end / 2, lane=0, plan=0)
    moment = line.moment
    assert (moment["plan"], moment["lane"], moment["time_s"]) == (0, 0, end / 2)
    assert moment["name"] == line.view["lanes"][0]["name"]
    assert 0 < sum(part["bytes"] for part in moment["parts"]) < moment["capacity_bytes"]
    line.send_intent("area", from_s=0.0, to_s=end)
    [plan] = line.area["plans"]
    assert [row["name"] for row in plan["lanes"]] == [lane["name"] for lane in line.view["lanes"]]
    assert bench.report is not None
    assert [row["computing_s"] for row in plan["lanes"]] == pytest.approx(list(bench.report.busy_s), rel=1e-9)


def test_another_plan_forgets_both_and_plan_b_is_answered_too(bench: Explorer) -> None:
    line = bench.timeline
    line.send_intent("moment", time_s=0.0, lane=0, plan=0)
    before = line.moment["capacity_bytes"], bench.now()
    bench.set(stages=2)
    assert (line.moment, line.area) == ({}, {})
    assert line.asks
    bench.compare_with(before[1])
    line.send_intent("moment", time_s=0.0, lane=0, plan=1)
    assert line.moment["plan"] == 1
    assert line.moment["capacity_bytes"] == before[0]
    line.send_intent("area", from_s=0.0, to_s=1e-3)
    assert [plan["name"] for plan in line.area["plans"]] == ["A", "B"]
    bench.compare_with(None)
    line.send_intent("moment", time_s=0.0, lane=0, plan=1)
    assert line.moment == {"plan": 1}, "there is no plan B any more"
    line.send_intent("moment", time_s=0.0, lane=99, plan=0)
    assert line.moment == {"plan": 0}
    assert line.notice is None


def test_an_impossible_area_is_said(bench: Explorer) -> None:
    bench.timeline.send_intent("area", from_s=2.0, to_s=1.0)
    assert "an end behind 2 s" in bench.timeline.notice["text"]
    bench.timeline.set_trait("notice", None)
