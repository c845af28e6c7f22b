"""Cause: why a run failed, from what its ranks reported, how they ended and what was printed.

The rank that failed first is named, not those that only noticed its absence.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from explorer.base.errors import RunError

SHOWN_LINES = 40
"""Last lines of the log that an error shows."""
_FAILED = re.compile(
    r"exitcode\s*:\s*(-?\d+)\s*\(pid:\s*(\d+)\)|exitcode: (-?\d+)\) local_rank: (\d+) \(pid: (\d+)\)"
)
_NO_MEMORY = re.compile(r"memory allocation|allocate memory|bad_alloc|MemoryError", re.IGNORECASE)
"""What libraries print that get no memory before Python can say so, as OpenBLAS and C++ do."""
_CRASHED = re.compile(
    r"Fatal Python error: .*?Current thread [^\n]*\s+File \"([^\"]*)\", line (\d+) in (\S+)", re.DOTALL
)
"""What Python's fault handler prints when a signal such as SIGSEGV or SIGBUS meets a rank."""
_ASKED = re.compile(r"Process (\d+) got signal: (\d+)")

Event = dict[str, Any]
"""One JSON line of a rank: `event`, `rank` and the fields that belong to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known of a run that has failed."""

    torchrun: int
    """Number of torchrun's process."""
    status: int | None
    """Its exit status, negative for a signal; None while it runs."""
    log: str
    """What ranks and torchrun printed."""
    seen: Sequence[Event]
    """What ranks reported, in order."""
    found: Mapping[int, int]
    """Process numbers of ranks that were seen, but have reported nothing."""
    disk_is_full: bool
    """Whether the disk of the run's folder is full."""
    doing: Callable[[int], str]
    """Returns what a rank was doing, or nothing."""
    lives: Callable[[int], bool]
    """Tells whether a process still runs."""

    def said(self, kind: str) -> dict[int, Event]:
        """Return the first event of a kind by rank."""
        found: dict[int, Event] = {}
        for event in self.seen:
            if event["event"] == kind:
                found.setdefault(int(event["rank"]), event)
        return found

    @property
    def shown(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.splitlines()[-SHOWN_LINES:])


def cause_of(run: Evidence) -> RunError:
    """Return why a run failed."""
    faults = run.said("fault")
    own = [event for event in faults.values() if not event["echo"]]
    agent = _agent_end(run)
    if own and not (agent and only_interrupted(faults)):
        event = own[0]
        note = " (out of memory)" if event.get("memory") else ""
        return RunError(
            f"rank {event['rank']} failed{_where(event)}{note}: {event['message']}",
            rank=event["rank"],
            log=event["log"],
        )
    if agent:
        return RunError(f"torchrun {agent}", log=run.shown)
    if silent := _silent(run):
        rank, how = silent
        return RunError(f"rank {rank} {how}{_during(run, rank)}", rank=rank, log=run.shown)
    for rank, ended in run.said("ended").items():
        text = f"rank {rank} was ended by {ended['reason']}{_during(run, rank)}"
        return RunError(text, rank=rank, log=run.shown)
    for event in faults.values():
        return RunError(
            f"rank {event['rank']} lost its connection{_where(event)}: {event['message']}",
            rank=event["rank"],
            log=event["log"],
        )
    full = " (its disk is full)" if run.disk_is_full else ""
    return RunError(
        f"the ranks did not start: torchrun {_how(run.status)}{full}: {_reason(run.shown)}", log=run.shown
    )


def only_interrupted(faults: Mapping[int, Event]) -> bool:
    """Tell whether nothing is known but that ranks were interrupted."""
    names = [event["message"] for event in faults.values() if not event["echo"]]
    return bool(names) and set(names) == {KeyboardInterrupt.__name__}


def _agent_end(run: Evidence) -> str:
    """Return which signal ended torchrun itself, which takes its ranks along; empty if none did."""
    if run.status is not None and run.status < 0:
        return _how(run.status)
    asked = _ASKED.search(run.log)
    heard = asked is not None and int(asked[1]) == run.torchrun
    return f"was ended by {_signal_name(int(asked[2]))}" if asked and heard else ""


def _silent(run: Evidence) -> tuple[int, str] | None:
    """Return a rank that died without a word, and how; None if there is none."""
    began = {rank: int(event["pid"]) for rank, event in run.said("start").items()}
    codes: dict[int, int] = {}
    ranks = dict(run.found)
    for match in _FAILED.finditer(run.log):
        code, pid = (match[1], match[2]) if match[1] else (match[3], match[5])
        codes.setdefault(int(pid), int(code))
        if match[4]:
            ranks.setdefault(int(match[4]), int(pid))
    spoke = {*run.said("done"), *run.said("fault"), *run.said("ended")}
    # torchrun ends the others with SIGTERM: a rank of another end was the first
    found = {**ranks, **began}.items()
    ends = sorted(found, key=lambda pair: (pair[1] not in codes, codes.get(pair[1]) == -signal.SIGTERM))
    for rank, pid in ends:
        if rank not in spoke and (pid in codes or not run.lives(pid)):
            full = " (the disk is full)" if run.disk_is_full else ""
            code = codes.get(pid, 0)
            said = (
                _last_words(run.log, began=rank in began) if code > 0 else _crash(run.log) if code < 0 else ""
            )
            return rank, _how(codes.get(pid)) + (full or said)
    return None


def _last_words(log: str, *, began: bool) -> str:
    """Return what a rank printed of its end, in brackets: the want of memory or its last error.

    One that has printed nothing before it began had no room for its libraries, as far as one can guess.
    """
    if lacking := [line.strip() for line in log.splitlines() if _NO_MEMORY.search(line)]:
        return f" (out of memory: {lacking[-1]})"
    if errors := _errors(log):
        return f" ({errors[-1]})"
    return "" if began else " without a word (out of memory?)"


def _crash(log: str) -> str:
    """Return the line of Python at which a signal met a rank, in brackets; empty if none was printed."""
    found = _CRASHED.search(log)
    return f" (in {found[3]}, line {found[2]} of {Path(found[1]).name})" if found else ""


def _reason(text: str) -> str:
    """Return the last line that says something: torchrun closes what it prints with rules."""
    lines = [line.strip() for line in text.splitlines() if re.search(r"\w", line)]
    return (_errors(text) or lines or ["no output"])[-1]


def _errors(text: str) -> list[str]:
    """Return the last lines of the tracebacks in a log, but for torchrun's own, that a rank has failed."""
    lines = [line.strip() for line in text.splitlines()]
    found = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception)\b", line)]
    return [line for line in found if "ChildFailedError" not in line]


def _where(event: Event) -> str:
    return f" at {event['at']}" if event.get("at") else ""


def _during(run: Evidence, rank: int) -> str:
    doing = run.doing(rank)
    return f" during {doing}" if doing else ""


def _how(code: int | None) -> str:
    if code is None:
        return "ended without a word"
    if code < 0:
        hint = "; the system does that when memory runs out" if -code == signal.SIGKILL else ""
        return f"was killed by {_signal_name(-code)}{hint}"
    return f"left with exit status {code}"


def _signal_name(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
