"""`auto` beside every other searcher on twenty problems. `python benchmarks/searchers.py [--budget S]`

Every search runs in a process of its own, which remembers nothing, with a budget in seconds of CPU, so that a
crowded machine changes little. Each adds a row to a file; those that stand there are not run again, so that
the whole may be run in parts (`--seconds`). `--page` writes the table of the rows into docs/search.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import explorer
from explorer.base.errors import ExplorerError
from explorer.search import SEARCHERS, Problem, Progress, search
from explorer.search.problem import ANY

ROOT = Path(__file__).parents[1]
ROWS = Path(__file__).with_suffix(".csv")
PAGE = ROOT / "docs" / "search.md"
MARK = "searchers"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one search found; empty texts and infinite numbers where there is nothing."""

    pair: str
    searcher: str
    value_s: float = math.inf
    """Step time of the best."""
    at_s: float = math.inf
    """CPU seconds until it was found."""
    cpu_s: float = math.inf
    """CPU seconds until the end."""
    evaluations: int = 0
    gap: float = math.inf
    """Share by which the best is above the bound of the searcher's space."""
    gap_to_least: float = math.inf
    """Share by which it is above work over peak."""
    optimal: bool = False
    finder: str = ""
    label: str = ""
    wrong: str = ""
    """Why there is no plan."""
    budget_s: float = 0.0
    loop_ms: float = 0.0
    """Milliseconds of CPU of a million rounds of an empty loop, just before."""
    day: str = ""


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
    wrong = ""
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
            if found is not None and (last is None or (found.best and found.best.value == best)):
                last = found
    except ExplorerError as error:
        wrong = str(error)
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
    sizes = sorted({min(size, problem.job.global_batch) for size in PLANNED_SIZES}, reverse=True)
    return [{"asynchronous": problem.weights == ANY, "microbatch_size": size} for size in sizes]


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


# ---- rows ---------------------------------------------------------------------------------------


def read_rows(file: Path) -> list[Row]:
    """Return the rows of a file; none if there is no file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_row(item) for item in csv.DictReader(lines)]


def _row(texts: dict[str, str]) -> Row:
    read = {"str": str, "float": float, "int": int, "bool": lambda text: text == "True"}
    return Row(**{item.name: read[str(item.type)](texts[item.name]) for item in fields(Row)})


def add_row(file: Path, row: Row) -> None:
    """Add a row."""
    new = not file.exists()
    with file.open("a", encoding="utf-8", newline="") as lines:
        writer = csv.DictWriter(lines, [item.name for item in fields(Row)])
        if new:
            writer.writeheader()
        writer.writerow(asdict(row))


def run_missing(file: Path, budget_s: float, others_s: float, seconds: float) -> bool:
    """Run what has no row yet, `auto` first; return whether all has one."""
    began = time.perf_counter()
    there = {(row.pair, row.searcher) for row in read_rows(file)}
    names = ["auto", *(name for name in SEARCHERS.names() if name != "auto")]
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


# ---- the page -----------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown: values of `auto`, others over it; whoever has no plan under the table."""
    by_pair: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_pair.setdefault(row.pair, {})[row.searcher] = row
    others = sorted({row.searcher for row in rows} - {"auto"})
    head = ["problem", "`auto`, s", "at, s", "gap to its bound", "to work over peak", "found by"]
    lines = ["| " + " | ".join((*head, *others)) + " |", "|---" * (len(head) + len(others)) + "|"]
    notes: list[str] = []
    for label, own in by_pair.items():
        mine = own["auto"]
        cells = [label, _number(mine.value_s), f"{mine.at_s:.1f}", _share(mine.gap)]
        cells += [_share(mine.gap_to_least), mine.finder]
        cells += [_beside(own[name], mine.value_s, notes) if name in own else "" for name in others]
        lines.append("| " + " | ".join(cells) + " |")
    loops = sorted(row.loop_ms for row in rows)
    budgets = {row.searcher == "auto": row.budget_s for row in rows}
    said = (
        f"{budgets[True]:g} s of CPU for `auto`, {budgets.get(False, 0.0):g} s for each of the others, on a"
        f" machine on which a million rounds of an empty loop took {loops[len(loops) // 2]:.0f} ms"
        f" ({max(row.day for row in rows)})."
        " Others: step time over that of `auto`, and the seconds until they found it; below 1 they found a"
        " better one."
    )
    return "\n".join([said, "", *lines, "", *(f"{i}. {text}" for i, text in enumerate(notes, 1))]).rstrip()


def _number(value: float) -> str:
    return f"{value:.4g}" if math.isfinite(value) else "-"


def _share(value: float) -> str:
    if value < 1e-9:
        return "proven"
    return "-" if math.isinf(value) else f"{value:.1%}" if value < 10 else f"x{1 + value:.0f}"


def _beside(row: Row, value: float, notes: list[str]) -> str:
    if math.isfinite(row.value_s):
        return f"{row.value_s / value:.3f} ({row.at_s:.1f})"
    text = row.wrong.splitlines()[0]
    if text not in notes:
        notes.append(text)
    return f"[{notes.index(text) + 1}]"


def main() -> int:
    """Run what is missing, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=10.0, help="CPU seconds of `auto`")
    parser.add_argument("--others", type=float, default=5.0, help="CPU seconds of every other searcher")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no search after so many")
    parser.add_argument("--rows", type=Path, default=ROWS, help="file of the rows")
    parser.add_argument("--page", action="store_true", help="write the table into docs/search.md instead")
    parser.add_argument("--one", nargs=2, metavar=("NUMBER", "SEARCHER"), help="run one and print it")
    options = parser.parse_args()
    if options.one:
        row = measured(PAIRS[int(options.one[0])], options.one[1], options.budget)
        print(json.dumps(asdict(row)))
        return 0
    if options.page:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(f"<!-- {MARK} -->")
        _, _, after = rest.partition(f"<!-- /{MARK} -->")
        body = table(read_rows(options.rows))
        PAGE.write_text(f"{before}<!-- {MARK} -->\n{body}\n<!-- /{MARK} -->{after}", encoding="utf-8")
        return 0
    return 0 if run_missing(options.rows, options.budget, options.others, options.seconds) else 1


if __name__ == "__main__":
    sys.exit(main())
