"""Random faults while `explorer validate` runs a plan on two ranks: how every one of them ends.

python benchmarks/faults.py [--trials 40] [--seed 1] [--only FAULT]

In each trial one thing goes wrong at a random moment: a rank, torchrun or the program itself is killed, ended
or stopped, interrupted once or twice, the disk is full, there is no loopback. Every other trial computes, the
others sleep (engine dry). The table counts, by fault and moment, how many ended within 10 s, with the right
exit status and cause, without a traceback, a process or a file left behind. Ends with 1 if one did not. Linux
only; the full disk and the missing loopback need root (skipped otherwise).
"""

from __future__ import annotations

import argparse
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
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil

from explorer.models import load_model

MARK = "EXPLORER_TRIAL"
"""Environment variable by which every process of a trial is known."""
LIMIT_S = 10.0
"""Seconds from a fault to the end of everything."""
START_S = 120.0
"""Longest wait for the moment of a fault."""
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


class Expected(NamedTuple):
    """What a fault must lead to."""

    status: tuple[int, ...]
    """Exit statuses, any of them."""
    said: str
    """Pattern that standard error has; empty for any."""


class Fault(NamedTuple):
    """One thing that goes wrong."""

    inject: Callable[[Trial], None]
    """Does it."""
    expected: Expected
    """What follows."""
    moments: tuple[str, ...] = ("starting", "running")
    """When it happens: before the ranks' first round, or after."""


class Trial:
    """One run of the program with everything it starts."""

    def __init__(self, number: int, engine: str, *, prefix: tuple[str, ...] = (), disk: str = "") -> None:
        self.mark = f"{os.getpid()}-{number}"
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
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "explorer", "validate", str(plan), "--engine", engine],
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
        """Wait until the ranks have started, or until they have begun their rounds; False if it ended."""
        end = time.monotonic() + START_S
        while self.process.poll() is None and time.monotonic() < end:
            if moment == "starting" and len(self.find("explorer.run.worker")) == 2:
                return True
            events = list(self.disk.glob("explorer-run-*/events"))
            if moment == "running" and events:
                with contextlib.suppress(OSError):
                    if '"round"' in events[0].read_text():
                        return True
            time.sleep(0.05)
        return False

    def signal_rank(self, number: int) -> None:
        """Send a signal to one of the ranks."""
        ranks = self.find("explorer.run.worker")
        chosen = random.choice(ranks)
        self.rank = int(chosen.environ()["RANK"])
        chosen.send_signal(number)

    def signal_torchrun(self, number: int) -> None:
        """Send a signal to torchrun."""
        for process in self.find("torch.distributed.run"):
            process.send_signal(number)

    def twice(self, first: int, second: int) -> None:
        """Send two signals to the program, the second while it ends."""
        self.process.send_signal(first)
        time.sleep(random.uniform(0.02, 0.6))
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(second)

    def close(self) -> None:
        """Remove what the trial itself made."""
        for process in self.family():
            with contextlib.suppress(psutil.Error):
                process.kill()
        self.errors.close()
        if self.mounted:
            subprocess.run(["umount", "-l", str(self.disk)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


def to_rank(number: signal.Signals) -> Callable[[Trial], None]:
    """Return the fault of a signal to a rank."""
    return lambda trial: trial.signal_rank(number)


def to_torchrun(number: signal.Signals) -> Callable[[Trial], None]:
    """Return the fault of a signal to torchrun."""
    return lambda trial: trial.signal_torchrun(number)


def to_program(number: signal.Signals, then: signal.Signals | None = None) -> Callable[[Trial], None]:
    """Return the fault of a signal to the program, or of two."""
    if then is None:
        return lambda trial: trial.process.send_signal(number)
    return lambda trial: trial.twice(number, then)


def nothing(trial: Trial) -> None:
    """Do nothing: the trial began with its fault."""
    del trial


S = signal
FAULTS = {
    "rank SIGKILL": Fault(to_rank(S.SIGKILL), Expected((4,), r"rank {rank} was killed by SIGKILL")),
    "rank SIGSEGV": Fault(to_rank(S.SIGSEGV), Expected((4,), r"rank {rank} was killed by SIGSEGV")),
    "rank SIGTERM": Fault(to_rank(S.SIGTERM), Expected((4,), r"rank {rank} was (ended|killed) by SIGTERM")),
    "rank SIGSTOP": Fault(to_rank(S.SIGSTOP), Expected((4,), r"rank {rank} stands still.*stopped")),
    "torchrun SIGKILL": Fault(to_torchrun(S.SIGKILL), Expected((4,), r"torchrun was killed by SIGKILL")),
    "torchrun SIGSTOP": Fault(
        to_torchrun(S.SIGSTOP), Expected((4,), r"torchrun is stopped by a signal"), ("starting",)
    ),
    "SIGINT": Fault(to_program(S.SIGINT), Expected((130,), "^explorer: interrupted$")),
    "SIGTERM": Fault(to_program(S.SIGTERM), Expected((143,), "^explorer: interrupted$")),
    "SIGHUP": Fault(to_program(S.SIGHUP), Expected((129,), "^explorer: interrupted$")),
    "SIGKILL": Fault(to_program(S.SIGKILL), Expected((-9,), "")),
    "SIGINT twice": Fault(to_program(S.SIGINT, S.SIGINT), Expected((130,), "^explorer: interrupted$")),
    "SIGINT, SIGTERM": Fault(to_program(S.SIGINT, S.SIGTERM), Expected((130, 143), "^explorer: interrupted")),
    "full disk": Fault(nothing, Expected((2, 4), r"[Nn]o space|full"), ("before",)),
    "disk fills up": Fault(nothing, Expected((2, 4), r"[Nn]o space|full"), ("before",)),
    "no loopback": Fault(nothing, Expected((4,), r"loopback"), ("before",)),
}
BEFORE: dict[str, dict[str, object]] = {
    "full disk": {"disk": "4k"},
    "disk fills up": {"disk": "28k"},
    "no loopback": {"prefix": ("unshare", "-n")},
}


class Outcome(NamedTuple):
    """How a trial ended."""

    ended_s: float
    """Seconds from the fault to the program's end."""
    gone_s: float
    """Seconds from the fault to the end of its last process."""
    problems: tuple[str, ...]
    """What was not as it should be."""


def play(number: int, name: str, moment: str, engine: str) -> Outcome | None:
    """Run one trial; None if the program had ended before its fault."""
    fault = FAULTS[name]
    trial = Trial(number, engine, **BEFORE.get(name, {}))  # type: ignore[arg-type]
    try:
        if moment != "before":
            if not trial.wait_for(moment):
                return None
            time.sleep(random.uniform(0.0, 1.5))
            if trial.process.poll() is not None:
                return None
        at = time.monotonic()
        try:
            fault.inject(trial)
        except (psutil.Error, IndexError, KeyError):
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):
            trial.process.wait(120)
        ended_s = time.monotonic() - at
        while trial.family() and time.monotonic() - at < 60:
            time.sleep(0.05)
        return judge(trial, fault.expected, ended_s, time.monotonic() - at, before=moment == "before")
    finally:
        trial.close()


def judge(trial: Trial, expected: Expected, ended_s: float, gone_s: float, *, before: bool) -> Outcome:
    """Compare what is left with what should be."""
    trial.errors.seek(0)
    said, problems = trial.errors.read(), []
    limit_s = LIMIT_S + 15.0 * before  # the program's own start counts there
    if trial.process.poll() not in expected.status:
        problems.append(f"exit status {trial.process.poll()}")
    if not re.search(expected.said.replace("{rank}", str(trial.rank)), said, re.MULTILINE):
        problems.append(f"says {said.strip().splitlines()[-1:]}")
    if "Traceback" in said:
        problems.append("traceback")
    if ended_s > limit_s:
        problems.append(f"ended after {ended_s:.1f} s")
    if gone_s > limit_s:
        problems.append(f"last process after {gone_s:.1f} s")
    if trial.family():
        problems.append(f"{len(trial.family())} orphans")
    if left := sorted(path.name for path in trial.disk.iterdir()):
        problems.append(f"leaves {', '.join(left[:3])}")
    return Outcome(ended_s, gone_s, tuple(problems))


def main() -> int:
    """Play as many trials as asked for, in turn over faults and moments; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    random.seed(options.seed)
    kinds = [
        (name, moment)
        for name, fault in FAULTS.items()
        for moment in fault.moments
        if options.only in name and (name not in BEFORE or os.geteuid() == 0)
    ]
    found: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    wrong: list[str] = []
    missed: Counter[str] = Counter()
    random.shuffle(kinds)
    for number in range(options.trials):
        name, moment = kinds[number % len(kinds)]
        engine = "interpreter" if number // len(kinds) % 2 else "dry"
        outcome = play(number, name, moment, engine)
        if outcome is None:
            print(number, name, moment, engine, "missed", file=sys.stderr, flush=True)
            missed[f"{name} {moment}"] += 1
            continue
        found[name, moment].append(outcome)
        wrong += [f"{name}, {moment}, {engine}: {problem}" for problem in outcome.problems]
        print(number, name, moment, engine, outcome, file=sys.stderr, flush=True)
    print("| fault | moment | trials | as they should | ended after, s | all gone after, s |")
    print("|---|---|---|---|---|---|")
    for (name, moment), outcomes in sorted(found.items()):
        good = sum(1 for outcome in outcomes if not outcome.problems)
        ended = f"{min(o.ended_s for o in outcomes):.1f} to {max(o.ended_s for o in outcomes):.1f}"
        gone = f"{min(o.gone_s for o in outcomes):.1f} to {max(o.gone_s for o in outcomes):.1f}"
        print(f"| {name} | {moment} | {len(outcomes)} | {good} | {ended} | {gone} |")
    for text, count in Counter(wrong).items():
        print(f"\n- {text}" + (f" ({count} times)" if count > 1 else ""))
    load = os.getloadavg()[0]
    print(f"\n{sum(missed.values())} trials ended before their fault. Load at the end {load:.1f} on"
          f" {os.cpu_count()} cores.")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
