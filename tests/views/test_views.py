"""Every view of many strategies: of the protocol's shape, without NaN, and adding up."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

import explorer
from explorer.base.errors import ExplorerError
from explorer.costs.stragglers import stage_factor
from explorer.explain import explain
from explorer.models import SOURCES
from explorer.models.synthetic import chain
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.report import NO_FLOPS
from explorer.strategies.moves import groups_of, place_layers
from explorer.strategy import Slice, Stage, single
from explorer.sweep.bands import report_figures
from explorer.views import (
    Scene,
    blocks_view,
    board_view,
    chrome_trace,
    graph_view,
    make_scene,
    memory_view,
    quick_verdict,
    tiles_view,
    timeline_view,
    traffic_view,
    verdict_view,
)
from explorer.views.memory_map import memory_levels
from explorer.views.sweep_view import what_if_rows
from explorer.views.tiles import Baseline
from explorer.views.timeline import COLUMNS, timeline_rows
from tests.support import view_shapes as shapes
from widgets.base import refuse_unsendable
from widgets.timeline import COLUMNS as PAGE_COLUMNS

DGX = explorer.load_cluster("dgx-a100")


def scene_of(model: str = "llama3-8b", cluster: str = "dgx-a100", batch: int = 64, **shape: Any) -> Scene:
    graph, devices = explorer.load_model(model), explorer.load_cluster(cluster)
    workload = explorer.default_workload(graph).with_job(global_batch=batch)
    strategy = explorer.uniform(graph, devices, workload.job, **shape)
    return make_scene(
        graph, devices, workload, strategy, explorer.simulate(graph, devices, workload, strategy)
    )


@pytest.fixture(scope="module")
def scene() -> Scene:
    return scene_of(stages=4, replicas=2)


def check_all(scene: Scene) -> dict[str, Any]:
    """All views, each of its shape and sendable; the board and timeline besides."""
    blocks = blocks_view(scene)
    several = next((block["id"] for block in blocks if len(block["layers"]) > 1), None)
    timeline, bars = timeline_view(scene)
    memory, cells = memory_view(scene)
    made = {
        "blocks": (list[shapes.Block], blocks),
        "board": (shapes.BoardView, board_view(scene)),
        "tiles": (shapes.TilesView, tiles_view(scene, verdict=quick_verdict(scene))),
        "timeline": (shapes.TimelineView, timeline),
        "memory": (shapes.MemoryView, memory),
        "traffic": (shapes.TrafficView, traffic_view(scene)),
        "graph": (shapes.GraphViewShape, graph_view(scene, opened=several)),
    }
    for name, (shape, view) in made.items():
        TypeAdapter(shape).validate_python(view)
        refuse_unsendable(view, name)
    assert np.isfinite(np.frombuffer(bars, "<f4")).all()
    assert len(cells) == 4 * len(memory["rows"]) * memory["columns"]
    assert [layer["id"] for block in blocks for layer in block["layers"]] == [
        x.name for x in scene.graph.layers
    ]
    held = sorted(
        i
        for lane in made["board"][1]["lanes"]
        for run in lane["runs"]
        for i in range(run["first"], run["first"] + run["count"])
    )
    assert held == list(range(len(scene.graph.layers)))
    return {name: view for name, (_, view) in made.items()}


@pytest.mark.parametrize("model", SOURCES.names())
def test_every_model_has_views(model: str) -> None:
    check_all(scene_of(model, stages=2, replicas=1, tensor=2, recompute="full", zero=1))


@pytest.mark.parametrize(
    ("schedule", "chunks"),
    [("gpipe", 1), ("1f1b", 1), ("interleaved_1f1b", 2), ("pipedream", 1), ("pipedream_2bw", 1)],
)
def test_every_schedule_has_views(schedule: str, chunks: int) -> None:
    found = scene_of(
        "gpt2-small", "ethernet-10g-4x4", 32, stages=4, replicas=2, chunks=chunks, schedule=schedule
    )
    views = check_all(found)
    assert len(views["board"]["lanes"]) == 4
    assert [lane["group"] for lane in views["board"]["lanes"]] == ["node 0", "node 0", "node 1", "node 1"]
    assert any(link["dashed"] for link in views["board"]["links"])


@settings(max_examples=25)
@given(st.lists(st.integers(0, 3), min_size=12, max_size=12), st.booleans())
def test_any_placement_has_views(lanes: list[int], pairs: bool) -> None:
    graph = explorer.load_model("gpt2-small")
    job = explorer.default_workload(graph).with_job(global_batch=8)
    start = explorer.uniform(graph, DGX, job.job, stages=4, replicas=2 if pairs else 1)
    names = [name for name in graph.blocks if len(graph.blocks[name]) > 1]
    moves = {layer: lane for name, lane in zip(names, lanes, strict=True) for layer in graph.blocks[name]}
    groups = groups_of(start.job)
    strategy = start.with_job(place_layers(graph, start.job, moves, groups))
    try:
        report = explorer.simulate(graph, DGX, job, strategy)
    except ExplorerError:
        return
    found = make_scene(graph, DGX, job, strategy, report, groups)
    views = check_all(found)
    assert len(views["board"]["lanes"]) == 4, "an emptied lane stays"
    for name, lane in moves.items():
        assert found.lane_of_layer[name] == str(lane)


def test_costs_add_up_to_the_lane(scene: Scene) -> None:
    layers = [layer for block in blocks_view(scene) for layer in block["layers"]]
    kind = scene.cluster.kind_of(0)
    wait = stage_factor((kind,), scene.strategy.stages[0].device_count)
    call = kind.software.action_overhead_s * wait
    for lane in board_view(scene)["lanes"]:
        run = lane["runs"][0]
        own = layers[run["first"] : run["first"] + run["count"]]
        forward, backward = (sum(x[part] for x in own) for part in ("forward_s", "backward_s"))
        assert math.isclose(wait * forward + call, lane["forward_s"], rel_tol=1e-9)
        assert math.isclose(wait * backward + call, lane["backward_s"], rel_tol=1e-9)
        whole = lane["forward_s"] + lane["backward_s"]
        assert math.isclose(lane["time_factor"], whole / (forward + backward), rel_tol=1e-9)
        assert lane["call_s"] == 2 * call, "what a preview of moved layers leaves in place"
        for part in ("weight_bytes", "gradient_bytes", "optimizer_bytes"):
            assert math.isclose(sum(x[part] for x in own), lane["memory"][part], rel_tol=1e-9)
        # a tensor that blocks on both sides of a cut save is counted in both
        kept = lane["in_flight"] * sum(x["saved_bytes"] for x in own)
        assert lane["memory"]["activation_bytes"] == pytest.approx(kept, rel=0.1)
        assert lane["peak_bytes"] == sum(lane["memory"].values())
    assert [lane["in_flight"] for lane in board_view(scene)["lanes"]] == [4, 3, 2, 1], "1F1B keeps p - s"


def test_parameters_add_up_to_the_model(scene: Scene) -> None:
    found = sum(layer["parameters"] for block in blocks_view(scene) for layer in block["layers"])
    assert found == scene.graph.parameter_count == 8_030_261_248


def test_board_and_report_agree(scene: Scene) -> None:
    view = board_view(scene)
    assert [lane["peak_bytes"] for lane in view["lanes"]] == pytest.approx(scene.report.peak_memory_bytes)
    binds = [lane["binds"] for lane in view["lanes"]]
    assert binds.count(True) == 1
    assert binds.index(True) == int(np.argmax(scene.report.busy_s))
    sent = sum(link["step_bytes"] for link in view["links"])
    pairs = {(s, t): size for (s, t), size in scene.report.traffic_bytes.items() if s // 2 != t // 2}
    assert sent == pytest.approx(sum(pairs.values()))
    assert [(b["before"], b["after"]) for b in view["boundaries"]] == [(0, 1), (1, 2), (2, 3)]


def test_a_cut_layer_is_a_run_of_its_own() -> None:
    graph = explorer.load_model("vgg16")
    job = explorer.default_workload(graph)
    names = [layer.name for layer in graph.layers]
    at = next(i for i, layer in enumerate(graph.layers) if layer.kind == "linear")
    dim = next(d.name for d in graph.layers[at].dims if d.splittable)
    meshes = [explorer.uniform(graph, DGX, job.job, stages=2).job.stages[s].meshes for s in (0, 1)]

    def cut(start: float, stop: float) -> Slice:
        return Slice(layer=names[at], dim=dim, start=start, stop=stop)

    stages = (
        Stage(layers=tuple(names[:at]), slices=(cut(0.0, 0.25),), meshes=meshes[0]),
        Stage(layers=tuple(names[at + 1 :]), slices=(cut(0.25, 1.0),), meshes=meshes[1]),
    )
    strategy = single(stages=stages)
    found = make_scene(graph, DGX, job, strategy, explorer.simulate(graph, DGX, job, strategy))
    view = board_view(found)
    TypeAdapter(shapes.BoardView).validate_python(view)
    shares = [run.get("first_share") for lane in view["lanes"] for run in lane["runs"]]
    assert shares == [None, 0.25, 0.75, None]
    assert not view["editable"]
    assert not view["boundaries"]


def test_a_broken_run_says_what_it_costs(scene: Scene) -> None:
    moves = {layer.name: 0 for layer in scene.graph.layers if layer.block == "layers.20"}
    workload = explorer.Workload(jobs=(scene.job,))
    strategy = single(
        stages=place_layers(scene.graph, scene.strategy, moves, scene.groups).stages, schedule="1f1b"
    )
    report = explorer.simulate(scene.graph, DGX, workload, strategy)
    view = board_view(make_scene(scene.graph, DGX, workload, strategy, report))
    broken = [lane for lane in view["lanes"] if len(lane["runs"]) > 1]
    assert all("transfer" in lane["runs"][1]["note"] for lane in broken)
    assert broken[0]["name"] == "Stages 0, 3"


def test_timeline_is_the_timing(scene: Scene) -> None:
    assert COLUMNS == PAGE_COLUMNS
    rows = timeline_rows(scene)
    view, bars = timeline_view(scene)
    assert len(bars) == rows.size * 4
    assert view["end_s"] == pytest.approx(scene.report.makespan_s, rel=1e-6)
    microbatches = 64 // 2
    for code in (0, 1):  # each microbatch once forward and once backward on each of four stages
        own = rows[rows[:, 3] == code]
        assert sorted(map(tuple, own[:, [4, 6]].tolist())) == [
            (float(s), float(m)) for s in range(4) for m in range(microbatches)
        ]
    busy = [
        float((own[:, 1] - own[:, 0]).sum())
        for lane in range(4)
        for own in [rows[(rows[:, 2] == lane) & (rows[:, 3] < 6)]]
    ]
    assert busy == pytest.approx(scene.report.busy_s, rel=1e-3)
    assert (rows[rows[:, 3] >= 6][:, 9] > 0).all()
    assert (np.diff(rows[:, 2]) >= 0).all(), "sorted by lane"


def test_memory_peak_is_the_reports(scene: Scene) -> None:
    levels = memory_levels(scene.report, 240)
    assert levels.max(axis=1) == pytest.approx(scene.report.peak_memory_bytes)
    static = [sum(p) - p[MEMORY_PARTS.index("activations")] for p in scene.report.memory_parts_bytes]
    assert (levels.min(axis=1) >= np.array(static) * (1 - 1e-9)).all()
    view, _ = memory_view(scene)
    assert view["peak"]["bytes"] == pytest.approx(max(scene.report.peak_memory_bytes), rel=1e-6)
    assert [row["lane"] for row in view["rows"]] == ["0", "0", "1", "1", "2", "2", "3", "3"]


def test_thousands_of_devices_are_folded_by_node() -> None:
    found = scene_of("gpt3-175b", "dgx-a100-128", 1536, stages=8, tensor=8, replicas=16)
    view = traffic_view(found)
    assert len(view["rows"]) == len(memory_view(found)[0]["rows"]) == 64
    assert view["rows"][0]["name"] == "nodes 0–1"
    check_all(found)


def test_traffic_is_the_reports(scene: Scene) -> None:
    assert sum(size for *_, size in traffic_view(scene)["pairs"]) == pytest.approx(
        sum(scene.report.traffic_bytes.values())
    )


def test_verdict_names_device_excess_and_fix() -> None:
    found = scene_of(stages=2, replicas=1)
    assert not found.report.feasible
    over = max(item.over_bytes for item in found.report.overflows)
    quick = quick_verdict(found)
    assert quick["level"] == "bad"
    assert f"{over / 2**30:.1f} GiB over" in quick["text"]
    workload = explorer.Workload(jobs=(found.job,))
    strategy = explorer.Strategy(jobs=(found.strategy,))
    verdict, best = verdict_view(found, explain(found.graph, DGX, workload, strategy, found.report))
    TypeAdapter(shapes.Verdict).validate_python(verdict)
    if best is not None:
        assert verdict["actions"][0]["action"] == "apply_hint"
        assert explorer.simulate(found.graph, DGX, workload, best.strategy).feasible


def test_tiles_compare(scene: Scene) -> None:
    view = tiles_view(
        scene,
        baseline=Baseline(name="even", report=scene.report),
        single=Baseline(name="1 device", report=scene.report),
    )
    TypeAdapter(shapes.TilesView).validate_python(view)
    tiles = {tile["key"]: tile for tile in view["tiles"]}
    assert {"step_time", "throughput", "memory", "bubble", "mfu", "exposed_communication"} == set(tiles)
    assert tiles["throughput"]["note"].startswith("1 × 1 device")
    exposed = sum(scene.report.exposed_communication_s.values())
    assert tiles["exposed_communication"]["value"] == exposed
    assert tiles["exposed_communication"]["note"] == f"{exposed / scene.report.step_time_s:.1%} of the step"
    assert tiles["step_time"]["baseline"] == tiles["step_time"]["value"]
    assert tiles["throughput"]["unit"] == "tokens/s"
    assert tiles["throughput"]["value"] == pytest.approx(64 * 8192 / scene.report.step_time_s)


def test_trace_has_every_task(scene: Scene) -> None:
    trace = chrome_trace(scene.report)
    json.dumps(trace, allow_nan=False)
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    program = scene.report.timeline.program
    assert len(events) == int((program.kind != 8).sum())
    assert {"0F0", "3B0"} <= {event["name"] for event in events}
    assert max(e["ts"] + e["dur"] for e in events) == pytest.approx(
        float(scene.report.timeline.timing.end_s.max()) * 1e6
    )


def test_a_model_without_flops_has_no_mfu() -> None:
    """Of measured seconds alone nobody knows how much of the peak they are: a dash with its reason, not 0."""
    graph = chain([1e-3] * 4, backward_s=2e-3)
    workload = explorer.default_workload(graph).with_job(global_batch=8)
    strategy = explorer.uniform(graph, DGX, workload.job, stages=2, microbatch_size=1)
    report = explorer.simulate(graph, DGX, workload, strategy)
    assert report.mfu is None
    scene = make_scene(graph, DGX, workload, strategy, report)
    view = tiles_view(scene, baseline=Baseline(name="even", report=report))
    TypeAdapter(shapes.TilesView).validate_python(view)
    (tile,) = (tile for tile in view["tiles"] if tile["key"] == "mfu")
    assert (tile["value"], tile["baseline"], tile["note"]) == (None, None, NO_FLOPS)
    TypeAdapter(shapes.BoardView).validate_python(board_view(scene))
    assert "mfu" not in {row["key"] for row in what_if_rows(report, report)}
    assert "mfu" not in report_figures(report)
