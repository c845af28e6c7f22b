"""`Explorer`: the whole workbench as one widget. It holds the history; edits compute, views draw.

Every state is a trait that can be read, observed and set: `explorer.strategy = ...` moves the chips. The
parts (`.board`, `.tiles`, `.timeline`, `.graph`, `.memory`, `.traffic`, ...) can also be displayed alone.
`showing.py` draws it, `gestures.py` answers the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import RLock
from typing import Any
from uuid import uuid4

from explorer.base.compiling import compile_in_background
from explorer.base.errors import InputError
from explorer.base.trust import Trust
from explorer.base.units import format_seconds
from explorer.explain.names import counted
from explorer.plan import Resolved
from explorer.views.tiles import Baseline

from . import loading
from .base import Widget
from .compare.panel import ComparePanel, with_other
from .edits import degrees_of, lock_lane, pin_layers, set_field
from .export.panel import ExportPanel
from .gestures import Gestures
from .history.file import Look
from .history.load import Restored
from .history.opened import Opened
from .history.panel import HistoryPanel
from .history.saving import Saving
from .library.panel import LibraryPanel
from .opening import file_point, first_point, wished_point
from .panel import Panel
from .parts import Parts, arrange
from .run.panel import RunPanel
from .schedules.panel import SchedulesPanel
from .search.panel import SearchPanel
from .search.words import LONGEST_S
from .session import History, Point, after
from .showing import Showing
from .state_traits import StateTraits
from .tour import Tour
from .whatif.panel import WhatIfPanel
from .wiring import wire
from .working import Make

DEFAULT_SEARCHER = "auto"


class Explorer(StateTraits):
    """The workbench.

    Args:
        model: zoo name, file, `hf:PATH` or `module.path:factory` (which runs that code).
        cluster: bundled profile or file; a partitioning file brings its own.
        plan: a plan file to open instead.
        session: file in which all states are saved as they are made (`.yaml`, `.json`). True is a file in
            `.explorer`, next to the notebook, named after these arguments, and only in a notebook; None or
            False is none.
        reopen: continue at once with what that file holds; otherwise the workbench offers it.
        runs: a history of runs (`explorer validate --history`): runs made here are added to it, and error
            bands of the figures are learned from enough of them on the same kind of machine.
        trust: whether `plan` may name code as its model, which is then run: no; yes; or these references,
            which you name yourself, as you do with `model`.
        workload: fields of the workload over the model's own (`global_batch=64`, `sequence_length=4096`,
            `precision="bf16"`, ...).

    The workbench shows what is wrong with any of these, and then waits for a better choice.
    """

    def __init__(
        self,
        model: str = "gpt2-small",
        cluster: str | None = None,
        *,
        plan: str | Path | None = None,
        session: str | Path | bool | None = True,
        reopen: bool = False,
        runs: str | Path | None = None,
        trust: Trust = False,
        **workload: Any,
    ) -> None:
        self.history = History()
        self.runs = Path(runs) if runs is not None else None
        # JupyterLab may run gestures on a thread of their own while cells run on the main one
        self.lock = RLock()
        self.parts = Parts(bench=uuid4().hex[:12])
        compile_in_background()  # a gesture is not kept waiting
        self.showing = Showing(self)
        self.search_panel = SearchPanel(self)
        self.schedules_panel = SchedulesPanel(self)
        self.what_if_panel = WhatIfPanel(self)
        self.compare_panel = ComparePanel(self)
        self.run_panel = RunPanel(self)
        self.export_panel = ExportPanel(self)
        self.library_panel = LibraryPanel(self)
        self.saving = Saving(self)
        self.history_panel = HistoryPanel(self)
        self.panels: tuple[Panel, ...] = (
            self.search_panel, self.schedules_panel, self.what_if_panel, self.compare_panel, self.run_panel,
            self.export_panel, self.library_panel, self.history_panel,
        )  # fmt: skip
        self.tour = Tour(self, self._tour_moved)
        self.parts.tour = self.tour.view
        self.gestures = Gestures(self)
        super().__init__(**arrange(self.parts, [(panel.title, panel.box) for panel in self.panels]))
        wire(self, tuple(self._ours()))
        for name in ("model", "cluster", "workload", "strategy", "other", "plan", "searcher"):
            self.observe(self._trait_set, name)
        self.asked_workload: dict[str, Any] = {}
        if plan is not None:
            named = trust if isinstance(trust, bool) else (*trust, model)
            self._open(lambda: file_point(plan, trust=named or (model,)))
        else:
            with loading.said(f"{model} on {cluster}" if cluster else model, slow=":" in model):
                self._open(lambda: first_point(model, cluster or "", workload))
            if self.history.now is None:
                self._keep_asked(model, cluster or "", workload)
        asked = {"model": model, "cluster": cluster, "plan": plan, **workload}
        self.guard(lambda: self.saving.start(session=session, asked=asked, reopen=reopen))
        former = self.saving.former
        self.tour.seen = self.tour.seen or (former is not None and former.look.toured)
        if self.saving.first is not None and self.saving.offer is None and not reopen:
            self.tour.offer()

    # -- parts, for use alone ---------------------------------------------------------------------

    controls = property(lambda self: self.parts.controls, doc="Pickers and buttons.")
    tiles = property(lambda self: self.parts.tiles, doc="KPI tiles and the verdict.")
    board = property(lambda self: self.parts.board, doc="Lanes of block chips; drag moves layers.")
    timeline = property(lambda self: self.parts.timeline, doc="Actions and transfers of a step.")
    graph = property(lambda self: self.parts.graph, doc="Layer graph by block.")
    memory = property(lambda self: self.parts.memory, doc="Memory, device by time.")
    traffic = property(lambda self: self.parts.traffic, doc="Traffic, device by device.")

    # -- what happens -----------------------------------------------------------------------------

    def undo(self) -> bool:
        """Go back to the previous state; return whether there was one."""
        return self._step(-1)

    def redo(self) -> bool:
        """Go forward again; return whether there was a state to go to."""
        return self._step(1)

    def set(self, **fields: Any) -> None:
        """Set pickers by key, as in the bar: `explorer.set(stages=2, schedule="gpipe")`.

        Raises:
            ExplorerError: an impossible value; nothing is changed then.
        """
        with self.lock:
            for key, value in fields.items():
                self.show(set_field(self.now(), key, value))

    def open_plan(self, path: str | Path) -> None:
        """Open a plan file.

        Raises:
            InputError: the file cannot be read.
        """
        self.show(file_point(path))

    def open_file(self, intent: Mapping[str, Any], made: Callable[[], Opened] | None = None) -> None:
        """Open the file that a gesture asks for, as the History tab does.

        Args:
            intent: the gesture, of a kind of `history.opened.OPENS`.
            made: function that returns what the file holds, or raises; None to read it now.

        Raises:
            InputError: a dropped file is nothing that can be opened; everything stays as it was.
        """
        self.history_panel.open(intent, made)

    def resolved(self) -> Resolved:
        """Return the plan shown, with its inputs, as `explorer.export.export` and `explorer.run.validate`
        take it.
        """
        return self.now().resolved()

    def pin(self, layers: Any, *, on: bool = True) -> None:
        """Pin layers or whole blocks to their devices, by name; `on=False` releases them.

        Raises:
            InputError: an unknown layer or block.
        """
        with self.lock:
            self._show(pin_layers(self.now(), layers, on=on))

    def lock_lane(self, lane: int, *, on: bool = True) -> None:
        """Lock a lane of the board, so that it keeps exactly its layers; `on=False` unlocks it.

        Raises:
            InputError: no such lane.
        """
        with self.lock:
            self._show(lock_lane(self.now(), lane, on=on))

    def go(self, position: int) -> bool:
        """Show a state of the history, by position, after any number of undo or redo steps; return whether
        there is one.
        """
        return self._step(position - self.history.at)

    def reopen(self) -> None:
        """Continue the session that was saved before.

        Raises:
            InputError: there is none, or nothing of it can be restored.
        """
        self.saving.reopen()

    def save_report(self, path: str | Path) -> None:
        """Write the state shown as one self-contained HTML file, to send to someone.

        Raises:
            InputError: the file cannot be written.
        """
        from .report.document import write_report

        write_report(self, Path(path))

    def compare_with(self, point: Point | None, *, shown: Point | None = None) -> None:
        """Compare the state shown, or `shown` in its place, with a plan B; None ends the comparison."""
        with self.lock:
            self._show(with_other(shown or self.now(), point))

    def search(self) -> None:
        """Start the chosen searcher; the board stays usable meanwhile. Needs a running event loop."""
        self.showing.said = None
        self.search_panel.start([self.searcher])

    def _tour_moved(self) -> None:
        """Show another step of the tour, and remember one that has ended."""
        with self.lock:
            self.showing.redraw()
            if self.tour.seen:
                self.saving.changed(even_the_first=True)

    def use_best(self) -> None:
        """Put the best strategy of the last search on the board."""
        self.search_panel.load_best()

    def tabs_title(self) -> str:
        """Return the title of the open tab."""
        return str(self.parts.tabs.get_title(self.parts.tabs.selected_index or 0))

    def repaint(self) -> None:
        """Draw the state shown again, since a run has measured it."""
        self.showing.repaint()

    def open_tab(self, title: str) -> None:
        """Bring a tab to the front."""
        self.parts.tabs.selected_index = [panel.title for panel in self.panels].index(title)

    def stop(self) -> None:
        """Stop a search or run; its results stay."""
        with self.lock:
            if self.search_panel.task.running:
                self.search_panel.stop()
            if self.run_panel.task.running:
                self.run_panel.stop()
                self.showing.said = None
            self.showing.redraw()

    def close(self) -> None:
        """End search, run, what is worked out, and widgets."""
        self.gestures.working.cancel()
        self.showing.cancel()
        for panel in self.panels:
            panel.close()
        super().close()

    def __repr__(self) -> str:
        now = self.history.now
        if now is None:
            return f"<Explorer: {self.error or 'nothing loaded'}>"
        degrees, report = degrees_of(now), now.report
        return (
            f"<Explorer: {self.model} on {self.cluster},"
            f" {counted(degrees.stages, 'stage')} x {counted(degrees.replicas, 'replica')},"
            f" {format_seconds(report.step_time_s)} a step, {'fits' if report.feasible else 'does not fit'}>"
        )

    def now(self) -> Point:
        """Return the state shown.

        Raises:
            InputError: nothing is loaded yet.
        """
        if self.history.now is None:
            raise InputError("nothing is loaded yet", key="model", allowed="choose a model and a cluster")
        return self.history.now

    def first(self, made: Make | None = None, **wish: str) -> None:
        """Choose a model or a cluster while nothing is loaded; keep the choice, right or wrong.

        Args:
            made: function that returns what was made of it, or raises; None to make it now.
            wish: the choice.

        Raises:
            ExplorerError: something is still wrong.
        """
        self.show(self._first_wish(made, **wish))

    def show(self, point: Point) -> None:
        """Make a state the present one and draw it; keep pins, locks and plan B."""
        self._show(after(point, self.history.now))

    def _show(self, point: Point) -> None:
        with self.lock:
            before = self.history.now
            self.history.push(point)
            self.showing.settled(point, before)
            self.saving.changed()

    def guard(self, work: Callable[[], Any]) -> None:
        """Do something under the lock; show in the page what it raises."""
        self.showing.guard(work)

    def say(self, verdict: Mapping[str, Any] | None) -> None:
        """Put a sentence under the tiles until the next edit; None removes it."""
        self.showing.said = dict(verdict) if verdict is not None else None
        self.showing.redraw()

    def reopens(self) -> None:
        """Tell the page that the session is saved, so that it says what to press once the kernel is gone."""
        for widget in self._ours():
            widget.way_back = "Run the cells again, then press **Reopen**."

    def _ours(self) -> Iterator[Widget]:
        """Yield every widget that sends intents."""
        yield from self.parts.drawn
        for panel in self.panels:
            yield from panel.widgets()

    def look(self) -> Look:
        """Return what is not part of a state, for the saved session."""
        parts = self.parts
        return Look(
            searcher=self.searcher, search_budget_s=self.search_budget_s, selection=tuple(self.selection),
            expanded=tuple(parts.board.expanded), collapsed=tuple(parts.board.collapsed),
            opened=tuple(parts.graph.opened or ()), toured=self.tour.seen,
        )  # fmt: skip

    def resume(self, restored: Restored, look: Look) -> None:
        """Restore a saved session."""
        with self.lock:
            before = self.history.now
            self.history.restore(restored.points, restored.times_s, restored.at)
            self.showing.settled(self.now(), before)
            self.searcher = look.searcher or self.searcher
            if 0 < look.search_budget_s <= LONGEST_S:
                self.search_budget_s = look.search_budget_s
            own = self.now().inputs.graph
            self.selection = [name for name in look.selection if name in own.index or name in own.blocks]
            self.parts.board.expanded, self.parts.board.collapsed = list(look.expanded), list(look.collapsed)
            self.parts.graph.opened = list(look.opened)
            self.tour.seen = self.tour.seen or look.toured

    @property
    def baseline(self) -> Baseline | None:
        """The plan that the tiles compare with: plan B, else the first state, else an even cut of the same
        degrees.
        """
        return self.showing.comparisons.baseline(self.history)

    def _open(self, make: Callable[[], Point]) -> None:
        """Open the first state, or the empty workbench with the error in its strip."""
        try:
            self.show(make())
        except KeyboardInterrupt:
            self.showing.failed(
                InputError("loading was interrupted", allowed="choose a model, or run the cell again")
            )
        except Exception as error:  # noqa: BLE001 - shown in the page
            self.showing.failed(error)

    def _keep_asked(self, model: str, cluster: str, workload: Mapping[str, Any]) -> None:
        """Show in the pickers what was asked, since nothing could be loaded, so that the wrong part is chosen
        anew.
        """
        self.showing.asked = {"model": model, "cluster": cluster}
        if not any(repr(name) in self.error for name in workload):
            self.asked_workload = dict(workload)
        self.showing.redraw()

    def _first_wish(self, made: Make | None = None, **wish: str) -> Point:
        """Return the state that the workbench begins with, from what was chosen so far.

        Raises:
            ExplorerError: any part of it is still missing or wrong; what was chosen is kept.
        """
        asked = self.showing.asked
        asked |= wish
        for name in wish:
            self.showing.typed.pop(name, None)
            self.showing.errors.pop(name, None)
        if not asked["model"]:
            raise InputError("no model is chosen yet", key="model", allowed="choose a model")
        if made is not None:
            return made()
        return first_point(asked["model"], asked["cluster"], self.asked_workload)

    def _step(self, by: int) -> bool:
        with self.lock:
            before = self.history.now
            moved = self.history.step(by)
            if moved:
                self.showing.settled(self.now(), before)
                self.saving.changed()
            return moved

    def _trait_set(self, change: Any) -> None:
        """Handle a trait set from Python; an impossible value is reset and raises."""
        if self._telling:
            return
        name, value = change["name"], change["new"]
        if name == "searcher":
            self.search_panel.draw()
            return
        try:
            with self.lock:
                if name == "other":
                    self.compare_with(self._wished("strategy", value) if value else None)
                else:
                    self.show(self._wished(name, value))
        except Exception:
            if self.history.now is not None:
                self.tell(self.history.now)
            raise

    def _wished(self, name: str, value: Any) -> Point:
        if self.history.now is None and name in ("model", "cluster"):
            return self._first_wish(**{name: value})
        return wished_point(self.now(), name, value)
