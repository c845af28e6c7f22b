"""Coroutines started from wherever a gesture arrives.

JupyterLab may deliver messages of widgets on a thread of their own (a subshell of the kernel) while cells
run on the main one. So a job remembers its loop and can be cancelled from anywhere, and whatever touches the
workbench holds its lock. Nothing here starts a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

REST_S = 0.15
"""Quiet time before idle work begins, so that it never stands between two drags."""


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
        """Whether it has not ended."""
        return not self._task.done()

    def cancel(self) -> None:
        """End it at its next pause; from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)


class Idle:
    """Does one piece of work after a pause; a new wish replaces the old."""

    def __init__(self, lock: Any, failed: Callable[[Exception], None], *, rest_s: float = REST_S) -> None:
        self._lock = lock
        self._failed = failed
        self._rest_s = rest_s
        self._job: Job | None = None

    def later(self, work: Callable[[], None]) -> bool:
        """Do `work` after the pause, instead of what was waiting; whether there is a loop to do it."""
        self.cancel()
        try:
            self._job = Job(lambda: self._after_rest(work))
        except RuntimeError:
            self._job = None
        return self._job is not None

    def cancel(self) -> None:
        """Forget what is waiting."""
        if self._job is not None:
            self._job.cancel()
            self._job = None

    async def _after_rest(self, work: Callable[[], None]) -> None:
        await asyncio.sleep(self._rest_s)
        with self._lock:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - shown in the page
                self._failed(error)
