"""The Run tab: a short real run, rank by rank, and what it shows about the prediction."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ipywidgets import Box, Layout

from explorer.base.errors import ExplorerError, InputError
from explorer.calibrate.records import add, run_record
from explorer.explain.names import counted
from explorer.run.own.own_scale import codeless
from explorer.views.run_timeline import run_timeline_view
from explorer.views.run_view import comparison_view, figure_words, verdict_words
from explorer.views.slice_view import slice_verdict, slice_view, slice_words, worst_layers
from widgets.base import Widget
from widgets.controls import Controls
from widgets.edits import whole_number
from widgets.inputs import Inputs
from widgets.panel import Bench, Panel
from widgets.session import Point, lazy_point
from widgets.tab_box import TabBox
from widgets.timeline import Timeline

from .calibrating import Calibration, apply, calibration_of
from .ended import Done, SliceDone
from .slicing import SLICE, SliceProgress
from .task import ENGINES, OWN, SLEPT, STAND_INS, Failed, RunTask
from .told import errors_by_layer, ran_own_layers, tiles_measured, why_no_errors
from .view import RunView
from .words import (
    LABELS,
    fix_for,
    format_seconds_roughly,
    intro,
    old_words,
    progress_view,
    stand_ins_words,
    title_words,
)

ROUNDS = 3
"""Rounds of a first impression: with stand-ins about half a minute on two cores."""
MOST_ROUNDS = 100
"""Most rounds: more show nothing new."""


class RunPanel(Panel):
    """Panel that owns the run and what the tab shows of it."""

    title = "Run"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.task = RunTask(bench.lock, lambda: bench.guard(self._changed))
        self._chosen: str | None = None
        """Kind of run that was chosen; None for the one that suits the plan."""
        self._unfit: tuple[Point, str] | None = None
        """State whose own layers could not run when it was tried, and why."""
        self._codeless: tuple[Inputs, str] | None = None
        """Inputs last looked at, and why they have no own layers; empty if they have."""
        self._rounds = {name: 1 if name in SLEPT else ROUNDS for name in ENGINES}
        self._typed, self._error = "", ""
        self._calibration: Calibration | None = None
        self.controls = Controls(late=True)
        self.page = RunView(late=True)
        self.timeline: Timeline | None = None
        """What the last run did when; made with the first run, to start with less."""
        self._below = Box(layout=Layout(width="100%", display="none"))
        self._drawn: Done | SliceDone | None = None
        self._drawn_engine = ""
        self.box = TabBox(lambda: (self.controls, self.page, self._below))
        self.draw()

    @property
    def engine(self) -> str:
        """Kind of run that Run starts: the one chosen, else own layers, or stand-ins where none can run."""
        if self._chosen is not None:
            return self._chosen
        return STAND_INS[0] if self._stand_ins() else OWN

    def _stand_ins(self) -> str:
        """Return why stand-ins run in place of own layers, where nobody chose; empty if own layers do."""
        now = self._bench.history.now if hasattr(self._bench, "history") else None
        if now is None or self._chosen is not None:
            return ""
        if self._unfit is not None and self._unfit[0] is now:
            return self._unfit[1]
        if self._codeless is None or self._codeless[0] is not now.inputs:
            self._codeless = now.inputs, codeless(now.resolved())
        return self._codeless[1]

    @property
    def rounds(self) -> int:
        """Number of measured rounds of the chosen kind of run."""
        return self._rounds[self.engine]

    def start(self, now: Point) -> None:
        """Begin a run of a state.

        Raises:
            ExplorerError: the plan cannot be run here; former results stay.
        """
        try:
            self.task.start(now, engine=self._chosen, rounds=self.rounds)
            if self._chosen is None and self.task.engine in STAND_INS:
                self._unfit = now, self.task.stand_ins
        except ExplorerError as error:
            self.task.state, self.task.failure = "failed", Failed(rank=None, text=str(error), log="")
            raise
        finally:
            self.draw()

    def stop(self) -> None:
        """End every rank."""
        self.task.stop()
        self.draw()

    def set(self, key: str, value: Any) -> bool:
        """Take a field; return whether it belongs to this tab.

        Raises:
            InputError: an impossible value; the field shows it too.
        """
        if key == "engine":
            if value not in ENGINES:
                raise InputError(
                    f"unknown engine {value!r}", key=key, found=value, allowed=", ".join(ENGINES)
                )
            self._chosen, self._error = str(value), ""
        elif key == "rounds":
            try:
                self._rounds[self.engine], self._error = _rounds(value), ""
            except InputError as error:
                self._typed, self._error = str(value), str(error.allowed)
                self.draw()
                raise
        else:
            return False
        self.draw()
        return True

    def widgets(self) -> tuple[Widget, ...]:
        """Return the widgets: kind of run with its buttons; progress and results."""
        return (self.controls, self.page)

    def actions(self) -> dict[str, Callable[[], Any]]:
        """Return the actions: run the state shown; use what it measured."""
        return {"run": self._run, "run_dry": self._run_dry, "calibrate": self.calibrate}

    def settled(self, now: Point) -> None:
        """Check whether the result belongs to the strategy now shown, and which kind of run suits it."""
        del now
        if self._chosen is None and self._drawn_engine != self.engine:
            self.draw()
        if self._calibration is not None or self.task.last is not None or self.task.running:
            self._calibration = None
            self.draw()

    def idle(self, now: Point) -> None:
        """Compute what calibrating would change, which takes a simulation."""
        self._work_out(now)

    def close(self) -> None:
        """End every rank."""
        self.task.stop()
        self.task.wait()

    # -- what a run tells the other views ---------------------------------------------------------

    def old(self, now: Point) -> bool:
        """Tell whether the last run was of another strategy than the one shown."""
        return self.task.last is not None and not self.task.last.is_of(now)

    def measured(self, now: Point) -> Mapping[str, float] | None:
        """Return measured values by tile; None without a run that tells them (`told.tiles_measured`)."""
        return tiles_measured(self.task.last, now)

    def errors(self, now: Point) -> Mapping[str, float] | None:
        """Return by layer the error of the prediction; None without a run that tells it
        (`told.errors_by_layer`).
        """
        return errors_by_layer(self.task.last, now)

    def no_errors(self, now: Point) -> str:
        """Return the reason why `errors` gives none."""
        return why_no_errors(self.task.last, now)

    def calibrate(self) -> None:
        """Put the cluster as measured on the board, as an edit that Undo takes back.

        Raises:
            InputError: no run allows it; the message says why.
        """
        now = self._bench.now()
        if self._calibration is None or self._calibration.cluster is not now.inputs.cluster:
            self._work_out(now)
        if self._calibration is None:
            raise InputError(
                "nothing was measured that could calibrate", key="calibrate", allowed="run first"
            )
        self._bench.show(apply(self._calibration, Path.cwd()))

    # -- inside -----------------------------------------------------------------------------------

    def _run_dry(self) -> None:
        self._chosen = "dry"
        self._run()

    def _run(self) -> None:
        self._bench.say(None)
        self._bench.open_tab(self.title)
        self.start(self._bench.now())
        self._bench.say(self.verdict())

    def _changed(self) -> None:
        now = self._bench.history.now
        if not self.task.running and now is not None:
            self._calibration = None
            self._work_out(now)
            self._remember()
            self._bench.repaint()
        self.draw()
        self._bench.say(self.verdict())

    def _remember(self) -> None:
        """Add the run that just ended to the history of runs, if one is named and the run taught
        something.
        """
        done, runs = self.task.last, self._bench.runs
        if runs is None or not isinstance(done, Done) or self.task.state != "done":
            return
        resolved = lazy_point(done.inputs, done.strategy).resolved()
        entry = run_record(asdict(done.comparison), resolved, date=time.strftime("%Y-%m-%d"))
        if entry is not None:
            self._bench.guard(lambda: add(runs, entry))

    def _work_out(self, now: Point) -> None:
        """Compute what calibrating would change, once for a run and a state."""
        done = self.task.last
        if not isinstance(done, Done) or self._calibration is not None or self.task.running:
            return
        self._calibration = calibration_of(now, done, Path.cwd())
        self.draw()

    def draw(self) -> None:
        """Draw everything in this tab again."""
        running = self.task.running
        self._drawn_engine = self.engine
        kinds = [{"value": name, "label": LABELS.get(name, name)} for name in ENGINES]
        rounds = {
            "key": "rounds", "label": "Rounds", "kind": "number", "minimum": 1,
            "value": self._typed if self._error else self.rounds, "maximum": MOST_ROUNDS, "step": 1,
            "width_px": 56, "error": self._error or None,
        }  # fmt: skip
        stop = {"action": "stop", "label": "Stop", "title": "The previous result stays"}
        self.controls.view = {
            "name": "Settings of a run",
            "fields": [
                {"key": "engine", "label": "Kind of run", "kind": "select", "value": self.engine,
                 "width_px": 300, "options": kinds},
                *([] if self.engine == SLICE else [rounds]),
            ],
            "buttons": [
                *([stop] if running else []),
                {"action": "run", "label": "Run", "suggested": True, "enabled": not running,
                 "title": "A run is under way; Stop ends it" if running else None},
            ],
        }  # fmt: skip
        self.page.view = self._view()
        self._draw_timeline()

    def _draw_timeline(self) -> None:
        """Draw what the ranks of the last run did when, under what was predicted; nothing before there is
        one.
        """
        done = self.task.last
        if done is self._drawn:
            return
        self._drawn = done
        found = done.timeline if isinstance(done, Done) else None
        self._below.layout.display = "none" if found is None else "block"
        if found is None:
            return
        (view, bars), (view_b, bars_b) = run_timeline_view(found)
        shown = {"view": view, "bars": bars, "view_b": view_b, "bars_b": bars_b}
        if self.timeline is None:
            self.timeline = Timeline(bench=self.page.bench, way_back=self.page.way_back, **shown)
            self._below.children = (self.timeline,)
            return
        with self.timeline.hold_sync():
            for name, value in shown.items():
                setattr(self.timeline, name, value)

    def _view(self) -> dict[str, Any]:
        task = self.task
        now, done = getattr(self._bench, "history", None) and self._bench.history.now, task.last
        progress = task.progress
        expected_s = task.expected_s(self.engine, self.rounds)
        return {
            "state": task.state,
            "intro": intro(self.engine, expected_s, self._stand_ins()),
            "stand_ins": self._said_of_stand_ins(),
            "note": title_words(done) if done else "",
            "progress": progress_view(progress, other=task.asked is not now) if progress else None,
            "failure": self._failure(task.failure) if task.failure and task.state == "failed" else None,
            "result": None if done is None else self._result(done, now),
            "calibration": self._calibration.view(now) if self._calibration and now else None,
        }  # fmt: skip

    def _said_of_stand_ins(self) -> str | None:
        """Return what to say of stand-ins that nobody chose, in the run under way or in the last one."""
        if self.task.running:
            return stand_ins_words(self.task.stand_ins, running=True)
        done = self.task.last
        return stand_ins_words(done.stand_ins, running=False) if isinstance(done, Done) else None

    def _result(self, done: Done | SliceDone, now: Point | None) -> dict[str, Any]:
        """Return the last run's result; `errors` if the layer graph of the state shown tells them."""
        if isinstance(done, SliceDone):
            view = slice_view(done.check)
        else:
            view = comparison_view(done.comparison)
            if ran_own_layers(done) and done.comparison.costs is not None:
                view["layers"] = worst_layers(done.comparison.costs.layers)
        return view | {
            "old": old_words(done) if now is not None and self.old(now) else None,
            "errors": now is not None and self.errors(now) is not None,
        }

    def _failure(self, failed: Failed) -> dict[str, Any]:
        fix = fix_for(failed, self.engine)
        return {
            "rank": failed.rank, "text": failed.text, "log": failed.log,
            "fix": fix.text, "action": fix.action, "label": fix.label,
        }  # fmt: skip

    def verdict(self) -> dict[str, Any] | None:
        """Return the sentence of a run under way or just ended."""
        task, progress = self.task, self.task.progress
        if task.running and progress is not None:
            left = f", about {format_seconds_roughly(progress.left_s)} left" if progress.left_s else ""
            what = (
                "Running one rank alone"
                if isinstance(progress, SliceProgress)
                else f"Running on {counted(progress.spec.ranks, 'rank')}"
            )
            return {
                "level": "busy", "progress": progress.share,
                "text": f"**{what}.** {progress.said() or progress.phase}.",
                "note": f"{progress.elapsed_s:.0f} s{left}",
                "actions": [{"action": "stop", "label": "Stop"}],
            }  # fmt: skip
        if task.state == "failed" and task.failure is not None:
            fix = fix_for(task.failure, self.engine)
            actions = [{"action": fix.action, "label": fix.label}] if fix.action else []
            return {"level": "bad", "text": f"**The run failed.** {task.failure.text}", "actions": actions}
        if task.state != "done" or task.last is None:
            return None
        if isinstance(task.last, SliceDone):
            check = task.last.check
            return {
                "level": "ok" if check.verdict == "confirmed" else "warn",
                "text": f"**{slice_verdict(check)}** {slice_words(check)}", "actions": [],
            }  # fmt: skip
        found = task.last.comparison
        text = f"**{verdict_words(found)}** {figure_words(found)}"
        level = {"confirmed": "ok", "wrong numbers": "bad"}.get(found.verdict, "warn")
        return {"level": level, "text": text, "actions": []}


def _rounds(value: Any) -> int:
    """Read the rounds as typed.

    Raises:
        InputError: the value is not a whole number, too small or too large.
    """
    found = whole_number("rounds", value)
    if found > MOST_ROUNDS:
        raise InputError(
            f"{found} rounds take too long", key="rounds", found=found, allowed=f"1 to {MOST_ROUNDS}"
        )
    return found
