"""The Search tab: leaderboard, live best so far, frontier, and loading a result."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from typing import Any

from ipywidgets import HTML, Layout, VBox

from explorer.errors import InputError
from explorer.report import Report
from explorer.search import Problem
from explorer.strategy import Strategy
from explorer.units import format_seconds
from explorer.views.search_table import frontier_points, search_rows

from .controls import Controls
from .panels import percent, search_html
from .searching import SearchTask


class SearchPanel:
    """Owns the search and what the tab shows of it; `load` is told which strategy to put on the board."""

    def __init__(
        self, lock: Any, changed: Callable[[], None], load: Callable[[str, Strategy, str], None]
    ) -> None:
        self.task = SearchTask(lock, changed)
        self._load = load
        self._chosen = ""
        self._yours: Report | None = None
        self._theme = "light"
        self.controls = Controls()
        self.table = HTML(layout=Layout(width="100%"))
        self.figure: Any = None
        self.box = VBox([self.table, self.controls], layout=Layout(width="100%"))
        self.draw(None)

    def start(self, problem: Problem, searcher: str, budget_s: float) -> None:
        """Begin a search; the first one also makes the chart."""
        self.task.start(problem, searcher, budget_s=budget_s, prepare=self._make_figure)

    async def _make_figure(self) -> None:
        """The chart, on first use: its library takes seconds to load, on a thread that touches no widget."""
        if self.figure is not None:
            return
        charts = await asyncio.to_thread(importlib.import_module, "widgets.charts")
        await asyncio.to_thread(charts.warm_up)
        self.figure = charts.search_figure()
        self.box.children = (self.table, self.controls, self.figure)

    def clear(self) -> None:
        """Forget what was found for other inputs."""
        self.task.clear()
        self._chosen = ""
        self.draw(None)

    def set(self, key: str, value: Any) -> bool:
        """Take a field of this tab; whether it was one."""
        if key != "result":
            return False
        self._chosen = str(value)
        self.draw(self._yours)
        return True

    def set_theme(self, theme: str) -> None:
        """Follow the page's theme; plotly does not by itself."""
        self._theme = theme
        self.draw_figure()

    def results(self) -> dict[str, tuple[str, Strategy, str]]:
        """What can be loaded: name -> (searcher, strategy, label); bests first, then frontiers."""
        found: dict[str, tuple[str, Strategy, str]] = {}
        for name, run in self.task.runs.items():
            if run.best is not None:
                found[f"{name}: best, {run.best.label}"] = (name, run.best.strategy, run.best.label)
        for name, run in self.task.runs.items():
            for item in run.frontier:
                seconds = format_seconds(item.report.step_time_s)
                found.setdefault(f"{name}: {seconds}, {item.label}", (name, item.strategy, item.label))
        return found

    def load_chosen(self) -> None:
        """Put the chosen result on the board."""
        results = self.results()
        if not results:
            raise InputError("no search has found anything yet", key="result")
        self._load(*results.get(self._chosen, next(iter(results.values()))))

    def draw(self, yours: Report | None) -> None:
        """Everything of this tab anew."""
        self._yours = yours
        progress = self.task.progress
        status = ""
        if progress is not None:
            state = "searching" if self.task.running else "done"
            costed = f"{progress.evaluations} strategies costed in {format_seconds(progress.wall_s)}"
            status = f"{progress.searcher}: {state}, {costed}"
        self.table.value = search_html(search_rows(list(self.task.runs.values()), yours=yours), status)
        names = list(self.results())
        if names and self._chosen not in names:
            self._chosen = names[0]
        field = {
            "key": "result", "label": "Result", "kind": "select", "value": self._chosen, "width_px": 420,
            "options": [{"value": name, "label": name} for name in names],
        }  # fmt: skip
        button = {"action": "load_result", "label": "Load on the board", "suggested": True}
        self.controls.view = (
            {"fields": [field], "buttons": [button]} if names else {"fields": [], "buttons": []}
        )
        self.controls.layout.display = "" if names else "none"

    def draw_figure(self) -> None:
        """The chart anew; slower than all else together, so not at every drag."""
        if self.figure is None:
            return
        from .charts import update_figure

        own = self._yours
        update_figure(
            self.figure, self.task.curves, frontier_points(self.task.runs.values()),
            yours=(own.step_time_s, max(own.peak_memory_bytes)) if own else None, theme=self._theme,
        )  # fmt: skip

    def verdict(self, budget_s: float) -> dict[str, Any] | None:
        """The sentence of a search under way or just done."""
        progress, yours = self.task.progress, self._yours
        if progress is None:
            stop = {"action": "stop", "label": "Stop"}
            text = f"**Searching with {self.task.name}.** Getting ready."
            return {"level": "busy", "text": text, "actions": [stop]} if self.task.running else None
        running, best = self.task.running, progress.best
        doing = "Searching" if running else "Searched"
        text = f"**{doing} with {progress.searcher}.** {progress.evaluations} strategies costed; "
        if best is None:
            text += "nothing that fits yet."
        else:
            step = best.report.step_time_s
            text += f"best so far **{format_seconds(step)}** a step, {best.label}"
            if yours is not None:
                text += f" ({percent(step / yours.step_time_s - 1)} against yours)"
            text += "."
        if progress.optimal:
            text += " Proven optimal in its space."
        use = {"action": "use_best", "label": "Use best so far" if running else "Use best", "suggested": True}
        stop = {"action": "stop", "label": "Stop"}
        return {
            "level": "busy" if running else "ok" if best else "warn",
            "text": text,
            "note": f"{progress.wall_s:.0f} of {budget_s:.0f} s" if running else f"{progress.wall_s:.1f} s",
            "progress": min(1.0, progress.wall_s / budget_s) if running else None,
            "actions": ([use] if best else []) + ([stop] if running else []),
        }
