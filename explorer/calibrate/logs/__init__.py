"""Logs of trainers: step times and memory from the lines that they print, one file for each trainer.

A parser gets the whole text and what the plan says (`LogFacts`) and returns the steps that it finds; none if
the text is not its trainer's. Text is searched by patterns, never executed. `read_log` asks all parsers and
takes the steadiest steps of the one that found most.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

from explorer.base.errors import InputError
from explorer.base.files import read_packed
from explorer.base.registry import Registry, Spec
from explorer.calibrate.measured_runs import ALLOCATED
from explorer.calibrate.posterior import centre

MOST_BYTES = 256 * 2**20
"""Longest log that is read, unpacked: a trace of a few steps is a tenth of it."""
LEAST_SPREAD = 0.002
"""Least standard deviation of the logarithm of a median step time: clocks and temperatures drift."""
WARM = 1.1
"""Times the usual step up to which a first step counts as warm."""
_COLOURS = re.compile("\x1b\\[[0-9;]*m")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    """What the plan that ran says, for logs that print rates."""

    global_batch: int
    """Samples of one step."""
    sequence_length: int
    """Tokens of a sample; 0 if samples are no sequences."""
    devices: int
    """Devices that ran it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedSteps:
    """Steps that a parser found."""

    steps: tuple[tuple[int, float], ...] = ()
    """(number of the step as printed, its seconds); one that several ranks print may come again."""
    memory_bytes: float = 0.0
    """Largest peak of memory of any device; 0 if the log does not say."""
    memory_of: str = ALLOCATED
    """Whose memory (`explorer.calibrate.measured_runs.MEMORIES`)."""
    spread: float = 0.0
    """Standard deviation of the logarithm of what is not a warm step's own time: a mean of the whole run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainerLog(Spec):
    """One trainer's log; its function takes the text and `LogFacts` and returns `LoggedSteps`."""

    whole: bool
    """Whether it times whole steps, with what is between them; preferred where two trainers print."""

    def find(self, text: str, facts: LogFacts) -> LoggedSteps:
        """Return the steps in a text.

        Raises:
            InputError: it contradicts the plan.
        """
        found: LoggedSteps = self.function(text, facts)
        return found


LOGS: Registry[TrainerLog] = Registry("trainer's log", "explorer.calibrate.logs", TrainerLog)
"""Parsers by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLog:
    """What a log says of a run."""

    trainer: str
    """Name of the parser."""
    title: str
    """Trainer for people."""
    step_time_s: float
    """Median seconds of a warm step."""
    spread: float
    """Standard deviation of the logarithm of that median."""
    steps: int
    """Number of steps, or means of steps, that count."""
    left_out: int
    """Number of first ones that do not."""
    memory_bytes: float
    """Most memory of any device; 0 if unknown."""
    memory_of: str
    """Whose memory."""


def read_log(path: Path, facts: LogFacts) -> ReadLog:
    """Read a log; `.gz` is unpacked.

    Raises:
        InputError: it cannot be read, says no step time, or contradicts the plan.
    """
    text = read_packed(path, most=MOST_BYTES).decode("utf-8", errors="replace")
    try:
        return log_of(text, facts)
    except InputError as error:
        raise error.within(file=str(path)) from None


def log_of(text: str, facts: LogFacts) -> ReadLog:
    """Return what the text of a log says.

    Raises:
        InputError: it says no step time, or contradicts the plan.
    """
    text = plain(text)
    found = [(log, log.find(text, facts)) for log in LOGS]
    best = max(found, key=lambda item: (len(item[1].steps), item[0].whole))
    log, logged = best
    if not logged.steps:
        raise InputError(
            "no step time in this log", key="--log",
            allowed="lines of " + ", ".join(item.title for item in LOGS),
        )  # fmt: skip
    warm = warm_steps(logged.steps)
    middle = centre([math.log(seconds) for seconds in warm])
    return ReadLog(
        trainer=log.name,
        title=log.title,
        step_time_s=math.exp(middle.mean),
        spread=math.hypot(middle.sd, LEAST_SPREAD, logged.spread),
        steps=len(warm),
        left_out=len({number for number, _ in logged.steps}) - len(warm),
        memory_bytes=logged.memory_bytes,
        memory_of=logged.memory_of,
    )


def plain(text: str) -> str:
    """Return a text without the codes that colour it on a terminal."""
    return _COLOURS.sub("", text)


def warm_steps(steps: tuple[tuple[int, float], ...]) -> list[float]:
    """Return the seconds of steps without the first ones, which compile, allocate and connect.

    The first printed step never counts if there is another; further ones do not as long as they take more
    than `WARM` times the median of the later half. Of ranks that print the same step the slowest counts.

    >>> warm_steps(((1, 9.0), (2, 1.5), (3, 1.0), (4, 1.0), (5, 1.02)))
    [1.0, 1.0, 1.02]
    """
    slowest: dict[int, float] = {}
    for number, seconds in steps:
        if 0 < seconds < math.inf:
            slowest[number] = max(seconds, slowest.get(number, 0.0))
    times = [slowest[number] for number in sorted(slowest)]
    if len(times) < 2:
        return times
    usual = sorted(times[len(times) // 2 :])[(len(times) - len(times) // 2) // 2]
    first = next(
        i for i, seconds in enumerate(times) if i and (seconds <= WARM * usual or i == len(times) - 1)
    )
    return times[first:]


def number_of(text: str) -> float:
    """Return a number as logs print it, with commas between thousands.

    >>> number_of("3,214.5")
    3214.5
    """
    return float(text.replace(",", ""))
