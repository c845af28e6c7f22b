"""Pause of the cycle collector while the page waits for an answer.

Python's cycle collector walks every object that lives; with a large model loaded that takes 50 to 500 ms, and
it tends to begin just when an answer has been made. So it waits from a gesture until its answer is on its
way.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock

AFTER_S = 0.05
"""Seconds for the answer to leave: it is sent by a thread that the collector would keep from running."""

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
