"""Buttons of the Search tab, some of them only while a search is at work or a result is selected. Pure."""

from __future__ import annotations

from typing import Any

from .task import SearchTask
from .words import Settings


def buttons(task: SearchTask, settings: Settings, selected: str) -> list[dict[str, Any]]:
    """Return the buttons as `Controls` draws them.

    Args:
        task: the searches.
        settings: settings of the tab.
        selected: row of the leaderboard that is selected.
    """
    running, named = task.running, settings.compared
    wait = "A search is at work; Stop ends it" if running else ""
    found: list[dict[str, Any]] = [
        {"action": "search", "label": "Search", "suggested": True, "enabled": not running,
         "title": wait or "Ask the searcher chosen here"},
        {"action": "compare_all", "label": f"Compare {len(named)}" if named else "Compare all",
         "enabled": not running, "title": wait or f"{_who(named)} in turn, within the budget"},
    ]  # fmt: skip
    stop = {"action": "stop", "label": "Stop", "title": "What was found stays"}
    skip = {
        "action": "skip", "label": f"Skip {task.name}",
        "title": "What it found stays; the next searcher begins",
    }  # fmt: skip
    run = task.runs.get(selected)
    if run is not None and run.best is not None:
        found.append(
            {"action": "compare_found", "label": f"A/B with {selected}",
             "title": "What differs from the plan shown, in words and numbers"}
        )  # fmt: skip
    return ([stop] if running else []) + ([skip] if running and len(task.queue) > 1 else []) + found


def _who(named: tuple[str, ...]) -> str:
    return ", ".join(named) or "Every searcher"
