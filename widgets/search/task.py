"""Searches one after another, on a thread of their own, so that page and kernel stay free.

The thread touches no widget: it leaves what it found for the event loop, which takes it over under the lock
of the workbench. Between two steps it waits for whoever holds that lock, and after a gesture it rests a
little, so that no drag competes with a search. Where there are no threads, slices of the loop do the same.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from explorer.search import SEARCHERS, Candidate, Problem, Progress, search
from explorer.strategy import Strategy
from widgets.jobs import Job

SLICE_S = 0.04
"""Longest time on the event loop, where there are no threads and as far as the searcher's own steps allow."""
POLL_S = 0.05
"""Between two looks at what was found."""
REPORT_S = 0.3
"""Between two reports to the page."""
REST_S = 0.3
"""Rest after a gesture."""
MOST_SPOTS = 400
"""Costed strategies that are kept for the chart."""

WAITING, RUNNING, ENDED, TIMED, STOPPED, FAILED = "waiting", "running", "ended", "timed", "stopped", "failed"
"""States of an entrant; `timed` is ended by its budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A strategy that was costed on the way, without its report."""

    searcher: str
    """Who tried it."""
    strategy: Strategy
    """The strategy."""
    label: str
    """In the searcher's words."""
    step_s: float
    """Step time."""
    peak_bytes: float
    """Worst device."""
    fits: bool
    """Whether it fits devices and limits."""
    over_bytes: float
    """What it is over by, on all devices together."""


@dataclass(slots=True, kw_only=True)
class Entrant:
    """A searcher of a comparison and how far it is."""

    name: str
    """Searcher."""
    state: str = WAITING
    """See the constants above."""
    run: Progress | None = None
    """Its last progress; the one of its search before while it has none, or if it failed with nothing."""
    own: bool = False
    """Whether `run` is of the present search."""
    error: str = ""
    """Why it failed."""
    curve: list[tuple[float, float]] = field(default_factory=list)
    """Best so far: (seconds, objective value)."""
    former: Progress | None = None
    """The search before, for the same inputs."""

    def fail(self, error: Exception) -> None:
        """It ended with an error; what was found before that, or by the search before, stays."""
        self.state, self.error = FAILED, str(error) or type(error).__name__
        if (self.run is None or self.run.best is None) and self.former is not None:
            self.run, self.own = self.former, False

    def take(self, progress: Progress) -> None:
        """Note one step."""
        self.run, self.own = progress, True
        best = progress.best
        if best is not None and (not self.curve or best.value < self.curve[-1][1]):
            self.curve.append((progress.wall_s, best.value))


class SearchTask:
    """One queue of searches at a time; the last result of every searcher is kept."""

    def __init__(self, lock: Any, on_change: Callable[[], None]) -> None:
        self._lock = lock
        self.on_change = on_change
        self.entrants: dict[str, Entrant] = {}
        """All that were asked for these inputs, in the order of their first search."""
        self.queue: tuple[str, ...] = ()
        """Searchers of the present or last search."""
        self.name = ""
        """Searcher at work, or that was last."""
        self.running = False
        """Whether a search is under way."""
        self.budget_s = 0.0
        """Seconds for the whole queue."""
        self.began = 0.0
        """When it began, on the clock of `time.perf_counter`."""
        self.error: Exception | None = None
        """What ended a search of one searcher, if that was an error."""
        self.spots: list[Spot] = []
        """Some of the strategies costed, for the chart."""
        self.closest: Spot | None = None
        """The one that is over by the least, while none fits."""
        self._every, self._seen = 1, 0
        self._turn = 0
        self._quiet_until = 0.0
        self._job: Job | None = None

    @property
    def runs(self) -> dict[str, Progress]:
        """Last progress of every searcher that has one."""
        return {name: item.run for name, item in self.entrants.items() if item.run is not None}

    @property
    def progress(self) -> Progress | None:
        """Of the searcher at work, or that was last."""
        found = self.entrants.get(self.name)
        return found.run if found is not None and found.own else None

    def best(self) -> Progress | None:
        """The best of the present or last search; None while nothing fits."""
        runs = [item.run for name in self.queue if (item := self.entrants[name]).own and item.run]
        fit = [run for run in runs if run.best is not None]
        return min(fit, key=lambda run: run.best.value if run.best else 0.0, default=None)

    def clear(self) -> None:
        """Forget results: they were for another model, cluster or workload."""
        self.stop()
        self.entrants, self.queue, self.name, self.error = {}, (), "", None
        self.spots, self.closest, self._every, self._seen = [], None, 1, 0

    def forget_curves(self) -> None:
        """Forget best values over time: the objective is another."""
        for item in self.entrants.values():
            item.curve = []

    def start(self, problems: Sequence[tuple[str, Problem]], *, budget_s: float) -> None:
        """Begin with the first searcher; each has an equal share of the time that is left at its turn.

        Raises:
            InputError: an unknown searcher.
            RuntimeError: no event loop.
        """
        self.stop()
        for name, _ in problems:
            SEARCHERS.get(name)  # `search` would say so only at its first step
        self._turn += 1
        turn = self._turn
        self._job = Job(lambda: self._drive(turn, problems))
        self.queue, self.name = tuple(name for name, _ in problems), problems[0][0]
        self.budget_s, self.began, self.error, self.running = budget_s, time.perf_counter(), None, True
        self.closest = None
        for name in self.queue:
            former = self.runs.get(name)
            self.entrants[name] = Entrant(name=name, run=former, former=former)

    def stop(self) -> None:
        """Ask no longer; what was found stays."""
        self._turn += 1
        self.running = False
        for name in self.queue:
            if self.entrants[name].state in (WAITING, RUNNING):
                self.entrants[name].state = STOPPED
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def give_way(self) -> None:
        """Somebody works on the board: rest a little."""
        self._quiet_until = time.perf_counter() + REST_S

    def wall_s(self) -> float:
        """Seconds since the queue began."""
        return time.perf_counter() - self.began

    # -- the loop ---------------------------------------------------------------------------------

    async def _drive(self, turn: int, problems: Sequence[tuple[str, Problem]]) -> None:
        for number, (name, problem) in enumerate(problems):
            share = max(0.0, self.budget_s - self.wall_s()) / (len(problems) - number)
            with self._lock:
                if turn != self._turn:
                    return
                entrant = self.entrants[name]
                self.name, entrant.state = name, RUNNING
            try:
                await self._search(turn, entrant, search(problem, name, budget_s=share), share)
            except Exception as error:  # noqa: BLE001 - shown in the page by whoever listens
                with self._lock:
                    if turn != self._turn:
                        return
                    entrant.fail(error)
                    self.error = error if len(problems) == 1 else None
        with self._lock:
            if turn == self._turn:
                self.running = False
                self.on_change()

    async def _search(self, turn: int, entrant: Entrant, steps: Iterator[Progress], share_s: float) -> None:
        began, reported = time.perf_counter(), 0.0
        walk = Walk(steps, lambda: self._may_go(turn))
        walk.start()
        while True:
            ended = walk.ended
            await asyncio.sleep(POLL_S if walk.threaded and not ended else 0.0)
            if not walk.threaded:
                walk.go(SLICE_S)
            with self._lock:
                if turn != self._turn:
                    return
                for progress in walk.take():
                    entrant.take(progress)
                    self._note(entrant.name, progress)
                if ended:
                    break
                if time.perf_counter() - reported > REPORT_S:
                    self.on_change()
                    reported = time.perf_counter()
        if walk.error is not None:
            raise walk.error
        with self._lock:
            if turn == self._turn:  # else it was stopped meanwhile, and stays so
                entrant.state = TIMED if time.perf_counter() - began >= share_s else ENDED

    def _may_go(self, turn: int) -> bool:
        """Wait until nobody is at work on the board; whether the search is still wanted."""
        while turn == self._turn and (rest := self._quiet_until - time.perf_counter()) > 0:
            time.sleep(rest)
        with self._lock:
            return turn == self._turn

    def _note(self, searcher: str, progress: Progress) -> None:
        """Keep some of what was costed: every one at first, then every second, every fourth, ..."""
        if progress.new is None:
            return
        spot = _spot(searcher, progress.new)
        if not spot.fits and (self.closest is None or spot.over_bytes < self.closest.over_bytes):
            self.closest = spot
        self._seen += 1
        if self._seen % self._every == 0:
            self.spots.append(spot)
        if len(self.spots) > MOST_SPOTS:
            self.spots = self.spots[::2]
            self._every *= 2


class Walk:
    """Steps of a search, taken one by one on a thread; what they find waits to be taken."""

    def __init__(self, steps: Iterator[Progress], may_go: Callable[[], bool]) -> None:
        self._steps, self._may_go = steps, may_go
        self._found: deque[Progress] = deque()
        self.ended = False
        """Whether there are no more steps; what was found before stands ready."""
        self.threaded = False
        """Whether a thread is at work; else `go` does it."""
        self.error: Exception | None = None
        """What ended it, if that was an error."""

    def start(self) -> None:
        """Begin, on a thread if this Python has any; it does not keep the process alive."""
        try:
            threading.Thread(target=self.go, daemon=True, name="search").start()
        except RuntimeError:
            return  # as in a browser's Python
        self.threaded = True

    def go(self, seconds: float = math.inf) -> None:
        """Take steps for so long, or until it ends or is not wanted any more."""
        until = time.perf_counter() + seconds
        try:
            while self._may_go():
                self._found.append(next(self._steps))
                if time.perf_counter() >= until:
                    return
        except StopIteration:
            pass
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            self.error = error
        self.ended = True

    def take(self) -> list[Progress]:
        """What was found since it was asked last."""
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found


def _spot(searcher: str, found: Candidate) -> Spot:
    report = found.report
    return Spot(
        searcher=searcher,
        strategy=found.strategy,
        label=found.label,
        step_s=report.step_time_s,
        peak_bytes=max(report.peak_memory_bytes),
        fits=found.value < float("inf"),
        over_bytes=sum(item.over_bytes for item in report.overflows),
    )
