"""Stage.keeping in simulations: seconds, memory, the host, checks and twins."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import PlanError
from explorer.costs.keeping import on_host, recompute_of
from explorer.graph import LayerGraph
from explorer.pricing.section_time import made_again
from explorer.search._bounds import bounds_of
from explorer.simulation.report import Report
from explorer.strategies.uniform import uniform
from explorer.strategy import ACTIVATIONS, Keeping, Stage, Strategy
from explorer.tasks.program import B
from explorer.workload import default_workload

CLUSTER = explorer.load_cluster("dgx-a100")
CHOICES = ("none", "selective", "full", "output")
HOSTED = replace(
    CLUSTER,
    device_kinds=tuple(replace(kind, host_bandwidth_bytes_per_s=1e9) for kind in CLUSTER.device_kinds),
)


@cache
def gpt(name: str = "gpt") -> LayerGraph:
    return load(name)


def load(name: str) -> LayerGraph:
    sizes = {"layers": "4", "embed": "128", "heads": "4", "vocab": "500"}
    if name == "gpt":
        return explorer.load_model("gpt", settings={**sizes, "attention": "unfused", "dropout": "true"})
    return explorer.load_model(name, settings={**sizes, "kv_heads": "2"} if name == "llama" else {})


def plan(graph: LayerGraph, *, stages: int = 2, tensor: int = 1, schedule: str = "1f1b") -> Strategy:
    job = default_workload(graph).with_job(global_batch=8).job
    return uniform(
        graph, CLUSTER, job, stages=stages, tensor=tensor, schedule=schedule, microbatch_size=1
    )  # fmt: skip


def run(graph: LayerGraph, strategy: Strategy, **stage: object) -> Report:
    job = strategy.job
    made = strategy.with_job(job.with_stages(replace(x, **stage) for x in job.stages))  # type: ignore[arg-type]
    return explorer.simulate(graph, HOSTED, default_workload(graph).with_job(global_batch=8), made)


def numbers(report: Report) -> object:
    traffic = sorted(report.traffic_bytes.items())
    return report.step_time_s, report.memory_parts_bytes, report.busy_s, traffic


def backward_s(report: Report) -> float:
    program, prices = report.timeline.program, report.timeline.prices
    return next(float(prices.seconds[i]) for i, slot in enumerate(program.slots) if slot.kind == B)


@pytest.mark.parametrize("choice", ["none", "selective", "full"])
@pytest.mark.parametrize("model", ["gpt", "llama", "resnet50"])
@pytest.mark.parametrize(("schedule", "tensor"), [("1f1b", 1), ("zb_h1", 1), ("gpipe", 2), ("zb_h1", 2)])
def test_one_choice_for_all_layers_is_that_of_the_stage(
    model: str, choice: str, schedule: str, tensor: int
) -> None:
    graph = gpt(model)
    strategy = plan(graph, tensor=tensor, schedule=schedule)
    by_layer = (Keeping(layers=("*",), recompute=choice),)
    other = "none" if choice == "full" else "full"
    expected = numbers(run(graph, strategy, recompute=choice))
    assert numbers(run(graph, strategy, recompute=other, keeping=by_layer)) == expected


def test_all_layers_on_the_host_are_the_offload_of_the_stage() -> None:
    graph, strategy = gpt(), plan(gpt())
    away, here = (Keeping(layers=("*",), on=on) for on in ("host", "device"))
    offloaded = numbers(run(graph, strategy, offload=(ACTIVATIONS,)))
    assert numbers(run(graph, strategy, keeping=(away,))) == offloaded
    assert numbers(run(graph, strategy, offload=(ACTIVATIONS,), keeping=(here,))) == numbers(
        run(graph, strategy)
    )


def test_one_block_on_the_host_moves_its_bytes_alone() -> None:
    graph, strategy = gpt(), plan(gpt(), stages=1)
    plain = run(graph, strategy)
    found = run(graph, strategy, keeping=(Keeping(layers=("layers.1.*",), on="host"),))
    memory = [x.timeline.prices.memory[0].activation_bytes_per_sample for x in (plain, found)]
    mine = {n for layer in graph.layers if layer.block == "layers.1" for n in layer.saves}
    others = {n for layer in graph.layers if layer.block != "layers.1" for n in layer.saves}
    width = {"compute": 2.0, "int8": 1.0, "fp32": 4.0, "int64": 8.0}
    moved = sum(float(np.prod(graph.tensor[n].shape)) * width[graph.tensor[n].dtype] for n in mine - others)
    assert memory[0] - memory[1] == pytest.approx(moved)
    assert found.step_time_s >= plain.step_time_s
    wait = max(0.0, moved / 1e9 - backward_s(plain))
    assert backward_s(found) == pytest.approx(backward_s(plain) + wait)


def test_a_block_made_again_costs_its_forward() -> None:
    """A fourth of what all four blocks cost, on a stage of equal blocks without dropout at its ends."""
    graph = explorer.load_model("gpt2-small")
    strategy = plan(graph, stages=1)
    plain, full = run(graph, strategy), run(graph, strategy, recompute="full")
    one = run(graph, strategy, keeping=(Keeping(layers=("layers.3.*",), recompute="full"),))
    whole = backward_s(full) - backward_s(plain)
    assert backward_s(one) - backward_s(plain) == pytest.approx(whole / 12)


def test_dropped_output_costs_the_forward_of_its_layer() -> None:
    graph = explorer.load_model("gpt2-small")
    strategy = plan(graph, stages=1)
    name = "layers.3.mlp.gelu"
    plain, found = (
        run(graph, strategy, keeping=keeping)
        for keeping in ((), (Keeping(layers=(name,), recompute="output"),))
    )
    pricer = found.timeline.prices.pricer
    layers = pricer.placement.layers[0]
    again = made_again(graph, layers, pricer.recompute(0))
    assert [graph.layers[i].name for i in layers[again]] == [name]
    assert pricer.section_time(0, 0, 1).recompute_s > 0
    assert backward_s(found) - backward_s(plain) == pytest.approx(pricer.section_time(0, 0, 1).recompute_s)


def test_first_exception_that_says_something_counts() -> None:
    graph = gpt()
    stage = plan(graph, stages=1).job.stages[0]
    items = (
        Keeping(layers=("layers.0.*",), on="host"),
        Keeping(layers=("layers.0.mlp.*",), recompute="full"),
        Keeping(layers=("layers.*",), recompute="selective", on="device"),
    )
    kept: Stage = replace(stage, keeping=items, offload=(ACTIVATIONS,))
    positions = np.arange(len(graph.layers))
    recompute, away = recompute_of(graph, kept, positions), on_host(graph, kept, positions)
    assert not isinstance(recompute, str)
    assert not isinstance(away, bool)
    for layer, choice, far in zip(graph.layers, recompute, away, strict=True):
        first = layer.name.startswith("layers.0.")
        assert far is (first or not layer.block)
        mlp = layer.name.startswith("layers.0.mlp.")
        assert choice == ("full" if mlp else "selective" if layer.block else "none")


def test_stages_with_unlike_exceptions_are_no_twins() -> None:
    """Eight equal stages and one pattern that covers a layer of one of them only."""
    graph = explorer.load_model("gpt", settings={"layers": "8", "embed": "64", "heads": "4"})
    strategy = plan(graph, stages=8)
    names = (Keeping(layers=("layers.3.mlp.gelu",), recompute="output"),)
    stages = tuple(
        replace(stage, keeping=names) if "layers.3.mlp.gelu" in stage.layers else stage
        for stage in strategy.job.stages
    )
    found = run(graph, strategy.with_job(strategy.job.with_stages(stages)))
    pricer, prices = found.timeline.prices.pricer, found.timeline.prices
    for section, stage in enumerate(stages):
        assert prices.memory[section] == pricer.memory(section)
        device = stage.meshes[0].devices[0]
        assert (pricer.section_time(section, device, 1).recompute_s > 0) == bool(stage.keeping)


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_bounds_stay_below_what_is_simulated(data: st.DataObject) -> None:
    graph, chunks = gpt(), data.draw(st.sampled_from((1, 2)))
    schedule = "1f1b" if chunks == 1 else "interleaved_1f1b"
    job = default_workload(graph).with_job(global_batch=8).job
    strategy = uniform(graph, HOSTED, job, stages=2, chunks=chunks, schedule=schedule, microbatch_size=1)
    keeping = tuple(
        Keeping(layers=(pattern,), recompute=data.draw(st.sampled_from(CHOICES)), on=on)
        for pattern, on in (("*.mlp.*", data.draw(st.sampled_from(("host", "device")))), ("*add", ""))
    )
    stages = tuple(replace(stage, keeping=keeping) for stage in strategy.job.stages)
    made = strategy.with_job(strategy.job.with_stages(stages))
    report = explorer.simulate(graph, HOSTED, default_workload(graph).with_job(global_batch=8), made)
    least = bounds_of(graph, HOSTED, job, made.job, 2)
    assert least.step_time_s <= report.step_time_s * (1 + 1e-9)
    assert least.peak_memory_bytes <= max(report.peak_memory_bytes) * (1 + 1e-9)


def test_exceptions_of_unknown_layers_are_refused() -> None:
    with pytest.raises(PlanError, match="keeping of nothing matches no layer of the stage"):
        run(gpt(), plan(gpt()), keeping=(Keeping(layers=("nothing",), recompute="full"),))


def test_a_host_without_bandwidth_is_refused() -> None:
    graph, strategy = gpt(), plan(gpt())
    kinds = tuple(replace(kind, host_bandwidth_bytes_per_s=0.0) for kind in CLUSTER.device_kinds)
    job = strategy.job
    away = (Keeping(layers=("*",), on="host"),)
    made = strategy.with_job(job.with_stages(replace(stage, keeping=away) for stage in job.stages))
    with pytest.raises(PlanError, match="whose bandwidth to its host"):
        explorer.simulate(graph, replace(CLUSTER, device_kinds=kinds), default_workload(graph), made)
