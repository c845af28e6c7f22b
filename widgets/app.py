"""`Explorer`: the whole workbench as one widget. It holds the history; edits compute, views draw.

Every state is a trait that can be read, observed and set: `explorer.strategy = ...` moves the chips. The
parts (`.board`, `.tiles`, `.timeline`, `.graph`, `.memory`, `.traffic`, ...) can be displayed alone too.
`showing.py` draws it, `gestures.py` answers the page.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any

import traitlets
from ipywidgets import VBox

from explorer.errors import InputError
from explorer.plan import Plan, Resolved
from explorer.report import Report
from explorer.search import Problem
from explorer.strategy import Strategy
from explorer.units import format_seconds
from explorer.views.tiles import Baseline
from explorer.workload import Workload

from .edits import set_field, shape_of
from .exporting import ExportPanel
from .gestures import Gestures
from .opening import DEFAULT_CLUSTER, file_point, first_point, wished_point
from .parts import Parts, arrange
from .runpanel import RunPanel
from .searchpanel import SearchPanel
from .session import History, Point, make_point
from .showing import Showing

DEFAULT_SEARCHER = "auto"


class Explorer(VBox):
    """The workbench.

    Args:
        model: zoo name, file, `hf:PATH` or `module.path:factory` (which runs that code).
        cluster: bundled profile or file; a partitioning file brings its own.
        plan: a plan file to open instead.
        workload: fields of the workload over the model's own (`global_batch=64`, `sequence_length=4096`,
            `precision="bf16"`, ...).

    What is wrong with any of these is said in the workbench, which then waits for a better choice.
    """

    model = traitlets.Unicode(help="Model reference. Setting it loads the model and starts afresh.")
    cluster = traitlets.Unicode(help="Cluster reference. Setting it starts afresh on those devices.")
    workload = traitlets.Instance(
        Workload, allow_none=True, help="What is asked. Setting it keeps the placement."
    )
    strategy = traitlets.Instance(
        Strategy, allow_none=True, help="What is chosen. Setting it moves the chips."
    )
    report = traitlets.Instance(Report, allow_none=True, help="What is predicted of it (read only).")
    plan = traitlets.Instance(
        Plan, allow_none=True, help="The plan of the state shown. Setting it opens a plan."
    )
    selection = traitlets.List(traitlets.Unicode(), help="Ids of selected blocks and layers, in all views.")
    searcher = traitlets.Unicode(DEFAULT_SEARCHER, help="Searcher that Search starts.")
    search_budget_s = traitlets.Float(20.0, help="Seconds after which a search stops by itself.")
    error = traitlets.Unicode(
        help="What went wrong last, as shown in the strip; empty if nothing (read only)."
    )

    def __init__(
        self,
        model: str = "gpt2-small",
        cluster: str | None = None,
        *,
        plan: str | Path | None = None,
        **workload: Any,
    ) -> None:
        self.history = History()
        # JupyterLab may run gestures on a thread of their own while cells run on the main one
        self.lock = RLock()
        self.parts = Parts()
        self._telling = False
        self.search_panel = SearchPanel(self.lock, self._search_changed, self._load)
        self.run_panel = RunPanel(self.lock, self._run_changed)
        self.export_panel = ExportPanel(lambda: self.history.now)
        self.showing, self.gestures = Showing(self), Gestures(self)
        super().__init__(
            **arrange(self.parts, self.search_panel.box, self.run_panel.box, self.export_panel.box)
        )
        self._wire()
        self._open(
            lambda: file_point(plan) if plan is not None else first_point(model, cluster or "", workload)
        )

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
        """Back to the state before; whether there was one."""
        return self._step(-1)

    def redo(self) -> bool:
        """Forth again; whether there was a state to go to."""
        return self._step(1)

    def set(self, **fields: Any) -> None:
        """Set pickers by key, as in the bar: `explorer.set(stages=2, schedule="gpipe")`.

        Raises:
            ExplorerError: a value that cannot be; nothing is changed then.
        """
        with self.lock:
            for key, value in fields.items():
                self.show(set_field(self.now(), key, value))

    def open_plan(self, path: str | Path) -> None:
        """Open a plan file.

        Raises:
            InputError: it cannot be read.
        """
        self.show(file_point(path))

    def resolved(self) -> Resolved:
        """The plan shown, with its inputs: what `explorer.export.export` and `explorer.run.validate` take."""
        return self.now().resolved()

    def search(self) -> None:
        """Start the chosen searcher; the board stays yours meanwhile. Needs a running event loop."""
        self.showing.said = None
        now = self.now()
        problem = Problem(
            graph=now.inputs.graph,
            cluster=now.inputs.cluster,
            workload=now.inputs.workload,
            start=now.strategy,
        )
        self.search_panel.start(problem, self.searcher, self.search_budget_s)
        self.parts.tabs.selected_index = 0
        self.showing.said = self.search_panel.verdict(self.search_budget_s)
        self.showing.redraw()

    def use_best(self) -> None:
        """Put the best strategy of the last search on the board."""
        progress = self.search_panel.task.progress
        if progress is None or progress.best is None:
            raise InputError("no search has found a strategy that fits yet")
        self._load(progress.searcher, progress.best.strategy, progress.best.label)

    def tabs_title(self) -> str:
        """Title of the tab that is open."""
        return str(self.parts.tabs.get_title(self.parts.tabs.selected_index or 0))

    def stop(self) -> None:
        """Stop a search or run; what was found stays."""
        with self.lock:
            if self.search_panel.task.running:
                self.search_panel.task.stop()
                self.showing.guard(self.showing.search_step)
            if self.run_panel.task.running:
                self.run_panel.stop()
                self.showing.said = None
            self.showing.redraw()

    def close(self) -> None:
        """End search, run and widgets."""
        self.showing.cancel()
        self.search_panel.task.stop()
        self.run_panel.stop()
        super().close()

    def __repr__(self) -> str:
        now = self.history.now
        if now is None:
            return f"<Explorer: {self.error or 'nothing loaded'}>"
        shape, report = shape_of(now.strategy, now.groups), now.report
        return (
            f"<Explorer: {self.model} on {self.cluster}, {shape.stages} stages x {shape.replicas} replicas,"
            f" {format_seconds(report.step_time_s)} a step, {'fits' if report.feasible else 'does not fit'}>"
        )

    # -- what its halves use ----------------------------------------------------------------------

    def now(self) -> Point:
        """The state shown.

        Raises:
            InputError: nothing is loaded yet.
        """
        if self.history.now is None:
            raise InputError("nothing is loaded yet", key="model", allowed="choose a model and a cluster")
        return self.history.now

    def show(self, point: Point) -> None:
        """Make a state the present one and draw it."""
        with self.lock:
            before = self.history.now
            self.history.push(point)
            self.showing.settled(point, before)

    def tell(self, now: Point) -> None:
        """Bring the traits in line with the state shown."""
        self._telling = True
        try:
            with self.hold_trait_notifications():
                self.model, self.cluster = now.inputs.model.reference, now.inputs.cluster_name
                self.workload, self.strategy, self.report = now.inputs.workload, now.strategy, now.report
                self.plan = now.plan()
        finally:
            self._telling = False

    @property
    def baseline(self) -> Baseline | None:
        """What the tiles compare with: the even cut of the same shape."""
        return self.showing.comparisons.baseline(self.history.now) if self.history.now else None

    # -- inside -----------------------------------------------------------------------------------

    def _wire(self) -> None:
        parts, showing = self.parts, self.showing
        panels = (self.search_panel, self.run_panel, self.export_panel)
        for widget in (parts.controls, parts.tiles, parts.board, *(panel.controls for panel in panels)):
            widget.on_intent(self.gestures.answer)
        for widget in (parts.board, parts.graph):
            traitlets.link((self, "selection"), (widget, "selection"))
        self.observe(lambda _: showing.guard(showing.mark), "selection")
        parts.graph.observe(lambda _: showing.guard(showing.graph), "opened")
        parts.board.observe(lambda change: self.search_panel.set_theme(change["new"]), "theme")
        for name in ("model", "cluster", "workload", "strategy", "plan", "searcher"):
            self.observe(self._trait_set, name)

    def _open(self, make: Callable[[], Point]) -> None:
        """First state, or the empty workbench with what is wrong in its strip."""
        try:
            self.show(make())
        except Exception as error:  # noqa: BLE001 - shown in the page
            self.showing.failed(error)

    def _step(self, by: int) -> bool:
        with self.lock:
            before = self.history.now
            moved = self.history.step(by)
            if moved:
                self.showing.settled(self.now(), before)
            return moved

    def _trait_set(self, change: Any) -> None:
        """Somebody set a trait from Python; what cannot be is put back and raised."""
        if self._telling:
            return
        name, value = change["name"], change["new"]
        if name == "searcher":
            self.showing.redraw()
            return
        try:
            with self.lock:
                self.show(self._wished(name, value))
        except Exception:
            if self.history.now is not None:
                self.tell(self.history.now)
            raise

    def _wished(self, name: str, value: Any) -> Point:
        if self.history.now is None and name in ("model", "cluster"):
            return first_point(self.model, self.cluster or DEFAULT_CLUSTER)
        return wished_point(self.now(), name, value)

    def _load(self, searcher: str, strategy: Strategy, label: str) -> None:
        self.show(make_point(self.now().inputs, strategy, note=label, maker=searcher))

    def _search_changed(self) -> None:
        self.showing.guard(self.showing.search_step)

    def _run_changed(self) -> None:
        self.showing.guard(self.showing.run_step)
