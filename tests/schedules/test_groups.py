"""Groups of schedules: every one is in exactly one, told from what it does."""

from __future__ import annotations

import json

import pytest

from explorer.cli.main import main
from explorer.schedules import SCHEDULES, Schedule, make_order
from explorer.schedules.groups import GROUPS, group_of, grouped, small_shape


def test_every_schedule_is_listed_once() -> None:
    listed = [schedule.name for _, found in grouped() for schedule in found]
    assert sorted(listed) == sorted(SCHEDULES.names())


@pytest.mark.parametrize("schedule", list(SCHEDULES), ids=lambda item: item.name)
def test_the_group_is_what_the_schedule_does(schedule: Schedule) -> None:
    """Only asynchronous ones have no flush; what splits backwards in a flush is no plain flush schedule."""
    name = group_of(schedule).name
    assert name in {group.name for group in GROUPS}
    assert (name == "asynchronous") == (schedule.dispatch or not schedule.flush)
    if schedule.dispatch or schedule.literal:
        return
    ops = {action.op for lane in make_order(schedule.name, small_shape(schedule)).lanes for action in lane}
    assert name != "flush" or not ops & {"I", "W"}
    assert name != "zero bubble" or {"I", "W"} <= ops


@pytest.mark.parametrize("schedule", [item for item in SCHEDULES if not item.dispatch], ids=lambda s: s.name)
@pytest.mark.parametrize("positions", [2, 3, 4])
def test_small_shapes_can_be_ordered(schedule: Schedule, positions: int) -> None:
    shape = small_shape(schedule, positions)
    assert not schedule.unmet(shape)
    assert len(shape.lanes) >= positions


def test_the_list_says_the_group(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "schedules", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["schedules"]
    assert [row["group"] for row in rows] == [group_of(SCHEDULES.get(row["name"])).name for row in rows]
    assert [row["name"] for row in rows] == [item.name for _, found in grouped() for item in found]


def test_the_list_says_the_name_in_torch(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "schedules"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    start, end = head.index("torch_name"), head.index("needs")
    shown = {line[head.index("name") :].split()[0]: line[start:end].strip() for line in lines}
    assert shown == {item.name: item.torch_name for item in SCHEDULES}
