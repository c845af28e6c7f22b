"""Work for when the page is at rest: asyncio only, the last wish counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

REST_S = 0.15
"""Quiet time before work begins, so that it never stands between two drags."""


class Idle:
    """Runs one piece of work after a pause; a new wish replaces the old. Without an event loop nothing runs."""

    def __init__(self, failed: Callable[[Exception], None]) -> None:
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    def later(self, work: Callable[[], None]) -> None:
        """Do `work` after a pause, instead of what was waiting."""
        self.cancel()
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        self._task = loop.create_task(self._after_rest(work))

    def cancel(self) -> None:
        """Forget what is waiting."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _after_rest(self, work: Callable[[], None]) -> None:
        await asyncio.sleep(REST_S)
        try:
            work()
        except Exception as error:  # noqa: BLE001 - shown in the page
            self._failed(error)
