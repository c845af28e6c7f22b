from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from explorer.cli import main
from explorer.score.sets.vtrain import COLUMNS

HEAD = ",".join(COLUMNS)
GOOD = "2,16,8,1024,16,12,1024,1,1,2,200.5"
NUMBERS = [
    "rows", "mean_abs_error_pct", "median_abs_error_pct", "worst_abs_error_pct", "bias_pct", "kendall_tau",
    "tau_within_groups", "pair_tau", "pairs", "top1_regret_pct", "memory_mean_abs_error_pct", "band_80_pct",
    "coverage_pct", "one_row_median_pct", "one_row_worst_pct",
]  # fmt: skip
WRONG = {
    "text in a number": GOOD.replace("1024,16,12", "wide,16,12"),
    "a zero": GOOD.replace("2,16,8", "2,0,8"),
    "below zero": GOOD.replace("200.5", "-3"),
    "not a number": GOOD.replace("200.5", "nan"),
    "endless": GOOD.replace("200.5", "inf"),
    "no time": GOOD.replace("200.5", ""),
    "a cell too few": GOOD.rpartition(",")[0],
    "other devices": GOOD.replace("2,16,8", "4,16,8"),
    "layers and stages": GOOD.replace("16,12,1024", "16,13,1024"),
    "heads and tensor": "6,16,8,1024,16,12,1024,3,1,2,200.5",
    "batch and microbatch": GOOD.replace("2,16,8", "2,16,5"),
    "more than there is": "64,64,1,1024,16,16,1024,4,4,4,200.5",
    "no UTF-8": GOOD + "\udcff",
    "out of all measure": GOOD.replace("1024,16,12", "99999999999,16,12"),
}


def rows_file(tmp_path: Path, lines: list[str], end: str = "\n") -> Path:
    path = tmp_path / "rows.csv"
    path.write_bytes(end.join([HEAD, *lines]).encode("utf-8", "surrogateescape"))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["score", *arguments, "--processes", "1"])
    out, err = capsys.readouterr()
    return status, out, err


def test_json_of_given_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rows_file(tmp_path, [GOOD, *WRONG.values(), GOOD.replace("200.5", "250")], end="\r\n")
    status, out, _ = run(capsys, "--rows", f"vtrain_single={path}", "--json")
    data = json.loads(out)
    assert status == 0
    assert sorted(data) == ["explorer_version", "schema", "sets"]
    (found,) = data["sets"].values()
    assert list(found) == [*NUMBERS, "problems", "skipped", "seconds"]
    assert found["rows"] == 2
    assert found["memory_mean_abs_error_pct"] is None
    assert found["skipped"] == len(WRONG)
    assert [problem["line"] for problem in found["problems"]] == list(range(3, 3 + len(WRONG)))
    assert all(sorted(problem) == ["file", "line", "message"] for problem in found["problems"])


@pytest.mark.parametrize("what", WRONG)
def test_a_set_without_a_valid_row_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    path = rows_file(tmp_path, [WRONG[what]])
    status, out, _ = run(capsys, "--rows", f"vtrain_single={path}", "--json")
    data = json.loads(out)
    assert status == 2
    assert "no valid row for vtrain_single" in data["error"]["message"]
    assert data["sets"]["vtrain_single"]["rows"] == 0
    assert data["sets"]["vtrain_single"]["mean_abs_error_pct"] is None
    status, _, err = run(capsys, "--rows", f"vtrain_single={path}")
    assert status == 2
    assert "rows.csv:2" in err


@pytest.mark.parametrize("data", [b"", b"a,b\n1,2\n", b"\0\1", HEAD.encode()])
def test_files_of_no_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(data)
    assert run(capsys, "--rows", f"vtrain_multi={path}")[0] == 2


def test_files_that_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_file(tmp_path, [GOOD, GOOD.replace("200.5", "150")])
    names = {"--each": "each.csv", "--markdown": "table.md", "--plot": "plot.html"}
    flags = [part for flag, name in names.items() for part in (flag, str(tmp_path / name))]
    status, out, _ = run(capsys, "--rows", f"vtrain_single={rows}", *flags)
    assert status == 0
    assert out.startswith("set ")
    with (tmp_path / "each.csv").open() as file:
        each = list(csv.DictReader(file))
    assert [row["line"] for row in each] == ["2", "3"]
    for row in each:
        error = (float(row["predicted"]) / float(row["measured"]) - 1) * 100
        assert float(row["error_pct"]) == pytest.approx(error, abs=1e-3)
    assert (tmp_path / "table.md").read_text().splitlines()[2].startswith("| vtrain_single | 2 | 0 |")
    page = (tmp_path / "plot.html").read_text()
    assert page.count("<circle") == 2
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "unknown set of measurements"),
        (["--rows", "korthikanti=x"], "no rows can be given"),
        (["--rows", "vtrain_single"], "KEY=VALUE"),
        (["--rows", "sailor=a", "--rows", "sailor=b"], "given twice"),
        (["vtrain_single", "--reference", "/nowhere/at/all"], "--reference DIR"),
        (["--rows", "vtrain_single=/nowhere/rows.csv"], "cannot read the file"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert words in err


def test_a_plot_of_an_unknown_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_file(tmp_path, [GOOD])
    status, _, err = run(capsys, "--rows", f"vtrain_single={rows}", "--plot", str(tmp_path / "plot.txt"))
    assert status == 2
    assert ".html, .svg" in err
