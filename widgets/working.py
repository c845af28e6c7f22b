"""A field or a file that is worked out on a thread of its own, so that the page can say so, and end it.

The thread touches no widget: it makes the next state, or fails. Then the gesture is answered as any other
gesture, only that what it asks for is known (as `ahead.py` knows a drop). Gestures that come meanwhile wait
for their turn. Ended, the thread stops at its next checkpoint; where code that has none is at work (a model
of somebody's own), what it makes is dropped.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from explorer.base.checkpoints import Stopped, watched

from .phases import followed, progress
from .session import Point

Intent = dict[str, Any]
Make = Callable[[], Point]
"""Makes the next state, or raises what is wrong."""
Work = Callable[[], Any]
"""Makes what a gesture needs: the next state, or what a file holds; or raises what is wrong."""


class Answering(Protocol):
    """A widget, as far as its gestures wait here."""

    def answer(self, intent: Intent) -> None:
        """Answer a gesture now."""
        ...


class Task:
    """One field under way: the thread that works it out, and what it made."""

    def __init__(self, widget: Answering, intent: Intent, now: Point | None) -> None:
        self.widget, self.intent, self.now = widget, intent, now
        self.wanted = True
        """Whether somebody waits for it still."""
        self._made: Any = None
        self._error: BaseException | None = None

    def start(self, make: Work, told: Callable[[Task, str], None], done: Callable[[Task], None]) -> bool:
        """Begin; `told` and `done` are called on the event loop. False where there is no loop or thread."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return False

        def soon(call: Callable[..., None], *given: Any) -> None:
            with suppress(RuntimeError):  # the loop has ended, and with it whoever waits
                loop.call_soon_threadsafe(call, self, *given)

        run = contextvars.copy_context().run
        work = threading.Thread(
            target=run, args=(self._work, make, lambda name: soon(told, name), lambda: soon(done)),
            daemon=True, name="field",
        )  # fmt: skip
        try:
            work.start()
        except RuntimeError:
            return False
        return True

    def outcome(self) -> Any:
        """Return what was made, or raise what was wrong."""
        if self._error is not None:
            raise self._error
        return self._made

    def _check(self) -> None:
        if not self.wanted:
            raise Stopped

    def _work(self, make: Work, told: Callable[[str], None], done: Callable[[], None]) -> None:
        def passed(name: str) -> None:
            self._check()
            told(name)

        try:
            with watched(self._check), followed(passed):
                self._made = make()
        except Exception as error:  # noqa: BLE001 - raised again where the field is answered
            self._error = error
        except BaseException as error:  # noqa: BLE001 - a model's own code may try to leave
            if isinstance(error, Stopped):
                return
            self._error = RuntimeError(f"the model's code ended itself ({type(error).__name__})")
        done()


class Working:
    """The one field that is worked out, and the gestures that wait for it.

    Args:
        work: function that returns what has to be worked out for a gesture, and the state that it is made
            from; None for a gesture that can be answered at once.
        told: function that tells the page what is done now, see `progress`; None when it is done.
    """

    def __init__(
        self,
        work: Callable[[Intent], tuple[Point | None, Work] | None],
        told: Callable[[dict[str, Any] | None], None],
    ) -> None:
        self._work, self._told = work, told
        self._task: Task | None = None
        self._known: Task | None = None
        self._waiting: deque[tuple[Answering, Intent]] = deque()

    @property
    def under_way(self) -> bool:
        """Whether a field is worked out."""
        return self._task is not None

    def takes(self, widget: Answering, intent: Intent) -> bool:
        """Return whether a gesture is answered later: it takes a while, or waits for one that does."""
        if self._task is not None:
            self._waiting.append((widget, intent))
            return True
        found = self._work(intent)
        if found is None:
            return False
        now, make = found
        task = Task(widget, intent, now)
        self._task = task if task.start(make, self._tell, self._done) else None
        return self._task is not None

    def known(self, now: Point | None, intent: Intent) -> Work | None:
        """Return what a gesture leads to, if that was worked out from this very state; keep nothing."""
        task, self._known = self._known, None
        if task is None or task.now is not now or task.intent is not intent:
            return None
        return task.outcome

    def cancel(self) -> None:
        """End what is under way: the state stays as it was, and what waited is answered."""
        task = self._task
        if task is None:
            return
        task.wanted, self._task = False, None
        self._told(None)
        task.widget.answer({**task.intent, "kind": "cancelled"})
        self._go_on()

    def _tell(self, task: Task, name: str) -> None:
        if task is self._task:
            self._told(progress(str(task.intent.get("key", "")), name))

    def _done(self, task: Task) -> None:
        if task is not self._task:
            return
        self._task, self._known = None, task
        self._told(None)
        task.widget.answer(task.intent)
        self._go_on()

    def _go_on(self) -> None:
        while self._waiting and self._task is None:
            widget, intent = self._waiting.popleft()
            if not self.takes(widget, intent):
                widget.answer(intent)
