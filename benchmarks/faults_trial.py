"""One run of `explorer validate` on two ranks in which something goes wrong, and how it ended."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from explorer.models import load_model
from explorer.run.launching.leftovers import sweep
from explorer.run.launching.status import IDLE, StatusPages

MARK = "EXPLORER_TRIAL"
"""Environment variable by which every process of a trial is known."""
LIMIT_S = 10.0
"""Seconds from a fault to the end of everything."""
WHOLE_S = 90.0
"""Seconds of a run that goes on to its verdict."""
START_S = 150.0
"""Longest wait for the moment of a fault."""
RANK, TORCHRUN = "explorer.run.worker", "torch.distributed.run"
ANYTIME = "anytime"
"""A moment in the first seconds of a command, whatever it does then."""
ANYTIME_S = (0.15, 30.0)
MOMENTS = ("importing", "starting", "checking", "calibrating", "running", "ending")
"""When faults happen: before anything is launched; when both ranks exist; while they compare gradients with
one process; while they time layers; in their rounds; when a rank has finished.
"""
PLAN = """schema: explorer.plan/1
models: {{model: {{reference: gpt2-small}}}}
cluster: {{reference: dgx-a100}}
workload: {{jobs: [{{global_batch: 16, sequence_length: 256, precision: fp32, optimizer: sgd}}]}}
strategy:
  jobs:
    - schedule: 1f1b
      stages:
        - {{layers: [{first} .. {middle}], meshes: [{{devices: [0]}}], microbatch_samples: 2}}
        - {{layers: [{after} .. {last}], meshes: [{{devices: [1]}}], microbatch_samples: 2}}
"""


class Trial:
    """One run of the program with everything it starts."""

    def __init__(
        self, number: int, engine: str, dice: random.Random, *, prefix: tuple[str, ...] = (), disk: str = ""
    ) -> None:
        self.mark, self.dice = f"{os.getpid()}-{number}", dice
        self.folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self.disk = self.folder / "tmp"
        self.disk.mkdir()
        if disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk}", "none", str(self.disk)], check=True)
        self.mounted = bool(disk)
        plan = self.folder / "plan.yaml"
        names = [layer.name for layer in load_model("gpt2-small").layers]
        half = len(names) // 2
        plan.write_text(
            PLAN.format(first=names[0], middle=names[half - 1], after=names[half], last=names[-1])
        )
        self.errors = (self.folder / "stderr").open("w+")
        command = {
            "profile": ("profile", "--quick", "-o", str(self.folder / "profile.yaml")),
            "slice": ("validate", str(plan), "--engine", "slice"),
        }.get(engine, ("validate", str(plan), "--engine", engine, "--steps", "4"))
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "explorer", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self.errors,
            env={**os.environ, MARK: self.mark, "TMPDIR": str(self.disk)},
        )  # fmt: skip
        self.rank = -1

    def family(self) -> list[psutil.Process]:
        """List every living process of the trial."""
        found = []
        for process in psutil.process_iter(["environ", "status"]):
            known = (process.info["environ"] or {}).get(MARK) == self.mark
            if known and process.info["status"] != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    def find(self, module: str) -> list[psutil.Process]:
        """List the trial's processes that run a module: the first that their command lines name."""
        found = []
        for process in self.family():
            with contextlib.suppress(psutil.Error, ValueError):
                line = process.cmdline()
                if line[line.index("-m") + 1] == module:
                    found.append(process)
        return found

    def wait_for(self, moment: str) -> bool:
        """Wait until a moment has come (see `MOMENTS`); False if the program ended before."""
        late = {"importing": self.dice.uniform(0.15, 2.5), ANYTIME: self.dice.uniform(*ANYTIME_S)}.get(moment)
        begun = time.monotonic()
        while self.process.poll() is None and time.monotonic() < begun + START_S:
            if time.monotonic() - begun > late if late else self._is(moment):
                break
            time.sleep(0.005 if moment == "ending" else 0.03)
        more_s = {"importing": 0.0, ANYTIME: 0.0, "checking": 0.2, "calibrating": 0.2, "ending": 0.3}.get(
            moment, 1.5
        )
        time.sleep(self.dice.uniform(0.0, more_s))
        return self.process.poll() is None

    def _is(self, moment: str) -> bool:
        if moment == "starting":
            return len(self.find(RANK)) == 2
        with contextlib.suppress(OSError, ValueError, IndexError):
            folder = next(self.disk.glob("explorer-run-*"), self.disk)
            if moment == "running":
                return '"round"' in (folder / "events").read_text()
            pages = StatusPages(folder / "status", 2)
            seen = [pages.read(rank) for rank in range(2)]
            pages.close()
            if moment == "ending":
                return any(page.state == IDLE for page in seen)
            word = {"checking": "comparison with one process", "calibrating": "calibration"}[moment]
            return any(word in page.text for page in seen)
        return False

    def choose_rank(self) -> psutil.Process:
        """Choose a rank to harm, and remember which."""
        chosen = self.dice.choice(self.find(RANK))
        self.rank = int(chosen.environ()["RANK"])
        return chosen

    def twice(self, first: int, second: int) -> None:
        """Send two signals to the program, the second while it ends."""
        self.process.send_signal(first)
        time.sleep(self.dice.uniform(0.02, 0.6))
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(second)

    def pause(self, process: psutil.Process) -> None:
        """Stop a process, and let it go on after a while."""
        process.send_signal(signal.SIGSTOP)
        time.sleep(self.dice.uniform(1.0, 4.0))
        with contextlib.suppress(psutil.Error):
            process.send_signal(signal.SIGCONT)

    def fill_disk(self) -> None:
        """Leave no room in the program's folder of temporary files."""
        with contextlib.suppress(OSError), (self.disk / "filler").open("wb", buffering=0) as file:
            while file.write(bytes(2**16)):
                pass
        with contextlib.suppress(OSError), (self.disk / "filler").open("ab", buffering=0) as file:
            while file.write(bytes(512)):
                pass

    def close(self) -> None:
        """Remove what the trial itself made."""
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.errors.close()
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Expected(NamedTuple):
    """What a fault must lead to."""

    status: tuple[int, ...]
    """Exit statuses, any of them."""
    said: str
    """Pattern that standard error has; empty for any."""
    limit_s: float = LIMIT_S
    """Seconds until everything has ended."""
    survives: bool = False
    """Whether the run goes on to its verdict."""


class Fault(NamedTuple):
    """One thing that goes wrong."""

    inject: Callable[[Trial], object]
    """Does it."""
    expected: Expected
    """What follows."""
    moments: tuple[str, ...] = MOMENTS[1:]
    """When it happens; none: it is there before the program starts."""
    disk: str = ""
    """Size of the disk of temporary files; the machine's own if empty."""
    prefix: tuple[str, ...] = ()
    """Command that starts the program."""
    engines: tuple[str, ...] = ("likeness", "dry")
    """What the program does, one of them by chance: an engine of `validate`, or `profile`."""


class Outcome(NamedTuple):
    """How a trial ended."""

    ended_s: float
    """Seconds from the fault to the program's end."""
    gone_s: float
    """Seconds from the fault to the end of its last process."""
    problems: tuple[str, ...]
    """What was not as it should be."""
    swept: int
    """Folders that the next run had to remove."""


def play(number: int, fault: Fault, moment: str, engine: str, dice: random.Random) -> Outcome | None:
    """Run one trial; None if the program had ended before its fault."""
    trial = Trial(number, engine, dice, prefix=fault.prefix, disk=fault.disk)
    try:
        if moment and not trial.wait_for(moment):
            return None
        at = time.monotonic()
        try:
            fault.inject(trial)
        except (psutil.Error, IndexError, KeyError):
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            trial.process.wait(150)
        ended_s = time.monotonic() - at
        while trial.family() and time.monotonic() - at < max(60.0, fault.expected.limit_s):
            time.sleep(0.05)
        return judge(trial, fault.expected, ended_s, time.monotonic() - at, moment)
    finally:
        trial.close()


def judge(trial: Trial, expected: Expected, ended_s: float, gone_s: float, moment: str) -> Outcome:
    """Compare what is left with what should be."""
    trial.errors.seek(0)
    said, problems = trial.errors.read(), []
    status = trial.process.poll()
    finished = status in (0, 5) and (moment == "ending" or expected.survives)
    limit_s = expected.limit_s if moment else LIMIT_S + 15.0  # the program's own start counts there
    limit_s = WHOLE_S if finished else limit_s
    if status not in expected.status and not finished:
        problems.append(f"exit status {status}")
    pattern = expected.said.replace("{rank}", str(trial.rank))
    if not finished and not re.search(pattern, said, re.MULTILINE):
        problems.append(f"says {said.strip().splitlines()[-1:]}")
    if "Traceback" in said:
        problems.append("traceback")
    if ended_s > limit_s:
        problems.append(f"ended after {ended_s:.1f} s")
    if gone_s > limit_s:
        problems.append(f"last process after {gone_s:.1f} s")
    if trial.family():
        problems.append(f"{len(trial.family())} orphans")
    swept = len(sweep(trial.disk)) if status == -signal.SIGKILL else 0
    if left := sorted(path.name for path in trial.disk.iterdir() if path.name != "filler"):
        problems.append(f"leaves {', '.join(left[:3])}")
    return Outcome(round(ended_s, 1), round(gone_s, 1), tuple(problems), swept)
