"""Memory at a time: its parts peak where the report says, and its tensors add up to its parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pydantic import TypeAdapter

import explorer
from explorer.base.errors import InputError
from explorer.costs.memory_by_tensor import saved_by_tensor, states_by_parameter
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.views.memory_map import memory_view
from explorer.views.moment import LARGEST, held_at, memory_parts_at, moment_view
from explorer.views.scene import Scene, make_scene
from tests.support import view_shapes as shapes
from tests.support.scenes import MORE, kept_scene, scene_of
from widgets.base import refuse_unsendable


@pytest.fixture(scope="module", params=list(MORE))
def scene(request: pytest.FixtureRequest) -> Scene:
    return kept_scene(request.param)


def middles(scene: Scene, lane: int) -> list[float]:
    """The middle of every task that a lane computes."""
    line = scene.report.timeline
    tasks = line.program.programs[lane]
    return ((line.timing.start_s[tasks] + line.timing.end_s[tasks]) / 2).tolist()


def test_the_peak_over_time_is_that_of_the_report(scene: Scene) -> None:
    report = scene.report
    for lane in {0, len(report.lanes) - 1}:
        found = np.array([memory_parts_at(report, lane, t) for t in middles(scene, lane)])
        assert found.max(axis=0) == pytest.approx(np.array(report.memory_parts_bytes[lane]), rel=1e-9)


def test_tensors_add_up_to_the_parts(scene: Scene) -> None:
    report = scene.report
    for lane in {0, len(report.lanes) - 1}:
        times = middles(scene, lane)
        for t in (0.0, times[len(times) // 3], times[-1], report.makespan_s):
            parts, held = memory_parts_at(report, lane, t), held_at(scene, lane, t)
            for k, name in enumerate(MEMORY_PARTS):
                told = sum(item.bytes for item in held if item.part == name)
                assert told == pytest.approx(parts[k], rel=1e-9, abs=1e-3), name
            assert [item.bytes for item in held] == sorted((item.bytes for item in held), reverse=True)


@pytest.mark.parametrize("name", ["replicas", "tensor", "chunks", "zero", "split"])
def test_bytes_by_tensor_are_those_of_the_costs(name: str) -> None:
    """Without what `held_at` scales for stages that keep something on the host or pruned."""
    scene = kept_scene(name)
    pricer = scene.report.timeline.prices.pricer
    for section, placed in enumerate(pricer.sections):
        memory, shards = pricer.memory(section), pricer.shards(section)
        states = states_by_parameter(
            scene.graph, pricer.held(section), shards, scene.job, zero=placed.zero, replicas=placed.shards
        )
        for part in ("weight", "version", "gradient", "optimizer"):
            told = getattr(states, part if part == "optimizer" else f"{part}s").sum()
            assert told == pytest.approx(getattr(memory, f"{part}_bytes"), rel=1e-9)
        shares = np.zeros(len(scene.graph.layers))
        shares[pricer.placement.layers[section]] = 1.0
        recompute = pricer.stages[section].recompute
        saved, twice = saved_by_tensor(scene.graph, shards, shares, precision="bf16", recompute=recompute)
        assert saved.sum() + twice.sum() == pytest.approx(memory.activation_bytes_per_sample, rel=1e-9)


def test_it_is_what_the_map_shows_at_that_time() -> None:
    scene = kept_scene("replicas")
    view, packed = memory_view(scene)
    cells = np.frombuffer(packed, "<f4").reshape(len(view["rows"]), view["columns"])
    width = view["end_s"] / view["columns"]
    for t in middles(scene, 0)[:20]:
        own = memory_parts_at(scene.report, 0, t).sum()
        assert own <= cells[0, int(t / width)] * (1 + 1e-6), "a cell is the most of its slice of time"
    late = view["end_s"] * (1 - 1e-9)
    assert memory_parts_at(scene.report, 0, late).sum() == pytest.approx(cells[0, -1], rel=0.2)


def test_equal_tensors_of_blocks_and_microbatches_are_one_row() -> None:
    scene = scene_of(stages=2, batch=8)
    blocks = len({name.rpartition(".mlp")[0] for name in scene.strategy.stages[0].layers if ".mlp." in name})
    first = next(
        item for item in held_at(scene, 0, 0.0) if item.name == "mlp.up.weight" and item.part == "weights"
    )
    assert first.number == blocks > 10
    assert first.bytes == pytest.approx(blocks * 4096 * 14336 * 2)
    one, two = (middles(scene, 0)[k] for k in (0, 1))
    ups = [
        next(item for item in held_at(scene, 0, t) if item.name == "mlp.up" and item.part == "activations")
        for t in (one, two)
    ]
    assert [item.number for item in ups] == [blocks, 2 * blocks], "a second microbatch"
    assert ups[1].bytes == pytest.approx(2 * ups[0].bytes)


def test_the_view_says_what_is_left_of_it(scene: Scene) -> None:
    view = moment_view(scene, 0, scene.report.makespan_s / 2)
    TypeAdapter(shapes.MomentView).validate_python(view)
    refuse_unsendable(view, "view")
    assert len(view["tensors"]) == LARGEST
    told = sum(item["bytes"] for item in view["tensors"]) + view["rest"]["bytes"]
    assert told == pytest.approx(sum(part["bytes"] for part in view["parts"]), rel=1e-9)


def test_a_lane_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match="there is no lane 99"):
        moment_view(kept_scene("replicas"), 99, 0.0)


def test_what_is_kept_on_the_host_is_not_told_as_held() -> None:
    graph, cluster = explorer.load_model("llama3-8b"), explorer.load_cluster("dgx-a100")
    workload = explorer.default_workload(graph).with_job(global_batch=8)
    plain = explorer.uniform(graph, cluster, workload.job, stages=4, recompute="full")
    stages = tuple(replace(stage, offload=("activations",)) for stage in plain.job.stages)
    moved = plain.with_job(replace(plain.job, stages=stages))
    report = explorer.simulate(graph, cluster, workload, moved)
    there = make_scene(graph, cluster, workload, moved, report)
    t = middles(there, 0)[3]
    parts, held = memory_parts_at(report, 0, t), held_at(there, 0, t)
    names = {item.name for item in held if item.part == "activations"}
    assert names <= {"activations", "recomputed for the backward"}
    assert sum(item.bytes for item in held) == pytest.approx(parts.sum(), rel=1e-9)
