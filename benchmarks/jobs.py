"""Evaluations a second by one process and several: `benchmarks/jobs.py [PROCESSES [MODEL CLUSTER ...]]`

First the same strategies of GPT-3 175B, costed in order through `Evaluator.evaluate_all`, after every process
has costed some; then a search by `auto`, from its start. Wall time shows what was gained on idle cores;
on a crowded machine look at the CPU seconds: the busiest process of several against the only one is the
speed-up that idle cores would give. In a list the first process costs what others have not begun,
on a crowded machine much of it: the last column shares the CPU seconds of all processes evenly.

Then searches that seconds end, whose processes each search a share: how far they are after equal CPU seconds
of the busiest process. Their evaluations are not of the same strategies, and some take ten times as long as
others: what counts is the seconds after which the gap is as small as one process gets it in the end.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from contextlib import suppress
from itertools import product
from typing import NamedTuple

import psutil

import explorer
from explorer.search import Evaluator, Problem, search
from explorer.search._jobs import jobs_of
from explorer.strategy import Strategy

ROUNDS = 2
EVALUATIONS = 150
"""Of a search."""
BATCH, DEVICES, FIRST = 64, 64, 24
BUDGET_S, LOOK_S = 10.0, 0.1
"""CPU seconds of the first process in a search that seconds end, and between two looks at it."""
HELPER_S = 0.1
"""CPU seconds below which a process only looks after others."""
PAIRS = (
    ("gpt3-175b", "dgx-a100-128"),
    ("llama3-405b", "hgx-h100-2048"),
    ("deepseek-v2", "hgx-h100-2048"),
)


def problem_of() -> Problem:
    """GPT-3 175B on 64 devices."""
    graph, cluster = explorer.load_model("gpt3-175b"), explorer.load_cluster("dgx-a100-128")
    workload = explorer.default_workload(graph).with_job(global_batch=BATCH)
    return Problem(graph=graph, cluster=cluster, workload=workload, max_devices=DEVICES)


def strategies(problem: Problem) -> list[tuple[Strategy, str]]:
    """Plans of different structures."""
    found = []
    for schedule in ("1f1b", "gpipe", "zb_h1", "zb_h2"):
        for stages in (4, 8, 16, 32):
            for tensor in (1, 2, 4, 8):
                replicas = max(1, DEVICES // (stages * tensor))
                for microbatches in (8, 16, 32, 64):
                    if microbatches * replicas <= BATCH:
                        strategy = explorer.uniform(
                            problem.graph, problem.needed_cluster, problem.job, schedule=schedule,
                            stages=stages, tensor=tensor, replicas=replicas, microbatches=microbatches,
                        )  # fmt: skip
                        found.append((strategy, schedule))
    return found


def cpu_s() -> list[float]:
    """CPU seconds of this process and of those it made, so far."""
    me = psutil.Process()
    return [sum(item.cpu_times()[:2]) for item in (me, *me.children(recursive=True))]


def searched(processes: int) -> tuple[float, list[float], int]:
    """Wall seconds of a search, CPU seconds of every process, and evaluations."""
    before, begun, used = cpu_s()[0], time.perf_counter(), [0.0]
    for _ in search(problem_of(), "auto", max_evaluations=EVALUATIONS, jobs=processes):
        used = cpu_s()
    return time.perf_counter() - begun, [used[0] - before, *used[1:]], EVALUATIONS


class Look(NamedTuple):
    """State of a search that seconds end."""

    used_s: list[float]
    """CPU seconds of every process so far."""
    evaluations: int
    best: float
    gap: float

    @property
    def line(self) -> str:
        """The state in cells of a table."""
        used = " + ".join(f"{item:.1f}" for item in self.used_s)
        return f"{used} | {self.evaluations} | {self.best:.4g} | {100 * self.gap:.1f} %"


def course(model: str, cluster: str, processes: int) -> list[Look]:
    """Run a search of so many CPU seconds of the first process, and look at it now and then."""
    graph = explorer.load_model(model)
    problem = Problem(
        graph=graph, cluster=explorer.load_cluster(cluster), workload=explorer.default_workload(graph)
    )
    me, looks = psutil.Process(), list[Look]()
    before, others = cpu_s()[0], dict[int, float]()
    for item in search(problem, budget_s=BUDGET_S, jobs=processes, clock=time.process_time):
        if looks and cpu_s()[0] - before < looks[-1].used_s[0] + LOOK_S:
            continue
        for child in me.children(recursive=True):
            with suppress(psutil.Error):  # it may have ended
                others[child.pid] = sum(child.cpu_times()[:2])
        used = [cpu_s()[0] - before, *(seconds for seconds in others.values() if seconds > HELPER_S)]
        looks.append(
            Look(used, item.evaluations, item.best.value if item.best else math.inf, item.gap or math.inf)
        )
    return looks


def compare(model: str, cluster: str, processes: int) -> str:
    """A line about a pair: both ends, and how much sooner several processes come as far as one."""
    alone, together = (
        [Look(*row) for row in json.loads(_run(["course", model, cluster, str(number)]))]
        for number in (1, processes)
    )
    sooner = [look for look in together if look.gap <= alone[-1].gap]
    first = next(look for look in alone if look.gap <= alone[-1].gap)
    ratio = f"{max(first.used_s) / max(sooner[0].used_s):.2f}" if sooner else "-"
    return f"| {model}, {cluster} | {alone[-1].line} | {together[-1].line} | {ratio} |"


def measure(processes: int) -> tuple[float, list[float], int]:
    """Wall seconds, CPU seconds of every process, and evaluations."""
    problem = problem_of()
    with jobs_of(problem, processes, None) as jobs:
        todo = strategies(problem)
        evaluator = Evaluator(problem=problem, jobs=jobs)
        for _ in evaluator.evaluate_all(todo[:FIRST]):
            pass
        before, begun = cpu_s(), time.perf_counter()
        count = sum(1 for _ in evaluator.evaluate_all(todo[FIRST:]))
        wall_s = time.perf_counter() - begun
        return wall_s, [b - a for a, b in zip(before, cpu_s(), strict=True)], count


def measure_alone(what: str, processes: int) -> tuple[float, list[float], int]:
    """The same in a new process, which remembers nothing."""
    wall_s, count, *used_s = _run([what, str(processes)]).split()
    return float(wall_s), [float(item) for item in used_s], int(count)


def _run(arguments: list[str]) -> str:
    command = [sys.executable, __file__, *arguments]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout


MEASURES = {"strategies": measure, "auto": searched}


def main() -> None:
    """Print two tables."""
    if sys.argv[1:2] == ["course"]:
        print(json.dumps(course(sys.argv[2], sys.argv[3], int(sys.argv[4]))))
        return
    if sys.argv[1:2] and sys.argv[1] in MEASURES:
        wall_s, used_s, count = MEASURES[sys.argv[1]](int(sys.argv[2]))
        print(wall_s, count, *used_s)
        return
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    named = sys.argv[2:]
    if not named:
        print_rates(processes)
    print("| pair | one: CPU, s | evaluations | best | gap |", end="")
    print(f" {processes}: CPU, s | evaluations | best | gap | sooner at the gap of one |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for model, cluster in zip(named[::2], named[1::2], strict=True) if named else PAIRS:
        print(compare(model, cluster, processes), flush=True)


def print_rates(processes: int) -> None:
    """Print the table of evaluations a second."""
    print("| of | processes | evaluations | wall, s | a second | CPU, s | of the busiest | shared evenly |")
    print("|---|---|---|---|---|---|---|---|")
    for what, number in product(MEASURES, (1, processes) * ROUNDS):
        wall_s, used_s, count = measure_alone(what, number)
        rates = [count / item for item in (wall_s, max(used_s), sum(used_s) / number)]
        print(
            f"| {what} | {number} | {count} | {wall_s:.1f} | {rates[0]:.1f} |"
            f" {' + '.join(f'{item:.1f}' for item in used_s)} | {rates[1]:.1f} | {rates[2]:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
