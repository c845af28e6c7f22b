"""Wishes that cannot be met: said in words with a way out, nothing lost, nothing broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from explorer.base.errors import InputError
from widgets import Explorer

PLANS = Path(__file__).parent.parent / "plans"


def make(*args: Any, **fields: Any) -> Explorer:
    return Explorer(*args, **{"session": False} | fields)


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = make("gpt2-small", "dgx-a100", global_batch=32)
    assert not found.error
    yield found
    found.close()


def field(bench: Explorer, key: str, *, of: Any = None) -> dict[str, Any]:
    view = (of or bench.controls).view
    found: dict[str, Any] = next(item for item in view["fields"] if item["key"] == key)
    return found


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("global_batch", 10**9),
        ("global_batch", 1e30),
        ("global_batch", 10**9 + 7),
        ("microbatch_size", 10**12),
        ("stages", 10**9),
        ("whatif_devices", 10**9),
        ("rounds", 10**6),
        ("searcher", "nobody"),
        ("other", "nonsense"),
        ("sweep_over", "nonsense"),
        ("sweep_scaling", "nonsense"),
        ("engine", "nonsense"),
    ],
)
def test_nonsense_in_a_field_changes_nothing(bench: Explorer, key: str, value: object) -> None:
    before = bench.history.now
    bench.controls.send_intent("set", key=key, value=value)
    assert bench.history.now is before
    said = bench.error or bench.what_if_panel.sliders.view["verdict"]["text"]
    assert any(way in said for way in ("allowed", "use larger", "nearest that do"))
    assert "Error" not in said
    bench.controls.send_intent("set", key="stages", value=2)
    assert not bench.error


def test_swarm_shares_links(bench: Explorer) -> None:
    bench.set(replicas=1, schedule="swarm")
    assert bench.report.step_time_s > 0


def test_a_wrong_file_for_b_stays_at_its_field(bench: Explorer) -> None:
    panel = bench.compare_panel
    panel.controls.send_intent("set", key="other", value="plan file…")
    panel.controls.send_intent("set", key="other_file", value="missing.yaml")
    bench.what_if_panel.draw()
    found = field(bench, "other_file", of=panel.controls)
    assert found["value"] == "missing.yaml"
    assert found["error"]
    bench.set(stages=2)
    assert not field(bench, "other", of=panel.controls).get("error")


def test_wrong_rounds_stay_as_typed(bench: Explorer) -> None:
    bench.run_panel.controls.send_intent("set", key="rounds", value="many")
    assert field(bench, "rounds", of=bench.run_panel.controls)["value"] == "many"
    bench.run_panel.controls.send_intent("set", key="rounds", value=4)
    assert field(bench, "rounds", of=bench.run_panel.controls)["value"] == 4


@pytest.mark.parametrize("number", [-1, 1, 10**6])
def test_a_state_that_is_not_there(bench: Explorer, number: int) -> None:
    for kind in ("go", "compare"):
        bench.history_panel.states.send_intent(kind, number=number)
        assert "no longer in the history" in bench.error
    assert len(bench.history.points) == 1


@pytest.mark.parametrize(
    ("name", "value"),
    [("strategy", None), ("plan", None), ("workload", None), ("model", ""), ("cluster", "")],
)
def test_nothing_can_be_taken_away(bench: Explorer, name: str, value: object) -> None:
    before = getattr(bench, name)
    with pytest.raises(InputError, match="cannot be taken away"):
        setattr(bench, name, value)
    assert getattr(bench, name) == before


def test_two_jobs_are_not_shown(bench: Explorer) -> None:
    found = make(plan=PLANS / "13-two-jobs.yaml")
    assert "2 jobs; the workbench shows one" in found.error
    found.close()
    job = bench.workload.job
    with pytest.raises(InputError, match="2 jobs"):
        bench.workload = replace(bench.workload, jobs=(job, replace(job, name="second")))


@pytest.mark.parametrize("budget", [0.0, -1.0, float("nan"), float("inf")])
def test_a_budget_that_cannot_be(bench: Explorer, budget: float) -> None:
    with pytest.raises(InputError, match="a search cannot take"):
        bench.search_budget_s = budget
    assert bench.search_budget_s == 20.0


def test_what_was_right_is_kept_when_the_model_is_wrong() -> None:
    bench = make("nope", "hgx-h100", global_batch=64)
    assert "xp-absent" in bench.parts.rest[0]._dom_classes, "nothing to show yet"
    assert (field(bench, "model")["value"], field(bench, "cluster")["value"]) == ("nope", "hgx-h100")
    bench.controls.send_intent("set", key="model", value="gpt2-small")
    assert (bench.model, bench.cluster, bench.workload.job.global_batch) == ("gpt2-small", "hgx-h100", 64)
    assert "xp-absent" not in bench.parts.rest[0]._dom_classes
    bench.close()


def test_a_wrong_cluster_is_chosen_anew_before_or_after_the_model() -> None:
    bench = make("gpt2-small", "nope")
    bench.controls.send_intent("set", key="model", value="vgg16")
    assert "unknown cluster 'nope'" in bench.error
    assert field(bench, "model")["value"] == "vgg16"
    assert not field(bench, "model").get("error")
    bench.controls.send_intent("set", key="cluster", value="hgx-h100")
    assert (bench.model, bench.cluster, bench.error) == ("vgg16", "hgx-h100", "")
    bench.close()


def test_another_model_takes_its_layers_out_of_the_selection(bench: Explorer) -> None:
    bench.selection = [bench.board.blocks[1]["id"]]
    bench.set(stages=2)
    assert bench.selection
    bench.set(model="vgg16")
    assert not bench.selection


def test_a_tab_that_fails_does_not_take_the_workbench_along(
    bench: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a tab broke")

    monkeypatch.setattr(bench.what_if_panel, "forget", broken)
    bench.set(global_batch=64)
    assert "a tab broke" in bench.error
    assert bench.workload.job.global_batch == 64
    assert bench.plan == bench.history.now.plan()


def test_files_beside_a_plan_are_found_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bench = make(plan=PLANS / "08-wap.yaml")
    bench.controls.send_intent("action", action="save_plan")
    (tmp_path / "mine.yaml").write_bytes(bench.history_panel.states.data)
    again = make(plan="mine.yaml")
    assert not again.error
    assert again.strategy == bench.strategy
    for made in (bench, again):
        made.close()


def test_another_cluster_keeps_a_model_whose_file_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes((PLANS / "models" / "wap.json").read_bytes())
    bench = make(str(path), str(PLANS / "clusters" / "unit.yaml"))
    assert not bench.error
    path.unlink()
    bench.set(cluster=str(PLANS / "clusters" / "free.yaml"))
    assert bench.cluster.endswith("free.yaml")
    bench.close()


def test_apply_says_which_pins_it_releases(bench: Explorer) -> None:
    bench.pin([bench.history.now.inputs.graph.layers[-1].name])
    sliders = bench.what_if_panel.sliders
    sliders.send_intent("set", key="whatif_devices", value=4)
    assert "releases 1 pin" in sliders.view["note"]
    sliders.send_intent("set", key="whatif_devices", value=8)
    assert "releases" not in sliders.view["note"]
