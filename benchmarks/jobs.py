"""Evaluations a second by one process and by several. `python benchmarks/jobs.py [PROCESSES]`

First the same strategies of GPT-3 175B, costed in order through `Evaluator.evaluate_all`, after every process
has costed some; then a search by `auto`, from its start. Wall time shows what was gained on idle cores;
on a crowded machine look at the CPU seconds: the busiest process of several against the only one is the
speed-up that idle cores would give. In a search the first process costs what others have not begun,
on a crowded machine much of it: the last column shares the CPU seconds of all processes evenly.
"""

from __future__ import annotations

import subprocess
import sys
import time
from itertools import product

import psutil

import explorer
from explorer.search import Evaluator, Problem, search
from explorer.search._jobs import jobs_of
from explorer.strategy import Strategy

ROUNDS = 2
EVALUATIONS = 150
"""Of a search."""
BATCH, DEVICES, FIRST = 64, 64, 24


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
    command = [sys.executable, __file__, what, str(processes)]
    wall_s, count, *used_s = subprocess.run(command, capture_output=True, check=True).stdout.split()
    return float(wall_s), [float(item) for item in used_s], int(count)


MEASURES = {"strategies": measure, "auto": searched}


def main() -> None:
    """Print a table."""
    if sys.argv[1:2] and sys.argv[1] in MEASURES:
        wall_s, used_s, count = MEASURES[sys.argv[1]](int(sys.argv[2]))
        print(wall_s, count, *used_s)
        return
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
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
