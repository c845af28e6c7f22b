"""Steady timing: work repeated until the clock can resolve it, where possible with a core to itself.

A timing during which the system gave the core to others is discarded.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from statistics import median
from typing import NamedTuple

SAMPLES = 3
"""Timings of everything in one round."""
SHORTEST_S = 0.002
"""Seconds that repeated device work lasts at least."""
LONGEST_S = 0.5
"""Seconds above which a thing is timed only once in a round."""
WHOLE_SHARE = 0.95
"""Share of a core below which others had some of it."""

Timed = Callable[[], object]
"""Work to be timed."""


class Item(NamedTuple):
    """One thing to measure."""

    what: str
    precision: str
    size: tuple[int, ...]


Measured = Callable[[], float | None]
"""Measures an item: its seconds, None on ranks that only help."""


def wall(work: Timed) -> float:
    """Return the seconds of the wall that work takes once."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def repeats(once_s: float) -> int:
    """Return the repetitions of one timing."""
    return max(1, math.ceil(SHORTEST_S / max(once_s, 1e-9))) if once_s < LONGEST_S else 1


def steady(
    work: Timed, count: int, after: Timed | None = None, *, worked: Callable[[], float] = time.thread_time
) -> float:
    """Return the median seconds of a repetition over the timings in which this rank had its core to itself.

    If there is none, return the seconds that the core worked for it: it computes in one thread.

    Args:
        work: what is timed.
        count: repetitions in one timing.
        after: done after each timing, which does not count.
        worked: seconds that the device has worked (`explorer.run.ranks.clocks.worked_s`).
    """
    whole, every = [], []
    for _ in range(SAMPLES):
        cpu, begin = worked(), time.perf_counter()
        for _ in range(count):
            work()
        taken, spent = time.perf_counter() - begin, worked() - cpu
        every.append(spent / count)
        if spent >= WHOLE_SHARE * taken:
            whole.append(taken / count)
        if after is not None:
            after()
    return median(whole or every)
