"""A real run, watched from the event loop: the kernel only polls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from widgets.inputs import Inputs
from widgets.jobs import Job
from widgets.session import Point

from .progress import Progress

if TYPE_CHECKING:
    from explorer.run import Comparison, Experiment
    from explorer.run.judging.calibrate import Calibrated
    from explorer.run.judging.timelines import RunTimeline
    from explorer.run.launching.launch import RunHandle
    from explorer.strategy import Strategy

ENGINES = ("interpreter", "torch", "dry")
"""Kinds of run on offer: real compute and transport; the same, and then on torch's own runtime; or real
transport with compute replaced by sleeps.
"""
WARMUP_ROUNDS = 1
"""Rounds discarded; the first impression must come soon."""
STEP_S = 1.2
"""Wanted seconds of one step in one process: about 0.35 s each for two ranks, as long as jitter allows."""
POLL_S = 0.05
"""Seconds between two looks at the ranks."""
TELL_EVERY_S = 0.25
"""Seconds between two pictures of a run under way."""
_PACE = {"interpreter": (9.0, 4.0), "torch": (9.0, 6.0), "dry": (12.0, 15.0)}
"""Seconds until the first round, and of a round, on two busy cores: a guess until something has run here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """A run that ended successfully."""

    inputs: Inputs
    """Inputs and strategy of the run."""
    strategy: Strategy
    """The strategy."""
    comparison: Comparison
    """Its result."""
    known: Calibrated | None
    """What it measured of its machine; None if compute was slept."""
    device: str
    """Device that its ranks ran on."""
    ranks: int
    """Number of ranks."""
    timeline: RunTimeline | None = None
    """When its ranks did what, beside the prediction; None if they were not timed."""
    wall_s: float
    """Seconds that it took."""
    at: str
    """When it ended, hours and minutes."""

    def is_of(self, now: Point) -> bool:
        """Tell whether this state is what was run."""
        own, other = self.inputs, now.inputs
        same = own is other or (
            own.model == other.model and own.workload == other.workload and own.cluster == other.cluster
        )
        return same and self.strategy == now.strategy


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A run that failed."""

    rank: int | None
    """The rank at fault, if it was a single one."""
    text: str
    """The error, in one line."""
    log: str
    """The last lines of the ranks."""


class RunTask:
    """Task that runs one run at a time; the last successful one stays until the next."""

    def __init__(
        self, lock: Any, on_change: Callable[[], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock, self.on_change, self._clock = lock, on_change, clock
        self.state = "none"
        """State of the last run started: none, running, done, stopped or failed."""
        self.progress: Progress | None = None
        """Progress of the run under way."""
        self.asked: Point | None = None
        """Inputs of the run under way."""
        self.last: Done | None = None
        """The last run that ended successfully."""
        self.failure: Failed | None = None
        """Why the last run started failed."""
        self._pace = dict(_PACE)
        self._turn = 0
        self._job: Job | None = None
        self._handle: RunHandle | None = None
        self._ending: Thread | None = None
        """Thread that waits until all processes of a stopped run are gone, which takes a second or two."""

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self.state == "running"

    def expected_s(self, engine: str, rounds: int) -> float:
        """Return the seconds a run should take: as the last of its kind here, else a guess."""
        start_s, round_s = self._pace[engine]
        return start_s + round_s * (rounds + (WARMUP_ROUNDS if engine != "dry" else 0))

    def start(self, now: Point, *, engine: str, rounds: int) -> None:
        """Start a run; this needs a running event loop.

        Raises:
            ExplorerError: the plan cannot be run here.
            RuntimeError: no event loop.
        """
        from explorer import run
        from explorer.profiling import device_here, kept_profile
        from explorer.run.cases.likeness import UnitSize

        self.stop()
        self.wait()
        experiment = run.make_experiment(
            now.resolved(),
            engine=engine,
            rounds=rounds,
            warmup_rounds=WARMUP_ROUNDS,
            size=UnitSize(step_s=STEP_S),
            profile=None if engine == "dry" else kept_profile(device_here(least=2)),
        )
        self._turn += 1
        turn, handle = self._turn, run.start(experiment.spec)
        progress = Progress(
            experiment.spec, expected_s=self.expected_s(engine, experiment.spec.rounds),
            starts_s=self._pace[engine][0], clock=self._clock,
        )  # fmt: skip
        try:
            self._job = Job(lambda: self._watch(turn, now, experiment, handle))
        except RuntimeError:
            handle.stop()
            raise
        self.progress, self.asked, self.failure, self._handle = progress, now, None, handle
        self.state = "running"

    def stop(self) -> None:
        """End every rank, without waiting for it; do nothing if none runs."""
        self._turn += 1
        if self._job is not None:
            self._job.cancel()
            self._job = None
        handle = self._handle
        if handle is not None and not handle.done and self._ending is None:
            self._ending = Thread(target=handle.stop, name="run ends")
            self._ending.start()
        if self.running:
            self.state, self.progress, self.asked = "stopped", None, None

    def wait(self) -> None:
        """Wait until what was stopped is gone."""
        if self._ending is not None:
            self._ending.join()
            self._ending = None

    async def _watch(self, turn: int, now: Point, experiment: Experiment, handle: RunHandle) -> None:
        told = -TELL_EVERY_S
        while not handle.done:
            with self._lock:
                if turn != self._turn:
                    return
                try:
                    told = self._look(handle, told)
                except Exception as error:  # noqa: BLE001 - shown in the page
                    self._fail(handle, error)
            await asyncio.sleep(POLL_S)
        with self._lock:
            if turn == self._turn and self.running:
                self._finish(now, experiment, handle)

    def _look(self, handle: RunHandle, told: float) -> float:
        """Take what is new, and draw it if the last time was long enough ago."""
        progress = self.progress
        assert progress is not None  # while running
        for event in handle.poll():
            progress.note(event)
        if not handle.done and self._clock() - told >= TELL_EVERY_S:
            progress.look([handle.pages.read(rank) for rank in range(handle.spec.ranks)])
            self.on_change()
            return self._clock()
        return told

    def _finish(self, now: Point, experiment: Experiment, handle: RunHandle) -> None:
        try:
            result = handle.result()
            self.last = self._done(now, experiment, experiment.finish(result), result)
            self.state = "done"
        except Exception as error:  # noqa: BLE001 - shown in the page, with the ranks' last lines
            self._fail(handle, error)
        self.progress = self.asked = None
        self.on_change()

    def _done(self, now: Point, experiment: Experiment, comparison: Comparison, result: Any) -> Done:
        progress = self.progress
        assert progress is not None
        if progress.first_round is not None and progress.round_s is not None:
            before = progress.first_round - progress.began
            self._pace[comparison.engine] = (before, progress.round_s)
        return Done(
            inputs=now.inputs,
            strategy=now.strategy,
            comparison=comparison,
            known=experiment.learn(result) if experiment.learn else None,
            device=progress.rows[0].name or "cpu",
            ranks=experiment.spec.ranks,
            timeline=experiment.timeline(result) if experiment.timeline else None,
            wall_s=result.wall_s,
            at=time.strftime("%H:%M"),
        )

    def _fail(self, handle: RunHandle, error: Exception) -> None:
        lines = (str(error) or type(error).__name__).splitlines()
        self.failure = Failed(
            rank=getattr(error, "rank", None), text=lines[0], log=getattr(error, "log", "") or handle.log()
        )
        self.state = "failed"
        handle.stop()
