"""`auto` beside every other searcher on twenty problems. `python benchmarks/searchers.py [--budget S]`

Every search runs in a process of its own, which remembers nothing, with a budget in seconds of CPU, so that a
crowded machine changes little. Each adds a row to a file; those that stand there are not run again, so that
the whole may be run in parts (`--seconds`). `--planners` asks those that have no part in `auto`. `--page`
writes two tables of the rows into docs/search.md: searchers pair by pair, and planners over all pairs.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from searchers_tables import Row, add_row, names_of, placed, planners_table, read_rows, table

import explorer
from explorer.base.errors import ExplorerError
from explorer.search import SEARCHERS, Problem, Progress, search
from explorer.search.problem import ANY

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_suffix(".csv")
PAGE = ROOT / "docs" / "search.md"
MARK, PLANNERS_MARK = "searchers", "planners"
PLANNED_SIZES = (32, 8, 1)
"""Samples of a microbatch for searchers that plan for one size: each has its share of the budget."""


class Pair(NamedTuple):
    """A problem of the table."""

    model: str
    cluster: str
    batch: int = 0
    """Global batch; 0 for the model's own."""
    devices: int = 0
    """Most devices; 0 for all."""
    weights: str = "synchronous"

    @property
    def label(self) -> str:
        """Name of the problem in the table."""
        words = [f"{self.model}, {self.cluster}"]
        words += [f"batch {self.batch}"] * bool(self.batch) + [f"{self.devices} devices"] * bool(self.devices)
        return ", ".join(words + ["any weights"] * (self.weights == ANY))


PAIRS = (
    Pair("llama3-8b", "dgx-a100"),
    Pair("gpt3-175b", "dgx-a100-128"),
    Pair("llama3-405b", "hgx-h100-2048"),
    Pair("mixtral-8x7b", "hgx-h100-16"),
    Pair("resnet50", "dgx-1-v100"),
    Pair("bert-large", "rtx4090-pcie-4"),
    Pair("gnmt-16", "pipedream-a"),
    Pair("inception-v3", "ethernet-10g-4x4"),
    Pair("deepseek-v2", "hgx-h100-16"),
    Pair("dlrm", "dgx-a100"),
    Pair("opt-350m", "mixed-v100-a100"),
    Pair("gpt2-xl", "ethernet-10g-4x4"),
    Pair("gnmt-16", "pipedream-a", weights=ANY),
    Pair("vgg16", "pipedream-a", batch=256, weights=ANY),
    Pair("gpt2-small", "mixed-v100-a100", batch=64),
    Pair("gpt3-175b", "dgx-a100-128", batch=64, devices=64),
    Pair("llama3-70b", "dgx-a100-4"),
    Pair("vit-l16", "dgx-a100"),
    Pair("t5-large", "dgx-1-v100"),
    Pair("unet-3d", "dgx-1-v100"),
)


def problem_of(pair: Pair) -> Problem:
    """Make the problem."""
    graph = explorer.load_model(pair.model)
    workload = explorer.default_workload(graph)
    if pair.batch:
        workload = workload.with_job(global_batch=pair.batch)
    return Problem(
        graph=graph, cluster=explorer.load_cluster(pair.cluster), workload=workload,
        max_devices=pair.devices, weights=pair.weights,
    )  # fmt: skip


def measured(pair: Pair, searcher: str, budget_s: float) -> Row:
    """Run one search."""
    loop_ms = _loop_ms()
    problem, began = problem_of(pair), time.process_time()
    last, best, at = None, math.inf, math.inf
    wrong, evaluations = "", 0
    options = _options(problem, searcher)
    try:
        for number, chosen in enumerate(options, 1):
            left = budget_s * number / len(options) - (time.process_time() - began)
            found = None
            for found in search(problem, searcher, options=chosen, budget_s=left, clock=time.process_time):
                if found.best is not None and found.best.value < best:
                    best, at, last = found.best.value, time.process_time() - began, found
                elif last is found.best is None:
                    wrong = "nothing that fits"
            evaluations += found.evaluations if found is not None else 0
            if found is not None and (last is None or (found.best and found.best.value == best)):
                last = found
    except ExplorerError as error:
        wrong = str(error)
    else:
        if not evaluations and time.process_time() - began >= budget_s:
            wrong = "no plan yet when its seconds were over"
    return Row(
        pair=pair.label, searcher=searcher, value_s=best, at_s=at, cpu_s=time.process_time() - began,
        wrong="" if math.isfinite(best) else wrong or "nothing that fits", budget_s=budget_s,
        loop_ms=loop_ms, day=f"{datetime.now(UTC):%Y-%m-%d}", **_said(last, searcher),
    )  # fmt: skip


def _options(problem: Problem, searcher: str) -> list[dict[str, Any]]:
    """Return the options of each run: defaults, but weights and sizes as the problem has them."""
    names = {option.name for option in SEARCHERS.get(searcher).options}
    if "asynchronous" not in names:
        return [{}]
    weights = {"asynchronous": problem.weights == ANY}
    if "microbatch_size" not in names:
        return [weights]
    sizes = sorted({min(size, problem.job.global_batch) for size in PLANNED_SIZES}, reverse=True)
    return [weights | {"microbatch_size": size} for size in sizes]


def _said(last: Progress | None, searcher: str) -> dict[str, Any]:
    if last is None or last.best is None:
        return {"evaluations": last.evaluations if last is not None else 0}
    gaps = {"gap": last.gap, "gap_to_least": last.gap_to_least}
    return {
        "evaluations": last.evaluations, "optimal": last.optimal, "label": last.best.label,
        "finder": last.best.finder or searcher,
    } | {key: math.inf if value is None else value for key, value in gaps.items()}  # fmt: skip


def _loop_ms() -> float:
    began = time.process_time()
    for _ in range(1_000_000):
        pass
    return 1e3 * (time.process_time() - began)


# ---- all of them ------------------------------------------------------------------------------


def run_missing(
    file: Path, budget_s: float, others_s: float, seconds: float, *, planners: bool = False
) -> bool:
    """Run what has no row yet, `auto` first; return whether all has one."""
    began = time.perf_counter()
    there = {(row.pair, row.searcher) for row in read_rows(file)}
    names = names_of(planners=planners)
    for name in names:
        for number, pair in enumerate(PAIRS):
            if (pair.label, name) in there:
                continue
            if time.perf_counter() - began > seconds:
                return False
            command = [sys.executable, __file__, "--one", str(number), name, "--budget"]
            command.append(str(budget_s if name == "auto" else others_s))
            done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
            row = Row(**json.loads(done.stdout.splitlines()[-1]))
            add_row(file, row)
            print(f"{row.pair:<50}{name:<12}{row.value_s:>12.6g}{row.cpu_s:>8.1f} s  {row.wrong}", flush=True)
    return True


def main() -> int:
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=10.0, help="CPU seconds of `auto`")
    parser.add_argument("--others", type=float, default=5.0, help="CPU seconds of every other searcher")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no search after so many")
    parser.add_argument("--rows", type=Path, default=ROWS, help="file of the rows")
    parser.add_argument("--planners", action="store_true", help="ask those that have no part in `auto`")
    parser.add_argument("--page", action="store_true", help="write the tables into docs/search.md instead")
    parser.add_argument("--one", nargs=2, metavar=("NUMBER", "SEARCHER"), help="run one and print it")
    options = parser.parse_args()
    if options.one:
        row = measured(PAIRS[int(options.one[0])], options.one[1], options.budget)
        print(json.dumps(asdict(row)))
        return 0
    if options.page:
        rows = read_rows(options.rows)
        text = placed(PAGE.read_text(encoding="utf-8"), MARK, table(rows))
        PAGE.write_text(placed(text, PLANNERS_MARK, planners_table(rows)), encoding="utf-8")
        return 0
    done = run_missing(
        options.rows, options.budget, options.others, options.seconds, planners=options.planners
    )
    return 0 if done else 1


if __name__ == "__main__":
    sys.exit(main())
