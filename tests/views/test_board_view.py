"""The board's view: what a preview is added up from, pins and locks, plan B, what a broken run costs."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import explorer
from explorer.strategies.moves import place_layers
from explorer.strategy import single
from explorer.views import Scene, board_view, make_scene
from explorer.views.board import estimate_view, lane_place
from explorer.views.board_links import hops_of
from explorer.views.tiles import figures
from tests.support import view_shapes as shapes
from widgets.base import refuse_unsendable

DGX = explorer.load_cluster("dgx-a100")
GRAPH = explorer.load_model("llama3-8b")
WORKLOAD = explorer.default_workload(GRAPH).with_job(global_batch=64)


def scene_of(schedule: str = "1f1b", **shape: Any) -> Scene:
    strategy = explorer.uniform(GRAPH, DGX, WORKLOAD.job, **shape, schedule=schedule)
    return scene_with(strategy)


def scene_with(strategy: Any, groups: Any = ()) -> Scene:
    return make_scene(
        GRAPH, DGX, WORKLOAD, strategy, explorer.simulate(GRAPH, DGX, WORKLOAD, strategy), groups
    )


def moved(scene: Scene, block: int, lane: int) -> Scene:
    """The scene with a block on another lane."""
    moves = {layer.name: lane for layer in GRAPH.layers if layer.block == f"layers.{block}"}
    job = place_layers(GRAPH, scene.strategy, moves, scene.groups)
    return scene_with(single(stages=job.stages, schedule="1f1b"), scene.groups)


@pytest.fixture(scope="module")
def scene() -> Scene:
    return scene_of(stages=4, replicas=2)


def checked(view: dict[str, Any]) -> dict[str, Any]:
    TypeAdapter(shapes.BoardView).validate_python(view)
    refuse_unsendable(view, "view")
    return view


def test_lanes_say_their_kind_of_device_only_where_there_are_several(scene: Scene) -> None:
    assert {lane["kind"] for lane in board_view(scene)["lanes"]} == {None}
    mixed = explorer.load_cluster("mixed-v100-a100")
    job = WORKLOAD.job
    strategy = explorer.uniform(GRAPH, mixed, job, stages=4, replicas=mixed.device_count // 4)
    report = explorer.simulate(GRAPH, mixed, WORKLOAD, strategy)
    view = checked(board_view(make_scene(GRAPH, mixed, WORKLOAD, strategy, report)))
    for lane in view["lanes"]:
        devices = range(lane["replicas"][0][0], lane["replicas"][-1][-1] + 1)
        assert lane["kind"] == ", ".join(dict.fromkeys(mixed.kind_of(device).name for device in devices))
    assert len({lane["kind"] for lane in view["lanes"]}) > 1


def test_a_lane_of_many_devices_names_its_span_and_counts_them() -> None:
    model, cluster = explorer.load_model("llama3-405b"), explorer.load_cluster("hgx-h100-2048")
    job = explorer.default_workload(model).with_job(global_batch=256).job
    strategy = explorer.uniform(model, cluster, job, stages=16, replicas=16, tensor=8)
    places = [lane_place(cluster, stage.meshes) for stage in strategy.job.stages]
    assert [place.span for place in places] == [[128 * i, 128 * i + 127] for i in range(16)]
    assert {len(place.devices) for place in places} == {128}
    apart = lane_place(cluster, (strategy.job.stages[0].meshes[0], strategy.job.stages[2].meshes[0]))
    assert (apart.span, len(apart.devices)) == (None, 256)


def test_estimate_is_the_reports(scene: Scene) -> None:
    found, report = estimate_view(scene), scene.report
    own = figures(report, scene.job.sequence_length)
    assert found["step_s"] == own["step_time"]
    assert found["samples"] * found["tokens_per_sample"] / found["step_s"] == pytest.approx(own["throughput"])
    assert (found["bubble"], found["mfu"]) == (own["bubble"], own["mfu"])
    idle = 1 - sum(found["busy_s"].values()) / (len(found["busy_s"]) * found["step_s"])
    assert idle == pytest.approx(own["bubble"])
    assert found["microbatches"] == 64 / scene.strategy.stages[0].microbatch_samples


def test_busy_time_is_that_of_all_microbatches(scene: Scene) -> None:
    """What the page assumes: a lane's microbatch time, as often as there are microbatches, is its work."""
    view = board_view(scene)
    known = view["estimate"]
    for lane in view["lanes"]:
        both = (lane["forward_s"] + lane["backward_s"]) * known["microbatches"]
        assert both == pytest.approx(known["busy_s"][lane["id"]], rel=0.02)


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 31), st.integers(0, 3))
def test_a_preview_adds_up_to_nearly_the_answer(block: int, lane: int) -> None:
    """Closed form of the page (busiest lane, all microbatches but one) against the simulated answer."""
    before = scene_of(stages=4, replicas=2)
    after = moved(before, block, lane)
    old, new = board_view(before), board_view(after)
    known = old["estimate"]

    def times(view: dict[str, Any]) -> list[float]:
        return [item["forward_s"] + item["backward_s"] for item in view["lanes"]]

    m = known["microbatches"]
    guess = (
        known["step_s"] + (m - 1) * (max(times(new)) - max(times(old))) + sum(times(new)) - sum(times(old))
    )
    out_of_order = sum(len(item["runs"]) > 1 for item in new["lanes"])
    assert after.report.step_time_s == pytest.approx(guess, rel=0.35 if out_of_order else 0.02)


def test_pins_and_locks_are_told_in_model_order(scene: Scene) -> None:
    names = [layer.name for layer in GRAPH.layers if layer.block in ("layers.3", "layers.20")]
    devices = tuple(sorted(scene.group_devices[2]))
    view = checked(board_view(scene, pinned=[*reversed(names), "no such layer"], locked=[devices, (99,)]))
    assert view["pinned"] == names
    assert [lane["locked"] for lane in view["lanes"]] == [False, False, True, False]
    plain = checked(board_view(scene))
    assert (plain["pinned"], plain["other_name"]) == ([], None)
    assert not any(lane["locked"] or lane["other"] for lane in plain["lanes"])


def test_plan_b_stands_beside_the_lane_on_the_same_devices(scene: Scene) -> None:
    other = moved(scene, 9, 0)
    view = checked(board_view(scene, other=other, other_name="B"))
    alone = board_view(other)
    for lane, own in zip(view["lanes"], alone["lanes"], strict=True):
        assert lane["other"]["peak_bytes"] == own["peak_bytes"]
        assert lane["other"]["forward_s"] == own["forward_s"]
        assert sorted(lane["other"]["runs"]) == sorted([run["first"], run["count"]] for run in own["runs"])


def test_plan_b_of_another_shape_stands_by_position_and_never_twice(scene: Scene) -> None:
    other = scene_of(stages=2, replicas=4)
    view = checked(board_view(scene, other=other, other_name="B"))
    held = [run for lane in view["lanes"] if lane["other"] for run in lane["other"]["runs"]]
    assert sum(count for _, count in held) == len(GRAPH.layers)
    assert [lane["other"] is None for lane in view["lanes"]] == [False, False, True, True]


def test_plan_b_of_another_model_has_no_lanes_here(scene: Scene) -> None:
    graph = explorer.load_model("gpt2-xl")
    job = explorer.default_workload(graph)
    strategy = explorer.uniform(graph, DGX, job.job, stages=4)
    foreign = make_scene(graph, DGX, job, strategy, explorer.simulate(graph, DGX, job, strategy))
    view = checked(board_view(scene, other=foreign, other_name="B"))
    assert not any(lane["other"] for lane in view["lanes"])


def test_a_broken_run_is_costed_from_its_own_transfers(scene: Scene) -> None:
    found = moved(scene, 20, 0)  # held by lane 2, in the middle: 2 and 2 on both sides
    view = checked(board_view(found))
    note = next(run["note"] for run in view["lanes"][0]["runs"] if run.get("note"))
    assert re.fullmatch(
        r"\+2 transfers each way, \S+ \w+ and \S+ MiB a microbatch, \S+ GiB a step: gpu 0 → 4 → 0 → 4", note
    )
    stage = next(run["stage"] for run in view["lanes"][0]["runs"] if run.get("note"))
    mine = [hop for pair, hop in hops_of(found).items() if stage in pair]
    step = sum(hop.step_bytes for hop in mine)
    assert f"{step / 2**30:.1f} GiB a step" in note


def test_a_run_between_two_lanes_costs_one_transfer_more(scene: Scene) -> None:
    first = next(run["first"] for run in board_view(scene)["lanes"][2]["runs"])
    block = int(GRAPH.layers[first].block.rpartition(".")[2])
    found = moved(scene, block, 0)  # 0 .. 1 .. (0) .. 2
    note = next(run["note"] for run in board_view(found)["lanes"][0]["runs"] if run.get("note"))
    assert note.startswith("+1 transfer each way, ")
    assert note.endswith("gpu 0 → 2 → 0 → 4")


def test_chunks_of_interleaving_are_not_called_broken() -> None:
    found = scene_of("interleaved_1f1b", stages=4, chunks=2)
    view = checked(board_view(found))
    assert all(len(lane["runs"]) == 2 for lane in view["lanes"])
    assert not any(run.get("note") for lane in view["lanes"] for run in lane["runs"])


def test_links_are_the_sum_of_their_hops(scene: Scene) -> None:
    hops = hops_of(scene)
    view = board_view(scene)
    assert sum(link["step_bytes"] for link in view["links"]) == pytest.approx(
        sum(hop.step_bytes for hop in hops.values())
    )
    assert all(link["forward_bytes"] == link["backward_bytes"] > 0 for link in view["links"])


def test_devices_that_no_lane_has_are_named_by_kind() -> None:
    mixed = explorer.load_cluster("mixed-v100-a100")
    strategy = explorer.uniform(GRAPH, mixed, WORKLOAD.job, stages=2, replicas=2)
    report = explorer.simulate(GRAPH, mixed, WORKLOAD, strategy)
    idle = checked(board_view(make_scene(GRAPH, mixed, WORKLOAD, strategy, report)))["idle"]
    assert idle["count"] == 12
    used = set(report.devices)
    assert sorted(d for kind in idle["kinds"] for d in kind["devices"]) == sorted(set(range(16)) - used)
    for kind in idle["kinds"]:
        assert {mixed.kind_of(device).name for device in kind["devices"]} == {kind["kind"]}
