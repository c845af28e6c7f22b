"""Sets of kernels: devices by the names that others give them, wrong lines, tables."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from explorer.base.errors import InputError
from explorer.cli import main
from explorer.score.kernel_devices import kind_called, known_kinds
from explorer.score.kernels import KERNEL_SETS, KernelRow, errors_of, score_kernels
from explorer.score.rows import SETS

HEAD = "device,gemm_dtype,m,n,k,microseconds"
GOOD = "H100-SXM5-80GB,bfloat16,4096,4096,4096,200.5"
SHORT = "H100-SXM5-80GB,bfloat16,128,128,128,6"
WRONG = {
    "unknown device": GOOD.replace("H100-SXM5-80GB", "Z9"),
    "unknown precision": GOOD.replace("bfloat16", "int3"),
    "no size": GOOD.replace("4096,4096", "4096,"),
    "size of 0": GOOD.replace("4096,200", "0,200"),
    "text in a size": GOOD.replace("4096,200", "many,200"),
    "no time": GOOD.replace("200.5", "0"),
    "a cell too few": GOOD.rpartition(",")[0],
}


def rows_file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([HEAD, *lines]))
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["score", *arguments, "--processes", "1"])
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("A100-PCIE", "a100-pcie-80gb"),
        ("H100-SXM5-80GB", "h100-sxm-80gb"),
        ("h100_sxm", "h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm-80gb"),
        ("H200-SXM5-141GB", "h200-sxm-141gb"),
        ("B200", "b200-sxm-180gb"),
        ("B200-SXM-192GB", "b200-sxm-180gb"),
        ("GB200", "gb200-186gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
    ],
)
def test_devices_by_the_names_of_others(name: str, kind: str) -> None:
    assert kind_called(name).name == kind


@pytest.mark.parametrize("name", sorted(known_kinds()))
def test_every_kind_by_its_own_name(name: str) -> None:
    assert kind_called(name).name == name


@pytest.mark.parametrize(
    ("name", "near"),
    [("H800", "h100"), ("B250", "b200"), ("A800-SXM4-80GB", "a100-sxm-80gb"), ("RTX 5090", "rtx")],
)
def test_an_unknown_device_names_the_nearest(name: str, near: str) -> None:
    with pytest.raises(InputError, match=rf"nearest known is {near}"):
        kind_called(name)


@pytest.mark.parametrize("name", KERNEL_SETS.names())
def test_sets_of_kernels_have_names_of_their_own(name: str) -> None:
    entry = KERNEL_SETS.get(name)
    assert name not in SETS.names()
    assert name in KERNEL_SETS.files()
    assert entry.path.endswith(".csv")
    assert "device" in entry.columns
    assert entry.counted


@pytest.mark.parametrize("name", KERNEL_SETS.names())
def test_published_rows_can_be_read(name: str, reference_dir: Path, tmp_path: Path) -> None:
    lines = (reference_dir / KERNEL_SETS.get(name).path).read_text().splitlines()
    path = tmp_path / "some.csv"
    path.write_text("\n".join([lines[0], *lines[1::20]]))
    (scored,) = score_kernels({name: path})
    devices = {line.split(",")[0] for line in lines[1::20]}
    assert len(scored.rows) + scored.skipped == len(lines[1::20])
    assert len(scored.problems) < len(devices)
    assert all(row.predicted_s > 0 for row in scored.rows)


def test_errors_by_hand() -> None:
    rows = [
        KernelRow(1, "d", "bf16", "", predicted, 10.0, counted=True) for predicted in (11.0, 9.0, 10.0, 14.0)
    ]
    found = errors_of(rows)
    assert (found.rows, found.median_pct, found.mean_pct) == (4, pytest.approx(10), pytest.approx(15))
    assert (found.worst_pct, found.bias_pct) == (pytest.approx(40), pytest.approx(10))


def test_json_of_given_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rows_file(tmp_path, GOOD, *WRONG.values(), SHORT, WRONG["unknown device"])
    status, out, _ = run(capsys, "--rows", f"matrix_products={path}", "--json")
    found = json.loads(out)["sets"]["matrix_products"]
    assert status == 0
    (group,) = found["groups"]
    assert (group["device"], group["operation"]) == ("h100-sxm-80gb", "bf16")
    assert (group["counted"]["rows"], group["every"]["rows"]) == (1, 2)
    assert found["skipped"] == len(WRONG) + 1
    assert [problem["line"] for problem in found["problems"]] == list(range(3, 3 + len(WRONG)))
    assert "1 more line" in found["problems"][0]["message"]


@pytest.mark.parametrize("what", WRONG)
def test_a_set_without_a_valid_row_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    status, _, err = run(capsys, "--rows", f"matrix_products={rows_file(tmp_path, WRONG[what])}")
    assert status == 2
    assert "no valid row for matrix_products" in err
    assert "rows.csv:2" in err


def test_files_that_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, each, text = rows_file(tmp_path, GOOD, SHORT), tmp_path / "each.csv", tmp_path / "table.md"
    status, out, _ = run(
        capsys, "--rows", f"matrix_products={rows}", "--each", str(each), "--markdown", str(text)
    )
    assert status == 0
    assert "50 us and more; 0 skipped" in out
    assert text.read_text().splitlines()[2].startswith("| matrix_products | h100-sxm-80gb | bf16 | 1 |")
    with each.open() as file:
        found = list(csv.DictReader(file))
    assert [row["line"] for row in found] == ["2", "3"]
    for row in found:
        error = (float(row["predicted"]) / float(row["measured"]) - 1) * 100
        assert float(row["error_pct"]) == pytest.approx(error, abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--rows", "matrix_products=/nowhere/rows.csv"], "cannot read the file"),
        (["matrix_product"], "unknown set of measurements"),
    ],
)
def test_wrong_arguments(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    status, _, err = run(capsys, *arguments)
    assert status == 2
    assert words in err


def test_kernels_have_no_plot(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = rows_file(tmp_path, GOOD)
    status, _, err = run(capsys, "--rows", f"matrix_products={path}", "--plot", str(tmp_path / "plot.svg"))
    assert status == 2
    assert "a plot is of training runs" in err


def test_a_column_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("device,m,n,k,microseconds\nB200,1,2,3,4\n")
    status, _, err = run(capsys, "--rows", f"matrix_products={path}")
    assert status == 2
    assert "gemm_dtype" in err
