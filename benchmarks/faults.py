"""Faults while `explorer validate` runs a plan on two ranks: how every one of them ends.

python benchmarks/faults.py [--trials 200] [--first 0] [--seed 1] [--only FAULT] [--at-once 2] [--rows FILE]

In each trial one thing goes wrong: a rank, torchrun or the program itself is killed, ended, stopped or
interrupted, once or twice; a rank gets no more memory; the disk is full or fills up; there is no loopback or
it goes away. Trials go round over all kinds and moments (see `faults_trial.MOMENTS`) in an order that the
seed shuffles; some compute, the others sleep (engine dry). The table counts, by fault and moment, how many
ended within 10 s, with the right exit status and cause, without a traceback, a process or a file left behind
(a disk or memory that is full ends a run only when it next needs some).
Ends with 1 if one did not. With `--rows`, outcomes are added to a file and the table is over all of it, so
that a long campaign can be run in parts (`--first`). Linux only; disks and loopback need root (left out
otherwise).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from faults_trial import ANYTIME, MOMENTS, TORCHRUN, Expected, Fault, Trial, play

S = signal
INTERRUPTED = r"^explorer: interrupted$"
FULL = r"[Nn]o space|full"
LAUNCHED = MOMENTS[1:]
SPACE = "64m"


def to_rank(number: signal.Signals) -> Callable[[Trial], object]:
    """Return the fault of a signal to a rank."""
    return lambda trial: trial.choose_rank().send_signal(number)


def to_torchrun(number: signal.Signals) -> Callable[[Trial], object]:
    """Return the fault of a signal to torchrun."""
    return lambda trial: trial.find(TORCHRUN)[0].send_signal(number)


def to_program(number: signal.Signals, then: signal.Signals | None = None) -> Callable[[Trial], object]:
    """Return the fault of a signal to the program, or of two."""
    if then is None:
        return lambda trial: trial.process.send_signal(number)
    return lambda trial: trial.twice(number, then)


def paused(module: str) -> Callable[[Trial], object]:
    """Return the fault of a process that stands still for a few seconds and goes on."""
    return lambda trial: trial.pause(trial.find(module)[0])


def no_memory(trial: Trial) -> None:
    """Let a rank have no more memory than it has."""
    rank = trial.choose_rank()
    rank.rlimit(resource.RLIMIT_AS, (rank.memory_info().vms, resource.RLIM_INFINITY))


def loopback_down(trial: Trial) -> None:
    """Take the loopback interface of the trial's own network down."""
    command = ["nsenter", "-t", str(trial.find(TORCHRUN)[0].pid), "-n", "ip", "link", "set", "lo", "down"]
    subprocess.run(command, check=True)


def nothing(trial: Trial) -> None:
    """Do nothing: the trial began with its fault."""
    del trial


def _killed(number: signal.Signals) -> Expected:
    return Expected((4,), rf"rank {{rank}} was killed by {number.name}")


FAULTS = {
    "rank SIGKILL": Fault(to_rank(S.SIGKILL), _killed(S.SIGKILL)),
    "rank SIGSEGV": Fault(to_rank(S.SIGSEGV), _killed(S.SIGSEGV)),
    "rank SIGABRT": Fault(to_rank(S.SIGABRT), _killed(S.SIGABRT), ("starting", "running")),
    "rank SIGHUP": Fault(to_rank(S.SIGHUP), _killed(S.SIGHUP), ("starting", "running")),
    "rank SIGTERM": Fault(to_rank(S.SIGTERM), Expected((4,), r"rank {rank} was (ended|killed) by SIGTERM")),
    "rank SIGINT, an exception": Fault(
        to_rank(S.SIGINT), Expected((4,), r"rank {rank} .*(KeyboardInterrupt|SIGINT)")
    ),
    "rank SIGSTOP": Fault(to_rank(S.SIGSTOP), Expected((4,), r"rank {rank} stands still.*stopped")),
    "rank without memory": Fault(
        no_memory,
        Expected((4,), r"rank {rank} .*(out of memory|MemoryError|[Cc]annot allocate)", 60.0, survives=True),
        ("starting", "calibrating", "running"),
    ),
    "torchrun SIGKILL": Fault(to_torchrun(S.SIGKILL), Expected((4,), r"torchrun was killed by SIGKILL")),
    "torchrun SIGTERM": Fault(
        to_torchrun(S.SIGTERM), Expected((4,), r"torchrun was (ended|killed) by SIGTERM")
    ),
    "torchrun SIGINT": Fault(
        to_torchrun(S.SIGINT),
        Expected((4,), r"torchrun was (ended|killed) by SIGINT"),
        ("starting", "running"),
    ),
    "torchrun SIGHUP": Fault(
        to_torchrun(S.SIGHUP),
        Expected((4,), r"torchrun was (ended|killed) by SIGHUP"),
        ("starting", "running"),
    ),
    "torchrun SIGSTOP": Fault(
        to_torchrun(S.SIGSTOP), Expected((4,), r"torchrun is stopped by a signal", survives=True)
    ),
    "torchrun pauses": Fault(
        paused(TORCHRUN), Expected((0, 5), "", 90.0, survives=True), ("starting", "running")
    ),
    "program pauses": Fault(
        paused("explorer"), Expected((0, 5), "", 90.0, survives=True), ("starting", "running")
    ),
    "SIGINT": Fault(to_program(S.SIGINT), Expected((130,), INTERRUPTED), MOMENTS),
    "SIGTERM": Fault(to_program(S.SIGTERM), Expected((143,), INTERRUPTED), MOMENTS),
    "SIGHUP": Fault(to_program(S.SIGHUP), Expected((129,), INTERRUPTED), MOMENTS),
    "SIGKILL": Fault(to_program(S.SIGKILL), Expected((-9,), ""), MOMENTS),
    "SIGINT twice": Fault(to_program(S.SIGINT, S.SIGINT), Expected((130,), INTERRUPTED), MOMENTS),
    "SIGINT, SIGTERM": Fault(to_program(S.SIGINT, S.SIGTERM), Expected((130, 143), INTERRUPTED), MOMENTS),
    "SIGTERM, SIGHUP": Fault(to_program(S.SIGTERM, S.SIGHUP), Expected((143, 129), INTERRUPTED), MOMENTS),
    "SIGINT, SIGKILL": Fault(to_program(S.SIGINT, S.SIGKILL), Expected((130, -9), ""), LAUNCHED),
    **{
        f"{number.name} at any moment of {command}": Fault(
            to_program(number), Expected((128 + number,), INTERRUPTED), (ANYTIME,), engines=(command,)
        )
        for command in ("layers", "slice", "profile")
        for number in (S.SIGINT, S.SIGTERM)
    },
    "full disk": Fault(nothing, Expected((2, 4), FULL), (), disk="4k"),
    "disk of 28 KiB": Fault(nothing, Expected((2, 4), FULL), (), disk="28k"),
    "disk fills up": Fault(
        Trial.fill_disk,
        Expected((2, 4), FULL, 90.0, survives=True),
        ("importing", "starting", "calibrating", "running", "ending"),
        disk=SPACE,
    ),
    "no loopback": Fault(nothing, Expected((4,), r"loopback"), (), prefix=("unshare", "-n")),
    "loopback goes down": Fault(
        loopback_down,
        Expected((4,), r"lost its connection|stands still|failed", 40.0, survives=True),
        ("running",),
        prefix=("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$0" "$@"'),
    ),
}
COMPUTING = ("checking", "calibrating")
"""Moments that a run that sleeps does not have."""


def kinds(only: str) -> list[tuple[str, str]]:
    """List the faults with their moments; without root, only those that need none."""
    return [
        (name, moment)
        for name, fault in FAULTS.items()
        for moment in fault.moments or ("",)
        if only in name and (os.geteuid() == 0 or not (fault.disk or fault.prefix))
    ]


def trial(number: int, options: argparse.Namespace) -> dict[str, Any]:
    """Run the trial of a number; return its row."""
    all_kinds = kinds(options.only)
    random.Random(options.seed).shuffle(all_kinds)
    dice = random.Random(f"{options.seed} {number}")
    name, moment = all_kinds[number % len(all_kinds)]
    first, *others = FAULTS[name].engines
    engine = dice.choice(others) if others and moment not in COMPUTING and dice.random() < 0.75 else first
    outcome = play(number, FAULTS[name], moment, engine, dice)
    row = {
        "number": number, "fault": name, "moment": moment or "before", "engine": engine,
        "load": round(os.getloadavg()[0], 1), **(outcome._asdict() if outcome else {"missed": True}),
    }  # fmt: skip
    print(json.dumps(row), file=sys.stderr, flush=True)
    if options.rows:
        with options.rows.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    return row


def table(rows: list[dict[str, Any]]) -> str:
    """Write what was found, as Markdown."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if not row.get("missed"):
            found[row["fault"], row["moment"]].append(row)
    lines = [
        "| fault | moment | trials | as they should | ended after, s | all gone after, s |",
        "|---|---|---|---|---|---|",
    ]
    order = {moment: place for place, moment in enumerate(MOMENTS)}
    for (name, moment), group in sorted(
        found.items(), key=lambda item: (item[0][0], order.get(item[0][1], -1))
    ):
        good = sum(not row["problems"] for row in group)
        spans = [
            f"{min(r[key] for r in group)} to {max(r[key] for r in group)}" for key in ("ended_s", "gone_s")
        ]
        lines.append(f"| {name} | {moment} | {len(group)} | {good} | {spans[0]} | {spans[1]} |")
    counted = [row for group in found.values() for row in group]
    wrong = Counter(
        f"{row['fault']}, {row['moment']}, {row['engine']}: {problem}"
        for row in counted
        for problem in row["problems"]
    )
    lines += [f"\n- {text}" + (f" ({count} times)" if count > 1 else "") for text, count in wrong.items()]
    good, loads = sum(not row["problems"] for row in counted), [row["load"] for row in rows]
    lines.append(
        f"\n{good} of {len(counted)} as they should; {len(rows) - len(counted)} ended before their fault;"
        f" {sum(row['swept'] for row in counted)} folders of killed programs left to the next run to remove."
        f" Load {min(loads)} to {max(loads)} on {os.cpu_count()} cores."
    )
    return "\n".join(lines)


def heed_signals() -> None:
    """Let the programs of the trials hear signals that this one was started to ignore.

    A shell starts what goes on in the background with SIGINT ignored, `nohup` with SIGHUP, and both are
    inherited.
    """
    for number in (S.SIGINT, S.SIGTERM, S.SIGHUP):
        if S.getsignal(number) is S.SIG_IGN:
            S.signal(number, S.SIG_DFL)


def main() -> int:
    """Play as many trials as asked for, in turn over faults and moments; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args()
    heed_signals()
    with ThreadPoolExecutor(options.at_once) as pool:
        numbers = range(options.first, options.first + options.trials)
        rows = list(pool.map(lambda number: trial(number, options), numbers))
    if options.rows:
        rows = [json.loads(line) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    print(table(rows))
    return 1 if any(row.get("problems") for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
