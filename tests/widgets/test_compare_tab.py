"""A/B: what B is, what is told of the difference, and that Undo takes all of it back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from explorer.plan import save_plan
from widgets import Explorer


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = Explorer("gpt2-small", "dgx-a100", global_batch=32)
    assert not found.error
    yield found
    found.close()


def press(bench: Explorer, action: str) -> None:
    bench.controls.send_intent("action", action=action)


def choose(bench: Explorer, key: str, value: str) -> None:
    bench.compare_panel.controls.send_intent("set", key=key, value=value)


def pressed(bench: Explorer) -> bool:
    return next(b["pressed"] for b in bench.controls.view["buttons"] if b["action"] == "compare")


def test_a_b_keeps_the_plan_and_compares(bench: Explorer) -> None:
    kept = bench.strategy
    press(bench, "compare")
    assert pressed(bench)
    assert bench.other == kept
    assert "the same plan" in bench.compare_panel.table.value
    bench.set(schedule="gpipe")
    assert bench.other == kept
    words = bench.compare_panel.table.value
    assert "schedule: 1f1b" in words
    assert "gpipe" in words
    tile = next(tile for tile in bench.tiles.view["tiles"] if tile["key"] == "step_time")
    assert tile["baseline_name"] == "B"
    assert tile["baseline"] == bench.now().other.report.step_time_s
    press(bench, "compare")
    assert not pressed(bench)
    assert bench.other is None
    bench.undo()
    assert bench.other == kept


def test_swap(bench: Explorer) -> None:
    first = bench.strategy
    press(bench, "compare")
    bench.set(schedule="gpipe")
    second = bench.strategy
    press(bench, "swap")
    assert (bench.strategy, bench.other) == (first, second)
    bench.undo()
    assert (bench.strategy, bench.other) == (second, first)


def test_b_from_elsewhere(bench: Explorer, tmp_path: Path) -> None:
    first = bench.strategy
    bench.set(recompute="full")
    choose(bench, "other", "state before")
    assert bench.other == first
    choose(bench, "other", "even cut")
    assert bench.other.job.stages[0].recompute == "full"
    path = tmp_path / "b.yaml"
    save_plan(bench.plan, {"model": bench.now().inputs.graph}, path)
    bench.set(schedule="gpipe")
    choose(bench, "other", "plan file…")
    assert any(field["key"] == "other_file" for field in bench.compare_panel.controls.view["fields"])
    choose(bench, "other_file", str(path))
    assert bench.other.job.schedule == "1f1b"


def test_what_cannot_be_b_is_said(bench: Explorer, tmp_path: Path) -> None:
    press(bench, "swap")
    assert "no plan B" in bench.error
    choose(bench, "other", "state before")
    assert "no earlier state" in bench.error
    choose(bench, "other", "plan file…")
    choose(bench, "other_file", str(tmp_path / "missing.yaml"))
    assert "missing.yaml" in bench.error
    foreign = Explorer("resnet50", "dgx-a100")
    save_plan(foreign.plan, {"model": foreign.now().inputs.graph}, tmp_path / "foreign.yaml")
    foreign.close()
    choose(bench, "other_file", str(tmp_path / "foreign.yaml"))
    assert "plan B is of resnet50" in bench.error
    assert bench.other is None


def test_b_ends_with_its_model(bench: Explorer) -> None:
    press(bench, "compare")
    bench.set(cluster="hgx-h100")
    assert bench.other is not None
    assert "cluster: dgx-a100" in bench.compare_panel.table.value
    bench.set(model="resnet50")
    assert bench.other is None


def test_set_from_python(bench: Explorer) -> None:
    bench.other = bench.strategy
    assert bench.now().other is not None
    bench.other = None
    assert bench.now().other is None


def test_figures_are_compared_with_where_one_began() -> None:
    """A search that finds another even cut must not compare it with itself."""
    bench = Explorer("gpt2-small", "dgx-a100", session=None, global_batch=32)
    tiles = {tile["key"]: tile for tile in bench.tiles.view["tiles"]}
    assert tiles["step_time"].get("baseline") is None, "an even cut is not compared with itself"
    began = bench.report.step_time_s
    bench.set(stages=4 if bench.strategy.job.stages[0].meshes[0].replicas != 2 else 2)
    for _ in range(2):
        tiles = {tile["key"]: tile for tile in bench.tiles.view["tiles"]}
        assert tiles["step_time"]["baseline_name"] == "start"
        assert tiles["step_time"]["baseline"] == began
        assert tiles["step_time"]["value"] != began
        bench.set(schedule="gpipe")
    bench.set(global_batch=64)  # other work: here one begins again
    tiles = {tile["key"]: tile for tile in bench.tiles.view["tiles"]}
    assert tiles["step_time"].get("baseline") != began
    bench.close()
