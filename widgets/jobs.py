"""Coroutines that can be started from whatever thread a gesture arrives on.

JupyterLab may deliver messages of widgets on a thread of their own (a subshell of the kernel) while cells run
on the main one. So a job remembers its loop and can be cancelled from anywhere, and all code that touches the
workbench holds its lock. Nothing here starts a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

REST_S = 0.15
"""Quiet seconds before idle work begins, so that it never stands between two drags."""
PAUSE_S = 0.002
"""Seconds between two slices of idle work: a gesture that has arrived meanwhile gets the loop and the
lock.
"""

Work = Callable[[], Iterator[object] | None]
"""Work to be done: at once, or (a generator) up to its next `yield` at a time."""


class Job:
    """One coroutine on the event loop that was running when it was made.

    Raises:
        RuntimeError: there is no running event loop.
    """

    def __init__(self, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(make())

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._task.done()

    def cancel(self) -> None:
        """End it at its next pause; may be called from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)


class Idle:
    """Runner of one piece of work after a pause, slice by slice; a new one replaces the old, begun or not."""

    def __init__(
        self,
        lock: Any,
        failed: Callable[[Exception], None],
        *,
        rest_s: float = REST_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._lock = lock
        self._failed = failed
        self._rest_s = rest_s
        self._job: Job | None = None
        self._turn = 0
        self._not_before, self._clock = 0.0, clock

    def hold_off(self, seconds: float) -> None:
        """Begin no slice for some seconds: a gesture is under way."""
        self._not_before = self._clock() + seconds

    def later(self, work: Work) -> bool:
        """Do `work` after the pause, replacing what was waiting; return whether there is a loop to do it."""
        self.cancel()
        turn = self._turn
        try:
            self._job = Job(lambda: self._after_rest(work, turn))
        except RuntimeError:
            self._job = None
        return self._job is not None

    def cancel(self) -> None:
        """Drop what is waiting, and the rest of what has begun."""
        self._turn += 1
        if self._job is not None:
            self._job.cancel()
            self._job = None

    async def _after_rest(self, work: Work, turn: int) -> None:
        await asyncio.sleep(self._rest_s)
        steps: Iterator[object] | None = None
        while True:
            left = self._not_before - self._clock()
            if left > 0:
                await asyncio.sleep(left)
                continue
            with self._lock:
                # a cancellation from another thread reaches the task later than this
                if turn != self._turn:
                    return
                try:
                    steps = work() if steps is None else steps
                    if steps is None or next(steps, self) is self:
                        return
                except Exception as error:  # noqa: BLE001 - shown in the page
                    self._failed(error)
                    return
            await asyncio.sleep(PAUSE_S)


def at_once(work: Work) -> None:
    """Do all slices now, for want of a loop to do them later."""
    for _ in work() or ():
        pass
