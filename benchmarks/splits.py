"""`tarnawski_ip` on the authors' workloads: `python benchmarks/splits.py FOLDER [--nodes N] [--page]`.

FOLDER has workloads as published (`throughput/*.json`). For each, under the paper's costs: the best
contiguous split of one order, with which the integer program begins, the best split found after so many nodes
of branch and bound, what no split is below, and CPU seconds until the first improvement and in all, solver
included. The search gives up after `--budget` seconds. `--page` writes the table into docs/search.md.
"""

from __future__ import annotations

import argparse
import resource
from pathlib import Path
from typing import NamedTuple

from searchers_tables import placed

from explorer.models import load_model_and_cluster
from explorer.search import Problem, search
from explorer.workload import default_workload

PAGE, MARK = Path(__file__).parents[1] / "docs" / "search.md", "splits"
COLUMNS = ("workload", "nodes x devices", "contiguous, ms", "found, ms", "less by", "bound, ms", "gap")
TIMES = ("bound after, CPU s", "first better after", "in all")


class Found(NamedTuple):
    """What a search said, with CPU seconds."""

    size: str
    first_s: float
    """Seconds of the contiguous split's busiest device."""
    last_s: float
    bound_s: float
    bounded_at: float
    better_at: float | None
    ended_at: float


def cpu_s() -> float:
    """Return the CPU seconds of this process and of the solvers that have ended."""
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in each)


def measured(file: Path, nodes: int, budget_s: float) -> Found:
    """Search one workload."""
    graph, cluster = load_model_and_cluster(str(file))
    problem = Problem(graph=graph, cluster=cluster, workload=default_workload(graph))
    options = {"cost_model": "original", "nodes": str(nodes)}
    began, first, value, bound, bounded, better = cpu_s(), 0.0, 0.0, 0.0, 0.0, None
    for item in search(problem, "tarnawski_ip", options=options, budget_s=budget_s):
        value = item.foreign_value or 0.0
        first = first or value
        if item.lower_bound and not bound:
            bounded = cpu_s() - began
        bound = item.lower_bound or bound
        if better is None and value < first:
            better = cpu_s() - began
    size = f"{len(graph.layers)} x {len(cluster.order) if cluster is not None else 1}"
    return Found(size, first, value, bound, bounded, better, cpu_s() - began)


def row_of(name: str, found: Found) -> str:
    """Return a row of the table."""
    better = f"{found.better_at:.1f} s" if found.better_at is not None else "never"
    cells = [
        name, found.size, f"{1e3 * found.first_s:.2f}", f"{1e3 * found.last_s:.2f}",
        f"{1 - found.last_s / found.first_s:.1%}", f"{1e3 * found.bound_s:.2f}",
        f"{found.last_s / found.bound_s - 1:.1%}", f"{found.bounded_at:.1f} s", better,
        f"{found.ended_at:.0f} s",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=1, help="nodes of branch and bound, for each program")
    parser.add_argument("--budget", type=float, default=100.0, help="seconds of each search")
    parser.add_argument("--page", action="store_true", help="write the table into docs/search.md")
    options = parser.parse_args()
    lines = [f"| {' | '.join((*COLUMNS, *TIMES))} |", "|---" * len(COLUMNS + TIMES) + "|"]
    print("\n".join(lines))
    for file in sorted((options.folder / "throughput").glob("*.json")):
        found = measured(file, options.nodes, options.budget)
        lines.append(row_of(file.stem.partition("_")[2], found))
        print(lines[-1], flush=True)
    if options.page:
        PAGE.write_text(placed(PAGE.read_text(encoding="utf-8"), MARK, "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
