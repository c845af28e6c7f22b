"""Searches one after another, on a thread of their own, so that page and kernel stay free.

The thread touches no widget: it leaves what it found for the event loop, which takes it over under the lock
of the workbench. Between two steps it waits until that lock is free, and after a gesture it rests a little,
so that no drag competes with a search. Without threads, slices of the loop do the same.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from explorer.base.errors import InputError
from explorer.search import SEARCHERS, Candidate, Problem, Progress, search
from explorer.search.comparison import ENDED, RUNNING, STOPPED, TIMED, UNABLE, WAITING, Curve, longer
from explorer.strategy import Strategy
from explorer.views.frontier import axis_names
from widgets.jobs import Job

SLICE_S = 0.04
"""Longest slice in seconds on the event loop, if there are no threads and as far as the searcher's own steps
allow.
"""
POLL_S = 0.05
"""Seconds between two looks at what was found."""
REPORT_S = 0.3
"""Seconds between two reports to the page."""
REST_S = 0.3
"""Seconds of rest after a gesture."""
MOST_SPOTS = 400
"""Most costed strategies that are kept for the chart."""

FAILED = "failed"
"""State of an entrant whose search broke; the others are those of `explorer.search.comparison`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """A strategy that was costed on the way, without its report."""

    searcher: str
    """Searcher that tried it."""
    strategy: Strategy
    """The strategy."""
    label: str
    """Label in the searcher's words."""
    step_s: float
    """Predicted step time in seconds."""
    peak_bytes: float
    """Peak bytes of the worst device."""
    axes: tuple[str, ...]
    """Axes of the frontier of the search that costed it."""
    point: tuple[float, ...]
    """Its values along them."""
    fits: bool
    """Whether it fits devices and limits."""
    over_bytes: float
    """Bytes that are missing, on all devices together."""
    short_samples_per_s: float = 0.0
    """Samples per second that are missing to the throughput asked for."""

    @property
    def lacking(self) -> tuple[float, float]:
        """What it lacks, by which the closest is told: bytes, then samples per second."""
        return self.over_bytes, self.short_samples_per_s


@dataclass(slots=True, kw_only=True)
class Entrant:
    """A searcher of a comparison and its progress."""

    name: str
    """Name of the searcher."""
    state: str = WAITING
    """`FAILED`, or a state of `explorer.search.comparison`."""
    run: Progress | None = None
    """Its last progress; that of its previous search while it has none, or if it failed with nothing."""
    own: bool = False
    """Whether `run` belongs to the present search."""
    error: str = ""
    """Why it failed, or what it cannot do."""
    curve: Curve = ()
    """Best so far, against evaluations and seconds."""
    former: Progress | None = None
    """The previous search for the same inputs."""

    def fail(self, error: Exception) -> None:
        """End with an error; keep what was found before it, or by the previous search."""
        self.state = UNABLE if isinstance(error, InputError) else FAILED
        self.error = " ".join(str(error).split()) or type(error).__name__
        if (self.run is None or self.run.best is None) and self.former is not None:
            self.run, self.own = self.former, False

    def take(self, progress: Progress) -> None:
        """Note one step."""
        self.run, self.own = progress, True
        self.curve = longer(self.curve, progress)


class SearchTask:
    """Queue of searches, run one at a time; the last result of every searcher is kept."""

    def __init__(self, lock: Any, on_change: Callable[[], None]) -> None:
        self._lock = lock
        self.on_change = on_change
        self.entrants: dict[str, Entrant] = {}
        """All searchers run for these inputs, in the order of their first search."""
        self.queue: tuple[str, ...] = ()
        """Searchers of the present or last search."""
        self.name = ""
        """Searcher at work, or the last one."""
        self.running = False
        """Whether a search is under way."""
        self.budget_s = 0.0
        """Seconds for the whole queue."""
        self.began = 0.0
        """When it began, on the clock of `time.perf_counter`."""
        self.error: Exception | None = None
        """The error that ended a searcher's search; None if none did."""
        self.spots: list[Spot] = []
        """Some of the strategies costed, for the chart."""
        self.closest: Spot | None = None
        """The candidate that lacks the least memory, while none fits."""
        self._every, self._seen = 1, 0
        self._turn = 0
        self._skipped = ""
        self._quiet_until = 0.0
        self._job: Job | None = None

    @property
    def runs(self) -> dict[str, Progress]:
        """Last progress of every searcher that has one."""
        return {name: item.run for name, item in self.entrants.items() if item.run is not None}

    @property
    def progress(self) -> Progress | None:
        """Progress of the searcher at work, or of the last one."""
        found = self.entrants.get(self.name)
        return found.run if found is not None and found.own else None

    def best(self) -> Progress | None:
        """Return the best of the present or last search; None while nothing fits."""
        runs = [item.run for name in self.queue if (item := self.entrants[name]).own and item.run]
        fit = [run for run in runs if run.best is not None]
        return min(fit, key=lambda run: run.best.value if run.best else 0.0, default=None)

    def clear(self) -> None:
        """Drop results: they were for another model, cluster or workload."""
        self.stop()
        self.entrants, self.queue, self.name, self.error = {}, (), "", None
        self.spots, self.closest, self._every, self._seen = [], None, 1, 0

    def forget_curves(self) -> None:
        """Drop best values over time: the objective is another."""
        for item in self.entrants.values():
            item.curve = ()

    def start(self, problems: Sequence[tuple[str, Problem]], *, budget_s: float, jobs: int = 1) -> None:
        """Begin with the first searcher; each has an equal share of the time that is left at its turn.

        Args:
            problems: searchers and what they search.
            budget_s: seconds for all of them.
            jobs: processes that cost strategies, this one included.

        Raises:
            InputError: an unknown searcher.
            RuntimeError: no event loop.
        """
        self.stop()
        for name, _ in problems:
            SEARCHERS.get(name)  # `search` would raise only at its first step
        self._turn += 1
        turn = self._turn
        self._job = Job(lambda: self._drive(turn, problems, jobs))
        self.queue, self.name = tuple(name for name, _ in problems), problems[0][0]
        self.budget_s, self.began, self.error, self.running = budget_s, time.perf_counter(), None, True
        self.closest = None
        for name in self.queue:
            former = self.runs.get(name)
            self.entrants[name] = Entrant(name=name, run=former, former=former)

    def stop(self) -> None:
        """Stop the search; results stay."""
        self._turn += 1
        self.running = False
        for name in self.queue:
            if self.entrants[name].state in (WAITING, RUNNING):
                self.entrants[name].state = STOPPED
        if self._job is not None:
            self._job.cancel()
            self._job = None

    def skip(self) -> None:
        """Stop the searcher at work, what it found stays; the next one begins, with its share of the time."""
        self._skipped = self.name

    def give_way(self) -> None:
        """Rest a little, since the board is in use."""
        self._quiet_until = time.perf_counter() + REST_S

    def wall_s(self) -> float:
        """Return the seconds since the queue began."""
        return time.perf_counter() - self.began

    # -- the loop ---------------------------------------------------------------------------------

    async def _drive(self, turn: int, problems: Sequence[tuple[str, Problem]], jobs: int) -> None:
        for number, (name, problem) in enumerate(problems):
            share = max(0.0, self.budget_s - self.wall_s()) / (len(problems) - number)
            with self._lock:
                if turn != self._turn:
                    return
                entrant = self.entrants[name]
                self.name, entrant.state, self._skipped = name, RUNNING, ""
            try:
                steps = search(problem, name, budget_s=share, jobs=jobs)
                await self._search(turn, entrant, steps, share)
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
        walk = Walk(steps, lambda: self._may_go(turn) and self._skipped != entrant.name)
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
                timed = TIMED if time.perf_counter() - began >= share_s else ENDED
                entrant.state = STOPPED if self._skipped == entrant.name else timed

    def _may_go(self, turn: int) -> bool:
        """Wait until the board is idle; return whether the search is still wanted."""
        while turn == self._turn and (rest := self._quiet_until - time.perf_counter()) > 0:
            time.sleep(rest)
        with self._lock:
            return turn == self._turn

    def _note(self, searcher: str, progress: Progress) -> None:
        """Keep some of what was costed: every one at first, then every second, every fourth, ..."""
        if progress.new is None:
            return
        spot = _spot(searcher, progress.objective, progress.new)
        if not spot.fits and (self.closest is None or spot.lacking < self.closest.lacking):
            self.closest = spot
        self._seen += 1
        if self._seen % self._every == 0:
            self.spots.append(spot)
        if len(self.spots) > MOST_SPOTS:
            self.spots = self.spots[::2]
            self._every *= 2


class Walk:
    """Steps of a search, taken one by one on a thread; their results wait to be taken."""

    def __init__(self, steps: Iterator[Progress], may_go: Callable[[], bool]) -> None:
        self._steps, self._may_go = steps, may_go
        self._found: deque[Progress] = deque()
        self.ended = False
        """Whether there are no more steps; earlier results are ready."""
        self.threaded = False
        """Whether a thread is at work; else `go` does it."""
        self.error: Exception | None = None
        """The error that ended it; None if none did."""

    def start(self) -> None:
        """Begin, on a thread if this Python has any; it does not keep the process alive."""
        try:
            threading.Thread(target=self.go, daemon=True, name="search").start()
        except RuntimeError:
            return  # no threads, as in a browser's Python
        self.threaded = True

    def go(self, seconds: float = math.inf) -> None:
        """Take steps for some seconds, or until it ends or is no longer wanted."""
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
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()  # processes of the search end now, not when the garbage is collected
        self.ended = True

    def take(self) -> list[Progress]:
        """Return what was found since the last call."""
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found


def _spot(searcher: str, objective: str, found: Candidate) -> Spot:
    outcome = found.outcome  # not the report: another process may have it
    return Spot(
        searcher=searcher,
        strategy=found.strategy,
        label=found.label,
        step_s=outcome.step_time_s,
        peak_bytes=outcome.peak_memory_bytes,
        axes=axis_names(objective),
        point=outcome.point,
        fits=found.value < float("inf"),
        over_bytes=outcome.over_bytes,
        short_samples_per_s=outcome.short_samples_per_s,
    )
