"""Watchdog: tells a rank that stands still from one that is slow, however busy the machine is.

A rank shows life in two ways: its status page changes, or the thread that wrote it uses the processor. On a
machine with a dozen other programs everything takes a dozen times as long, but both go on; a rank that hangs,
or that waits for a message that never comes, shows neither. So seconds alone never condemn a rank: they are
counted from the last sign of life.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from explorer.run.status import COMPUTING, IDLE, STARTING, WAITING, Status

LOOK_EVERY_S = 1.0
"""Seconds between checks of the processes of ranks whose page stands still."""
LIMITS_S = {STARTING: 180.0, WAITING: 22.0, IDLE: 180.0}
"""Seconds without a sign of life of *any* rank after which a rank in this state stands still."""
SPIN_LIMIT_S = 600.0
"""Most processor seconds of one action beyond fifty times its predicted seconds."""


class Process(NamedTuple):
    """What the system reports about a rank's process."""

    cpu_s: float
    """Processor seconds of its main thread so far."""
    stopped: bool
    """Whether a signal has stopped it."""


class Stuck(NamedTuple):
    """A rank that stands still."""

    rank: int
    """The rank."""
    what: str
    """What it was doing."""
    still_s: float
    """Seconds it has stood still."""
    predicted_s: float
    """Seconds it should have taken; 0 if unknown."""
    stopped: bool
    """Whether a signal has stopped it."""

    def __str__(self) -> str:
        expected = f" (predicted {self.predicted_s:.3g} s)" if self.predicted_s else ""
        why = ", stopped by a signal" if self.stopped else ""
        return f"rank {self.rank} stands still: {self.what} for {self.still_s:.1f} s{expected}{why}"


@dataclass(slots=True)
class _Life:
    """What was last seen of one rank."""

    changes: int
    """Changes of its page."""
    changed_s: float
    """When the page last changed."""
    alive_s: float
    """When a sign of life was last seen."""
    looked_s: float
    """When its process was last looked at."""
    process: Process | None = None
    """What the system reported then."""


class Watchdog:
    """Judges ranks by the status pages that they write and by their processes.

    Args:
        ranks: number of ranks.
        patience_s: an action may show no life for five times its predicted seconds and this.
        look: returns what the system reports about a process, or None if it is gone.
        clock: returns seconds that only ever grow.
    """

    def __init__(
        self,
        ranks: int,
        patience_s: float,
        *,
        look: Callable[[int], Process | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.patience_s, self.look, self.clock = patience_s, look or look_at, clock
        now = clock()
        self._lives = [_Life(-1, now, now, now) for _ in range(ranks)]

    def judge(
        self, pages: Callable[[int], Status], pids: Mapping[int, int], done: Container[int]
    ) -> Stuck | None:
        """Return the rank that stands still; None if none does.

        Args:
            pages: the last status of each rank.
            pids: process numbers of the ranks that have started.
            done: ranks that have finished.
        """
        now = self.clock()
        states = {rank: pages(rank) for rank in range(len(self._lives)) if rank not in done}
        for rank, status in states.items():
            self._notice(self._lives[rank], status, pids.get(rank), now)
        return self._alone(states, now) or self._all_together(states, now)

    def _notice(self, life: _Life, status: Status, pid: int | None, now: float) -> None:
        """Take in what a rank shows about itself."""
        if status.changes != life.changes:
            life.changes, life.process = status.changes, None
            life.changed_s = life.alive_s = life.looked_s = now
        if pid is None or now - life.looked_s < LOOK_EVERY_S:
            return
        found, before = self.look(pid), life.process
        life.looked_s, life.process = now, found
        if found and (before is None or found.cpu_s > before.cpu_s) and not found.stopped:
            life.alive_s = now

    def _alone(self, states: Mapping[int, Status], now: float) -> Stuck | None:
        """Return a rank that stands still whatever the others do: stopped, or within an action of its own."""
        for rank, status in states.items():
            life = self._lives[rank]
            still_s = now - life.alive_s
            stopped = life.process is not None and life.process.stopped
            limit_s = self.patience_s + 5 * status.predicted_s
            spins = now - life.changed_s > SPIN_LIMIT_S + 50 * status.predicted_s
            if status.state == COMPUTING and (still_s > limit_s or spins):
                shown_s = still_s if still_s > limit_s else now - life.changed_s
                return Stuck(rank, status.text, shown_s, status.predicted_s, stopped)
            if stopped and still_s > self.patience_s:
                return Stuck(rank, _doing(status), still_s, 0.0, stopped=True)
        return None

    def _all_together(self, states: Mapping[int, Status], now: float) -> Stuck | None:
        """Return one of the ranks that all wait, for each other or for something that never comes."""
        still = {rank: now - self._lives[rank].alive_s for rank in states}
        if not states or any(
            still[rank] <= LIMITS_S.get(status.state, float("inf")) for rank, status in states.items()
        ):
            return None
        rank = max(states, key=lambda r: (states[r].state == STARTING, states[r].state != IDLE, still[r]))
        return Stuck(rank, _doing(states[rank]), still[rank], 0.0, stopped=False)


def look_at(pid: int) -> Process | None:
    """Return the seconds of a process's main thread and whether it is stopped; None if it is gone."""
    try:
        process = psutil.Process(pid)
        return Process(_used_s(process, pid), process.status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return None


def _used_s(process: psutil.Process, pid: int) -> float:
    """Return the processor seconds of the main thread.

    If threads cannot be told apart, return those of all of them, in steps so coarse that the guard alone
    takes minutes for one.
    """
    with contextlib.suppress(psutil.AccessDenied, NotImplementedError):
        for thread in process.threads():
            if thread.id == pid:
                return float(thread.user_time + thread.system_time)
    times = process.cpu_times()
    return round(float(times.user + times.system), 1)


def _doing(status: Status) -> str:
    return status.text or ("its end" if status.state == IDLE else "its start")
