"""Seconds of the searchers. `python benchmarks/search.py [--budget S] [--profiles FOLDER]`

1. PipeDream's optimizer (its own cost model) on its published profiles, beside the seconds its published
   implementation took on the machine that made `expected.json`.
2. The uniform strategies: until the search ends (or the budget), simulations, and when the best was found.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import explorer
from explorer.search import Problem, Progress, search

FOLDER = Path(__file__).parents[2] / "shared" / "reference" / "pipedream"
CASES = (("gpt2-xl", "dgx-a100"), ("llama3-70b", "dgx-a100-4"))


def pipedream(folder: Path, *, brief: bool) -> None:
    """One row per published run; `brief` leaves out those that took its authors' code less than 5 s."""
    print(f"{'profile':<24}{'machines':>9}{'states':>9}{'T, s':>14}{'ours, s':>9}{'published, s':>14}")
    for run in json.loads((folder / "expected.json").read_text())["runs"]:
        name = run["profile"]
        file = folder / f"{name.removesuffix('_compressed')}.graph.txt"
        if "--straight_pipeline" in run["flags"] or not file.exists():
            continue
        if brief and run.get("wall_s_median", 5.0) < 5.0:
            continue
        graph = explorer.load_model(str(file))
        problem = Problem(graph=graph, cluster=None, workload=explorer.default_workload(graph))
        options = {
            "cost_model": "original",
            "devices": ",".join(map(str, run["n"])),
            "bandwidth_bytes_per_s": ",".join(map(str, run["bandwidth_Bps"])),
            "transfers": "counted" if run["flags"] else "free",
            "branches": "compress" if name.endswith("_compressed") else "keep",
        }
        start = time.perf_counter()
        last = list(search(problem, "pipedream", options=options))[-1]
        seconds = time.perf_counter() - start
        published = f"{run['wall_s_median']:.2f}" if "wall_s_median" in run else run.get("error", "")
        print(
            f"{name:<24}{'x'.join(map(str, run['n'])):>9}{last.details['states']:>9}"
            f"{last.foreign_value:>14.9f}{seconds:>9.2f}{published:>14}"
        )


def uniform_strategies(model: str, cluster: str, searcher: str, budget_s: float) -> None:
    """Time to best, and to the end."""
    graph = explorer.load_model(model)
    problem = Problem(
        graph=graph, cluster=explorer.load_cluster(cluster), workload=explorer.default_workload(graph)
    )
    found: Progress | None = None
    best, best_at_s, longest_s, before_s = float("inf"), 0.0, 0.0, 0.0
    for found in search(problem, searcher, budget_s=budget_s):
        longest_s, before_s = max(longest_s, found.wall_s - before_s), found.wall_s
        if found.best is not None and found.best.value < best:
            best, best_at_s = found.best.value, found.wall_s
    if found is None or found.best is None:
        print(f"{model} on {cluster}, {searcher}: nothing fits within {budget_s:.0f} s")
        return
    ended = "ended" if found.wall_s < budget_s else "stopped"
    print(
        f"{model} on {cluster}, {searcher}: {best:.4f} s a step ({found.best.label}) "
        f"after {best_at_s:.1f} s; "
        f"{ended} after {found.wall_s:.1f} s, {found.evaluations} simulations "
        f"({found.evaluations / found.wall_s:.1f}/s), "
        f"{'optimal among ' + found.bound if found.optimal else 'not proven'}; longest wait {longest_s:.2f} s"
    )


def main() -> None:
    """Print both."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for each search")
    parser.add_argument("--profiles", type=Path, default=FOLDER, help="folder of expected.json")
    parser.add_argument("--brief", action="store_true", help="only what took the published code 5 s or more")
    options = parser.parse_args()
    if (options.profiles / "expected.json").exists():
        pipedream(options.profiles, brief=options.brief)
    for model, cluster in CASES:
        for searcher in ("exhaustive", "auto"):
            uniform_strategies(model, cluster, searcher, options.budget)


if __name__ == "__main__":
    main()
