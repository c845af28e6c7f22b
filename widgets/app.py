"""`Explorer`: the whole workbench as one widget. It holds the history; edits compute, views draw.

Every state is a trait that can be read, observed and set: `explorer.strategy = ...` moves the chips. The
parts (`.board`, `.tiles`, `.timeline`, `.graph`, `.memory`, `.traffic`, ...) can be displayed alone too.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import Any

import traitlets
from ipywidgets import VBox

from explorer.errors import ExplorerError, InputError
from explorer.explain import Sentence
from explorer.plan import Plan, Resolved, load_plan, resolve
from explorer.report import Report
from explorer.search import Problem
from explorer.strategy import Strategy
from explorer.units import format_seconds
from explorer.views.tiles import Baseline
from explorer.workload import Workload

from .edits import move_layers, set_field, shape_of, shift_boundary
from .exporting import ExportPanel
from .fields import OTHER, bar_view
from .jobs import Idle
from .paint import Comparisons, paint, paint_graph, paint_rest, paint_verdict
from .parts import Parts, arrange
from .runpanel import RunPanel
from .searchpanel import SearchPanel
from .session import History, Inputs, Point, inputs_of, load_inputs, make_point
from .start import start_strategy

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
        self._typed: dict[str, Any] = {}
        self._errors: dict[str, str] = {}
        self._hint: tuple[Point, Sentence] | None = None
        self._said: dict[str, Any] | None = None  # verdict of a search or run, until the next edit
        self._telling = False
        self.comparisons = Comparisons()
        self.soon, self.idle = Idle(self.lock, self._failed, rest_s=0.0), Idle(self.lock, self._failed)
        self.search_panel = SearchPanel(self.lock, self._search_changed, self._load)
        self.run_panel = RunPanel(self.lock, self._run_changed)
        self.export_panel = ExportPanel(lambda: self.history.now)
        super().__init__(
            **arrange(self.parts, self.search_panel.box, self.run_panel.box, self.export_panel.box)
        )
        self._wire()
        self._open(
            lambda: _first(model, cluster or ("" if model.endswith(".json") else "dgx-a100"), plan, workload)
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
                self._show(set_field(self._now(), key, value))

    def open_plan(self, path: str | Path) -> None:
        """Open a plan file.

        Raises:
            InputError: it cannot be read.
        """
        self._show(_of_plan(load_plan(path)))

    def resolved(self) -> Resolved:
        """The plan shown, with its inputs: what `explorer.export.export` and `explorer.run.validate` take."""
        return self._now().resolved()

    def search(self) -> None:
        """Start the chosen searcher; the board stays yours meanwhile. Needs a running event loop."""
        self._said = None
        now = self._now()
        problem = Problem(
            graph=now.inputs.graph,
            cluster=now.inputs.cluster,
            workload=now.inputs.workload,
            start=now.strategy,
        )
        self.search_panel.start(problem, self.searcher, self.search_budget_s)
        self.parts.tabs.selected_index = 0
        self._said = self.search_panel.verdict(self.search_budget_s)
        self._redraw()

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
                self._search_changed()
            if self.run_panel.task.running:
                self.run_panel.stop()
                self._said = None
            self._redraw()

    def close(self) -> None:
        """End search, run and widgets."""
        self.soon.cancel()
        self.idle.cancel()
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

    # -- inside -----------------------------------------------------------------------------------

    def _wire(self) -> None:
        parts = self.parts
        for widget in (parts.controls, parts.tiles, parts.board, *self._panels()):
            widget.on_intent(self._intent)
        for widget in (parts.board, parts.graph):
            traitlets.link((self, "selection"), (widget, "selection"))
        self.observe(lambda _: self._guard(self._mark), "selection")
        parts.graph.observe(lambda _: self._guard(self._graph_opened), "opened")
        parts.board.observe(lambda change: self.search_panel.set_theme(change["new"]), "theme")
        for name in ("model", "cluster", "workload", "strategy", "plan", "searcher"):
            self.observe(self._trait_set, name)

    def _panels(self) -> list[Any]:
        return [self.search_panel.controls, self.run_panel.controls, self.export_panel.controls]

    def _now(self) -> Point:
        if self.history.now is None:
            raise InputError("nothing is loaded yet", key="model", allowed="choose a model and a cluster")
        return self.history.now

    def _open(self, make: Callable[[], Point]) -> None:
        """First state, or the empty workbench with what is wrong in its strip."""
        try:
            self._show(make())
        except Exception as error:  # noqa: BLE001 - shown in the page
            self._failed(error)

    def _show(self, point: Point) -> None:
        """Make a state the present one and draw it."""
        with self.lock:
            before = self.history.now
            self.history.push(point)
            self._settled(before)

    def _step(self, by: int) -> bool:
        with self.lock:
            before = self.history.now
            moved = self.history.step(by)
            if moved:
                self._settled(before)
            return moved

    def _settled(self, before: Point | None) -> None:
        now = self._now()
        self._typed, self._errors, self._hint, self._said = {}, {}, None, None
        if before is not None and before.inputs is not now.inputs:
            self.search_panel.clear()
        self._tell(now)
        self._clear_notices()
        if now.note.endswith("now 1f1b") and before is not None:
            self.parts.board.notice = {"level": "info", "text": now.note}
        paint(self.parts, self.history, self.comparisons)
        self._redraw()
        if not self.soon.later(lambda: self._follow(now)):
            self._follow(now)
        self.idle.later(lambda: self._explain(now))

    def _follow(self, now: Point) -> None:
        """Draw what a gesture need not wait for."""
        if now is self.history.now:
            paint_rest(self.parts, now)
            self._mark()
            self.search_panel.draw(now.report)
            self.export_panel.outdate()

    def _tell(self, now: Point) -> None:
        """Bring the traits in line with the state shown."""
        self._telling = True
        try:
            with self.hold_trait_notifications():
                self.model, self.cluster = now.inputs.model.reference, now.inputs.cluster_name
                self.workload, self.strategy, self.report = now.inputs.workload, now.strategy, now.report
                self.plan = now.plan()
        finally:
            self._telling = False

    def _trait_set(self, change: Any) -> None:
        """Somebody set a trait from Python; what cannot be is put back and raised."""
        if self._telling:
            return
        name, value = change["name"], change["new"]
        if name == "searcher":
            self._redraw()
            return
        try:
            with self.lock:
                self._show(self._wished(name, value))
        except Exception:
            if self.history.now is not None:
                self._tell(self.history.now)
            raise

    def _wished(self, name: str, value: Any) -> Point:
        if name == "plan":
            return _of_plan(resolve(value))
        if name in ("model", "cluster"):
            if self.history.now is None:
                return _first(self.model, self.cluster or "dgx-a100", None, {})
            return set_field(self.history.now, name, value)
        now = self._now()
        if name == "workload":
            own = now.inputs
            inputs = Inputs(model=own.model, graph=own.graph, cluster_name=own.cluster_name,
                            cluster=own.cluster, workload=value)  # fmt: skip
            return make_point(inputs, now.strategy, now.groups, note="workload")
        return make_point(now.inputs, value, note="set from Python")

    def _guard(self, work: Callable[[], Any]) -> None:
        """Do something for the page; what goes wrong is shown there."""
        with self.lock:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - callbacks have nowhere else to report
                self._failed(error)

    def _failed(self, error: Exception, key: str = "", value: Any = None) -> None:
        """Say what went wrong: in the strip, and at the field where it was typed. Nothing else changes."""
        text = str(error) if isinstance(error, ExplorerError) else f"{type(error).__name__}: {error}"
        self.error = text
        if key:
            allowed = getattr(error, "allowed", None)
            self._typed[key], self._errors[key] = value, (f"allowed: {allowed}" if allowed else text)[:120]
        self.parts.controls.notice = {"level": "error", "text": text}
        self._redraw()

    def _clear_notices(self) -> None:
        self.error = ""
        for widget in (self.parts.controls, self.parts.board):
            if widget.notice is not None:
                widget.notice = None

    def _intent(self, intent: dict[str, Any]) -> None:
        """A gesture in the page."""
        with self.lock:
            self._answer(intent)

    def _answer(self, intent: dict[str, Any]) -> None:
        key, value = str(intent.get("key", "")), intent.get("value")
        field = key if intent["kind"] == "set" else ""
        try:
            self._do(intent, key, value)
        except Exception as error:  # noqa: BLE001 - shown in the page
            self._failed(error, field, value)
            if intent["kind"] in ("move", "move_boundary"):
                self.parts.board.notice = {"level": "error", "text": self.error}

    def _do(self, intent: dict[str, Any], key: str, value: Any) -> None:
        kind = intent["kind"]
        if kind == "move":
            self._show(move_layers(self._now(), intent["layers"], int(intent["to_lane"])))
        elif kind == "move_boundary":
            self._show(
                shift_boundary(
                    self._now(), int(intent["before"]), int(intent["after"]), int(intent["layers"])
                )
            )
        elif kind == "set":
            self._set(key, value)
        elif kind in ("undo", "redo"):
            self._step(-1 if kind == "undo" else 1)
        elif kind == "action":
            self._act(str(intent["action"]))

    def _set(self, key: str, value: Any) -> None:
        if any(panel.set(key, value) for panel in (self.search_panel, self.run_panel, self.export_panel)):
            return
        if key == "searcher":
            self.searcher = str(value)
        elif key in ("model", "cluster") and value in (OTHER, ""):
            self._typed.pop(key, None)
            self._errors.pop(key, None)
            if value == OTHER:
                self._typed[key] = OTHER
            self._redraw()
        else:
            point = (
                _first(str(value), "dgx-a100", None, {})
                if self.history.now is None and key == "model"
                else set_field(self._now(), key, value)
            )
            self._show(point)

    def _act(self, action: str) -> None:
        actions: dict[str, Callable[[], Any]] = {
            "search": self.search, "stop": self.stop, "use_best": self.use_best, "run": self._run,
            "undo": self.undo, "redo": self.redo, "export": self._export, "apply_hint": self._apply_hint,
            "load_result": self.search_panel.load_chosen,
        }  # fmt: skip
        if action not in actions:
            raise InputError(
                f"unknown action {action!r}", key="action", found=action, allowed=", ".join(actions)
            )
        actions[action]()

    def _apply_hint(self) -> None:
        if self._hint is None or self._hint[0] is not self.history.now or self._hint[1].strategy is None:
            return
        sentence = self._hint[1]
        now = self._now()
        self._show(
            make_point(now.inputs, self._hint[1].strategy, _same_groups(now, sentence), note=sentence.change)
        )

    def _load(self, searcher: str, strategy: Strategy, label: str) -> None:
        self._show(make_point(self._now().inputs, strategy, note=label, maker=searcher))

    def _run(self) -> None:
        self._said = None
        self.parts.tabs.selected_index = 1
        self.run_panel.start(self._now().resolved())
        self._run_step()

    def _export(self) -> None:
        self.parts.tabs.selected_index = 2
        self.export_panel.draw()

    def _explain(self, point: Point) -> None:
        """The change that helps most, worked out when nothing else is to be done."""
        if point is not self.history.now:
            return
        self.search_panel.draw_figure()
        verdict, best = paint_verdict(point)
        self._hint = (point, best) if best is not None else None
        self.parts.explained = (point, verdict)
        self._redraw()

    def _search_changed(self) -> None:
        self._guard(self._search_step)

    def _search_step(self) -> None:
        task = self.search_panel.task
        if task.error is not None:
            error, task.error = task.error, None
            self._failed(error)
        if self.history.now is not None:
            self.search_panel.draw(self.history.now.report)
            self.search_panel.draw_figure()
        self._said = self.search_panel.verdict(self.search_budget_s)
        self._redraw()

    def _run_changed(self) -> None:
        self._guard(self._run_step)

    def _run_step(self) -> None:
        self._said = self.run_panel.verdict()
        self._redraw()

    def _busy(self) -> str:
        return "search" if self.search_panel.task.running else "run" if self.run_panel.task.running else ""

    def _redraw(self) -> None:
        """Bar and sentence; the rest is drawn when the state changes."""
        bar = bar_view(
            self.history.now, typed=self._typed, errors=self._errors, searcher=self.searcher,
            busy=self._busy(), can_undo=self.history.can_undo, can_redo=self.history.can_redo,
        )  # fmt: skip
        if bar != self.parts.controls.view or self._errors:
            self.parts.controls.view = bar
        self.parts.say(self.history.now, self._said)

    def _mark(self) -> None:
        now = self.history.now
        if now is not None:
            self.parts.mark(now, self.selection)

    def _graph_opened(self) -> None:
        if self.history.now is not None:
            paint_graph(self.parts, self.history.now)

    @property
    def baseline(self) -> Baseline | None:
        """What the tiles compare with: the even cut of the same shape."""
        return self.comparisons.baseline(self.history.now) if self.history.now else None


def _first(model: str, cluster: str, plan: str | Path | None, workload: dict[str, Any]) -> Point:
    if plan is not None:
        return _of_plan(load_plan(plan))
    changes = dict(workload)
    length = changes.pop("sequence_length", None)
    inputs = load_inputs(model, cluster or None, sequence_length=length, changes=changes)
    return make_point(inputs, start_strategy(inputs), note="start", maker="start")


def _of_plan(resolved: Resolved) -> Point:
    made = resolved.plan.provenance
    return make_point(
        inputs_of(resolved),
        resolved.plan.strategy,
        note=made.note or "opened plan",
        maker=made.searcher or "hand",
    )


def _same_groups(now: Point, sentence: Sentence) -> tuple[Any, ...]:
    """The board's lanes, where the change keeps to them; else none, so that lanes are made anew."""
    assert sentence.strategy is not None
    known = {group.meshes for group in now.groups}
    keeps = all(stage.meshes in known for stage in sentence.strategy.job.stages)
    return now.groups if keeps else ()
