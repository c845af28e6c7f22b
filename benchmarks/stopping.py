"""How soon every searcher stops. `python benchmarks/stopping.py [--only NAME] [--stops N] [--page]`

A search runs on a thread of its own that asks step after step, as the workbench does, and begins again with a
new problem where it ends. Another thread sets a flag at a random moment while it searches; the first sees it
when its step is done or 50 ms are over, gives the search up and has the best so far. Counted are wall
milliseconds from the flag to that result, CPU milliseconds of the whole process meanwhile and until the step
at work had ended too, and by how much a search of `--budget` seconds was longer. Every searcher and problem
has a process of its own. `--page` writes the table, or with `--only` that row of it, into docs/search.md.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import NamedTuple

from searchers_tables import placed

PAGE, MARK = Path(__file__).parents[1] / "docs" / "search.md", "stopping"
ALONE = "--alone"
PROBLEMS = (("gpt3-175b", "dgx-a100-128"), ("inception-v3", "ethernet-10g-4x4"))
COLUMNS = (
    "searcher", "stops", "result after, ms: median", "p95", "worst", "CPU ms: worst",
    "until the step ended: worst", "budget exceeded by, ms",
)  # fmt: skip
MOST_WAIT_S = 30.0
"""Seconds after which a step that goes on counts as endless."""


class Stop(NamedTuple):
    """What a stop took, in seconds."""

    result_s: float
    cpu_s: float
    ended_cpu_s: float


def stopped(model: str, cluster: str, searcher: str, after_s: float) -> Stop:
    """Stop a search after so many seconds, from another thread."""
    import explorer
    from explorer.search import Problem, search

    flag, at_work, before = threading.Event(), threading.Event(), threading.active_count()

    def ask() -> None:
        while not flag.is_set():
            graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
            problem = Problem(graph=graph, cluster=devices, workload=explorer.default_workload(graph))
            at_work.set()
            steps = search(problem, searcher)
            for _ in steps:
                if flag.is_set():
                    break
            at_work.clear()
            steps.close()  # type: ignore[attr-defined]

    who = threading.Thread(target=ask)
    who.start()
    time.sleep(after_s)
    at_work.wait()
    asked, spent = time.perf_counter(), time.process_time()
    flag.set()
    who.join()
    result_s, cpu_s = time.perf_counter() - asked, time.process_time() - spent
    while threading.active_count() > before and time.perf_counter() - asked < MOST_WAIT_S:
        time.sleep(0.001)
    if threading.active_count() > before:
        raise RuntimeError(f"{searcher} left a thread behind")
    return Stop(result_s, cpu_s, time.process_time() - spent)


def exceeded_s(model: str, cluster: str, searcher: str, budget_s: float) -> float:
    """Return by how many seconds a search is longer than its budget; 0 for one that ends by itself."""
    import explorer
    from explorer.search import Problem, search

    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    problem = Problem(graph=graph, cluster=devices, workload=explorer.default_workload(graph))
    began = time.perf_counter()
    for _ in search(problem, searcher, budget_s=budget_s):
        pass
    return max(0.0, time.perf_counter() - began - budget_s)


def alone(model: str, cluster: str, searcher: str, options: argparse.Namespace) -> dict[str, object]:
    """Measure one searcher on one problem in this process; a problem that it refuses has no numbers."""
    from explorer.base.errors import InputError
    from explorer.search import SEARCHERS

    SEARCHERS.get("auto")  # which imports them all
    draw = random.Random(f"{searcher} {model} {options.seed}")
    try:
        over_s = exceeded_s(model, cluster, searcher, options.budget)
    except InputError as error:
        return {"wrong": str(error)}
    moments = [draw.uniform(0.0, options.within) for _ in range(options.stops)]
    return {"over_s": over_s, "stops": [stopped(model, cluster, searcher, moment) for moment in moments]}


def row_of(searcher: str, found: list[dict[str, object]]) -> str:
    """Return a row of the table."""
    stops = [Stop(*item) for one in found for item in one.get("stops", ())]  # type: ignore[attr-defined,misc]
    if not stops:
        return f"| `{searcher}` | 0 |" + " - |" * (len(COLUMNS) - 2)
    results = [1e3 * stop.result_s for stop in stops]
    over = max(1e3 * float(str(one["over_s"])) for one in found if "over_s" in one)
    numbers = (
        median(results), sorted(results)[int(0.95 * len(results))], max(results),
        1e3 * max(stop.cpu_s for stop in stops), 1e3 * max(stop.ended_cpu_s for stop in stops), over,
    )  # fmt: skip
    return f"| `{searcher}` | {len(stops)} | " + " | ".join(f"{number:.0f}" for number in numbers) + " |"


def main() -> None:
    """Print a row for every searcher."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stops", type=int, default=6, help="stops of every searcher on every problem")
    parser.add_argument("--within", type=float, default=1.5, help="seconds in which a stop comes")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of the search that ends by itself")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="name of one searcher")
    parser.add_argument("--page", action="store_true", help="write the table into docs/search.md")
    parser.add_argument(ALONE, nargs=3, help="measure one search in this process and print JSON")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(alone(*options.alone, options)))
        return
    from explorer.search import SEARCHERS

    said = f"{options.stops} stops on each of {' and '.join(f'{a} ({b})' for a, b in PROBLEMS)}, within"
    lines = [
        f"{said} {options.within:g} s; budget {options.budget:g} s; {datetime.now(UTC):%Y-%m-%d}.", "",
        f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|",
    ]  # fmt: skip
    print("\n".join(lines))
    given = [f"--{key}={getattr(options, key)}" for key in ("stops", "within", "budget", "seed")]
    for name in SEARCHERS.names():
        if options.only not in ("", name):
            continue
        found = []
        for pair in PROBLEMS:
            command = [sys.executable, __file__, *given, ALONE, *pair, name]
            done = subprocess.run(command, capture_output=True, check=True, text=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
        lines.append(row_of(name, found))
        print(lines[-1], flush=True)
    if options.page:
        page = PAGE.read_text(encoding="utf-8")
        if options.only:
            before = page.partition(f"<!-- {MARK} -->")[2].partition(f"<!-- /{MARK} -->")[0].strip()
            lines = [
                lines[-1] if row.startswith(f"| `{options.only}` ") else row for row in before.split("\n")
            ]
        PAGE.write_text(placed(page, MARK, "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
