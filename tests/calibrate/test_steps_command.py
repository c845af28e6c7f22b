"""`explorer calibrate` from step times that were typed in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from explorer.cli.main import main
from explorer.cluster_profiles import load_cluster
from explorer.plan import make_plan, save_plan
from explorer.workload import Workload
from tests.calibrate.steps_cases import JOB, PLANS, gpt, profile, run
from tests.calibrate.trainer_logs import LOOKALIKES


@pytest.fixture
def plans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plan files of two strategies on one HGX H100."""
    graph, cluster = gpt(), profile()
    for name in ("tp2", "dp8"):
        strategy = PLANS[name].build(graph, cluster, JOB)
        plan = make_plan("gpt2-xl", graph, "hgx-h100", cluster, Workload(jobs=(JOB,)), strategy)
        save_plan(plan, {"model": graph}, tmp_path / f"{name}.yaml")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def calibrate(*arguments: str) -> int:
    return main(["calibrate", *arguments, "-o", "mine.yaml"])


def test_one_typed_step_makes_a_profile(plans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seconds = run("tp2").step_time_s * 1.12
    assert calibrate("hgx-h100", "--plan", "tp2.yaml", "--step-time", f"{seconds * 1e3:.6g}ms", "--json") == 0
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    (row,) = data["runs"]
    assert row["measured_s"] == pytest.approx(seconds, rel=1e-4)
    assert row["before_s"] < row["after_s"] < row["measured_s"]
    assert row["band"] < row["band_before"]
    assert data["next_run"]["band_after"] < data["next_run"]["band"]
    made = load_cluster(plans / "mine.yaml")
    assert run("tp2", truth=made).step_time_s == pytest.approx(row["after_s"])
    assert main(["simulate", "--plan", "tp2.yaml", "--cluster", "mine.yaml", "--bands"]) == 0


def test_several_runs_and_memory_are_told_in_words(plans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    peak = max(run("dp8").report(profile()).peak_memory_bytes) / 2**30
    first = f"tp2.yaml={run('tp2').step_time_s * 1.2:.6g}s"
    second = f"dp8.yaml={run('dp8').step_time_s * 1.2:.6g}s,{peak * 1.04:.6g}GiB"
    assert calibrate("hgx-h100", "--run", first, "--run", second) == 0
    said = capsys.readouterr().out
    assert "Kernels on h100-sxm-80gb" in said
    assert "memory of dp8.yaml" in said
    assert said.count("→ ±") >= 3
    assert "run" in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hgx-h100", "--plan", "tp2.yaml", "--step-time", "2.31"], "of what unit?"),
        (["hgx-h100", "--plan", "tp2.yaml", "--step-time", "2 parsecs"], "not a quantity"),
        (["hgx-h100", "--plan", "tp2.yaml", "--step-time", "10us"], "of the devices' peak"),
        (["hgx-h100", "--plan", "tp2.yaml"], "nothing was measured of the plan"),
        (["hgx-h100", "--step-time", "2s"], "a measured step is of some plan"),
        (["hgx-h100", "--run", "tp2.yaml"], "is no run"),
        (["hgx-h100", "--run", "tp2.yaml=2s,3GiB,4"], "is no run"),
        (["hgx-h100", "--run", "tp2.yaml=2s,300GiB"], "another cluster"),
        (["hgx-h100", "--run", "tp2.yaml=2s", "--run", "tp2.yaml=3s"], "are the same plan"),
        (["hgx-h100", "--run", "none.yaml=2s"], "none.yaml"),
        (["dgx-a100", "--run", "tp2.yaml=2s"], "steps of the one say nothing about the other"),
        (["hgx-h100", "--run", "tp2.yaml=2s", "--with", "trace.json"], "measured steps and files"),
        (["hgx-h100", "--run", "tp2.yaml=2s", "--memory-of", "video", "--plan", "dp8.yaml", "--step-time",
          "1s"],
         "memory of 'video'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_line_and_writes_nothing(
    plans: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert calibrate(*arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (plans / "mine.yaml").exists()


def test_a_trainers_log_is_read(plans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (plans / "train.log").write_text(LOOKALIKES["torchtitan"](), encoding="utf-8")
    assert calibrate("hgx-h100", "--plan", "dp8.yaml", "--log", "train.log") == 0
    said = capsys.readouterr()
    assert "train.log: torchtitan, 500 ms a step (median of 8, 2 at the start left out)" in said.err
    assert "memory of dp8.yaml" in said.out
    (plans / "empty.log").write_text("nothing", encoding="utf-8")
    (plans / "mine.yaml").unlink()
    for more, words in (
        (["empty.log"], "no step time in this log"),
        (["train.log", "--step-time", "1s"], "a step time and a log"),
    ):
        assert calibrate("hgx-h100", "--plan", "dp8.yaml", "--log", *more) == 2
        error = capsys.readouterr().err
        assert words in error
        assert error.count("\n") == 1
    assert not (plans / "mine.yaml").exists()


def test_framework_of_the_plans_is_corrected(plans: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrate("hgx-h100", "--run", "tp2.yaml=300ms", "--framework", "torchtitan-2024") == 0
    made = load_cluster(plans / "mine.yaml")
    assert made.device_kinds[0].software.framework == "torchtitan-2024"
