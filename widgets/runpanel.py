"""The Run tab: a short real run and what it says of the prediction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipywidgets import HTML, Layout, VBox

from explorer.errors import InputError
from explorer.plan import Resolved

from .controls import Controls
from .edits import whole_number
from .runner import ENGINES, RunTask
from .runwords import figure_words, run_html, verdict_words

_WHAT = {
    "interpreter": "real compute and transport of a small likeness, beside a baseline",
    "dry": "real processes and transport, compute replaced by sleeps",
}


class RunPanel:
    """Owns the run and what the tab shows of it."""

    def __init__(self, lock: Any, changed: Callable[[], None]) -> None:
        self._tell = changed
        self.task = RunTask(lock, self._changed)
        self.engine, self.rounds = ENGINES[0], 5
        self._error = ""
        self.controls = Controls()
        self.result = HTML(layout=Layout(width="100%"))
        self.box = VBox([self.controls, self.result], layout=Layout(width="100%"))
        self.draw()

    def start(self, resolved: Resolved) -> None:
        """Begin a run of a plan.

        Raises:
            ExplorerError: it cannot be run here.
        """
        self.task.start(resolved, engine=self.engine, rounds=self.rounds)
        self.draw()

    def stop(self) -> None:
        """End every rank."""
        self.task.stop()
        self.draw()

    def set(self, key: str, value: Any) -> bool:
        """Take a field of this tab; whether it was one.

        Raises:
            InputError: a value that cannot be; it is said at the field too.
        """
        if key == "engine":
            if value not in ENGINES:
                raise InputError(
                    f"unknown engine {value!r}", key=key, found=value, allowed=", ".join(ENGINES)
                )
            self.engine = str(value)
        elif key == "rounds":
            try:
                self.rounds, self._error = whole_number(key, value), ""
            except InputError as error:
                self._error = str(error.allowed)
                self.draw()
                raise
        else:
            return False
        self.draw()
        return True

    def _changed(self) -> None:
        self.draw()
        self._tell()

    def draw(self) -> None:
        """Everything of this tab anew."""
        running = self.task.running
        kinds = [{"value": name, "label": f"{name}: {_WHAT[name]}"} for name in ENGINES]
        self.controls.view = {
            "fields": [
                {"key": "engine", "label": "Kind of run", "kind": "select", "value": self.engine,
                 "width_px": 420, "options": kinds},
                {"key": "rounds", "label": "Rounds", "kind": "number", "value": self.rounds, "minimum": 1,
                 "maximum": 100, "step": 1, "width_px": 56, "error": self._error or None},
            ],
            "buttons": [
                {"action": "run", "label": "Run", "suggested": True, "enabled": not running},
                {"action": "stop", "label": "Stop", "enabled": running},
            ],
        }  # fmt: skip
        self.result.value = run_html(self.task.state)

    def verdict(self) -> dict[str, Any] | None:
        """The sentence of a run under way or just done."""
        state, found = self.task.state, self.task.comparison
        if self.task.running:
            stop = [{"action": "stop", "label": "Stop"}]
            text = f"**Running.** {state.get('status', '')}"
            return {"level": "busy", "text": text, "progress": state.get("fraction"), "actions": stop}
        if state.get("error"):
            return {"level": "bad", "text": f"**The run failed.** {state['error']}", "actions": []}
        if found is None:
            return None
        text = f"**{verdict_words(found)}** {figure_words(found)}"
        level = {"confirmed": "ok", "wrong numbers": "bad"}.get(found.verdict, "warn")
        return {"level": level, "text": text, "actions": []}
