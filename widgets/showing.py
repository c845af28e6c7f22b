"""What stands on the page: the state shown, drawn in order of urgency, with sentences and errors about it.

A gesture waits for board and tiles only. The other views follow as soon as the event loop is free, and the
change that helps most is found in the next quiet moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from threading import RLock
from typing import Any, Protocol

from explorer.base.compiling import expect
from explorer.base.errors import ExplorerError

from .accuracy import Accuracy
from .fields import bar_view
from .jobs import Idle, at_once
from .layer_card import LayerCard
from .measured import Measured, measured
from .paint import Comparisons, Errors, paint, paint_graph, paint_rest
from .panel import Panel
from .parts import Parts
from .picker_words import PickerWords
from .reasons import Reasons
from .run.panel import RunPanel
from .search.panel import SearchPanel
from .session import History, Point

HOLD_S = 1.0
"""Seconds after a sign of a gesture under way in which no idle work begins: it may be dropped at any
moment.
"""
EDITS = 40
"""Edits that follow one: their simulations are counted on, so that what times the tasks of a large plan is
compiled in the background before the next drop, not after a dozen of them.
"""
FOLLOW_S = 0.04
"""Seconds that the page has to draw an answer before the other views are made: both need the same cores."""


class Shown(Protocol):
    """The workbench as its drawing sees it."""

    lock: RLock
    """Lock held by all code that touches the workbench."""
    history: History
    """States; the present one is drawn."""
    parts: Parts
    """Parts on which it draws."""
    panels: tuple[Panel, ...]
    """Tabs, which are told about every state."""
    run_panel: RunPanel
    """The Run tab, for what was measured."""
    search_panel: SearchPanel
    """The Search tab, for whether it is at work."""
    runs: Path | None
    """History of runs from which bands are learned."""
    selection: list[str]
    """Ids of selected blocks and layers."""
    error: str
    """The last error."""

    def show(self, point: Point) -> None:
        """Make a state the present one."""
        ...

    def tell(self, now: Point) -> None:
        """Update the traits to the state shown."""
        ...


class Showing:
    """Drawing of a workbench. It changes no state except what was typed, errors and sentences."""

    def __init__(self, bench: Shown) -> None:
        self._bench = bench
        self.comparisons = Comparisons()
        """Baselines that the tiles compare with."""
        self.asked: dict[str, str] = {"model": "", "cluster": ""}
        """What was chosen while nothing is loaded yet."""
        self.typed: dict[str, Any] = {}
        """Values of fields that were refused, by key: they stay as typed."""
        self.errors: dict[str, str] = {}
        """What is wrong with these values."""
        self.said: dict[str, Any] | None = None
        """Verdict of a search or run, until the next edit."""
        self.own: Measured | None = None
        """The last step that somebody measured, and what it changed."""
        self.own_error = ""
        """What was wrong with what was typed as measured."""
        self.reasons = Reasons()
        """Reasons why the plan is as it is, and what would help."""
        self.pickers = PickerWords()
        """What is known of the models and clusters that can be picked."""
        self.accuracy = Accuracy(bench.runs)
        """Error bands of the figures."""
        self.card = LayerCard(bench, self.failed)
        """The card of a layer in the graph."""
        self._soon = Idle(bench.lock, self.failed, rest_s=FOLLOW_S)
        self._idle = Idle(bench.lock, self.failed)

    def settled(self, now: Point, before: Point | None) -> None:
        """Draw a new present state."""
        bench = self._bench
        self.typed, self.errors, self.said, self.own_error = {}, {}, None, ""
        self.reasons.settled(now, before)
        bench.tell(now)
        self._clear_notices()
        if before is None or before.inputs.graph is not now.inputs.graph:
            self._keep_selected(now)
        if before is not None and before.inputs is not now.inputs:
            for panel in bench.panels:
                self.guard(panel.forget)
        if now.note.endswith("now 1f1b") and before is not None:
            bench.parts.board.notice = {"level": "info", "text": now.note}
        paint(bench.parts, bench.history, self.comparisons)
        self.redraw(former=before)
        expect(EDITS * now.report.timeline.program.size)
        if not self._soon.later(lambda: self._follow(now)):
            at_once(lambda: self._follow(now))
        self._idle.later(lambda: self._quiet(now))

    def _keep_selected(self, now: Point) -> None:
        """Keep the part of the selection that the model shown has."""
        graph, chosen = now.inputs.graph, self._bench.selection
        left = [name for name in chosen if name in graph.index or name in graph.blocks]
        if left != chosen:
            self._bench.selection = left

    def _follow(self, now: Point) -> Iterator[None]:
        """Draw what a gesture need not wait for, in slices that the next gesture ends."""
        bench = self._bench
        if now is not bench.history.now:
            return
        yield from paint_rest(bench.parts, now, self.layer_errors(now))
        self.card.settled()
        self.mark()
        yield
        self.redraw()
        bench.parts.fill_tab()
        for panel in bench.panels:
            yield
            self.guard(partial(panel.settled, now))

    def _quiet(self, point: Point) -> Iterator[None]:
        """Find reasons, and whatever else is too slow to stand between two drags; the next edit ends this."""
        bench = self._bench
        shown = self.reasons.rows
        for _ in self.reasons.work(point):
            if self.reasons.rows is not shown:
                shown = self.reasons.rows
                self.redraw()
            yield
        self.redraw()
        yield
        yield from self.accuracy.work(point)
        self.redraw()
        for _ in self.pickers.work():
            yield
        self.redraw()
        for panel in bench.panels:
            yield
            self.guard(partial(panel.idle, point))

    def explain(self, point: Point) -> None:
        """Find all reasons now, without a pause."""
        if point is self._bench.history.now:
            at_once(lambda: self._quiet(point))

    def redraw(self, former: Point | None = None) -> None:
        """Draw bar and sentence; the rest is drawn when the state changes.

        Args:
            former: state whose schedules are offered until the next drawing, if those of the present one are
                not known: a gesture waits for this.
        """
        bench = self._bench
        bar = bar_view(
            bench.history.now, asked=self.asked, typed=self.typed, errors=self.errors, busy=self._busy(),
            can_undo=bench.history.can_undo, can_redo=bench.history.can_redo,
            comparing=bench.history.now is not None and bench.history.now.other is not None, former=former,
            words=self.pickers,
        )  # fmt: skip
        if bar != bench.parts.controls.view or self.errors:
            bench.parts.controls.view = bar
        bench.parts.say(bench.history.now, self.said, self.reasons, self._tiles(), self._own())

    def measure(self, time: str, memory: str, log: str) -> None:
        """Show the plan on the profile that a measured step corrects; what is wrong is said at the field."""
        bench = self._bench
        now = bench.history.now
        if now is None:
            return
        try:
            self.own = measured(now, time=time, memory=memory, log=log, folder=Path.cwd())
        except ExplorerError as error:
            self.own_error = str(error)
            self.redraw()
            return
        bench.show(self.own.point)

    def _own(self) -> dict[str, Any] | None:
        """Return what the page shows of a measured step: while its profile is shown, what it changed."""
        now = self._bench.history.now
        if now is None:
            return None
        if self.own_error:
            return {"error": self.own_error}
        kept = self.own is not None and self.own.point.inputs.cluster is now.inputs.cluster
        return self.own.view() if self.own is not None and kept else {}

    def _tiles(self) -> list[dict[str, Any]]:
        """Return the figures with their error bands, and what the last run measured."""
        now, tiles = self._bench.history.now, self._bench.parts.figures["tiles"]
        if now is None:
            return list(tiles)
        run = self._bench.run_panel
        return self.accuracy.on(tiles, now, run.measured(now), old=run.old(now))

    def _busy(self) -> str:
        bench = self._bench
        return "search" if bench.search_panel.task.running else "run" if bench.run_panel.task.running else ""

    def mark(self) -> None:
        """Mark in the other views what holds the selection."""
        now = self._bench.history.now
        if now is not None:
            self._bench.parts.mark(now, self._bench.selection)

    def graph(self) -> None:
        """Draw the layer graph again after the page opened or closed a block."""
        now = self._bench.history.now
        if now is not None:
            paint_graph(self._bench.parts, now, self.layer_errors(now))

    def layer_errors(self, now: Point) -> Errors:
        """Return what the last run says of the layers of a state."""
        run = self._bench.run_panel
        found = run.errors(now)
        return Errors(by_layer=found, missing="" if found else run.no_errors(now))

    def repaint(self) -> None:
        """Draw tiles and graph again after a run has measured the state shown."""
        now = self._bench.history.now
        if now is not None:
            self.graph()
            self.redraw()
            self._idle.later(lambda: self._quiet(now))

    def failed(self, error: Exception, key: str = "", value: Any = None) -> None:
        """Show an error in the strip, and at the field where it was typed. Nothing else changes."""
        text = str(error) if isinstance(error, ExplorerError) else f"{type(error).__name__}: {error}"
        self._bench.error = text
        if key:
            allowed = getattr(error, "allowed", None)
            self.typed[key], self.errors[key] = value, (f"allowed: {allowed}" if allowed else text)[:120]
        self._bench.parts.controls.notice = {"level": "error", "text": text}
        self.redraw()

    def guard(self, work: Callable[[], Any]) -> None:
        """Do something for the page; show errors there."""
        with self._bench.lock:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - callbacks have nowhere else to report
                self.failed(error)

    def _clear_notices(self) -> None:
        self._bench.error = ""
        parts = self._bench.parts
        for widget in (parts.controls, parts.board, parts.timeline, parts.graph):
            if widget.notice is not None:
                widget.set_trait("notice", None)  # which the types of traitlets do not know to be allowed

    def hold_off(self) -> None:
        """Pause idle work during a drag: it would stand in the way of the drop."""
        self._soon.hold_off(HOLD_S)
        self._idle.hold_off(HOLD_S)
        self.card.hold_off(HOLD_S)

    def cancel(self) -> None:
        """Drop what waits to be drawn."""
        self._soon.cancel()
        self._idle.cancel()
        self.card.close()
