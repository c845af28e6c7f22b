"""Learned planners beside uniform random search of the same plans: `python benchmarks/learners.py`.

Each searcher has as many evaluations as random search, on each pair and for each seed; the median of the
seeds counts. Rows that stand in the file are not run again, so that it may be run in parts (`--seconds S` of
CPU); `--page` writes the table of the rows into docs/search.md.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import median
from typing import NamedTuple

from explorer.cluster_profiles import load_cluster
from explorer.models import load_model
from explorer.planners._pieces.moves import Meter
from explorer.planners._pieces.stage_plans import plan_space
from explorer.search import Problem, search
from explorer.search.evaluator import Evaluator
from explorer.workload import default_workload

ROOT = Path(__file__).parents[1]
ROWS, PAGE, MARK = Path(__file__).with_suffix(".csv"), ROOT / "docs" / "search.md", "learners"
RANDOM = "random"
NAMES = ("flexflow", "gabra", "heterps", "auto_map")
EVALUATIONS, SEEDS = 40, range(5)


class Pair(NamedTuple):
    """A problem."""

    model: str
    cluster: str
    batch: int

    @property
    def label(self) -> str:
        """Name of the problem in the table."""
        return f"{self.model}, {self.cluster}, batch {self.batch}"

    def problem(self, seed: int) -> Problem:
        """Return the problem with a seed."""
        graph = load_model(self.model)
        workload = default_workload(graph).with_job(global_batch=self.batch)
        return Problem(graph=graph, cluster=load_cluster(self.cluster), workload=workload, seed=seed)


PAIRS = (
    Pair("gpt2-small", "mixed-v100-a100", 32),
    Pair("vgg16", "mixed-v100-a100", 64),
    Pair("alexnet", "mixed-rtx", 64),
    Pair("vgg16", "dgx-1-v100", 64),
    Pair("alexnet", "ethernet-10g-4x4", 64),
)


def best_of(pair: Pair, name: str, seed: int) -> float:
    """Return the step time that a searcher finds; infinite if nothing fits."""
    problem = pair.problem(seed)
    if name != RANDOM:
        *_, last = search(problem, name, max_evaluations=EVALUATIONS)
        return last.best.value if last.best is not None else math.inf
    evaluator = Evaluator(problem=problem, max_evaluations=EVALUATIONS)
    space, luck = plan_space(problem), random.Random(seed)
    meter = Meter(space=space, evaluator=evaluator)
    while not evaluator.exhausted:
        list(meter.cost(space.drawn(luck)))
    return evaluator.best.value if evaluator.best is not None else math.inf


Rows = dict[tuple[str, str, int], float]


def rows() -> Rows:
    """Return the values that stand in the file, by pair, searcher and seed."""
    if not ROWS.exists():
        return {}
    with ROWS.open(newline="") as file:
        return {(row[0], row[1], int(row[2])): float(row[3]) for row in csv.reader(file)}


def run(seconds: float) -> None:
    """Add rows to the file until so many seconds of CPU are used."""
    known, began = rows(), time.process_time()
    for name, pair, seed in product((RANDOM, *NAMES), PAIRS, SEEDS):
        if (pair.label, name, seed) in known:
            continue
        if time.process_time() - began > seconds:
            return
        value = best_of(pair, name, seed)
        with ROWS.open("a", newline="") as file:
            csv.writer(file).writerow([pair.label, name, seed, value])
        print(pair.label, name, seed, f"{value:.5g}", f"{time.process_time() - began:.0f} s", flush=True)


def table() -> Iterator[str]:
    """Yield the lines of the table: the median of random search, and of the others over it."""
    known = rows()
    words = "over that of random search; below 1 is better"
    yield f"Step time of the best of {EVALUATIONS} evaluations, median of {len(SEEDS)} seeds, {words}."
    yield ""
    yield "| problem | random, s | " + " | ".join(NAMES) + " |"
    yield "|---" * (len(NAMES) + 2) + "|"
    for pair in PAIRS:
        found = {
            name: median(known.get((pair.label, name, seed), math.nan) for seed in SEEDS)
            for name in (RANDOM, *NAMES)
        }
        ratios = (f"{found[name] / found[RANDOM]:.3f}" for name in NAMES)
        yield f"| {pair.label} | {found[RANDOM]:.4g} | " + " | ".join(ratios) + " |"


def main() -> None:
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=math.inf, help="CPU seconds after which to stop")
    parser.add_argument("--page", action="store_true", help="write the table into docs/search.md")
    given = parser.parse_args()
    if not given.page:
        run(given.seconds)
        print("\n".join(table()))
        return
    text = PAGE.read_text()
    head, _, rest = text.partition(f"<!-- {MARK} -->")
    _, _, tail = rest.partition(f"<!-- /{MARK} -->")
    PAGE.write_text(f"{head}<!-- {MARK} -->\n" + "\n".join(table()) + f"\n<!-- /{MARK} -->{tail}")


if __name__ == "__main__":
    main()
