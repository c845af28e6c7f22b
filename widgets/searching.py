"""A search in slices of the event loop, so that the kernel stays free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from explorer.search import SEARCHERS, Problem, Progress, search

from .jobs import Job

SLICE_S = 0.04
"""Longest time the loop is held, as far as the searcher's own steps allow."""
PAUSE_S = 0.01
"""Between two slices: others get the lock and the loop."""
REPORT_S = 0.3
"""Between two reports to the page."""


class SearchTask:
    """One search at a time; the best of every searcher is kept for the leaderboard."""

    def __init__(self, lock: Any, on_change: Callable[[], None]) -> None:
        self._lock = lock
        self.on_change = on_change
        self.runs: dict[str, Progress] = {}
        """Last progress of every searcher."""
        self.curves: dict[str, list[tuple[float, float]]] = {}
        """Best so far of every searcher: (seconds, objective value)."""
        self.name = ""
        """Searcher that was started last."""
        self.error: Exception | None = None
        """What ended it, if that was an error."""
        self.running = False
        """Whether a search is under way."""
        self._turn = 0
        self._job: Job | None = None

    @property
    def progress(self) -> Progress | None:
        """Of the search that was started last."""
        return self.runs.get(self.name)

    def clear(self) -> None:
        """Forget results: they were for another model, cluster or workload."""
        self.stop()
        self.runs, self.curves, self.name = {}, {}, ""

    def start(
        self,
        problem: Problem,
        searcher: str,
        *,
        budget_s: float,
        prepare: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Begin; needs a running event loop. `prepare` is awaited first.

        Raises:
            InputError: an unknown searcher.
            RuntimeError: no event loop.
        """
        self.stop()
        SEARCHERS.get(searcher)  # `search` would say so only at its first step
        steps = search(problem, searcher, budget_s=budget_s)
        self._turn += 1
        turn = self._turn
        self._job = Job(lambda: self._drive(turn, steps, prepare))
        self.name, self.error, self.running = searcher, None, True
        self.curves[searcher] = []
        self.runs.pop(searcher, None)

    def stop(self) -> None:
        """Ask no longer; what was found stays."""
        self._turn += 1
        self.running = False
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def take(self, progress: Progress) -> None:
        """Note one step of a search."""
        self.runs[progress.searcher] = progress
        curve = self.curves.setdefault(progress.searcher, [])
        if progress.best is not None and (not curve or progress.best.value < curve[-1][1]):
            curve.append((progress.wall_s, progress.best.value))

    async def _drive(
        self, turn: int, steps: Iterator[Progress], prepare: Callable[[], Awaitable[None]] | None
    ) -> None:
        reported = 0.0
        try:
            if prepare is not None:
                await prepare()
            while True:
                with self._lock:
                    if turn != self._turn:
                        return
                    if self._slice(steps):
                        break
                    if time.perf_counter() - reported > REPORT_S:
                        self.on_change()
                        reported = time.perf_counter()
                await asyncio.sleep(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - shown in the page by whoever listens
            self.error = error
        with self._lock:
            if turn == self._turn:
                self.running = False
                self.on_change()

    def _slice(self, steps: Iterator[Progress]) -> bool:
        """Step until the slice is used up; whether the search has ended."""
        until = time.perf_counter() + SLICE_S
        for progress in steps:
            self.take(progress)
            if time.perf_counter() >= until:
                return False
        return True
