"""What a run says, as a view: numbers by part, marks, checks and words."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

sys.path.insert(0, str(Path(__file__).parents[1] / "widgets"))
from sample_run import comparison

from explorer.run.judging.compare import CONFIRMED, OFF, TOO_NOISY, WRONG, EngineRun
from explorer.run.judging.cost_check import CostCheck
from explorer.run.judging.held_bytes import RankBytes
from explorer.run.judging.machine_speed import Slowdowns
from explorer.run.judging.profile_correction import Change, Correction
from explorer.views.run_view import calibration_view, comparison_view, error_of
from tests.support import view_shapes as shapes
from widgets.base import refuse_unsendable

SECONDS = st.floats(1e-6, 1e3)


def view(**fields: Any) -> dict[str, Any]:
    made = comparison_view(comparison(**fields))
    TypeAdapter(shapes.RunResultView).validate_python(made | {"old": None, "errors": False})
    refuse_unsendable(made, "view")
    return made


def rows(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in made["rows"]}


def test_parts_come_in_order_then_the_step_then_the_speedup() -> None:
    found = rows(view())
    assert list(found) == [
        "compute", "communication", "bubble", "overhead", "step time", "speedup over data parallel"
    ]  # fmt: skip
    assert found["compute"]["error"] == pytest.approx(4.83 / 4.94 - 1)
    assert found["speedup over data parallel"]["quantity"] == "ratio"
    assert [name for name, row in found.items() if row["strong"]] == [
        "step time",
        "speedup over data parallel",
    ]


def test_only_errors_that_matter_are_marked() -> None:
    """Communication is 26 % off, but 1 % of the step; a bubble 26 % off is marked."""
    assert not [row for row in view()["rows"] if row["level"]]
    parts = {
        "predicted": {"compute": 4.0, "bubble": 0.74, "communication": 0.0, "overhead": 0.0},
        "measured": {"compute": 4.0, "bubble": 1.0, "communication": 0.5, "overhead": 0.01},
    }
    found = rows(view(parts=parts))
    assert [name for name, row in found.items() if row["level"] == "warn"] == ["communication", "bubble"]
    assert found["communication"]["error"] is None, "nothing predicted: no per cent of it"


@given(predicted=SECONDS, measured=SECONDS)
def test_error_is_of_the_prediction(predicted: float, measured: float) -> None:
    error = error_of(predicted, measured)
    assert error is not None
    assert measured * (1 + error) == pytest.approx(predicted, rel=1e-6, abs=1e-9)
    assert error_of(predicted, None) is None
    assert error_of(0.0, measured) is None


@pytest.mark.parametrize(
    ("fields", "level", "said"),
    [
        ({"verdict": CONFIRMED}, "ok", "The run confirms the prediction."),
        ({"verdict": OFF, "speedup_error_pct": 22.0}, "warn", "The prediction is off."),
        ({"verdict": WRONG, "numerics_ok": False}, "bad", "gradients differ"),
        (
            {"verdict": TOO_NOISY, "contention": 0.57},
            "warn",
            "No verdict, machine too busy: the ranks got 57",
        ),
    ],
)
def test_verdict_and_checks(fields: dict[str, Any], level: str, said: str) -> None:
    made = view(**fields)
    assert made["verdict"]["level"] == level
    assert said in made["verdict"]["text"]
    assert "took 6.64 s a step, predicted 6.44 s (−3.0\N{NO-BREAK SPACE}%)" in made["verdict"]["text"]
    numerics, quiet, inside = made["checks"]
    assert numerics["ok"] is (level != "bad")
    assert quiet["ok"] is (fields["verdict"] != TOO_NOISY)
    wanted = {CONFIRMED: True, WRONG: True, OFF: False, TOO_NOISY: None}
    assert inside["ok"] is wanted[fields["verdict"]], "noise makes no verdict of an error"


def test_a_dry_run_speaks_of_order_alone() -> None:
    made = view(
        engine="dry", baseline="", numerics_ok=None, speedup_error_pct=None, stages=[], numerics={},
        predicted={"step_time_s": 6.44, "speedup": None},
        measured={"step_time_s": 6.64, "speedup": None, "iqr_s": 0.0},
    )  # fmt: skip
    assert "speedup" not in " ".join(rows(made))
    assert "sleeps in place of compute" in made["verdict"]["text"]
    assert made["checks"][0] == {
        "ok": None, "text": "Gradients were not checked, as nothing was computed."
    }  # fmt: skip
    assert made["stages"] == []


def test_more_rounds_are_told_by_the_spread() -> None:
    assert "lies within 2.6 %" in view()["more"]
    assert "6 rounds" in view()["more"]
    assert "two or more" in view(rounds=1)["more"]


def test_calibration_says_what_it_would_do_or_why_not() -> None:
    from explorer.cluster_profiles import load_cluster

    change = Change(what="pcie", before=22e9, after=17e9, quantity="bytes_per_s")
    some = Correction(cluster=load_cluster("dgx-a100"), changes=(change,), kept=("lan: no",))
    made = calibration_view(some, step_s=6.6, now_s=6.4, name="x.yaml")
    TypeAdapter(shapes.CalibrationView).validate_python(made)
    assert made["possible"]
    assert "writes x.yaml" in made["text"]
    none = calibration_view(Correction(cluster=None, refusal="Not here."), step_s=None, now_s=6.4)
    TypeAdapter(shapes.CalibrationView).validate_python(none)
    assert (none["possible"], none["text"], none["changes"]) == (False, "Not here.", [])
    same = Change(what="pcie", before=1.0, after=1.0, quantity="fraction")
    idle = calibration_view(Correction(cluster=some.cluster, changes=(same,)), step_s=6.4, now_s=6.4)
    assert not idle["possible"]


def test_both_engines_are_shown_ours_first() -> None:
    runs = [
        EngineRun(engine="interpreter", step_time_s=0.33, gradient=2e-7),
        EngineRun(engine="torch", step_time_s=0.3, gradient=math.inf),
    ]
    assert view()["engines"] == []
    found = view(engine="torch", engines=runs)["engines"]
    assert [(item["name"], item["step_s"], item["gradient"]) for item in found] == [
        ("this interpreter", 0.33, 2e-7),
        ("torch's own pipelining", 0.3, None),
    ]


@pytest.mark.parametrize(("verdict", "ok"), [(CONFIRMED, True), (OFF, False), (TOO_NOISY, None)])
def test_what_the_profile_of_this_machine_said_is_a_check_of_its_own(verdict: str, ok: bool | None) -> None:
    costs = CostCheck(
        profile="this-machine", clock="processor", predicted={"compute_s": 0.9}, measured={"compute_s": 1.0},
        error_pct=-10.0, step_error_pct=-8.0, verdict=verdict, layers=[],
    )  # fmt: skip
    row = next(item for item in view(costs=costs)["checks"] if "this-machine" in item["text"])
    assert row["ok"] is ok
    assert "900 ms predicted, 1 s measured (−10.0\u00a0%)" in row["text"]
    assert "times as long" not in row["text"]
    later = replace(costs, slowdowns=Slowdowns(1.25, 1.5, 2.0))
    row = next(item for item in view(costs=later)["checks"] if "this-machine" in item["text"])
    assert "products take 1.25 times as long, memory 1.50, operators 2.00" in row["text"]


def test_why_nothing_tells_the_costs_of_this_machine_is_said() -> None:
    row = view(costs_missing="no profile of this machine is kept: explorer profile --keep")["checks"][-1]
    assert row["ok"] is None
    assert "explorer profile --keep" in row["text"]


def test_a_run_in_another_precision_than_fp32_is_named() -> None:
    errors = {"gradient": 1e-12, "weight": 0.0}
    texts = [
        view(numerics=errors, numerics_precision="fp64", precision=own)["checks"][0]["text"]
        for own in ("fp32", "bf16")
    ]
    assert "in fp64 (" in texts[0]
    assert "in fp64, the run in bf16 (" in texts[1]


def test_the_worst_rank_stands_for_the_memory() -> None:
    ranks = [
        RankBytes(rank=0, predicted_bytes=100 * 2**20, measured_bytes=100 * 2**20),
        RankBytes(rank=1, predicted_bytes=90 * 2**20, measured_bytes=100 * 2**20),
    ]
    row = view(memory=ranks)["checks"][-1]
    assert row["ok"] is False
    assert "of rank 1" in row["text"]
    assert view(memory=ranks[:1])["checks"][-1]["ok"] is True


def test_the_plans_own_speedup_is_told_beside_that_of_what_was_run() -> None:
    assert (
        "Of the plan itself, on its own devices, 3.10 is predicted."
        in view(plan_speedup=3.1)["verdict"]["text"]
    )
