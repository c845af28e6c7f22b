"""Pacing: steps of any length, of which one hears every 50 ms and which can be given up in the middle.

The steps are taken on a thread of their own, one for each that is asked for. Who asks waits for at most a
pause, and is told that the step is not done yet. Between two askings the thread is held at its next
checkpoint (`explorer.base.checkpoints`), so what it computes never competes with who could ask; given up, it
ends there. What the steps do, and in which order, is the same as without a thread.
"""

from __future__ import annotations

import atexit
import contextvars
import threading
from collections.abc import Generator
from contextlib import suppress
from typing import Generic, TypeVar

from explorer.base.checkpoints import Stopped, watched
from explorer.base.collector import collected

T = TypeVar("T")

PAUSE_S = 0.05
"""Seconds after which one hears of a step that is not done."""
PATIENCE_S = 0.03
"""Seconds to wait for a thread that was told to end. It ends at its next checkpoint in any case; with a pause
who stops has waited 80 ms at most, of the 100 that stopping may take."""
LAST_PATIENCE_S = 60.0
"""Seconds that the interpreter waits at its end for such a thread."""


class NotYet:
    """What comes instead of a step that is not done."""


NOT_YET = NotYet()


def paced(steps: Generator[T, None, None], pause_s: float | None = None) -> Generator[T | NotYet, None, None]:
    """Yield steps, and `NOT_YET` whenever one takes longer than a pause (or than the rest of it).

    Where there are no threads, as in a browser's Python, steps take as long as they take.

    Args:
        steps: the steps; closed at the end.
        pause_s: seconds of a pause; None for `PAUSE_S`.

    Raises:
        Exception: whatever the steps raise.
    """
    worker = _Worker(steps)
    if not worker.start():
        yield from steps
        return
    try:
        while True:
            try:
                found = worker.ask(PAUSE_S if pause_s is None else pause_s)
            except StopIteration:
                return
            yield found
    finally:
        worker.stop()


class _Worker(Generic[T]):
    """Thread that takes one step whenever it is asked to."""

    def __init__(self, steps: Generator[T, None, None]) -> None:
        self._steps = steps
        self._asked, self._done = threading.Lock(), threading.Lock()
        for lock in (self._asked, self._done):
            lock.acquire()  # each is released by one thread to wake the other
        self._under_way = False
        """Whether a step was asked for that is not done."""
        self._held, self._stopped = False, False
        self._may_go = threading.Event()
        self._found: T | None = None
        self._error: BaseException | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> bool:
        """Begin; False where there are no threads."""
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._work,), daemon=True, name="steps")
        try:
            self._thread.start()
        except RuntimeError:
            return False
        return True

    def ask(self, pause_s: float) -> T | NotYet:
        """Return the next step, or that it takes longer.

        Raises:
            StopIteration: there are no more steps.
        """
        if not self._under_way:
            self._under_way = True
            self._asked.release()
        self._held = False
        self._may_go.set()
        try:
            if not self._done.acquire(timeout=pause_s):
                return NOT_YET
        finally:
            self._may_go.clear()
            self._held = True
        self._under_way = False
        if self._error is not None:
            raise self._error
        return self._found  # type: ignore[return-value]

    def stop(self) -> None:
        """Have the thread end at its next checkpoint, and wait a little until it does."""
        self._stopped = True
        self._may_go.set()
        self._held = False
        # Also where a step is under way: its thread may have looked already whether it was stopped, and would
        # wait to be asked for ever. It is not released if that asking was not heard yet.
        with suppress(RuntimeError):
            self._asked.release()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
            if self._thread.is_alive():
                # An interpreter that ends while a thread is inside torch aborts the process.
                atexit.register(self._thread.join, LAST_PATIENCE_S)

    def _check(self) -> None:
        """Wait while nobody asks, and end when told to."""
        while self._held and not self._stopped:
            with collected():
                self._may_go.wait()
        if self._stopped:
            raise Stopped

    def _work(self) -> None:
        with watched(self._check):
            while self._error is None:
                self._asked.acquire()
                try:
                    self._found = None if self._stopped else next(self._steps)
                except BaseException as error:  # noqa: BLE001 - raised again where the step was asked for
                    self._error = error
                if self._stopped:
                    break
                self._done.release()
        with suppress(Exception):  # nobody is left to hear of it
            self._steps.close()
