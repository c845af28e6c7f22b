"""A real run, watched from the event loop: nothing in the kernel but polling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from explorer.plan import Resolved

from .jobs import Job
from .runwords import progress_share, progress_words

ENGINES = ("interpreter", "dry")
"""Kinds of run on offer: real compute and transport, or real transport with compute replaced by sleeps."""


class RunTask:
    """One run at a time."""

    def __init__(self, lock: Any, on_change: Callable[[], None]) -> None:
        self._lock = lock
        self.on_change = on_change
        self.state: dict[str, Any] = {"status": "no run yet"}
        """What the page says: status, fraction, comparison, error, log."""
        self.comparison: Any = None
        """`explorer.run.Comparison` of the last run that ended well."""
        self.running = False
        """Whether a run is under way."""
        self._turn = 0
        self._job: Job | None = None
        self._handle: Any = None

    def start(self, resolved: Resolved, *, engine: str, rounds: int) -> None:
        """Begin; needs a running event loop.

        Raises:
            ExplorerError: the plan cannot be run here.
            RuntimeError: no event loop.
        """
        from explorer.run import make_experiment, start

        self.stop()
        experiment = make_experiment(resolved, engine=engine, rounds=rounds)
        self._turn += 1
        turn, handle = self._turn, start(experiment.spec)
        try:
            self._job = Job(lambda: self._watch(turn, experiment, handle))
        except RuntimeError:
            handle.stop()
            raise
        self.comparison, self._handle, self.running = None, handle, True
        self.state = {"status": f"starting {experiment.spec.ranks} ranks"}

    def stop(self) -> None:
        """End every rank and wait until they are gone; nothing happens if none runs."""
        self._turn += 1
        if self._job is not None:
            self._job.cancel()
            self._job = None
        if self._handle is not None and not self._handle.done:
            self._handle.stop()
            self.state = {"status": "stopped; no verdict"}
        self.running = False

    async def _watch(self, turn: int, experiment: Any, handle: Any) -> None:
        try:
            async for event in handle.stream():
                with self._lock:
                    if turn != self._turn:
                        return
                    self._note(experiment, event)
                    self.on_change()
        except Exception as error:  # noqa: BLE001 - shown in the page
            with self._lock:
                self._fail(handle, error)
        with self._lock:
            if turn == self._turn:
                self._finish(experiment, handle)

    def _finish(self, experiment: Any, handle: Any) -> None:
        self.running = False
        if "error" not in self.state:
            try:
                self.comparison = experiment.finish(handle.result())
                self.state = {
                    "status": f"{experiment.spec.ranks} ranks, {self.comparison.engine}",
                    "comparison": self.comparison,
                }
            except Exception as error:  # noqa: BLE001 - shown in the page, with the ranks' last lines
                self._fail(handle, error)
        self.on_change()

    def _fail(self, handle: Any, error: Exception) -> None:
        self.state = {
            "status": "failed; former results stay",
            "error": str(error) or type(error).__name__,
            "log": getattr(error, "log", "") or handle.log(),
        }
        handle.stop()

    def _note(self, experiment: Any, event: dict[str, Any]) -> None:
        """Put an event of a rank into words."""
        spec = experiment.spec
        share = progress_share(event, spec)
        if share is not None:
            self.state["fraction"] = max(share, self.state.get("fraction", 0.0))
        self.state["status"] = progress_words(event, spec.rounds)
