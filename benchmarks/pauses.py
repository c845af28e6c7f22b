"""How lively a search is. `python benchmarks/pauses.py [--budget S] [--stops N] [--only MODEL] [--seed K]`

For each pair, in a new process: the longest wait between two reports of a search of so many seconds and how
long after its budget it ended, then, over stops at random moments of further searches, the longest time that
giving up took, and until the step at work had ended. Wall time, which says too much on a crowded machine: so
CPU time of the process stands beside the longest waits, each the longest of its kind.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time

ALONE = "--alone"
PAIRS = (
    ("llama3-405b", "hgx-h100-2048"), ("gpt3-175b", "dgx-a100-128"), ("deepseek-v2", "hgx-h100-16"),
    ("gnmt-16", "pipedream-a"), ("mixtral-8x7b", "hgx-h100-16"), ("inception-v3", "ethernet-10g-4x4"),
)  # fmt: skip


def measure(model: str, cluster: str, budget_s: float, stops: int, seed: int) -> dict[str, float]:
    """Search once to the end of the budget, then give up several times."""
    import explorer
    from explorer.search import SEARCHERS, Problem, search

    SEARCHERS.get("auto")  # which imports them all
    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    problem = Problem(graph=graph, cluster=devices, workload=explorer.default_workload(graph))
    began = before = time.perf_counter()
    longest, busiest, reports, tried, spent = 0.0, 0.0, 0, 0, time.process_time()
    for found in search(problem, budget_s=budget_s):
        now, used = time.perf_counter(), time.process_time()
        longest, busiest = max(longest, now - before), max(busiest, used - spent)
        before, spent, reports, tried = now, used, reports + 1, found.evaluations
    row = {"silence_s": longest, "ended_s": time.perf_counter() - began - budget_s, "reports": reports}
    row |= {"silence_cpu_s": busiest, "evaluations": tried}
    row |= dict.fromkeys(("stop_s", "thread_s", "thread_cpu_s"), 0.0)
    draw, threads = random.Random(seed), threading.active_count()
    for _ in range(stops):
        until = time.perf_counter() + draw.uniform(0.0, budget_s)
        steps = search(problem)
        while time.perf_counter() < until and next(steps, None) is not None:
            pass
        asked, spent = time.perf_counter(), time.process_time()
        steps.close()  # type: ignore[attr-defined]
        row["stop_s"] = max(row["stop_s"], time.perf_counter() - asked)
        while threading.active_count() > threads:
            time.sleep(0.001)
        row["thread_s"] = max(row["thread_s"], time.perf_counter() - asked)
        row["thread_cpu_s"] = max(row["thread_cpu_s"], time.process_time() - spent)
    return row


def main() -> None:
    """Print one row per pair."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of the first search")
    parser.add_argument("--stops", type=int, default=6, help="searches that are given up")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="name of one model")
    parser.add_argument(ALONE, nargs=2, help="measure one pair in this process and print JSON")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(*options.alone, options.budget, options.stops, options.seed)))
        return
    print(
        f"{'model':<14}{'cluster':<18}{'tried':>6}{'reports':>8}{'silence, ms':>12}{'CPU':>5}"
        f"{'ended, ms':>10}{'stop, ms':>9}{'step ends, ms':>14}{'CPU':>5}"
    )
    for model, cluster in PAIRS:
        if options.only not in ("", model):
            continue
        given = [f"--{key}={getattr(options, key)}" for key in ("budget", "stops", "seed")]
        command = [sys.executable, __file__, *given, ALONE, model, cluster]
        row = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        print(
            f"{model:<14}{cluster:<18}{row['evaluations']:>6}{row['reports']:>8}"
            f"{1e3 * row['silence_s']:>12.0f}{1e3 * row['silence_cpu_s']:>5.0f}{1e3 * row['ended_s']:>10.0f}"
            f"{1e3 * row['stop_s']:>9.0f}{1e3 * row['thread_s']:>14.0f}{1e3 * row['thread_cpu_s']:>5.0f}"
        )


if __name__ == "__main__":
    main()
