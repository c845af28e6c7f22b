"""Scores of calibrations on one's own rows: by hand, and over rows whose truth is known."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from explorer.cli.main import main
from explorer.score.calibrated import RowSlopes, _judged_set

FAMILY = ("gpt", "k", "")
HEAD = "source,name,hardware,software,model,settings,devices,global_batch,microbatch,tp,pp,step_time_s\n"


def row(off: float, *, model: str = "gpt", compute: float = 1.0, sd: float = 1.0) -> RowSlopes:
    keys = {"k.compute": compute, f"model {model}": compute}
    return RowSlopes(
        family=(model, "k", ""), log_ratio=off, slopes=keys, sd={"k.compute": sd, f"model {model}": 0.05}
    )


def test_a_machine_that_is_slow_in_everything_is_found_by_one_row() -> None:
    found = _judged_set("x", [row(0.3) for _ in range(6)])
    assert (found.rows, found.families) == (6, 1)
    (one, judged), (three, more) = found.by_count
    assert (one, three) == (1, 3)
    assert judged.choices == 6
    assert more.choices == math.comb(6, 3)
    assert judged.before_pct == pytest.approx(100 * (1 - math.exp(-0.3)))
    assert judged.after_pct < 0.05 * judged.before_pct
    assert more.after_pct < judged.after_pct
    assert judged.ratio_pct == pytest.approx(0.0, abs=1e-9)
    assert judged.coverage_pct == 100


def test_other_models_get_only_what_is_the_machines() -> None:
    rows = [row(0.04, sd=1e-4) for _ in range(4)] + [row(0.0, model="other", sd=1e-4) for _ in range(4)]
    found = _judged_set("x", rows)
    judged = dict(found.by_count)[1]
    assert found.families == 2
    assert judged.whole_after_pct < judged.whole_before_pct


def test_the_median_of_all_rows_is_what_no_calibration_knows() -> None:
    off = [0.1, 0.1, 0.1, 0.4, -0.2]
    judged = dict(_judged_set("x", [row(value) for value in off]).by_count)[1]
    # scaled by exp(.1) the first three are right; one of these is chosen in the median case
    left = (abs(math.expm1(-0.3)) + abs(math.expm1(0.3))) / 4
    assert judged.median_pct == pytest.approx(100 * left)


def test_families_need_rows_to_judge() -> None:
    assert _judged_set("x", [row(0.1), row(0.1)]).by_count == ()
    assert [count for count, _ in _judged_set("x", [row(0.1)] * 3).by_count] == [1]


def test_the_command_prints_before_and_after(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        f'mine,r{i},hgx-h100,,gpt2-xl,"{{}}",8,32,{micro},{tp},1,{seconds}'
        for i, (micro, tp, seconds) in enumerate([(1, 1, 0.6), (2, 1, 0.55), (4, 2, 0.6), (4, 4, 0.7)])
    ]
    path = tmp_path / "rows.csv"
    path.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    assert main(["score", "--rows", f"general={path}", "--calibrated", "--processes", "1", "--json"]) == 0
    judged = json.loads(capsys.readouterr().out)["calibrated"]["general"]["by_count"]["1"]
    assert judged["choices"] == 4
    assert judged["after_pct"] < judged["before_pct"]
    assert main(["score", "--rows", f"general={path}", "--calibrated", "--processes", "1"]) == 0
    assert "whole after" in capsys.readouterr().out
    path.write_text(HEAD + rows[0] + "\n", encoding="utf-8")
    assert main(["score", "--rows", f"general={path}", "--calibrated", "--processes", "1"]) == 2
    assert "no set has three rows of one model" in capsys.readouterr().err
