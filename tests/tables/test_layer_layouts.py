"""Layouts of single layers: every one that is offered can be simulated, and going back leaves no trace."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer.base.errors import InputError
from explorer.framework import cluster_under
from explorer.framework_files import load_framework
from explorer.graph import LayerGraph
from explorer.simulation.check import check
from explorer.strategies.degrees import Degrees
from explorer.strategies.exceptions import named_layout
from explorer.strategies.moves import groups_of, place_layers
from explorer.strategy import JobStrategy, Stage, Strategy
from explorer.tables.layer_figures import layer_figures
from explorer.tables.layer_layouts import LayerLayout, alike_layers, layer_layouts, with_layout
from explorer.workload import Workload, default_workload

CLUSTER = explorer.load_cluster("dgx-a100")
CASES = {
    "gpt2-small": Degrees(stages=2, tensor=2, replicas=2, microbatch_size=2),
    "gpt2-xl": Degrees(stages=2, tensor=2, context=2, microbatch_size=1),
    "mixtral-8x7b": Degrees(stages=2, tensor=2, replicas=2, expert=4, microbatch_size=1),
    "resnet50": Degrees(stages=1, tensor=4, replicas=2, microbatch_size=4),
}
MODELS = st.sampled_from(sorted(CASES))


@cache
def case(model: str) -> tuple[LayerGraph, Workload, Strategy]:
    graph = explorer.load_model(model)
    workload = default_workload(graph).with_job(global_batch=16)
    strategy = CASES[model].build(graph, CLUSTER, workload.job)
    return graph, workload, strategy


def stage_of(job: JobStrategy, name: str) -> Stage:
    return next(stage for stage in job.stages if name in stage.layers)


def legal(graph: LayerGraph, job: JobStrategy, name: str) -> list[LayerLayout]:
    return [item for item in layer_layouts(graph, stage_of(job, name), name) if not item.problem]


@settings(max_examples=20, deadline=None)
@given(model=MODELS, data=st.data())
def test_every_layout_that_is_offered_can_be_simulated(model: str, data: st.DataObject) -> None:
    graph, workload, strategy = case(model)
    job = strategy.job
    name = data.draw(st.sampled_from([layer.name for layer in graph.layers]))
    names = alike_layers(graph, job, name) if data.draw(st.booleans()) else (name,)
    offered = legal(graph, job, name)
    assert [item.words for item in offered if item.present] == [x.words for x in offered if x.usual]
    assert sum(item.present for item in offered) == 1
    assert len({item.words for item in offered}) == len(offered)
    chosen = data.draw(st.sampled_from(offered))
    made = with_layout(graph, job, names, chosen)
    assert check(graph, CLUSTER, workload, strategy.with_job(made)) == []
    report = explorer.simulate(graph, CLUSTER, workload, strategy.with_job(made))
    assert report.step_time_s > 0
    for other in names:
        now = [item for item in layer_layouts(graph, stage_of(made, other), other) if item.present]
        assert [item.words for item in now] == [chosen.words]
        assert now[0].usual == (named_layout(stage_of(made, other), other) is None)


@settings(max_examples=20, deadline=None)
@given(model=MODELS, data=st.data())
def test_going_back_leaves_no_trace(model: str, data: st.DataObject) -> None:
    graph, _, strategy = case(model)
    job = made = strategy.job
    drawn = data.draw(st.lists(st.sampled_from([layer.name for layer in graph.layers]), max_size=4))
    for name in drawn:
        made = with_layout(graph, made, (name,), data.draw(st.sampled_from(legal(graph, made, name))))
    for name in data.draw(st.permutations(drawn)):
        usual = next(item for item in legal(graph, made, name) if item.usual)
        made = with_layout(graph, made, (name,), usual)
    assert made == job


@settings(max_examples=10, deadline=None)
@given(model=MODELS, data=st.data())
def test_moves_take_exceptions_along(model: str, data: st.DataObject) -> None:
    """A layer keeps a layout of its own where it goes, and the strategy can still be simulated."""
    graph, workload, strategy = case(model)
    names = [layer.name for layer in graph.layers]
    made = strategy.job
    for name in data.draw(st.lists(st.sampled_from(names), max_size=3)):
        made = with_layout(graph, made, (name,), data.draw(st.sampled_from(legal(graph, made, name))))
    layout = {name: words(graph, made, name) for name in names}
    groups = groups_of(made)
    moves = data.draw(st.dictionaries(st.sampled_from(names), st.integers(0, len(groups) - 1), max_size=8))
    moved = place_layers(graph, made, moves)
    assert check(graph, CLUSTER, workload, strategy.with_job(moved)) == []
    assert {name: words(graph, moved, name) for name in names} == layout


def words(graph: LayerGraph, job: JobStrategy, name: str) -> str:
    return next(item.words for item in legal(graph, job, name) if item.present)


def test_a_forbidden_layout_says_its_rule() -> None:
    graph, _, strategy = case("mixtral-8x7b")
    router = "layers.3.moe.router"
    rules = {
        item.words: item.problem
        for item in layer_layouts(graph, stage_of(strategy.job, router), router)
        if item.problem
    }
    assert rules["by experts"] == "a router layer needs all of its experts on one device"
    assert (
        rules["own samples on each device"]
        == "a replica has 1 sample of a microbatch for 2 devices of tensor"
    )
    wrong = next(
        item for item in layer_layouts(graph, stage_of(strategy.job, router), router) if item.problem
    )
    with pytest.raises(InputError, match="router layer"):
        with_layout(graph, strategy.job, (router,), wrong)


def test_figures_say_what_a_layout_saves_and_sends() -> None:
    graph, workload, strategy = case("gpt2-small")
    job, name = strategy.job, "layers.3.mlp.up"
    devices = cluster_under(CLUSTER, load_framework(workload.job.framework))
    found = {}
    for item in legal(graph, job, name):
        made = with_layout(graph, job, (name,), item)
        found[item.words] = layer_figures(graph, devices, workload.job, stage_of(made, name), name)
    split, whole = found["by feed-forward"], found["whole on each device"]
    assert whole.state_bytes == pytest.approx(2 * split.state_bytes, rel=1e-2)  # two devices share each layer
    assert whole.work_s > split.work_s
    assert split.collectives_s == 0 < whole.collectives_s  # what reads it is split as it writes


def test_a_replica_of_one_device_has_nothing_to_split() -> None:
    graph, workload, _ = case("gpt2-small")
    strategy = explorer.uniform(graph, CLUSTER, workload.job, stages=2, replicas=2)
    assert layer_layouts(graph, strategy.job.stages[0], strategy.job.stages[0].layers[0]) == ()
    with pytest.raises(InputError, match="not whole on this stage"):
        layer_layouts(graph, strategy.job.stages[0], strategy.job.stages[1].layers[0])
