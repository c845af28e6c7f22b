"""Runs on a crowded machine: none may be called one that stands still.

python benchmarks/crowded_runs.py [--runs 20] [--loads 8 16] [--at-once 4] [--steps 3] [--rows FILE]

`explorer validate` on two ranks, over and over, beside processes that do nothing but compute: as many as
make up the load together with the ranks of the runs that go on at once. Plans and engines take turns: small
stand-ins in a pipeline and as replicas, a user's module as own layers in both ways, and an order with
compute slept. Counts how runs end: with a verdict (status 0), too crowded for one (5), or with a fault (4),
which here is always false; a run that says of a rank that it stands still has accused one. With `--rows`,
ends are added to a file and the table is over all of it, so that it can be run in parts. Ends with 1 if any
run ended otherwise than with 0 or 5.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.plan import Reference, make_plan, save_plan
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

ROOT = Path(__file__).parents[1]
CLUSTER, BATCH = "dgx-a100", 16
OWN = "benchmarks.user_modules:skip"
BUSY = "while True: pass"
ACCUSED = "stands still"
HEAD = """\
| load made | plan | runs | verdict | crowded (5) | failed | "stands still" | rounds | of a core | seconds |
|---|---|---|---|---|---|---|---|---|---|"""
PLANS: dict[str, tuple[str, dict[str, Any], str]] = {
    "pipeline, stand-ins": ("gpt2-small", {"stages": 2, "microbatches": 8}, "likeness"),
    "pipeline, own layers": (OWN, {"stages": 2, "microbatches": 4}, "layers"),
    "pipeline, slept": ("gpt2-small", {"stages": 2, "microbatches": 8}, "dry"),
    "replicas, stand-ins": ("gpt2-small", {"replicas": 2, "microbatches": 4}, "likeness"),
    "replicas, own layers": (OWN, {"replicas": 2, "microbatches": 2}, "layers"),
}
"""Model, shape of the plan and engine."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended."""

    made: int
    """Load that was made."""
    plan: str
    status: int
    """Exit status; -1 if it had to be ended."""
    took_s: float
    load: float
    """Programs that wanted a core, on average over the last minute, at its end."""
    said: str
    """Last line of standard error."""
    verdict: str = ""
    rounds: int = 0
    contention: float = 0.0

    @property
    def accused(self) -> bool:
        """Whether a rank was said to stand still."""
        return ACCUSED in self.said


def write_plans(folder: Path) -> dict[str, Path]:
    """Write the plan files; return them by name."""
    files = {}
    for number, (name, (reference, shape, _)) in enumerate(PLANS.items()):
        graph, cluster = load_model(reference), load_cluster(CLUSTER)
        workload = default_workload(graph).with_job(global_batch=BATCH)
        strategy = uniform(graph, cluster, workload.job, **shape)
        plan = make_plan(Reference(reference=reference), graph, CLUSTER, cluster, workload, strategy)
        files[name] = folder / f"{number}.yaml"
        save_plan(plan, {workload.job.graph: graph}, files[name])
    return files


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep some processes computing."""
    started = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


def validate(made: int, name: str, file: Path, options: argparse.Namespace) -> Ended:
    """Run one plan as its user would."""
    command = [sys.executable, "-m", "explorer", "validate", str(file), "--engine", PLANS[name][2]]
    begun = time.monotonic()
    process = subprocess.Popen(
        [*command, "--steps", str(options.steps), "--trust", "--json"],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        out, said = process.communicate(timeout=options.timeout)
        status = process.returncode
    except subprocess.TimeoutExpired:
        process.terminate()
        out, said = process.communicate()
        status = -1
    found = json.loads(out) if status in (0, 5) else {}
    ended = Ended(
        made=made,
        plan=name,
        status=status,
        took_s=time.monotonic() - begun,
        load=os.getloadavg()[0],
        said=(said.strip().splitlines() or [""])[-1],
        verdict=found.get("verdict", ""),
        rounds=found.get("rounds", 0),
        contention=found.get("contention", 0.0),
    )
    print(ended, file=sys.stderr, flush=True)
    if options.rows:
        with options.rows.open("a", encoding="utf-8") as rows:
            rows.write(json.dumps(asdict(ended)) + "\n")
    return ended


def campaign(load: int, options: argparse.Namespace, files: dict[str, Path]) -> list[Ended]:
    """Run the plans in turn beside a load."""
    names = [list(files)[i % len(files)] for i in range(options.runs)]
    with busy(max(0, load - 2 * options.at_once)), ThreadPoolExecutor(options.at_once) as pool:
        return list(pool.map(lambda name: validate(load, name, files[name], options), names))


def table(runs: list[Ended]) -> Iterator[str]:
    """Yield the rows by load and plan."""
    for load, name in sorted({(run.made, run.plan) for run in runs}):
        some = [run for run in runs if (run.made, run.plan) == (load, name)]
        status = [run.status for run in some]
        rounds = [run.rounds for run in some if run.rounds]
        cores = [run.contention for run in some if run.rounds]
        yield (
            f"| {load} | {name} | {len(some)} | {status.count(0)} | {status.count(5)} |"
            f" {len(some) - status.count(0) - status.count(5)} | {sum(run.accused for run in some)} |"
            f" {min(rounds, default=0)} to {max(rounds, default=0)} |"
            f" {min(cores, default=0.0):.2f} to {max(cores, default=0.0):.2f} |"
            f" {median(run.took_s for run in some):.0f} to {max(run.took_s for run in some):.0f} |"
        )


def main(arguments: list[str]) -> int:
    """Print a table of how runs ended."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="at each load")
    parser.add_argument("--loads", type=int, nargs="+", default=[8, 16])
    parser.add_argument("--at-once", type=int, default=4, help="runs that go on at once")
    parser.add_argument("--steps", type=int, default=3, help="measured rounds of a run, at most")
    parser.add_argument("--timeout", type=float, default=480.0, help="seconds after which a run is ended")
    parser.add_argument("--rows", type=Path)
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(ROOT))  # where the user's module is found
    every: list[Ended] = []
    with tempfile.TemporaryDirectory() as folder:
        files = write_plans(Path(folder))
        for load in options.loads:
            every += campaign(load, options, files)
    if options.rows:
        every = [Ended(**json.loads(line)) for line in options.rows.read_text(encoding="utf-8").splitlines()]
    print(HEAD, *table(every), sep="\n")
    wrong = [run for run in every if run.status not in (0, 5)]
    loads = [run.load for run in every]
    print(
        f"\n{len(every) - len(wrong)} of {len(every)} ended with a verdict or for want of a core;"
        f" {sum(run.accused for run in every)} falsely said to stand still. Load seen {min(loads):.1f} to"
        f" {max(loads):.1f} on {os.cpu_count()} cores, {options.at_once} runs at once."
    )
    for run in wrong:
        print(f"\n- {run.plan}, after {run.took_s:.0f} s, status {run.status}: {run.said}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
