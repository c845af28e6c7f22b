"""`explorer compare`: what it prints and saves, how it ends, and how it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from explorer.cli import comparing
from explorer.plan import load_plan
from explorer.search.baselines import predict
from tests.cli.commands import SMALL, TOO_LARGE, Run

QUICK = ["--searchers", "even,megatron", "--max-evaluations", "2"]
KEYS = {
    "objective", "objective_unit", "least", "least_bound", "auto_lower_bound", "auto_bound", "best",
    "contestants", "differences",
}  # fmt: skip
OF_EACH = {
    "name", "state", "value", "label", "found_by", "found_s", "found_evaluations", "evaluations", "wall_s",
    "step_time_s", "peak_memory_bytes", "gap_to_least", "gap_to_auto", "lower_bound", "bound", "optimal",
    "reason", "curve", "plan",
}  # fmt: skip


def test_plans_are_compared_and_saved(run: Run, plan: Path, tmp_path: Path) -> None:
    done = run("compare", *SMALL, *QUICK, "--start", plan, "--save", tmp_path / "found", "--json")
    found = done.json
    assert done.status == 0
    assert set(found) >= KEYS
    by_name = {item["name"]: item for item in found["contestants"]}
    assert set(by_name) == {"yours", "even", "megatron"}
    values = [item["value"] for item in found["contestants"]]
    assert values == sorted(values)
    assert found["best"] == found["contestants"][0]["name"]
    for name, item in by_name.items():
        assert set(item) == OF_EACH
        assert item["gap_to_least"] == pytest.approx(item["value"] / found["least"] - 1)
        assert item["curve"][-1][2] == item["value"]
        saved = load_plan(tmp_path / "found" / f"{name}.yaml")
        assert predict(saved).step_time_s == item["value"]
    assert by_name["yours"]["value"] == predict(load_plan(plan)).step_time_s
    assert found["differences"], "the best is not the even pipeline of four stages"


def test_the_table_shows_everyone_and_why_one_has_nothing(run: Run) -> None:
    searchers = "even,tarnawski_linear"
    done = run("compare", *SMALL, "--searchers", searchers, "--objective", "memory", "--max-evaluations", "2")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].split()[0] == "searcher"
    assert "to weights over devices" in lines[0]
    refused = [line for line in lines if line.startswith("tarnawski_linear: ")]
    assert refused == [
        "tarnawski_linear: objective: tarnawski_linear cannot search for memory (allowed: time)"
    ]
    assert any(line.startswith("weights over devices: no plan is below ") for line in lines)
    assert "explorer: even: " in done.err


def test_evaluations_make_it_the_same_again(run: Run) -> None:
    first, second = (run("compare", *SMALL, *QUICK, "--json").json for _ in range(2))
    for one in (*first["contestants"], *second["contestants"]):
        one["wall_s"] = one["found_s"] = None
        one["curve"] = [mark[::2] for mark in one["curve"]]
        one["plan"]["provenance"].pop("created", None)
    assert first == second


def test_an_interrupt_prints_what_there_is(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = comparing.side_by_side

    def interrupted(*args: Any, **kwargs: Any) -> Any:
        for item in whole(*args, **kwargs):
            yield item
            if item.contestants[1].best is not None:
                raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "side_by_side", interrupted)
    done = run("compare", *SMALL, *QUICK, "--json")
    assert done.status == 130
    states = {item["name"]: item for item in done.json["contestants"]}
    assert states["even"]["value"] > 0
    assert states["even"]["state"] == states["megatron"]["state"] == "stopped"
    assert states["megatron"]["reason"].startswith("not asked")


def test_where_nothing_fits_everyone_says_why(run: Run) -> None:
    done = run("compare", *TOO_LARGE, *QUICK, "--memory-limit", "1MiB")
    assert done.status == 3
    assert {line.partition(":")[0] for line in done.out.splitlines()} >= {"even", "megatron", "rule of thumb"}
    assert done.err.splitlines()[-1].startswith("explorer: no contestant has a plan that fits; even: ")
    assert run("compare", *TOO_LARGE, *QUICK, "--memory-limit", "1MiB", "--json").json["error"]["message"]


def test_where_nobody_can_be_asked_it_is_refused(run: Run) -> None:
    done = run("compare", *SMALL, "--searchers", "tarnawski_linear,pase", "--objective", "cost")
    assert done.status == 2
    assert "no searcher can be asked for this; tarnawski_linear: " in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--searchers", "nobody"), "nobody"),
        (("--searchers", ","), "--searchers names nobody"),
        (("--option", "ideals=3"), "names no searcher"),
        (("--option", "even"), "is no setting"),
        (("--option", "even.colour=red"), "colour"),
        (("--option", "auto.colour=red"), "options of 'auto', which is not asked"),
        (("--budget", "-1"), "budget_s is -1"),
        (("--start", "nowhere.yaml"), "nowhere.yaml"),
        (("--objective", "beauty"), "unknown objective"),
        (("--pin", "embed=x"), "a device number"),
        (("--save", "/dev/null/plans"), "/dev/null/plans"),
    ],
)
def test_wrong_flags_are_one_line(flags: tuple[str, ...], words: str, run: Run) -> None:
    done = run("compare", *SMALL, "--searchers", "even", *flags)
    assert done.status == 2
    assert done.out == ""
    assert words in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_a_cluster_has_to_be_named(run: Run) -> None:
    done = run("compare", "--model", "gpt2-small", "--searchers", "even")
    assert done.status == 2
    assert done.err.count("\n") == 1
