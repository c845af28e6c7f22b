"""A real run, watched from the event loop: no threads, nothing in the kernel but polling."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from explorer.plan import Resolved

ENGINES = ("interpreter", "dry")
"""Kinds of run on offer: real compute and transport, or real transport with compute replaced by sleeps."""


class RunTask:
    """One run at a time."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self.on_change = on_change
        self.state: dict[str, Any] = {"status": "no run yet"}
        self.comparison: Any = None
        self._task: asyncio.Task[None] | None = None
        self._handle: Any = None

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._task is not None and not self._task.done()

    @property
    def fraction(self) -> float | None:
        """How far it is, where that is known."""
        found: float | None = self.state.get("fraction")
        return found

    def start(self, resolved: Resolved, *, engine: str, rounds: int) -> None:
        """Begin; needs a running event loop.

        Raises:
            ExplorerError: the plan cannot be run here.
        """
        from explorer.run import make_experiment, start

        self.stop()
        experiment = make_experiment(resolved, engine=engine, rounds=rounds)
        self.comparison = None
        self.state = {"status": f"starting {experiment.spec.ranks} ranks", "lines": []}
        self._handle = start(experiment.spec)
        self._task = asyncio.get_running_loop().create_task(self._watch(experiment))

    def stop(self) -> None:
        """End every rank; nothing happens if none runs."""
        if self._handle is not None and not self._handle.done:
            self._handle.stop()
            self.state = {"status": "stopped; no verdict"}
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def clear(self) -> None:
        """Forget the result."""
        self.stop()
        self.comparison, self.state = None, {"status": "no run yet"}

    async def _watch(self, experiment: Any) -> None:
        handle, seen = self._handle, Counter[str]()
        try:
            async for event in handle.stream():
                seen[str(event.get("event"))] += 1
                self._note(experiment, event)
                self.on_change()
            self.comparison = experiment.finish(handle.result())
            self.state = {"status": f"{experiment.spec.ranks} ranks, {self.comparison.engine}"}
            self.state["comparison"] = self.comparison
        except Exception as error:  # noqa: BLE001 - shown in the page, with the ranks' last lines
            self.state = {"status": "failed; former results stay", "error": str(error) or type(error).__name__}
            self.state["log"] = handle.log()
        finally:
            if not handle.done:
                handle.stop()
        self._task = None
        self.on_change()

    def _note(self, experiment: Any, event: dict[str, Any]) -> None:
        """Put an event of a rank into words."""
        kind, rank = str(event.get("event", "")), event.get("rank")
        if kind == "round" and "round" in event:
            total = experiment.spec.rounds + getattr(experiment.spec, "warmup_rounds", 0)
            self.state["fraction"] = min(1.0, (int(event["round"]) + 1) / max(1, total))
        facts = {k: v for k, v in event.items() if k not in ("event", "rank") and isinstance(v, (int, float, str))}
        said = ", ".join(f"{key} {value}" for key, value in list(facts.items())[:3])
        self.state["status"] = f"rank {rank}: {kind} {said}".strip()
