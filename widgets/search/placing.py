"""The place of the search chart, which is made on first use, as its library takes seconds to load."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any

from ipywidgets import HTML, Layout, VBox

from widgets.jobs import Job
from widgets.panel import Bench

_WAIT = '<div class="xp"><p class="sub">The chart is being made.</p></div>'


class ChartPlace:
    """The place of the search chart.

    Args:
        bench: workbench whose lock is held, and whose page shows errors.
        load: called with what a clicked point stands for.
        ready: called once the chart is made.
        shown: called once it is in its place.
        layout: layout of the place.
    """

    def __init__(
        self,
        bench: Bench,
        *,
        load: Callable[[Any], None],
        ready: Callable[[], None],
        shown: Callable[[], None],
        layout: Layout,
    ) -> None:
        self._bench, self._load, self._ready, self._shown = bench, load, ready, shown
        self._job: Job | None = None
        self.figure: Any = None
        """A `charts.SearchChart`, or None."""
        self.box = VBox([], layout=layout)
        self.box.add_class("xp-chart")

    def make_soon(self) -> None:
        """Begin to make the chart unless that has begun; needs a running event loop."""
        if self.figure is None and (self._job is None or not self._job.running):
            self.box.children = (HTML(_WAIT),)
            self._job = Job(self._make_guarded)

    def make_again(self) -> None:
        """Make another chart in place of one that did not start in the page."""
        if self.figure is not None:
            self.figure.widget.close()
            self.figure = None
            self.make_soon()

    def close(self) -> None:
        """End what is under way."""
        if self._job is not None:
            self._job.cancel()

    async def _make_guarded(self) -> None:
        try:
            await self.make()
        except Exception as error:  # noqa: BLE001 - shown in the page; the search goes on without a chart
            self.box.children = ()
            self._bench.guard(partial(_raise, error))

    async def make(self) -> None:
        """Make the chart; its library is loaded on a thread that touches no widget."""
        charts = await asyncio.to_thread(importlib.import_module, "widgets.search.charts")
        await asyncio.to_thread(charts.warm_up)
        with self._bench.lock:
            self.figure = charts.SearchChart(self._clicked)
            self._ready()  # drawn before it is shown: no empty axes meanwhile
            self.box.children = (self.figure.widget,)
            self._shown()

    def _clicked(self, pick: Any) -> None:
        self._bench.guard(lambda: self._load(pick))


def _raise(error: Exception) -> None:
    raise error
