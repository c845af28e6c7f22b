"""A slice run from the notebook: `explorer validate --engine slice` in a process of its own, polled.

It computes for a minute and holds a rank's weights, so it must not run in the kernel; the plan travels as a
file, the result as JSON.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from explorer.base.errors import RunError
from explorer.base.files import read_text
from explorer.base.formats import parse_json
from explorer.base.plain_data import validate
from explorer.plan import Resolved, save_plan

if TYPE_CHECKING:
    from explorer.run.one_rank.findings import SliceCheck

SLICE = "slice"
"""Kind of run that takes one rank at its full size."""
SAYS = "explorer: "
"""Beginning of a line by which the process tells what it does, or what is wrong."""
TERM_WAIT_S = 1.5
"""Seconds that the process may take to tidy up."""
PARTS = {"capturing": 0.3, "timing": 0.5, "running": 0.75, "counting": 0.9}
"""By the first word of what it tells: share of a slice run that is behind it."""


def command() -> list[str]:
    """Return the command line; the plan comes from standard input, so that relative references are of the
    present folder. `--trust`: the kernel has run the model's code already.
    """
    words = ["validate", "-", "--engine", SLICE, "--json", "--trust"]
    return [sys.executable, "-m", "explorer", *words]


class SliceHandle:
    """A slice run under way: `poll`, `stop`, `result`, `log`."""

    def __init__(self, resolved: Resolved) -> None:
        from explorer.run.launching.guard import held_back
        from explorer.run.launching.launch import environment

        made: list[subprocess.Popen[bytes]] = []
        with held_back():
            self.folder = Path(tempfile.mkdtemp(prefix="explorer-slice-"))
            # runs when the handle is dropped and when Python ends
            self._finalizer = weakref.finalize(self, _end, made, self.folder)
        plan = self.folder / "plan.json"
        save_plan(resolved.plan, resolved.graphs, plan)
        self._began = time.monotonic()
        self.wall_s = 0.0
        """Seconds that it took; 0 until its end."""
        self.error: RunError | None = None
        """Why it failed; None if it did not."""
        self._text: str | None = None
        self._told, self._stopped = 0, False
        out, log = (self.folder / "result.json").open("wb"), (self.folder / "log").open("wb")
        with plan.open("rb") as given, out, log, held_back():
            self.process = subprocess.Popen(
                command(), stdin=given, stdout=out, stderr=log, env=environment(), start_new_session=True
            )
            made.append(self.process)

    @property
    def done(self) -> bool:
        """Whether it has ended, successfully or not."""
        return self._text is not None or self.error is not None or self._stopped

    def poll(self) -> list[str]:
        """Return what it has told since the last time."""
        if self.done:
            return []
        ended = self.process.poll() is not None
        told = [line.removeprefix(SAYS) for line in self._lines() if line.startswith(SAYS)]
        fresh, self._told = told[self._told :], len(told)
        if ended:
            self._finish(told)
        return fresh

    def stop(self) -> None:
        """End it and wait until it is gone; do nothing if it is."""
        if not self.done:
            self._stopped = True
        self._finalizer()

    def result(self) -> SliceCheck:
        """Return what it found.

        Raises:
            RunError: it failed, was stopped, or has not ended.
        """
        from explorer.run.one_rank.findings import SliceCheck

        if self.error is not None:
            raise self.error
        if self._text is None:
            raise RunError("the run was stopped" if self._stopped else "the run has not ended")
        found = parse_json(self._text, ours=False)
        about = ("schema", "explorer_version", "engine")
        return validate({key: value for key, value in found.items() if key not in about}, SliceCheck)

    def log(self, lines: int = 40) -> str:
        """Return the last lines that it printed."""
        return "\n".join(self._lines()[-lines:])

    def _lines(self) -> list[str]:
        path = self.folder / "log"
        return read_text(path).splitlines() if path.exists() else []

    def _finish(self, told: list[str]) -> None:
        """Take its result or its error, and remove what it made."""
        self.wall_s = time.monotonic() - self._began
        text, status = read_text(self.folder / "result.json"), self.process.returncode
        if status == 0:
            self._text = text
        else:
            self.error = RunError(_reason(text, told, status, self.log(lines=1)), log=self.log())
        self._finalizer()


def _end(made: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """End the process and all below it, and remove the folder."""
    from explorer.run.launching.guard import held_back

    with held_back():
        for process in made:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, number)
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(timeout=TERM_WAIT_S)
        shutil.rmtree(folder, ignore_errors=True)


def _reason(text: str, told: list[str], status: int, last: str) -> str:
    """Return in one line why a slice run failed: as it says in JSON, else how it ended and its last line."""
    if text.strip():
        found = parse_json(text, ours=False)
        error = found.get("error", {}) if isinstance(found, dict) else {}
        if said := error.get("message"):
            return f"{said}; allowed: {error['allowed']}" if error.get("allowed") else str(said)
    how = f"was ended by signal {-status}" if status < 0 else f"ended with {status}"
    where = f" while {told[-1]}" if told else ""
    return f"the run {how}{where}" + (f": {last}" if last and not last.startswith(SAYS) else "")


class SliceProgress:
    """Progress of a slice run: what it is doing, and how long it has been at work.

    Args:
        expected_s: seconds it should take.
        clock: seconds, ever rising.
    """

    def __init__(self, *, expected_s: float, clock: Callable[[], float]) -> None:
        self._expected_s, self._clock = expected_s, clock
        self.began = clock()
        self.share = 0.0
        """Share of it that is over, 0 to 1."""
        self.phase = "Starting"
        """What it is doing."""

    def note(self, told: str) -> None:
        """Take a line that it has told."""
        self.phase = told[:1].upper() + told[1:]
        self.share = max(self.share, PARTS.get(told.partition(" ")[0], 0.0))

    @property
    def elapsed_s(self) -> float:
        """Seconds since its start."""
        return self._clock() - self.began

    @property
    def left_s(self) -> float:
        """Seconds it should still take, by the part of it that it has reached."""
        expected_s = max(self._expected_s, self.elapsed_s / (1 - self.share) if self.share else 0.0)
        return max(0.0, expected_s - self.elapsed_s)

    def said(self) -> str:
        """Return the phase for a screen reader."""
        return self.phase

    def view(self, *, other: str | None) -> dict[str, Any]:
        """Return `RunView.view["progress"]`. `other`: sentence if the state shown is no longer what runs."""
        return {
            "share": self.share, "elapsed_s": self.elapsed_s, "left_s": self.left_s, "phase": self.phase,
            "said": self.said(), "other": other, "ranks": [], "contention": None,
        }  # fmt: skip
