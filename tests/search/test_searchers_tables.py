"""The tables of docs/search.md out of rows: what they count, and that a run may stop and go on."""

from __future__ import annotations

import json
import math
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from explorer.search import SEARCHERS

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def searchers() -> Iterator[Any]:
    """`benchmarks/searchers.py`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS))
        import searchers as found

        yield found


@pytest.fixture(scope="module")
def tables(searchers: ModuleType) -> Any:
    """`benchmarks/searchers_tables.py`."""
    del searchers
    import searchers_tables

    return searchers_tables


def rows(tables: Any) -> list[Any]:
    """Three pairs: `auto` has plans for all, one planner for two of them, another for none."""

    def row(pair: str, searcher: str, value_s: float = math.inf, **more: Any) -> Any:
        return tables.Row(
            pair=pair, searcher=searcher, value_s=value_s, at_s=value_s, cpu_s=3.0, budget_s=5.0,
            day="2026-01-02", gap_to_least=1.0 if math.isfinite(value_s) else math.inf, **more,
        )  # fmt: skip

    return [
        *(row(pair, "auto", 2.0) for pair in "abc"),
        row("a", "even", 4.0),
        row("a", "tarnawski", 3.0),
        row("b", "tarnawski", 6.0),
        row("c", "tarnawski", wrong="model: 200,001 ideals"),
        row("a", "graphpipe", wrong="model: 7 nodes have\nno form"),
        row("b", "graphpipe", wrong="model: 12 nodes have\nno form"),
        row("c", "graphpipe", wrong="nothing that fits"),
    ]  # fmt: skip


def cells(text: str, name: str) -> list[str]:
    return next(
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text.splitlines()
        if line.startswith(f"| `{name}`")
    )


def test_planners_have_a_line_each_over_all_pairs(tables: Any) -> None:
    text = tables.planners_table(rows(tables))
    assert cells(text, "tarnawski") == [
        "`tarnawski`", "2 of 3", "2.250", "1.500", "3.000 (b)", "100.0%", "4.5 s", "3.0 s", "1 [3]",
    ]  # fmt: skip
    assert cells(text, "graphpipe") == [
        "`graphpipe`", "0 of 3", "-", "-", "-", "-", "-", "3.0 s", "2 [1], 1 [2]",
    ]  # fmt: skip
    notes = [line for line in text.splitlines() if line[:1].isdigit() and ". " in line[:4]]
    assert len(notes) == 3
    assert any(note.endswith("model: 7 nodes have no form") for note in notes), (
        "of several the first, in one line"
    )
    assert "5 s of CPU" in text


def test_searchers_keep_their_table_whoever_else_was_asked(tables: Any) -> None:
    mine = rows(tables)
    text = tables.table(mine)
    assert "tarnawski" not in text
    assert text == tables.table([row for row in mine if row.searcher in ("auto", "even")])
    assert "2.000 (4.0)" in text


def test_without_rows_of_planners_the_page_says_so(tables: Any) -> None:
    assert tables.planners_table([row for row in rows(tables) if row.searcher == "auto"]) == tables.NOT_RUN


def test_rows_come_back_from_their_file(tables: Any, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    for row in rows(tables):
        tables.add_row(file, row)
    assert tables.read_rows(file) == rows(tables)


def test_only_what_stands_between_the_marks_is_replaced(tables: Any) -> None:
    page = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"
    assert tables.placed(page, "x", "new") == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    with pytest.raises(ValueError, match="no marks y"):
        tables.placed(page, "y", "new")


def test_a_run_that_stopped_goes_on_with_what_is_missing(
    searchers: Any, tables: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, str]] = []

    def one(command: list[str], **_: Any) -> Any:
        number, name = int(command[3]), command[4]
        asked.append((number, name))
        if len(asked) == 4:
            raise KeyboardInterrupt
        row = replace(rows(tables)[0], pair=searchers.PAIRS[number].label, searcher=name)
        return SimpleNamespace(stdout=json.dumps(asdict(row)) + "\n")

    monkeypatch.setattr(subprocess, "run", one)
    monkeypatch.setattr(searchers, "PAIRS", searchers.PAIRS[:2])
    file = tmp_path / "rows.csv"
    with pytest.raises(KeyboardInterrupt):
        searchers.run_missing(file, 10.0, 5.0, math.inf, planners=True)
    assert len(tables.read_rows(file)) == 3
    again = asked[3]
    asked[:] = [asked[0]] * 4
    assert searchers.run_missing(file, 10.0, 5.0, math.inf, planners=True)
    assert asked[4] == again, "it goes on with the row that was interrupted"
    planners = {item.name for item in SEARCHERS if item.alone}
    assert {row.searcher for row in tables.read_rows(file)} == {"auto", *planners}
    assert len(tables.read_rows(file)) == 2 * (1 + len(planners)), "no row twice"
