"""Watchdog: tells a run that stands still from one that is slow, however busy the machine is.

A rank shows life in two ways: its status page changes, or the thread that wrote it uses the processor. On a
machine with a dozen other programs everything takes a dozen times as long, but both go on; a rank that hangs,
or that waits for a message that never comes, shows neither. So seconds alone never condemn a rank: they are
counted from the last sign of life of *any* rank, and the limit grows with the machine's load. Until torchrun
has started a rank its own work is that rank's: it imports torch first, which takes half a minute where ten
programs want each core. Seconds in which this process did not look count for nobody. A rank that a signal
has stopped is told at once, whatever the others do.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import psutil

from explorer.run.launching.status import COMPUTING, IDLE, STARTING, Status

LOOK_EVERY_S = 1.0
"""Seconds between checks of the processes of ranks whose page stands still."""
STILL, TASKS, APART = 2.0, 5.0, 3.0
"""A run stands still after so many times the patience without a sign of life, or after so many times its
longest task (whichever is longer), while ranks start and end after so many times that: they read files then.
"""
AGENT_SHARE = 0.03
"""Share of a core above which torchrun works on the start of ranks; while it waits for them it takes 0.0024,
in a single second up to 0.014.
"""
SPIN_LIMIT_S = 600.0
"""Most processor seconds of one action beyond fifty times its predicted seconds."""


class Process(NamedTuple):
    """What the system reports about a rank's process."""

    cpu_s: float
    """Processor seconds of its main thread so far."""
    stopped: bool
    """Whether a signal has stopped it."""
    wants_core: bool = False
    """Whether its main thread computes, or waits only for a core to do so."""


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
        patience_s: seconds after which a stopped rank is told; a run may show no life for twice as long.
        longest_s: predicted seconds of the run's longest task: it may show no life for five times as long,
            on a loaded machine for as many times more.
        look: returns what the system reports about a process, or None if it is gone.
        clock: returns seconds that only ever grow.
        load: returns how many programs each core has to do, at least 1.
    """

    def __init__(
        self,
        ranks: int,
        patience_s: float,
        *,
        longest_s: float = 0.0,
        look: Callable[[int], Process | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
        load: Callable[[], float] | None = None,
    ) -> None:
        self.patience_s, self.longest_s = patience_s, longest_s
        self.look, self.clock, self.load = look or look_at, clock, load or load_per_core
        now = clock()
        self._lives = [_Life(-1, now, now, now) for _ in range(ranks)]
        self._agent, self._agent_looked_s = 0.0, now
        self._judged_s = now

    def judge(
        self,
        pages: Callable[[int], Status],
        pids: Mapping[int, int],
        done: Container[int],
        *,
        agent: int | None = None,
    ) -> Stuck | None:
        """Return the rank that stands still; None if none does.

        Args:
            pages: the last status of each rank.
            pids: process numbers of the ranks that have started.
            done: ranks that have finished.
            agent: process that starts those without one; None if there is none.
        """
        now = self.clock()
        self._leave_out(now - self._judged_s - LOOK_EVERY_S)
        self._judged_s = now
        states = {rank: pages(rank) for rank in range(len(self._lives)) if rank not in done}
        if agent is not None and (waiting := [rank for rank in states if rank not in pids]):
            self._notice_agent(agent, waiting, now)
        for rank, status in states.items():
            self._notice(self._lives[rank], status, pids.get(rank), now)
        return self._stopped(states, now) or self._spinning(states, now) or self._still(states, now)

    def _leave_out(self, unseen_s: float) -> None:
        """Blame no rank for seconds in which nobody looked: this process had to wait for a core too."""
        for life in self._lives if unseen_s > 0 else ():
            life.alive_s += unseen_s
            life.changed_s += unseen_s

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

    def _notice_agent(self, agent: int, waiting: Iterable[int], now: float) -> None:
        """Take what torchrun works, or would if it got a core, as life of ranks that it has not started."""
        past_s = now - self._agent_looked_s
        if past_s < LOOK_EVERY_S or (found := self.look(agent)) is None:
            return
        if found.wants_core or found.cpu_s - self._agent > AGENT_SHARE * past_s:
            for rank in waiting:
                self._lives[rank].alive_s = now
        self._agent, self._agent_looked_s = found.cpu_s, now

    def _stopped(self, states: Mapping[int, Status], now: float) -> Stuck | None:
        """Return a rank that a signal has stopped."""
        for rank, status in states.items():
            life = self._lives[rank]
            if life.process is not None and life.process.stopped and now - life.alive_s > self.patience_s:
                shown = status.predicted_s if status.state == COMPUTING else 0.0
                return Stuck(rank, _doing(status), now - life.alive_s, shown, stopped=True)
        return None

    def _spinning(self, states: Mapping[int, Status], now: float) -> Stuck | None:
        """Return a rank that computes one action for ever."""
        for rank, status in states.items():
            spins_s = now - self._lives[rank].changed_s
            if status.state == COMPUTING and spins_s > SPIN_LIMIT_S + 50 * status.predicted_s:
                return Stuck(rank, status.text, spins_s, status.predicted_s, stopped=False)
        return None

    def _still(self, states: Mapping[int, Status], now: float) -> Stuck | None:
        """Return who holds up a run in which no rank shows life."""
        if not states:
            return None
        quiet_s = min(now - self._lives[rank].alive_s for rank in states)
        apart = any(status.state in (STARTING, IDLE) for status in states.values())
        if quiet_s <= STILL * self.patience_s or quiet_s <= self._limit_s(states) * (APART if apart else 1.0):
            return None
        rank = culprit(states)
        status = states[rank]
        shown = status.predicted_s if status.state == COMPUTING else 0.0
        return Stuck(rank, _doing(status), now - self._lives[rank].alive_s, shown, stopped=False)

    def _limit_s(self, states: Mapping[int, Status]) -> float:
        """Return the seconds that a run without a sign of life is given."""
        longest_s = max(self.longest_s, *(status.predicted_s for status in states.values()))
        return max(STILL * self.patience_s, TASKS * longest_s * max(1.0, self.load()))


def culprit(states: Mapping[int, Status]) -> int:
    """Return the rank that holds up the others: one that has all it needs for what it does, else one that is
    behind the others, else the one at the end of a chain of ranks that wait for each other.
    """
    for state in (COMPUTING, STARTING):
        found = [rank for rank, status in states.items() if status.state == state]
        if found:
            return found[0]
    rank, seen = min(states, key=lambda r: (states[r].state == IDLE, r)), set[int]()
    while rank not in seen:
        seen.add(rank)
        waits = _WAITS.search(states[rank].text)
        if waits and int(waits[1]) in states:
            rank = int(waits[1])
    return rank


_WAITS = re.compile(r"waits for rank (\d+)")


def load_per_core() -> float:
    """Return how many programs each core has to do, on average over the last minute; at least 1."""
    try:
        return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except (OSError, AttributeError):
        return 1.0


def look_at(pid: int) -> Process | None:
    """Return the seconds of a process's main thread and whether it is stopped; None if it is gone."""
    try:
        process = psutil.Process(pid)
        state = process.status()
        return Process(_used_s(process, pid), state == psutil.STATUS_STOPPED, state == psutil.STATUS_RUNNING)
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
