"""Campaigns: each has its last result on the page, and a short one holds."""

from __future__ import annotations

import json
import random
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CAMPAIGNS = runpy.run_path(str(ROOT / "scripts" / "campaigns.py"))
PAGE = (ROOT / "docs" / "campaigns.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CAMPAIGNS["CAMPAIGNS"])
def test_the_last_result_stands_with_its_date(name: str) -> None:
    text = CAMPAIGNS["kept"](PAGE, name)
    called = " ".join([f"benchmarks/{name}.py", *CAMPAIGNS["CAMPAIGNS"][name].arguments])
    assert f"`python {called}`" in text
    assert re.search(r"20\d\d-\d\d-\d\d", text)
    assert ": holds." in text


def test_rows_that_were_saved_make_the_table_again(tmp_path: Path) -> None:
    """Two runs of a campaign's own rows, one of which accused a rank: without another run, and said."""
    rows = tmp_path / "rows.jsonl"
    known = {"made": 8, "took_s": 9.0, "load": 12.0, "verdict": "confirmed", "rounds": 3, "contention": 0.9}
    runs = [{"plan": "a", "status": 0, "said": ""}, {"plan": "b", "status": 4, "said": "rank 1 stands still"}]
    rows.write_text("".join(json.dumps(known | run) + "\n" for run in runs))
    made = CAMPAIGNS["section"]("crowded_runs", rows)
    assert "from its saved rows: **does not hold**" in made
    assert "| 8 | a | 1 | 1 | 0 | 0 | 0 |" in made
    assert "1 of 2 ended with a verdict or for want of a core; 1 falsely said to stand still" in made


@pytest.mark.parametrize("names", [[], ["slow_link"], ["faults", "crowded_runs"]])
def test_rows_are_of_one_campaign_that_writes_them(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        CAMPAIGNS["main"]([*names, "--rows", str(tmp_path)])
    assert "--rows is for one campaign that writes rows: faults, crowded_runs" in capsys.readouterr().err


def test_nothing_else_stands_there() -> None:
    assert re.findall(r"^## (\w+):", PAGE, re.MULTILINE) == list(CAMPAIGNS["CAMPAIGNS"])


def test_the_tables_of_searchers_are_those_of_their_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    searchers = runpy.run_path(str(ROOT / "benchmarks" / "searchers.py"))
    rows = searchers["read_rows"](ROOT / "benchmarks" / "searchers.csv")
    page = (ROOT / "docs" / "search.md").read_text(encoding="utf-8")
    assert searchers["table"](rows) in page
    assert searchers["planners_table"](rows) in page
    assert {row.pair for row in rows if row.searcher == "auto"} == {pair.label for pair in searchers["PAIRS"]}


ORACLE = runpy.run_path(str(ROOT / "benchmarks" / "oracle.py"))


def test_random_chains_are_those_of_the_second_model() -> None:
    rng = random.Random(20)
    assert not [found for _ in range(20) if (found := ORACLE["differences"](ORACLE["drawn"](rng)))]


def test_the_second_model_is_the_closed_form() -> None:
    """Equal stages: (m + p - 1)(F + B) without transfers; one transfer longer each way for every hop."""
    for schedule in ("gpipe", "1f1b"):
        case = ORACLE["Chain"](
            schedule=schedule, ranks=4, microbatches=6, forward_s=(1.0,) * 4, backward_s=(2.0,) * 4,
            sent_bytes=(0.0,) * 4, kept_bytes=(1.0,) * 4, latency_s=0.0, bytes_per_s=1.0,
        )  # fmt: skip
        span, busy, kept = ORACLE["run"](case)
        assert (span, busy) == ((6 + 3) * 3.0, [18.0] * 4)
        assert kept == ([6.0] * 4 if schedule == "gpipe" else [4.0, 3.0, 2.0, 1.0])
