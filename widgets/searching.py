"""A search in slices of the event loop, so that the kernel stays free; no threads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator

from explorer.search import Problem, Progress, search

SLICE_S = 0.04
"""Longest time the loop is held, as far as the searcher's own steps allow."""
REPORT_S = 0.3
"""Between two reports to the page."""


class SearchTask:
    """One search at a time; the best of every searcher is kept for the leaderboard."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.on_change = on_change
        self.runs: dict[str, Progress] = {}
        """Last progress of every searcher."""
        self.curves: dict[str, list[tuple[float, float]]] = {}
        """Best so far of every searcher: (seconds, objective value)."""
        self.name = ""
        self.error: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether a search is under way."""
        return self._task is not None and not self._task.done()

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
        """
        self.stop()
        steps = search(problem, searcher, budget_s=budget_s)
        self.name, self.error = searcher, None
        self.curves[searcher] = []
        self.runs.pop(searcher, None)
        self._task = asyncio.get_running_loop().create_task(self._drive(steps, prepare))

    def stop(self) -> None:
        """Ask no longer; what was found stays."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def take(self, progress: Progress) -> None:
        """Note one step of a search."""
        self.runs[progress.searcher] = progress
        curve = self.curves.setdefault(progress.searcher, [])
        if progress.best is not None and (not curve or progress.best.value < curve[-1][1]):
            curve.append((progress.wall_s, progress.best.value))

    async def _drive(
        self, steps: Iterator[Progress], prepare: Callable[[], Awaitable[None]] | None
    ) -> None:
        reported = 0.0
        try:
            if prepare is not None:
                await prepare()
            ended = False
            while not ended:
                ended = self._slice(steps)
                if ended or time.perf_counter() - reported > REPORT_S:
                    reported = time.perf_counter()
                    if not ended:
                        self.on_change()
                await asyncio.sleep(0.005)
        except Exception as error:  # noqa: BLE001 - shown in the page by whoever listens
            self.error = error
        finally:
            close = getattr(steps, "close", None)
            if close is not None:
                close()
        self._task = None
        self.on_change()

    def _slice(self, steps: Iterator[Progress]) -> bool:
        """Step until the slice is used up; whether the search has ended."""
        until = time.perf_counter() + SLICE_S
        for progress in steps:
            self.take(progress)
            if time.perf_counter() >= until:
                return False
        return True
