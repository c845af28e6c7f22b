"""A real run, watched from the event loop: the kernel only polls."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING, Any

from explorer.run.instruments import ENGINES as RANKS_ENGINES
from widgets.jobs import Job
from widgets.session import Point

from .ended import Done, SliceDone
from .progress import Progress
from .slicing import SLICE, SliceHandle, SliceProgress

if TYPE_CHECKING:
    from explorer.run import Experiment
    from explorer.run.launching.launch import RunHandle

ENGINES = (*RANKS_ENGINES, SLICE)
"""Kinds of run on offer: all that start ranks, and one rank alone."""
WARMUP_ROUNDS = 1
"""Rounds discarded; the first impression must come soon."""
STEP_S = 1.2
"""Wanted seconds of one step in one process: about 0.35 s each for two ranks, as long as jitter allows."""
POLL_S = 0.05
"""Seconds between two looks at the ranks."""
TELL_EVERY_S = 0.25
"""Seconds between two pictures of a run under way."""
OWN = "layers"
"""Engine that runs the model's own layers."""
STAND_INS = ("likeness", "torch")
"""Engines that run stand-ins, whose size is chosen here."""
SLEPT = ("dry",)
"""Engines that compute nothing: no rounds warm them up, and no profile predicts them."""
_PACE = {"likeness": (9.0, 4.0), "torch": (9.0, 6.0), "dry": (12.0, 15.0), SLICE: (40.0, 0.0)}
"""Seconds until the first round, and of a round, on two busy cores: a guess until something has run here."""
_OWN_PACE = (30.0, 6.0)
"""The same of any other engine: it runs the model's own layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A run that failed."""

    rank: int | None
    """The rank at fault, if it was a single one."""
    text: str
    """The error, in one line."""
    log: str
    """The last lines of the ranks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launch:
    """Something that runs: how it is watched, and what its end gives."""

    handle: Any
    """Its processes: `poll`, `done`, `stop`, `log`."""
    progress: Progress | SliceProgress
    """Its progress, told every event."""
    look: Callable[[], None]
    """Function that takes what is not told by events."""
    end: Callable[[], Done | SliceDone]
    """Function that reads its result."""
    engine: str
    """Kind of run that it is."""
    stand_ins: str = ""
    """Why stand-ins run in place of the model's own layers; empty if those run, or nothing computes."""


class RunTask:
    """Task that runs one run at a time; the last successful one stays until the next."""

    def __init__(
        self, lock: Any, on_change: Callable[[], None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lock, self.on_change, self._clock = lock, on_change, clock
        self.state = "none"
        """State of the last run started: none, running, done, stopped or failed."""
        self.progress: Progress | SliceProgress | None = None
        """Progress of the run under way."""
        self.asked: Point | None = None
        """Inputs of the run under way."""
        self.engine, self.stand_ins = "", ""
        """Kind of the last run started, and why stand-ins ran in it; empty if they did not."""
        self.last: Done | SliceDone | None = None
        """The last run that ended successfully."""
        self.failure: Failed | None = None
        """Why the last run started failed."""
        self._pace = dict(_PACE)
        self._turn = 0
        self._job: Job | None = None
        self._handle: RunHandle | SliceHandle | None = None
        self._ending: Thread | None = None
        """Thread that waits until all processes of a stopped run are gone, which takes a second or two."""

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self.state == "running"

    def expected_s(self, engine: str, rounds: int) -> float:
        """Return the seconds a run should take: as the last of its kind here, else a guess."""
        start_s, round_s = self._pace.get(engine, _OWN_PACE)
        return start_s + round_s * (rounds + (0 if engine in SLEPT else WARMUP_ROUNDS))

    def start(self, now: Point, *, engine: str | None, rounds: int) -> None:
        """Start a run; this needs a running event loop.

        Args:
            now: what runs.
            engine: one of `ENGINES`; None for own layers, or for stand-ins where those cannot run here.
            rounds: measured rounds.

        Raises:
            ExplorerError: the plan cannot be run here.
            RuntimeError: no event loop.
        """
        self.stop()
        self.wait()
        launch = self._slice(now) if engine == SLICE else self._ranks(now, engine, rounds)
        self._turn += 1
        turn = self._turn
        try:
            self._job = Job(lambda: self._watch(turn, launch))
        except RuntimeError:
            launch.handle.stop()
            raise
        self.progress, self.asked, self.failure, self._handle = launch.progress, now, None, launch.handle
        self.engine, self.stand_ins = launch.engine, launch.stand_ins
        self.state = "running"

    def _ranks(self, now: Point, engine: str | None, rounds: int) -> _Launch:
        """Launch the ranks of a plan."""
        from explorer import run
        from explorer.profiling import device_here, kept_profile
        from explorer.run.cases.likeness import UnitSize

        experiment = run.make_experiment(
            now.resolved(),
            engine=engine,
            rounds=rounds,
            warmup_rounds=WARMUP_ROUNDS,
            size=UnitSize(step_s=STEP_S) if engine in STAND_INS else None,
            profile=None if engine in SLEPT else kept_profile(device_here(least=2)),
        )
        handle = run.start(experiment.spec)
        progress = Progress(
            experiment.spec, expected_s=self.expected_s(experiment.engine, experiment.spec.rounds),
            starts_s=self._pace.get(experiment.engine, _OWN_PACE)[0], clock=self._clock,
        )  # fmt: skip

        stand_ins = experiment.stand_ins if engine is None else ""

        def look() -> None:
            progress.look([handle.pages.read(rank) for rank in range(handle.spec.ranks)])

        return _Launch(
            handle=handle, progress=progress, look=look,
            end=lambda: self._done(now, experiment, progress, handle, stand_ins),
            engine=experiment.engine, stand_ins=stand_ins,
        )  # fmt: skip

    def _slice(self, now: Point) -> _Launch:
        """Launch one rank of a plan alone."""
        handle = SliceHandle(now.resolved())
        progress = SliceProgress(expected_s=self.expected_s(SLICE, 1), clock=self._clock)
        return _Launch(
            handle=handle,
            progress=progress,
            look=lambda: None,
            end=lambda: self._sliced(now, handle),
            engine=SLICE,
        )

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

    async def _watch(self, turn: int, launch: _Launch) -> None:
        told = -TELL_EVERY_S
        while not launch.handle.done:
            with self._lock:
                if turn != self._turn:
                    return
                try:
                    told = self._look(launch, told)
                except Exception as error:  # noqa: BLE001 - shown in the page
                    self._fail(launch.handle, error)
            await asyncio.sleep(POLL_S)
        with self._lock:
            if turn == self._turn and self.running:
                self._finish(launch)

    def _look(self, launch: _Launch, told: float) -> float:
        """Take what is new, and draw it if the last time was long enough ago."""
        handle = launch.handle
        for event in handle.poll():
            launch.progress.note(event)
        if not handle.done and self._clock() - told >= TELL_EVERY_S:
            launch.look()
            self.on_change()
            return self._clock()
        return told

    def _finish(self, launch: _Launch) -> None:
        try:
            self.last = launch.end()
            self.state = "done"
        except Exception as error:  # noqa: BLE001 - shown in the page, with the ranks' last lines
            self._fail(launch.handle, error)
        self.progress = self.asked = None
        self.on_change()

    def _done(
        self, now: Point, experiment: Experiment, progress: Progress, handle: RunHandle, stand_ins: str
    ) -> Done:
        result = handle.result()
        comparison = experiment.finish(result)
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
            stand_ins=stand_ins,
            timeline=experiment.timeline(result) if experiment.timeline else None,
            wall_s=result.wall_s,
            at=time.strftime("%H:%M"),
        )

    def _sliced(self, now: Point, handle: SliceHandle) -> SliceDone:
        check = handle.result()
        self._pace[SLICE] = (handle.wall_s, 0.0)
        return SliceDone(
            inputs=now.inputs, strategy=now.strategy, check=check, device=check.device,
            wall_s=handle.wall_s, at=time.strftime("%H:%M"),
        )  # fmt: skip

    def _fail(self, handle: RunHandle | SliceHandle, error: Exception) -> None:
        lines = (str(error) or type(error).__name__).splitlines()
        self.failure = Failed(
            rank=getattr(error, "rank", None), text=lines[0], log=getattr(error, "log", "") or handle.log()
        )
        self.state = "failed"
        handle.stop()
