"""Runs of the machine at hand as a set: what a history file keeps, and what counts of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from explorer.calibrate.history import TOO_NOISY, Entry, append
from explorer.cli import main
from explorer.plan import fingerprint, load_plan
from explorer.run.judging.compare import CONFIRMED, WRONG, Comparison
from explorer.score.runs import score_runs

PLAN = Path(__file__).parents[1] / "plans" / "04-pipedream.yaml"

RUN = Entry(
    machine="cpu", predicted={"step_time_s": 1.0}, measured={"step_time_s": 1.25}, model="m", workload="w",
    cluster="c", strategy="one", source="validate interpreter", predicted_from="calibration",
)  # fmt: skip


def history(tmp_path: Path, *entries: Entry) -> Path:
    path = tmp_path / "runs.jsonl"
    for entry in entries:
        append(path, entry)
    return path


def test_runs_are_scored_as_they_were_predicted(tmp_path: Path) -> None:
    other = replace(RUN, strategy="two", predicted={"step_time_s": 2.0}, measured={"step_time_s": 1.6})
    scored = score_runs(history(tmp_path, RUN, other, replace(RUN, model="another")))
    found = scored.statistics
    assert found is not None
    assert [row.line for row in scored.outcomes] == [1, 2, 3]
    assert found.mean_abs_error_pct == pytest.approx((20 + 25 + 20) / 3)
    assert found.tau_within_groups == 1, "only runs of one model are put in order"
    assert len({row.group for row in scored.outcomes}) == 2
    assert scored.outcomes[0].note == "predicted from the calibration"


def test_runs_of_other_batches_or_machines_and_unknown_ones_are_groups_of_their_own(tmp_path: Path) -> None:
    unknown = replace(RUN, model="", workload="")
    others = [replace(RUN, workload="x"), replace(RUN, machine="gpu"), replace(RUN, cluster="y")]
    scored = score_runs(history(tmp_path, RUN, *others, unknown, unknown))
    assert len({row.group for row in scored.outcomes}) == 6


def test_noisy_runs_are_counted_apart_and_lines_without_a_step_are_told(tmp_path: Path) -> None:
    trace = replace(RUN, predicted={"operators_s": 1.0}, source="trace x")
    nothing = replace(RUN, measured={"step_time_s": 0.0})
    noisy = replace(RUN, measured={"step_time_s": 9.0}, verdict=TOO_NOISY)
    path = history(tmp_path, noisy, RUN, trace, nothing)
    path.write_text(path.read_text() + "{\n")
    scored = score_runs(path)
    assert [row.line for row in scored.outcomes] == [2]
    assert [row.line for row in scored.too_noisy or ()] == [1]
    assert [problem.line for problem in scored.problems] == [3, 4, 5]
    assert "trace x has no step" in scored.problems[0].message


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noisy = replace(RUN, verdict=TOO_NOISY)
    path, each = history(tmp_path, RUN, noisy), tmp_path / "each.csv"
    assert main(["score", "--history", str(path), "--json", "--each", str(each)]) == 0
    (name, found), *_ = json.loads(capsys.readouterr().out)["sets"].items()
    assert (name, found["rows"], found["skipped"], found["too_noisy"]) == ("runs", 1, 0, 1)
    assert found["mean_abs_error_pct"] == pytest.approx(20)
    assert [TOO_NOISY in line for line in each.read_text().splitlines()] == [False, False, True]
    assert main(["score", "--history", str(path)]) == 0
    assert "0, 1 too noisy" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("entries", "words"),
    [((), "cannot read the history"), ((replace(RUN, verdict=TOO_NOISY),), "1 were too")],
)
def test_no_run_that_counts_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], entries: tuple[Entry, ...], words: str
) -> None:
    assert main(["score", "--history", str(history(tmp_path, *entries))]) == 2
    assert words in capsys.readouterr().err


def compared(verdict: str, measured_s: float) -> Comparison:
    return Comparison(
        predicted={"step_time_s": 1.0, "speedup": 2.0}, measured={"step_time_s": measured_s, "speedup": 2.0},
        error_pct=0.0, speedup_error_pct=0.0, numerics_ok=True, contention=1.0, validated=[],
        not_validated=[], verdict=verdict, baseline="single", engine="interpreter", numerics={},
        parts={"predicted": {"compute": 1.0}, "measured": {"compute": measured_s}}, machine={"device": "cpu"},
    )  # fmt: skip


def test_validate_keeps_what_score_counts_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.jsonl"
    for verdict, measured_s in ((CONFIRMED, 1.25), (TOO_NOISY, 9.0), (WRONG, 1.0)):
        done = compared(verdict, measured_s)
        monkeypatch.setattr("explorer.run.validate", Mock(return_value=done))
        status = main(["validate", str(PLAN), "--history", str(path)])
        assert status == (5 if verdict == TOO_NOISY else 0)
    said = capsys.readouterr().err
    assert "keeps it, marked so" in said
    assert "that is wrong numbers teaches nothing" in said
    scored = score_runs(path)
    assert [row.measured for row in scored.outcomes] == [1.25]
    assert [row.measured for row in scored.too_noisy or ()] == [9.0]
    assert scored.outcomes[0].group == (scored.too_noisy or ())[0].group
    assert fingerprint(load_plan(PLAN).graph) in scored.outcomes[0].group
