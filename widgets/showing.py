"""What stands on the page: the state shown, drawn in order of urgency, and what is said of it or went wrong.

A gesture waits for board and tiles only. The other views follow as soon as the event loop is free, and the
change that helps most is worked out in the next quiet moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from explorer.errors import ExplorerError
from explorer.explain import Sentence

from .fields import bar_view
from .jobs import Idle
from .paint import Comparisons, paint, paint_graph, paint_rest, paint_verdict
from .session import Point

if TYPE_CHECKING:
    from .app import Explorer


class Showing:
    """Draws a workbench. It changes no state but what was typed, what went wrong and what is said."""

    def __init__(self, bench: Explorer) -> None:
        self._bench = bench
        self.comparisons = Comparisons()
        """What the tiles compare with."""
        self.typed: dict[str, Any] = {}
        """Values of fields that were refused, by key: they stay as typed."""
        self.errors: dict[str, str] = {}
        """What is wrong with them."""
        self.said: dict[str, Any] | None = None
        """Verdict of a search or run, until the next edit."""
        self.hint: tuple[Point, Sentence] | None = None
        """The change that helps most, and of which state."""
        self._soon = Idle(bench.lock, self.failed, rest_s=0.0)
        self._idle = Idle(bench.lock, self.failed)

    def settled(self, now: Point, before: Point | None) -> None:
        """Draw a new present state."""
        bench = self._bench
        self.typed, self.errors, self.hint, self.said = {}, {}, None, None
        if before is not None and before.inputs is not now.inputs:
            bench.search_panel.clear()
        bench.tell(now)
        self._clear_notices()
        if now.note.endswith("now 1f1b") and before is not None:
            bench.parts.board.notice = {"level": "info", "text": now.note}
        paint(bench.parts, bench.history, self.comparisons)
        self.redraw()
        if not self._soon.later(lambda: self._follow(now)):
            self._follow(now)
        self._idle.later(lambda: self.explain(now))

    def _follow(self, now: Point) -> None:
        """Draw what a gesture need not wait for."""
        bench = self._bench
        if now is bench.history.now:
            paint_rest(bench.parts, now)
            self.mark()
            bench.search_panel.draw(now.report)
            bench.export_panel.outdate()

    def explain(self, point: Point) -> None:
        """The change that helps most, worked out when nothing else is to be done."""
        bench = self._bench
        if point is not bench.history.now:
            return
        bench.search_panel.draw_figure()
        verdict, best = paint_verdict(point)
        self.hint = (point, best) if best is not None else None
        bench.parts.explained = (point, verdict)
        self.redraw()

    def redraw(self) -> None:
        """Bar and sentence; the rest is drawn when the state changes."""
        bench = self._bench
        bar = bar_view(
            bench.history.now, typed=self.typed, errors=self.errors, searcher=bench.searcher,
            busy=self._busy(), can_undo=bench.history.can_undo, can_redo=bench.history.can_redo,
        )  # fmt: skip
        if bar != bench.parts.controls.view or self.errors:
            bench.parts.controls.view = bar
        bench.parts.say(bench.history.now, self.said)

    def _busy(self) -> str:
        bench = self._bench
        return "search" if bench.search_panel.task.running else "run" if bench.run_panel.task.running else ""

    def mark(self) -> None:
        """Mark in the other views what holds the selection."""
        now = self._bench.history.now
        if now is not None:
            self._bench.parts.mark(now, self._bench.selection)

    def graph(self) -> None:
        """The layer graph anew, as the page opened or closed a block."""
        now = self._bench.history.now
        if now is not None:
            paint_graph(self._bench.parts, now)

    def search_step(self) -> None:
        """What a search found since it was drawn last."""
        bench = self._bench
        task = bench.search_panel.task
        if task.error is not None:
            error, task.error = task.error, None
            self.failed(error)
        if bench.history.now is not None:
            bench.search_panel.draw(bench.history.now.report)
            bench.search_panel.draw_figure()
        self.said = bench.search_panel.verdict(bench.search_budget_s)
        self.redraw()

    def run_step(self) -> None:
        """How far a run is, or what it says."""
        self.said = self._bench.run_panel.verdict()
        self.redraw()

    def failed(self, error: Exception, key: str = "", value: Any = None) -> None:
        """Say what went wrong: in the strip, and at the field where it was typed. Nothing else changes."""
        text = str(error) if isinstance(error, ExplorerError) else f"{type(error).__name__}: {error}"
        self._bench.error = text
        if key:
            allowed = getattr(error, "allowed", None)
            self.typed[key], self.errors[key] = value, (f"allowed: {allowed}" if allowed else text)[:120]
        self._bench.parts.controls.notice = {"level": "error", "text": text}
        self.redraw()

    def guard(self, work: Callable[[], Any]) -> None:
        """Do something for the page; what goes wrong is shown there."""
        with self._bench.lock:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - callbacks have nowhere else to report
                self.failed(error)

    def _clear_notices(self) -> None:
        self._bench.error = ""
        for widget in (self._bench.parts.controls, self._bench.parts.board):
            if widget.notice is not None:
                widget.notice = None

    def cancel(self) -> None:
        """Forget what waits to be drawn."""
        self._soon.cancel()
        self._idle.cancel()
