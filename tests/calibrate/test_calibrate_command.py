"""`explorer calibrate` from files to a profile, and histories from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from explorer.calibrate.history import read
from explorer.calibrate.numbers import shifted
from explorer.calibrate.operators import product
from explorer.cli.main import main
from explorer.cluster_profiles import load_cluster, save_cluster
from tests.calibrate.machines import GPU, machine
from tests.calibrate.traces import call, trace


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A profile and a trace of a machine whose products are slower than it says."""
    save_cluster(machine(), tmp_path / "cluster.yaml")
    truth = shifted(machine(), {f"{GPU}.matmul": 0.8})
    events = []
    for i, n in enumerate((256, 1024, 4096, 8192), start=1):
        seconds = product(n, n, n, precision="bf16").device_seconds(truth, GPU)
        events += call(i, "aten::mm", [[n, n], [n, n]], seconds * 1e6)
    (tmp_path / "trace.json").write_text(json.dumps(trace(*events)), encoding="utf-8")
    return tmp_path


def calibrate(folder: Path, *more: str) -> int:
    return main(
        ["calibrate", str(folder / "cluster.yaml"), "--with", str(folder / "trace.json"),
         "-o", str(folder / "made.yaml"), *more]
    )  # fmt: skip


def test_the_corrected_profile_is_written_and_told(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate(files, "--json") == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert data["schema"] == "explorer.calibrate/1"
    (matmul,) = (row for row in data["changes"] if row["key"] == f"{GPU}.matmul")
    assert 0.8 < matmul["after"] / matmul["before"] < 0.9
    assert matmul["band"] < matmul["band_before"] == 0.3
    assert data["error_after_pct"] < data["error_before_pct"]
    made = load_cluster(files / "made.yaml")
    assert made.device_kinds[0].efficiency[1][1].points[-1][1] == pytest.approx(matmul["after"])
    assert calibrate(files) == 0
    said = capsys.readouterr().out
    assert f"{GPU}.matmul" in said
    assert "stays  nothing measured depends on" in said


def test_a_history_grows_by_one_line_a_run(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = files / "runs.jsonl"
    path.write_text("no run\n", encoding="utf-8")
    for _ in range(2):
        assert calibrate(files, "--history", str(path), "--date", "2026-05-01") == 0
    said = capsys.readouterr().err
    assert "holds trace.json already" in said
    assert "line 1 is left out" in said
    (entry,) = read(path).entries
    assert (entry.machine, entry.source, entry.date) == (GPU, "trace trace.json", "2026-05-01")
    assert entry.measured["operators_s"] > entry.predicted["operators_s"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["cluster.yaml", "--with", "cluster.yaml", "-o", "made.yaml"], "not JSON"),
        (["cluster.yaml", "--with", "trace.json", "-o", "made.txt"], "unknown kind of file"),
        (["cluster.yaml", "--with", "none.json", "-o", "made.yaml"], "cannot read the file"),
        (["dgx-1-v100", "--with", "trace.json", "-o", "made.yaml"], "say nothing about the other"),
        (["cluster.yaml", "-o", "made.yaml"], "--with"),
        (["cluster.yaml", "--with", "trace.json", "-o", "no folder/made.yaml"], "cannot write"),
    ],
)
def test_what_is_wrong_is_one_line_and_writes_nothing(
    files: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(files)
    assert main(["calibrate", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (files / "made.yaml").exists()
