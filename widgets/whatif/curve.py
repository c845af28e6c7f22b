"""Curves of the What-if tab: the plan over several values of one number, simulated in slices; a table."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ipywidgets import HTML, Box, DOMWidget, Layout, VBox

from explorer.base.errors import InputError
from explorer.simulation.report import Report
from explorer.sweep import KEYS, SweepRow, sweeping, values_of
from explorer.views.sweep_view import SCALING, curve_points
from widgets.controls import Controls
from widgets.jobs import PAUSE_S, Job
from widgets.panel import Bench
from widgets.session import Point

from .curve_words import curve_html, default_values, fields, now_value, status_html

MOST_VALUES = 40
"""Most values of one curve."""


class SweepCurve:
    """The varied number of a curve, its points, and the chart, made when the first curve is drawn."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.key = "devices"
        """Key of the varied number."""
        self.weak = False
        """Whether the batch grows with the devices."""
        self.rows: list[SweepRow] = []
        """Rows simulated so far."""
        self.wanted = 0
        """Values requested."""
        self._of: Point | None = None
        self._report: Report | None = None
        """Report of that plan, which the history may have dropped by the next drawing."""
        self._shown = ("", False)
        self._typed: str | None = None
        self._error = ""
        self._job: Job | None = None
        self._theme = "light"
        self.controls = Controls(late=True)
        self.status = HTML(layout=Layout(width="100%"))
        self.table = HTML(layout=Layout(flex="3 1 480px", min_width="0", width="auto"))
        self.chart = VBox([], layout=Layout(flex="4 1 520px", min_width="0", width="auto"))
        self.figure: Any = None
        self.draw()

    def content(self) -> tuple[DOMWidget, ...]:
        """Return what stands in the tab, from top to bottom."""
        flow = Layout(display="flex", flex_flow="row wrap", align_items="flex-start", width="100%")
        return self.controls, self.status, Box([self.chart, self.table], layout=flow)

    @property
    def running(self) -> bool:
        """Whether values are being simulated."""
        return self._job is not None and self._job.running

    def actions(self) -> Mapping[str, Callable[[], Any]]:
        """Return the actions: draw the curve, and stop."""
        return {"sweep_draw": self.start, "sweep_stop": self.stop}

    def set(self, key: str, value: Any) -> bool:
        """Take a field; return whether it was one of these. Wrong values are shown at the field."""
        if key == "sweep_over":
            self.key, self._typed, self._error = _one_of(key, value, KEYS), None, ""
        elif key == "sweep_scaling":
            self.weak = _one_of(key, value, ("strong", "weak")) == "weak"
        elif key == "sweep_values":
            self._typed = str(value)
            self._error = ""
            try:
                self._values()
            except InputError as error:
                self._error = f"{error.message}: {error.allowed}"
        else:
            return False
        self.draw()
        return True

    def _values(self) -> list[float]:
        """Return the values typed, or the proposed ones."""
        now = self._bench.now()
        if self._typed is None:
            return default_values(now, self.key)
        parts = [part.strip() for part in self._typed.replace(";", ",").split(",") if part.strip()]
        found = sorted(set(values_of(self.key, parts)))
        if len(found) > MOST_VALUES:
            raise InputError(
                f"{len(found)} values", key="sweep_values", found=len(found), allowed=f"up to {MOST_VALUES}"
            )
        return found

    def start(self) -> None:
        """Simulate the values one by one; the first curve also makes the chart.

        Raises:
            ExplorerError: impossible values.
        """
        now, values = self._bench.now(), self._values()
        self.cancel()
        self.rows, self.wanted, self._of, self._report = [], len(values), now, now.report
        self._shown = (self.key, self.weak)
        rows = sweeping(now.resolved(), self.key, values, weak=self.weak and self.key in SCALING)
        self._job = Job(lambda: self._run(rows))
        self.draw()

    def stop(self) -> None:
        """Stop; keep what was simulated."""
        self.cancel()
        self.draw()

    def cancel(self) -> None:
        """End what is under way; nothing is drawn any more."""
        if self._job is not None:
            self._job.cancel()
            self._job = None

    async def _run(self, rows: Iterator[SweepRow]) -> None:
        """Fill the table first: a first chart takes seconds."""
        job, more = self._job, True
        while more and self._job is job:
            more = self._next(job, rows)
            await asyncio.sleep(PAUSE_S)
        try:
            await self._make_figure()
        except Exception as error:  # noqa: BLE001 - shown in the page; the table stands without the chart
            self._bench.guard(partial(_again, error))
        if self._job is job:
            self._job = None
            self._bench.guard(self.draw)

    def _next(self, job: Job | None, rows: Iterator[SweepRow]) -> bool:
        """Simulate one more value and draw it; return whether there was one that is still wanted."""
        with self._bench.lock:
            if self._job is not job:  # ended by a gesture on another thread
                return False
            try:
                row = next(rows, None)
            except Exception as error:  # noqa: BLE001 - shown in the page
                self._bench.guard(partial(_again, error))
                return False
            if row is not None:
                self.rows = [*self.rows, row]
                self._bench.guard(self.draw)
        return row is not None

    async def _make_figure(self) -> None:
        """Make the chart, on first use: its library takes seconds to load, on a thread that touches no
        widget.
        """
        if self.figure is None:
            module = await asyncio.to_thread(importlib.import_module, "widgets.whatif.chart")
            await asyncio.to_thread(module.warm_up)
            self.figure = module.SweepChart()
            self.chart.children = (self.figure.widget,)

    def forget(self) -> None:
        """Drop the points, which belong to other inputs."""
        self.cancel()
        self.rows, self.wanted, self._of, self._report = [], 0, None, None
        self._typed, self._error = None, ""
        self.draw()

    def settled(self, now: Point) -> None:
        """Mark the curve as that of the former plan."""
        del now
        self.draw()

    def set_theme(self, theme: str) -> None:
        """Follow the page's theme; plotly does not by itself."""
        self._theme = theme
        self.draw()

    def draw(self) -> None:
        """Draw fields, status, table and chart again."""
        now = self._bench.history.now
        self.controls.view = fields(
            now, self.key, weak=self.weak, typed=self._typed, error=self._error, running=self.running
        )
        key, weak = self._shown
        weak = weak and key in SCALING
        of, old = self._of, self._of is not None and now is not None and now.outcome is not self._of.outcome
        self.status.value = status_html(key or self.key, self.rows, self.wanted, weak=weak,
                                        running=self.running, old=old)  # fmt: skip
        points: list[dict[str, Any]] = []
        if of is not None and self._report is not None:
            points = curve_points(
                key, self.rows, now=self._report, now_value=now_value(of, key),
                tokens=of.inputs.job.sequence_length,
            )  # fmt: skip
        tokens = of is not None and of.inputs.job.sequence_length > 0
        self.table.value = curve_html(key, points, tokens=tokens)
        if self.figure is not None:
            ideal = of is not None and key in SCALING
            self.figure.draw(key, points, tokens=tokens, ideal=ideal, theme=self._theme)


def _one_of(key: str, value: Any, allowed: Iterable[str]) -> str:
    """Return the choice of a field.

    Raises:
        InputError: the value is not one of `allowed`.
    """
    names = list(allowed)
    if value not in names:
        raise InputError(f"no choice {value!r}", key=key, found=value, allowed=", ".join(names))
    return str(value)


def _again(error: Exception) -> None:
    raise error
