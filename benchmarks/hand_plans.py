"""`auto` against plans made by hand. `python benchmarks/hand_plans.py [--budget S] [--only NAME]`

For each plan of `benchmarks/plans/`: what `simulate` says of it, and what a search of the same problem finds
in so many seconds: seconds to the first plan that fits and to the best, the best's value, its gap to the hand
plan (below 0 is better) and to the bounds, and the longest wait between two reports. CPU seconds stand beside
the wall's, since machines are not always idle.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import NamedTuple

from explorer.plan import Resolved, load_plan
from explorer.search import Problem, search
from explorer.simulation.simulate import simulate

FOLDER = Path(__file__).parent / "plans"
OLDER_WEIGHTS = ("gnmt-16", "vgg16")
"""Plans that may learn from older weights, and so may their searches."""
FEWER = {"gpt3-175b-64": 64}
"""Most devices of a search, where it is not the whole cluster."""


class Row(NamedTuple):
    """What one search found."""

    hand_s: float
    first_s: float
    best_s: float
    best_at_s: float
    cpu_s: float
    evaluations: int
    bound_s: float
    peak_s: float
    """Work over peak."""
    longest_s: float
    label: str


def compare(name: str, found_in: Resolved, budget_s: float, searcher: str) -> Row:
    """Search the problem of a plan."""
    graph, cluster, workload = found_in.graph, found_in.cluster, found_in.plan.workload
    hand = simulate(graph, cluster, workload, found_in.plan.strategy)
    problem = Problem(
        graph=graph, cluster=cluster, workload=workload, max_devices=FEWER.get(name, 0),
        weights="any" if name in OLDER_WEIGHTS else "synchronous",
    )  # fmt: skip
    first = best_at = longest = before = 0.0
    best, label, evaluations, bound = float("inf"), "nothing fits", 0, 0.0
    cpu = time.process_time()
    for found in search(problem, searcher, budget_s=budget_s):
        longest, before = max(longest, found.wall_s - before), found.wall_s
        evaluations, bound = found.evaluations, found.lower_bound or 0.0
        if found.best is not None and found.best.value < best:
            first = first or found.wall_s
            best, best_at, label = found.best.value, found.wall_s, found.best.label
    spent = time.process_time() - cpu
    peak = problem.lower_bound() or 0.0
    return Row(hand.step_time_s, first, best, best_at, spent, evaluations, bound, peak, longest, label)


def main() -> None:
    """Print one row per plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=10.0, help="seconds for each search")
    parser.add_argument("--only", default="", help="name of one plan")
    parser.add_argument("--searcher", default="auto")
    options = parser.parse_args()
    began = time.perf_counter()
    for _ in range(1_000_000):
        pass
    print(f"loop {1e3 * (time.perf_counter() - began):.1f} ms")
    print(
        f"{'plan':<14}{'hand, s':>10}{'best, s':>10}{'against':>9}{'first at':>9}{'best at':>9}{'CPU, s':>8}"
        f"{'tried':>7}{'bound':>8}{'peak':>8}{'waits':>7}"
    )
    for file in sorted(FOLDER.glob("*.yaml")):
        if options.only in ("", file.stem):
            row = compare(file.stem, load_plan(file), options.budget, options.searcher)
            print(
                f"{file.stem:<14}{row.hand_s:>10.4f}{row.best_s:>10.4f}{row.best_s / row.hand_s - 1:>9.1%}"
                f"{row.first_s:>9.2f}{row.best_at_s:>9.2f}{row.cpu_s:>8.1f}{row.evaluations:>7}"
                f"{row.best_s / row.bound_s - 1:>8.0%}{row.best_s / row.peak_s - 1:>8.0%}"
                f"{row.longest_s:>7.2f}  {row.label}"
            )


if __name__ == "__main__":
    main()
