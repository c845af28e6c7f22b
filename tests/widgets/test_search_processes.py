"""The Search tab's number of processes: read, refused, handed on; and what is found is the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from widgets import Explorer


async def _searched(explorer: Explorer) -> None:
    explorer.search_panel.start(["megatron"])
    for _ in range(10_000):
        if not explorer.search_panel.task.running:
            return
        await asyncio.sleep(0.02)


def _field(explorer: Explorer) -> dict[str, Any]:
    fields = explorer.search_panel.controls.view["fields"]
    return next(field for field in fields if field["key"] == "search_jobs")


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "100000"])
def test_wrong_numbers_are_said_at_the_field(value: str) -> None:
    explorer = Explorer("gpt2-small", "dgx-a100", session=None)
    explorer.search_panel.set("search_jobs", value)
    assert "1 to 256" in _field(explorer)["error"]
    assert explorer.search_panel.settings.jobs == 1


def test_two_processes_find_the_same() -> None:
    found = []
    for jobs in ("1", "2"):
        explorer = Explorer("gpt2-small", "dgx-a100", session=None)
        explorer.search_budget_s = 60.0
        explorer.search_panel.set("search_jobs", jobs)
        assert explorer.search_panel.settings.jobs == int(jobs)
        asyncio.run(_searched(explorer))
        run = explorer.search_panel.task.runs["megatron"]
        assert run.best is not None
        found.append((run.evaluations, run.best.strategy, run.best.value))
        assert explorer.search_panel.leaderboard.view["rows"]
    assert found[0] == found[1]
