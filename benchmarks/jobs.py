"""Evaluations a second by one process and by several. `python benchmarks/jobs.py [PROCESSES]`

The same strategies of GPT-3 175B, costed in order through `Evaluator.evaluate_all`, after every process has
costed some. Wall time shows what was gained where the machine has idle cores; on a crowded one look at the
CPU seconds: the busiest process of several against the only one is the speed-up that idle cores would give.
"""

from __future__ import annotations

import subprocess
import sys
import time

import psutil

import explorer
from explorer.search import Evaluator, Problem
from explorer.search._jobs import jobs_of
from explorer.strategy import Strategy

ROUNDS = 3
ALONE = "--alone"
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


def measure(processes: int) -> tuple[float, float, int]:
    """Wall seconds, CPU seconds of the busiest process, and evaluations."""
    problem = problem_of()
    with jobs_of(problem, processes, None) as jobs:
        todo = strategies(problem)
        evaluator = Evaluator(problem=problem, jobs=jobs)
        for _ in evaluator.evaluate_all(todo[:FIRST]):
            pass
        before, begun = cpu_s(), time.perf_counter()
        count = sum(1 for _ in evaluator.evaluate_all(todo[FIRST:]))
        wall_s = time.perf_counter() - begun
        return wall_s, max(b - a for a, b in zip(before, cpu_s(), strict=True)), count


def measure_alone(processes: int) -> tuple[float, float, int]:
    """The same in a new process, which remembers nothing."""
    command = [sys.executable, __file__, ALONE, str(processes)]
    wall_s, busiest_s, count = subprocess.run(command, capture_output=True, check=True).stdout.split()
    return float(wall_s), float(busiest_s), int(count)


def main() -> None:
    """Print a table."""
    if sys.argv[1:2] == [ALONE]:
        print(*measure(int(sys.argv[2])))
        return
    processes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    print("| processes | evaluations | wall, s | a second | CPU of the busiest, s | a second of it |")
    print("|---|---|---|---|---|---|")
    for _ in range(ROUNDS):
        for number in (1, processes):
            wall_s, busiest_s, count = measure_alone(number)
            print(
                f"| {number} | {count} | {wall_s:.1f} | {count / wall_s:.1f} | {busiest_s:.1f} |"
                f" {count / busiest_s:.1f} |"
            )


if __name__ == "__main__":
    main()
