"""The workbench without a browser: gestures as intents, states as traits, mistakes as words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

import explorer as core
from explorer.base.errors import ExplorerError, InputError
from explorer.schedules import SCHEDULES
from tests.support import view_shapes as shapes
from widgets import Explorer
from widgets.state_traits import StateTraits


def make(**workload: Any) -> Explorer:
    return Explorer("gpt2-small", "dgx-a100", **{"global_batch": 32} | workload)


@pytest.fixture
def bench() -> Iterator[Explorer]:
    found = make()
    assert not found.error
    yield found
    found.close()


def block(bench: Explorer, number: int) -> list[str]:
    return list(bench.history.now.inputs.graph.blocks[bench.board.blocks[number]["id"]])


def fields(bench: Explorer) -> dict[str, Any]:
    return {field["key"]: field for field in bench.controls.view["fields"]}


def test_it_starts_with_something_that_fits(bench: Explorer) -> None:
    assert bench.report.feasible
    assert len(bench.board.view["lanes"]) == 4
    assert "4 stages x 2 replicas" in repr(bench)
    views = {
        shapes.ControlsView: bench.controls,
        shapes.TilesView: bench.tiles,
        shapes.BoardView: bench.board,
        shapes.TimelineView: bench.timeline,
        shapes.GraphViewShape: bench.graph,
        shapes.MemoryView: bench.memory,
        shapes.TrafficView: bench.traffic,
    }
    for shape, widget in views.items():
        TypeAdapter(shape).validate_python(widget.view)


def test_every_trait_is_documented() -> None:
    traits = Explorer.class_traits()
    own = {name: traits[name] for name in traits if name in StateTraits.__dict__ or name in Explorer.__dict__}
    assert {"model", "cluster", "strategy", "report", "plan", "workload", "selection"} <= set(own)
    assert all(trait.help for trait in own.values())


def test_a_move_goes_to_every_view_and_back(bench: Explorer) -> None:
    before = bench.strategy
    pictures = [bench.timeline.bars, bench.memory.cells, bench.traffic.view, bench.tiles.view["tiles"]]
    bench.board.send_intent("move", layers=block(bench, 4), to_lane="3")
    assert bench.strategy != before
    assert bench.board.seq == 1
    assert bench.history.now.scene.lane_of_layer[block(bench, 4)[0]] == "3"
    after = [bench.timeline.bars, bench.memory.cells, bench.traffic.view, bench.tiles.view["tiles"]]
    assert all(a != b for a, b in zip(pictures, after, strict=True))
    assert bench.undo()
    assert bench.strategy == before
    assert [bench.timeline.bars, bench.memory.cells, bench.traffic.view] == pictures[:3]
    assert bench.redo()
    assert not bench.redo()
    assert bench.board.view["can_undo"]
    assert not bench.board.view["can_redo"]


def test_a_boundary_moves_whole_layers(bench: Explorer) -> None:
    had = [len(stage.layers) for stage in bench.strategy.job.stages]
    bench.board.send_intent("move_boundary", boundary="0|1", before=0, after=1, layers=5)
    bench.board.send_intent("move_boundary", boundary="2|3", before=2, after=3, layers=-3)
    now = [len(stage.layers) for stage in bench.strategy.job.stages]
    assert now == [had[0] + 5, had[1] - 5, had[2] - 3, had[3] + 3]
    index = bench.history.now.inputs.graph.index
    for stage in bench.strategy.job.stages:
        assert [index[name] for name in stage.layers] == sorted(index[name] for name in stage.layers)


def test_a_lane_survives_without_layers(bench: Explorer) -> None:
    layers = list(bench.strategy.job.stages[1].layers)
    bench.board.send_intent("move", layers=layers, to_lane="2")
    assert [lane["name"] for lane in bench.board.view["lanes"]] == ["Stage 0", "Empty", "Stage 1", "Stage 2"]
    bench.board.send_intent("move", layers=layers[-2:], to_lane="1")
    assert bench.board.view["lanes"][1]["runs"]
    bench.set(recompute="full")
    assert all(stage.recompute == "full" for stage in bench.strategy.job.stages)


@pytest.mark.parametrize("name", [item.name for item in SCHEDULES if not item.literal])
def test_every_schedule_can_be_picked_and_left_again(bench: Explorer, name: str) -> None:
    bench.set(microbatch_size=1)
    bench.set(schedule=name)
    assert not bench.error
    assert bench.strategy.job.schedule == name
    options = next(field for field in bench.controls.view["fields"] if field["key"] == "schedule")["options"]
    assert name in {option["value"] for option in options}
    bench.set(schedule="1f1b")
    assert bench.strategy.job.schedule == "1f1b"
    assert len(bench.strategy.job.stages) == 4


def test_a_drop_that_the_schedule_cannot_order_is_still_costed(bench: Explorer) -> None:
    bench.set(schedule="interleaved_1f1b")
    assert len(bench.strategy.job.stages) == 8
    bench.board.send_intent("move", layers=block(bench, 2), to_lane="3")
    assert bench.strategy.job.schedule == "1f1b"
    assert "1f1b" in bench.board.notice["text"]


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("stages", 99, "99 devices"), ("stages", "many", "whole number"), ("replicas", 3, "12 devices"),
        ("global_batch", 0, "global_batch"), ("global_batch", 31, "divide"), ("microbatch_size", 5, "divide"),
        ("sequence_length", -4, "sequence_length"), ("precision", "fp3", "fp3"), ("schedule", "nope", "nope"),
        ("recompute", "half", "half"), ("zero", 9, "zero"), ("model", "gpt9", "gpt9"),
        ("model", "hf:nowhere", "nowhere"), ("cluster", "no.yaml", "no.yaml"), ("unheard", 1, "unheard"),
        ("tensor", 1.5, "whole number"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_said_and_changes_nothing(bench: Explorer, key: str, value: Any, said: str) -> None:
    before, view = bench.history.now, bench.board.view
    bench.controls.send_intent("set", key=key, value=value)
    assert bench.history.now is before
    assert bench.board.view is view
    assert said in bench.error
    assert bench.controls.notice == {"level": "error", "text": bench.error}
    if key in fields(bench):
        assert fields(bench)[key]["error"]
        assert fields(bench)[key]["value"] == value, "what was typed stays"
    bench.controls.send_intent("set", key="zero", value="1")
    assert bench.controls.notice is None
    assert not bench.error
    assert not any(field.get("error") for field in fields(bench).values())


def test_a_wrong_gesture_is_said_on_the_board(bench: Explorer) -> None:
    before = bench.history.now
    for kind, rest in (
        ("move", {"layers": ["nothing"], "to_lane": "0"}),
        ("move", {"layers": block(bench, 1), "to_lane": "9"}),
        ("move", {"layers": [], "to_lane": "0"}),
        ("move_boundary", {"before": 0, "after": 1, "layers": 9999}),
        ("move_boundary", {"before": 7, "after": 8, "layers": 1}),
        ("action", {"action": "explode"}),
    ):
        bench.board.send_intent(kind, **rest)
        assert bench.error
        assert bench.history.now is before


@pytest.mark.parametrize(
    ("key", "value", "holds"),
    [
        ("global_batch", 64, lambda e: e.workload.job.global_batch == 64),
        ("sequence_length", 512, lambda e: e.workload.job.sequence_length == 512),
        ("precision", "fp32", lambda e: e.workload.job.precision == "fp32"),
        ("microbatch_size", 2, lambda e: e.strategy.job.stages[0].microbatch_samples == 4),
        ("zero", "1", lambda e: all(stage.zero == 1 for stage in e.strategy.job.stages)),
        ("schedule", "gpipe", lambda e: e.strategy.job.schedule == "gpipe"),
    ],
)
def test_pickers_keep_the_placement(
    bench: Explorer, key: str, value: Any, holds: Callable[[Explorer], bool]
) -> None:
    bench.board.send_intent("move", layers=block(bench, 4), to_lane="3")
    placed = bench.history.now.scene.lane_of_layer
    bench.controls.send_intent("set", key=key, value=value)
    assert not bench.error
    assert holds(bench)
    assert bench.history.now.scene.lane_of_layer == placed
    bench.undo()
    assert not holds(bench)


@pytest.mark.parametrize(("key", "value", "lanes"), [("stages", 2, 2), ("replicas", 1, 4), ("tensor", 2, 4)])
def test_shape_pickers_cut_anew(bench: Explorer, key: str, value: int, lanes: int) -> None:
    bench.controls.send_intent("set", key=key, value=value)
    assert not bench.error
    assert fields(bench)[key]["value"] == value
    assert len(bench.board.view["lanes"]) == lanes


def test_sequence_parallelism_keeps_the_placement(bench: Explorer) -> None:
    assert "sequence_parallel" not in fields(bench), "nothing is shared by tensor yet"
    bench.controls.send_intent("set", key="tensor", value=2)
    bench.board.send_intent("move", layers=block(bench, 4), to_lane="3")
    placed = bench.history.now.scene.lane_of_layer
    assert fields(bench)["sequence_parallel"]["value"] == "no"
    before = bench.report.memory_parts_bytes
    bench.controls.send_intent("set", key="sequence_parallel", value="yes")
    assert not bench.error
    assert fields(bench)["sequence_parallel"]["value"] == "yes"
    assert bench.history.now.scene.lane_of_layer == placed
    assert max(parts[4] for parts in bench.report.memory_parts_bytes) < max(parts[4] for parts in before)
    bench.controls.send_intent("set", key="sequence_parallel", value="maybe")
    assert "yes or no" in fields(bench)["sequence_parallel"]["error"]


def test_a_measured_profile_begins_with_work_for_all_devices(tmp_path: Path) -> None:
    sizes = "forward_compute_time=9.0, backward_compute_time=9.0, activation_size=8.0, parameter_size=4.0"
    lines = [f"node{i} -- Conv2d(8, 8) -- {sizes}" for i in range(20)]
    lines += [f"\tnode{i} -- node{i + 1}" for i in range(19)]
    (tmp_path / "chain.graph.txt").write_text("\n".join(lines) + "\n")
    bench = Explorer(str(tmp_path / "chain.graph.txt"), "dgx-a100", session=None)
    assert not bench.error
    report = bench.report
    assert bench.workload.job.global_batch == 4 * 8
    assert min(report.busy_s) > 0.5 * report.step_time_s
    bench.close()
    asked = Explorer(str(tmp_path / "chain.graph.txt"), "dgx-a100", session=None, global_batch=2)
    assert asked.workload.job.global_batch == 2, "what is asked stays"
    asked.close()


def test_model_and_cluster_start_afresh(bench: Explorer) -> None:
    bench.model = "resnet50"
    assert bench.model == "resnet50"
    assert bench.report.feasible
    assert "sequence_length" not in fields(bench)
    bench.cluster = "ethernet-10g-4x4"
    assert len(bench.report.devices) == 16
    bench.undo()
    bench.undo()
    assert (bench.model, bench.cluster) == ("gpt2-small", "dgx-a100")
    with pytest.raises(InputError):
        bench.model = "nope"
    assert bench.model == "gpt2-small", "a wrong value is taken back"


def test_setting_the_strategy_moves_the_chips(bench: Explorer) -> None:
    now = bench.history.now.inputs
    wanted = core.uniform(now.graph, now.cluster, now.job, stages=8, microbatch_size=4)
    seen: list[Any] = []
    bench.observe(lambda change: seen.append(change["new"]), "report")
    bench.strategy = wanted
    assert len(bench.board.view["lanes"]) == 8
    assert seen == [bench.report]
    wrong = wanted.with_job(wanted.job.with_stages(wanted.job.stages[:-1]))
    with pytest.raises(ExplorerError, match="layers in no stage"):
        bench.strategy = wrong
    assert bench.strategy == wanted


def test_plan_round_trip(bench: Explorer, tmp_path: Path) -> None:
    bench.board.send_intent("move", layers=block(bench, 4), to_lane="3")
    file = tmp_path / "plan.yaml"
    core.save_plan(bench.plan, bench.resolved().graphs, file)
    other = Explorer(plan=file)
    assert other.strategy == bench.strategy
    assert other.report.step_time_s == bench.report.step_time_s
    other.close()


def test_a_wrong_start_waits_for_a_better_choice(tmp_path: Path) -> None:
    bench = Explorer("gpt2-smal", "dgx-a100")
    assert "gpt2-small" in bench.error
    assert bench.controls.notice["level"] == "error"
    assert bench.board.view == {}
    bench.controls.send_intent("set", key="model", value="gpt2-small")
    assert bench.report.feasible
    assert "unknown workload setting" in Explorer("gpt2-small", "dgx-a100", batch=3).error
    (tmp_path / "bad.yaml").write_text("schema: 3\n")
    assert "bad.yaml" in Explorer(plan=tmp_path / "bad.yaml").error


def test_selection_is_shared(bench: Explorer) -> None:
    name = bench.board.blocks[4]["id"]
    bench.board.selection = [name]
    assert bench.selection == bench.graph.selection == [name]
    lane = bench.history.now.scene.lane_of_layer[block(bench, 4)[0]]
    assert bench.timeline.selected_lanes == bench.memory.selected_lanes == [lane]
    bench.graph.selection = []
    assert bench.board.selection == bench.traffic.selected_lanes == []


def test_opening_a_block_of_the_graph(bench: Explorer) -> None:
    name = bench.board.blocks[3]["id"]
    bench.graph.opened = name
    assert [node["id"] for node in bench.graph.view["nodes"] if node["open"]] == [name]
    bench.graph.opened = None
    assert bench.graph.opened == []
    assert not any(node["open"] for node in bench.graph.view["nodes"])


def test_what_does_not_fit_is_said_and_stays_editable() -> None:
    bench = Explorer("llama3-8b", "dgx-a100", global_batch=16)
    layers = list(bench.strategy.job.stages[1].layers)
    bench.board.send_intent("move", layers=layers[:-14], to_lane="0")
    verdict = bench.tiles.view["verdict"]
    assert verdict["level"] == "bad"
    assert "GiB over" in verdict["text"]
    assert bench.board.view["editable"]
    bench.showing.explain(bench.history.now)
    assert bench.tiles.view["verdict"]["actions"][0]["action"] == "apply_hint"
    bench.tiles.send_intent("action", action="apply_hint")
    assert bench.report.feasible
    bench.close()


def test_export_follows_the_board(bench: Explorer) -> None:
    bench.controls.send_intent("action", action="export")
    assert not bench.error
    assert bench.tabs_title() == "Export"
    page = bench.export_panel.page
    first = page.view["files"][0]["text"]
    assert first.startswith("schema: explorer.plan/1")
    bench.board.send_intent("move", layers=block(bench, 4), to_lane="3")
    assert page.view["files"][0]["text"] != first
    page.target = "schedule_csv"
    assert page.view["files"] or page.view["refusals"]
