"""Pauses of the cycle collector: while the page waits for an answer, and while idle work is in small slices.

Python's cycle collector walks every object that lives; with a large model loaded that takes 50 to 500 ms, and
it tends to begin just when an answer has been made. So it waits from a gesture until its answer is on its
way. Idle work, which a gesture may interrupt at every pause, makes most of the objects that call for such a
walk: it is put off until that work ends, and mostly comes while the page draws the next answer.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

AFTER_S = 0.05
"""Seconds for the answer to leave: it is sent by a thread that the collector would keep from running."""

NEVER = 2**30
"""Younger searches between two of everything, so that none comes."""

_LOCK = Lock()


class _Hold:
    """Hold on the collector, which is off while any hold lives; the last one turns it on again if it was
    on.
    """

    alive = 0
    was_on = False

    def __init__(self) -> None:
        with _LOCK:
            if not _Hold.alive:
                _Hold.was_on = gc.isenabled()
                gc.disable()
            _Hold.alive += 1

    def __del__(self) -> None:
        with _LOCK:
            _Hold.alive -= 1
            if not _Hold.alive and _Hold.was_on:
                gc.enable()


def _let_go(hold: _Hold) -> None:
    """Do nothing: the timer that calls this, or a loop that closes before, drops the last use of `hold`."""


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the cycle collector off inside and, if an event loop runs, for a moment after."""
    hold = _Hold()
    try:
        yield
    finally:
        with suppress(RuntimeError):  # no loop: nothing waits for what was sent
            asyncio.get_running_loop().call_later(AFTER_S, _let_go, hold)
        del hold


class _Putting:
    """Idle work under way that puts off searches of everything; the last to end lets them come again."""

    alive = 0
    usual = 10


@contextmanager
def small_slices() -> Iterator[None]:
    """Search only for young garbage meanwhile; what was put off is due as soon as this ends."""
    with _LOCK:
        young, middle, every = gc.get_threshold()
        if not _Putting.alive:
            _Putting.usual = every
        _Putting.alive += 1
        gc.set_threshold(young, middle, NEVER)
    try:
        yield
    finally:
        with _LOCK:
            _Putting.alive -= 1
            if not _Putting.alive:
                gc.set_threshold(*gc.get_threshold()[:2], _Putting.usual)
