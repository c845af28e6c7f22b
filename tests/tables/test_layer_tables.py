"""Layers and edges: a graph put together from tables costs what the simulator's pricer says of the same."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.cluster import Cluster, Level
from explorer.cluster_profiles import load_cluster
from explorer.costs.stragglers import stage_factor
from explorer.graph import Dim, Layer, LayerGraph, Parameter, Tensor, Use, Work
from explorer.models import load_model
from explorer.pricing import Pricer
from explorer.simulation.simulate import simulate
from explorer.strategy import JobStrategy, Mesh, Sharding, Stage, Strategy
from explorer.tables import (
    Assembled,
    EdgeTable,
    LayerChoice,
    LayerTable,
    OptionTable,
    assemble,
    lane_of,
    layer_choices,
    with_choices,
)
from explorer.tasks.placement import place
from explorer.tasks.program import REDUCE, U
from explorer.workload import Job, default_workload
from tests.random_plans import cluster_of
from tests.sharding.random_graphs import small_models

CLOSE = 1e-12
"""Relative: sums of the same numbers in another order."""
MESHES = {
    "one axis": (("tensor", 4),),
    "replicas": (("replica", 2), ("tensor", 4)),
    "two axes": (("a", 2), ("tensor", 4)),
    "replicas inside": (("a", 2), ("replica", 2), ("tensor", 2)),
}
ZOO = ("gpt2-small", "inception-v3", "mixtral-8x7b", "gnmt-8", "resnet50")


@cache
def model(name: str) -> LayerGraph:
    return load_model(name)


def stage_of(graph: LayerGraph, mesh: str, **more: object) -> Stage:
    """All layers on one mesh, with a microbatch of two samples per replica."""
    axes = MESHES[mesh]
    count = int(np.prod([size for _, size in axes]))
    made = Mesh(devices=tuple(range(count)), axes=axes)
    names = tuple(layer.name for layer in graph.layers)
    return Stage(layers=names, meshes=(made,), microbatch_samples=2 * made.replicas, **more)


def table_of(graph: LayerGraph, cluster: Cluster, stage: Stage, *, samples: bool = True) -> EdgeTable:
    """The tables of a stage with every choice there is."""
    lane = lane_of(graph, cluster, job_of(graph), stage)
    return EdgeTable(LayerTable(lane, layer_choices(graph, stage, samples=samples)))


def job_of(graph: LayerGraph) -> Job:
    return default_workload(graph).with_job(global_batch=8).job


def assert_priced(found: Assembled, cluster: Cluster) -> None:
    """Seconds, bytes sent and memory are those of the strategy that has made the same choices."""
    lane = found.layers.lane
    stage = with_choices(lane.graph, lane.stage, found.layers.choices, found.chosen.tolist())
    strategy = JobStrategy(stages=(stage,))
    placed = place(lane.graph, strategy, training=lane.job.training)
    pricer = Pricer(lane.graph, cluster, lane.job, strategy, placed)
    expected = pricer.section_time(0, stage.meshes[0].devices[0], lane.samples)
    np.testing.assert_allclose(found.time(), expected, rtol=CLOSE)
    assert found.memory() == pricer.memory(0)


def assert_same(found: Assembled, expected: Assembled) -> None:
    """One assembled by changes, and one at once."""
    np.testing.assert_array_equal(found.chosen, expected.chosen)
    np.testing.assert_allclose(found.compute_s, expected.compute_s, rtol=CLOSE)
    np.testing.assert_allclose(found.slack_s, expected.slack_s, rtol=CLOSE)
    np.testing.assert_allclose(found.lane, expected.lane, rtol=CLOSE)
    np.testing.assert_allclose(found.time(), expected.time(), rtol=CLOSE)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", ZOO)
def test_zoo_models_are_priced_as_by_the_simulator(name: str, mesh: str) -> None:
    cluster, graph = load_cluster("dgx-a100"), model(name)
    table = table_of(graph, cluster, stage_of(graph, mesh))
    rng = np.random.default_rng(len(name))
    count = len(table.layers.choices)
    few = rng.integers(0, count, len(graph.layers))
    few[rng.random(len(few)) < 0.8] = int(rng.integers(count))
    for chosen in (np.full(len(few), count - 1), few):
        assert_priced(assemble(table, chosen), cluster)


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
@pytest.mark.parametrize("overlap", [(), (("tensor", "tiles"),), (("tensor", "weight_gradient"),)])
def test_recomputed_and_hidden(recompute: str, overlap: tuple[tuple[str, str], ...]) -> None:
    cluster, graph = load_cluster("dgx-a100"), model("gpt2-small")
    table = table_of(graph, cluster, stage_of(graph, "one axis", recompute=recompute, overlap=overlap))
    chosen = np.random.default_rng(3).integers(0, len(table.layers.choices), len(graph.layers))
    found = assemble(table, chosen)
    assert_priced(found, cluster)
    changed = found.changed({5: 0, 77: 1})
    assert_priced(changed, cluster)


def test_a_ring_runs_behind_attention() -> None:
    cluster, graph = load_cluster("dgx-a100"), model("llama3-8b")
    stage = stage_of(graph, "one axis")
    ring = LayerChoice((("seq", "tensor"), ("ring", "tensor")))
    lane = lane_of(graph, cluster, job_of(graph), stage)
    table = EdgeTable(LayerTable(lane, (ring, *layer_choices(graph, stage))))
    found = assemble(table, np.zeros(len(graph.layers), dtype=np.int64))
    assert_priced(found, cluster)
    assert_priced(found.changed({9: 3}), cluster)


def test_the_devices_of_a_row_are_of_two_kinds() -> None:
    graph = model("gpt2-small")
    cluster = load_cluster("mixed-v100-a100")
    kinds = [cluster.kind_of(device).name for device in range(cluster.device_count)]
    border = next(k for k in range(len(kinds)) if kinds[k] != kinds[0])
    mesh = Mesh(devices=tuple(range(border - 2, border + 2)), axes=(("tensor", 4),))
    stage = replace(stage_of(graph, "one axis"), meshes=(mesh,))
    table = table_of(graph, cluster, stage)
    assert len(table.layers.lane.kinds) == 2
    chosen = np.random.default_rng(5).integers(0, len(table.layers.choices), len(graph.layers))
    assert_priced(assemble(table, chosen).changed({3: 1}), cluster)


@pytest.mark.parametrize("name", ZOO)
def test_a_change_is_what_the_whole_is_afterwards(name: str) -> None:
    cluster, graph = load_cluster("dgx-a100"), model(name)
    table = table_of(graph, cluster, stage_of(graph, "replicas"))
    rng, count = np.random.default_rng(1), len(table.layers.choices)
    first = now = assemble(table, np.zeros(len(graph.layers), dtype=np.int64))
    before = first.time()
    for _ in range(20):
        layers = rng.integers(0, len(graph.layers), int(rng.integers(1, 4)))
        now = now.changed({int(i): int(rng.integers(count)) for i in layers})
    assert_same(now, assemble(table, now.chosen))
    assert first.time() == before, "a change leaves what it came from as it was"


@settings(max_examples=60)
@given(st.data(), small_models(), st.sampled_from(sorted(MESHES)))
def test_random_models(data: st.DataObject, graph: LayerGraph, mesh: str) -> None:
    cluster = load_cluster("dgx-a100")
    table = table_of(graph, cluster, stage_of(graph, mesh))
    numbers = st.integers(0, len(table.layers.choices) - 1)
    found = assemble(
        table, data.draw(st.lists(numbers, min_size=len(graph.layers), max_size=len(graph.layers)))
    )
    assert_priced(found, cluster)
    layers = st.integers(0, len(graph.layers) - 1)
    for change in data.draw(st.lists(st.dictionaries(layers, numbers, max_size=3), max_size=3)):
        found = found.changed(change)
    assert_same(found, assemble(table, found.chosen))
    assert_priced(found, cluster)


def test_some_layers_are_summed_alone() -> None:
    cluster, graph = load_cluster("dgx-a100"), model("gpt2-small")
    found = assemble(table_of(graph, cluster, stage_of(graph, "one axis")), [1] * len(graph.layers))
    half = np.arange(len(graph.layers) // 2)
    rest = np.arange(len(half), len(graph.layers))
    forward = [found.time(part).forward_s for part in (half, rest, None)]
    lane = found.layers.lane
    call = max(kind.software.action_overhead_s for kind in lane.kinds)
    call *= stage_factor(lane.kinds, lane.devices)
    assert forward[0] + forward[1] - call == pytest.approx(forward[2], rel=1e-9)


# ---- what planners read ---------------------------------------------------------------------------


def chain(graph: LayerGraph) -> bool:
    """Whether every tensor has one reader at most."""
    reads = [use.name for layer in graph.layers for use in layer.reads]
    return len(reads) == len(set(reads))


@settings(max_examples=60)
@given(st.data(), small_models(most=5).filter(chain))
def test_on_a_chain_layers_and_edges_add_up(data: st.DataObject, graph: LayerGraph) -> None:
    graph = replace(graph, layers=tuple(replace(layer, block="") for layer in graph.layers))
    cluster = load_cluster("dgx-a100")
    table = table_of(graph, cluster, stage_of(graph, "one axis"))
    options = [table.options.of(i) for i in range(len(graph.layers))]
    rows = [data.draw(st.integers(0, len(item.choices) - 1)) for item in options]
    found = assemble(table, [int(item.choices[row]) for item, row in zip(options, rows, strict=True)])
    first = [table.layers.first_plan(i, int(found.chosen[i])) for i in range(len(rows))]
    assume(first == found.plan.tolist())  # nothing follows its input
    comm = sum(item.comm_s[row] for item, row in zip(options, rows, strict=True))
    sent = np.zeros(2)
    for a, b in table.neighbours():
        edge = table.matrix(a, b)
        comm, sent = comm + edge.seconds[rows[a], rows[b]], sent + edge.bytes[rows[a], rows[b]]
    reading = [table.of(t, None, [int(found.plan[i]) for i, _ in table.layers.wires.readers[t]])
               for t, source in enumerate(table.layers.wires.writer) if source is None]  # fmt: skip
    for item in itertools.chain(*map(table.sent, reading)):  # the input of the model
        comm[min(item.way, 1)] += item.seconds
    np.testing.assert_allclose(comm, found.lane[:2].sum(axis=1), rtol=CLOSE, atol=1e-18)
    np.testing.assert_allclose([item.compute_s[row] for item, row in zip(options, rows, strict=True)],
                               found.compute_s.T, rtol=CLOSE)  # fmt: skip


@pytest.mark.parametrize("mesh", MESHES)
def test_gradients_are_added_up_in_the_seconds_that_a_step_takes_for_them(mesh: str) -> None:
    """Of a model with one weight, under every choice: reductions, or the sums of a lane before its update."""
    graph = _one_product()
    cluster, stage = load_cluster("dgx-a100"), stage_of(graph, mesh)
    workload = default_workload(graph).with_job(global_batch=2 * stage.microbatch_samples)
    table = LayerTable(lane_of(graph, cluster, workload.job, stage), layer_choices(graph, stage))
    options = OptionTable(table).of(0)
    for row, choice in enumerate(options.choices.tolist()):
        chosen = with_choices(graph, stage, table.choices, [choice])
        strategy = Strategy(jobs=(JobStrategy(stages=(chosen,)),))
        timeline = simulate(graph, cluster, workload, strategy).timeline
        prices = timeline.prices
        added = sum(
            prices.seconds[k] if slot.kind == REDUCE else prices.comm_s[k]
            for k, slot in enumerate(timeline.program.slots)
            if slot.kind in (REDUCE, U)
        )
        assert options.sync_s[row] == pytest.approx(added, rel=CLOSE), table.choices[choice]
    assert (options.sync_s > 0).any()


def _one_product() -> LayerGraph:
    work = Work(flops=2.0 * 8 * 64 * 128, moved_elements=8.0 * (64 + 128))
    layer = Layer(
        name="product",
        kind="linear",
        dims=(Dim(name="seq", size=8), Dim(name="embed", size=64), Dim(name="ffn", size=128)),
        reads=(Use(name="x", dims=("seq", "embed")),),
        writes=(Use(name="y", dims=("seq", "ffn")),),
        parameters=(Use(name="w", dims=("embed", "ffn")),),
        forward=work,
        weight_grad=work,
        saves=("x",),
    )
    tensors = (Tensor(name="x", shape=(8, 64), backward=False), Tensor(name="y", shape=(8, 128)))
    return LayerGraph(
        name="one", layers=(layer,), tensors=tensors, parameters=(Parameter(name="w", shape=(64, 128)),)
    )


def _chain_planner(table: EdgeTable) -> float:
    """The least seconds of a microbatch over all choices: PaSE's dynamic program on a chain."""
    layers = range(len(table.layers.wires.reads))
    options = [table.options.of(i) for i in layers]
    own = [item.compute_s.sum(axis=1) + item.comm_s.sum(axis=1) for item in options]
    best = own[0]
    for i in layers[1:]:
        best = (best[:, None] + table.matrix(i - 1, i).seconds.sum(axis=2)).min(axis=0) + own[i]
    return float(best.min())


@settings(max_examples=15)
@given(st.lists(st.sampled_from(["embed", "ffn"]), min_size=1, max_size=3), st.sampled_from(["link", "slow"]))
def test_a_planner_on_tables_finds_what_brute_force_finds(widths: list[str], link: str) -> None:
    graph = _products(widths)
    level = Level(
        name=link,
        kind="nvlink",
        scope="all",
        latency_s=1e-6,
        bandwidth_bytes_per_s=1e8 if link == "slow" else 1e10,
    )
    cluster = cluster_of((level,))  # without a host that issues kernels: no time to hide anything in
    stage = replace(stage_of(graph, "one axis"), microbatch_samples=4)
    job = default_workload(graph).with_job(global_batch=8, precision="fp32").job
    table = EdgeTable(LayerTable(lane_of(graph, cluster, job, stage), layer_choices(graph, stage)))
    choices = [table.options.of(i).choices.tolist() for i in range(len(graph.layers))]
    best = min(sum(assemble(table, chosen).time()[:3]) for chosen in itertools.product(*choices))
    assert _chain_planner(table) == pytest.approx(best, rel=1e-9)


def _products(widths: list[str]) -> LayerGraph:
    """A chain of products from one width to the next, each a block of its own."""
    sizes = {"embed": 16.0, "ffn": 32.0}
    layers, parameters, tensors = [], [], [Tensor(name="t0", shape=(8.0, 16.0), backward=False)]
    for i, (source, out) in enumerate(itertools.pairwise(["embed", *widths])):
        dims = tuple(dict.fromkeys(["seq", f"{source}{i}", f"{out}{i + 1}"]))
        work = Work(flops=2 * 8 * sizes[source] * sizes[out], moved_elements=8 * (sizes[source] + sizes[out]))
        size = {"seq": 8.0, f"{source}{i}": sizes[source], f"{out}{i + 1}": sizes[out]}
        layers.append(
            Layer(
                name=f"layer{i}",
                kind="linear",
                dims=tuple(Dim(name=dim, size=size[dim]) for dim in dims),
                reads=(Use(name=f"t{i}", dims=("seq", f"{source}{i}")),),
                writes=(Use(name=f"t{i + 1}", dims=("seq", f"{out}{i + 1}")),),
                parameters=(Use(name=f"w{i}", dims=(f"{source}{i}", f"{out}{i + 1}")),),
                forward=work,
                input_grad=work,
                weight_grad=work,
                saves=(f"t{i}",),
            )
        )
        parameters.append(Parameter(name=f"w{i}", shape=(sizes[source], sizes[out])))
        tensors.append(Tensor(name=f"t{i + 1}", shape=(8.0, sizes[out])))
    return LayerGraph(
        name="chain", layers=tuple(layers), tensors=tuple(tensors), parameters=tuple(parameters)
    )


_WHOLE_AND_SPLIT = (LayerChoice(), LayerChoice((("ffn", "tensor"),)))


def test_equal_layers_share_their_options_and_equal_plans_are_listed_once() -> None:
    graph = model("gpt2-small")
    table = table_of(graph, load_cluster("dgx-a100"), stage_of(graph, "one axis")).layers
    one, other = (graph.index[f"layers.{k}.mlp.up"] for k in (3, 7))
    every = OptionTable(table)
    assert every.of(one) is every.of(other)
    options = every.of(one)
    plans = {table.first_plan(one, int(choice)) for choice in options.choices}
    assert len(plans) == len(options.choices) < len(table.choices)
    assert (options.sync_s > 0).any(), "devices that work on other samples add up their gradients"
    assert len(options.compute_s) == len(options.comm_s) == len(options.sent_bytes) == len(plans)
    assert every.memory(one) is every.memory(other)
    whole, split = (
        options.choices.tolist().index(table.choices.index(choice)) for choice in _WHOLE_AND_SPLIT
    )
    memory = every.memory(one)
    assert memory[split].weight_bytes == pytest.approx(memory[whole].weight_bytes / 4, rel=1e-3)


def test_choices_cover_dimensions_and_samples() -> None:
    graph = model("gpt2-small")
    stage = stage_of(graph, "one axis")
    every = layer_choices(graph, stage)
    assert LayerChoice() in every
    assert LayerChoice((("ffn", "tensor"),)) in every
    assert LayerChoice((), ()) in every, "data parallelism of one layer"
    assert LayerChoice((), ()) not in layer_choices(graph, stage, samples=False)
    assert len(layer_choices(graph, stage_of(graph, "two axes"))) == len(every) ** 2


# ---- bad input ------------------------------------------------------------------------------------


def test_what_cannot_be_is_refused() -> None:
    graph, cluster = model("gpt2-small"), load_cluster("dgx-a100")
    stage = stage_of(graph, "one axis")
    table = table_of(graph, cluster, stage)
    with pytest.raises(InputError, match="choices for"):
        assemble(table, [0])
    with pytest.raises(InputError, match="choices for"):
        assemble(table, [len(table.layers.choices)] * len(graph.layers))
    with pytest.raises(InputError, match="mesh axis 'expert'"):
        LayerTable(table.layers.lane, (LayerChoice((("ffn", "expert"),)),))
    with pytest.raises(InputError, match="no choice"):
        LayerTable(table.layers.lane, ())
    own = replace(stage, shardings=(Sharding(layers=("*",)),))
    with pytest.raises(InputError, match="shardings"):
        lane_of(graph, cluster, job_of(graph), own)
    with pytest.raises(InputError, match="a stage with exceptions"):
        with_choices(graph, own, table.layers.choices, [0] * len(graph.layers))


def test_gathers_that_a_backward_repeats_are_sent_and_take_no_seconds_of_their_own() -> None:
    """Context parallelism by gathers: keys and values of a fused product, inside the attention."""
    graph = model("gpt2-small")
    stage = stage_of(graph, "one axis")
    gathers = LayerChoice((("seq", "tensor"),))
    table = LayerTable(lane_of(graph, load_cluster("dgx-a100"), job_of(graph), stage), (gathers,))
    every, found = OptionTable(table), assemble(EdgeTable(table), [0] * len(graph.layers))
    for i, layer in enumerate(graph.layers):
        inside = [(item.way, *table.kind_cost(item.kind)) for item in table.inner_of(i, int(found.plan[i]))]
        options = every.of(i)
        seconds = [sum(s for way, s, _ in inside if way == k) for k in (0, 1)]
        sent = [sum(b for way, _, b in inside if min(way, 1) == k) for k in (0, 1)]
        np.testing.assert_allclose(options.comm_s[0], seconds, rtol=CLOSE)
        np.testing.assert_allclose(options.sent_bytes[0], sent, rtol=CLOSE)
        assert layer.kind != "attention" or any(way == 2 for way, _, _ in inside)
    assert_priced(found, load_cluster("dgx-a100"))
