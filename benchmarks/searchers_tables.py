"""Rows of `benchmarks/searchers.py` in a file, and the tables of docs/search.md that are made of them."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

from explorer.search import SEARCHERS

NOT_RUN = "No planner has been asked yet; `python benchmarks/searchers.py --planners` asks them."


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


def names_of(*, planners: bool) -> list[str]:
    """Return who is asked: `auto`, then its other parts, or those that have none in it."""
    others = (item.name for item in SEARCHERS if item.name != "auto" and item.alone == planners)
    return ["auto", *sorted(others)]


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


# ---- the page -----------------------------------------------------------------------------------


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown: values of `auto`, others over it; whoever has no plan under the table."""
    alone = set(names_of(planners=True)) - {"auto"}
    rows = [row for row in rows if row.searcher not in alone]
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


def planners_table(rows: list[Row]) -> str:
    """Return the rows of planners as Markdown, a line each over all pairs; why one has no plan under it."""
    auto = {row.pair: row.value_s for row in rows if row.searcher == "auto"}
    alone = names_of(planners=True)[1:]
    own = {name: [row for row in rows if row.searcher == name and row.pair in auto] for name in alone}
    asked = [row for several in own.values() for row in several]
    if not asked:
        return NOT_RUN
    heads = (
        "planner", "plans for", "step over `auto`: median", "least", "most (where)", "gap to work over peak",
        "found after", "CPU in all", "no plan",
    )  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    notes: dict[str, str] = {}
    for name, several in own.items():
        if several:
            lines.append("| " + " | ".join(_planner_cells(name, several, auto, notes)) + " |")
    budgets = sorted({row.budget_s for row in asked})
    said = (
        f"{' or '.join(f'{value:g}' for value in budgets)} s of CPU for each planner and pair"
        f" ({min(row.day for row in asked)} to {max(row.day for row in asked)}). Medians are over the pairs"
        " for which it has a plan: the step time over that of `auto` in the table above, the gap to work over"
        " peak, the seconds of CPU until it was found; those of CPU until the end are over all pairs."
        " In brackets why it has none; where several differ in numbers only, that of the first."
    )
    listed = [f"{number}. {text}" for number, text in enumerate(notes.values(), 1)]
    return "\n".join([said, "", *lines, "", *listed]).rstrip()


def _planner_cells(name: str, rows: list[Row], auto: dict[str, float], notes: dict[str, str]) -> list[str]:
    """Return the cells of one planner; notes are added for reasons that are new."""
    have = [row for row in rows if math.isfinite(row.value_s)]
    ratios = sorted((row.value_s / auto[row.pair], row.pair) for row in have if math.isfinite(auto[row.pair]))
    cells = [f"`{name}`", f"{len(have)} of {len(rows)}"]
    if ratios:
        (least, _), (most, where) = ratios[0], ratios[-1]
        cells += [f"{median(ratio for ratio, _ in ratios):.3f}", f"{least:.3f}", f"{most:.3f} ({where})"]
    else:
        cells += ["-"] * 3
    gaps = [row.gap_to_least for row in have if math.isfinite(row.gap_to_least)]
    cells += [_share(median(gaps)) if gaps else "-"]
    cells += [f"{median(row.at_s for row in have):.1f} s" if have else "-"]
    cells += [f"{median(row.cpu_s for row in rows):.1f} s"]
    return [*cells, _refusals([row.wrong for row in rows if not math.isfinite(row.value_s)], notes)]


def _refusals(reasons: list[str], notes: dict[str, str]) -> str:
    """Count reasons by note, alike if they differ in numbers only: `3 [1], 1 [2]`."""
    counts: dict[int, int] = {}
    for text in reasons:
        line = " ".join(text.split())
        key = re.sub(r"[0-9][0-9.,]*", "N", line)
        notes.setdefault(key, line)
        number = list(notes).index(key) + 1
        counts[number] = counts.get(number, 0) + 1
    return ", ".join(f"{count} [{number}]" for number, count in sorted(counts.items()))


def placed(page: str, mark: str, body: str) -> str:
    """Return a page with the text between two marks replaced.

    Raises:
        ValueError: the page lacks a mark.
    """
    before, begin, rest = page.partition(f"<!-- {mark} -->")
    _, end, after = rest.partition(f"<!-- /{mark} -->")
    if not begin or not end:
        raise ValueError(f"the page has no marks {mark}")
    return f"{before}{begin}\n{body}\n{end}{after}"


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
