"""What published systems send, reproduced from their layouts on the models of the zoo."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.sharding import (
    Override,
    ShardedLayers,
    context_layout,
    expert_layout,
    megatron_layout,
    overrides_of,
    shard,
    shard_stage,
    ulysses_layout,
)
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.strategy import Mesh, Sharding, Stage
from explorer.tasks.program import B, F
from explorer.workload import Workload, default_workload


@pytest.fixture(scope="module")
def gpt() -> LayerGraph:
    return load_model("gpt3-175b")


@pytest.fixture(scope="module")
def llama() -> LayerGraph:
    return load_model("llama3-8b")


@pytest.fixture(scope="module")
def mixtral() -> LayerGraph:
    return load_model("mixtral-8x7b")


def names(graph: LayerGraph) -> tuple[str, ...]:
    return tuple(layer.name for layer in graph.layers)


def ops(collectives: tuple[object, ...]) -> dict[tuple[str, float], int]:
    return dict(Counter((item.op, item.elements_per_sample) for item in collectives))


def by_layer(collectives: tuple[object, ...]) -> list[tuple[str, str]]:
    return [(item.layer.rpartition(".")[2], item.op) for item in collectives]


GPT_SBH = 2048 * 12288
LLAMA_SBH = 8192 * 4096


def test_megatron_block_has_two_all_reduces_each_way(gpt: LayerGraph) -> None:
    result = shard(gpt, gpt.blocks["layers.7"], layout=megatron_layout(), sizes={"tensor": 8})
    assert ops(result.forward) == ops(result.backward) == {("all_reduce", GPT_SBH): 2}
    assert result.partial_gradients == frozenset()
    assert result.regather == ()


@pytest.mark.parametrize("model", ["gpt2-medium", "llama3-8b", "bert-large", "mixtral-8x7b"])
def test_every_transformer_block_has_two_each_way(model: str) -> None:
    graph = load_model(model)
    sbh = graph.defaults.sequence_length * next(
        d.size for x in graph.layers for d in x.dims if d.name == "embed"
    )
    result = shard(graph, graph.blocks["layers.1"], layout=megatron_layout(), sizes={"tensor": 4})
    for collectives in (result.forward, result.backward):
        assert ops([c for c in collectives if c.elements_per_sample >= sbh]) == {("all_reduce", sbh): 2}


def test_sequence_parallelism_replaces_them_by_gather_and_scatter(gpt: LayerGraph) -> None:
    layout = megatron_layout(sequence_parallel=True)
    block = gpt.blocks["layers.7"]
    result = shard(gpt, block, layout=layout, sizes={"tensor": 8})
    expected = {("all_gather", GPT_SBH): 2, ("reduce_scatter", GPT_SBH): 2}
    assert ops(result.forward) == ops(result.backward) == expected
    assert ops(result.regather) == {("all_gather", GPT_SBH): 2}
    norms = {use.name for name in block for use in gpt.layer[name].parameters if "norm" in name}
    assert result.partial_gradients == norms
    assert result.partial_sums[min(norms)] == (("tensor", 8),)
    assert result.tensor_fraction[gpt.layer[block[0]].reads[0].name] == 1 / 8


def test_all_of_a_model(gpt: LayerGraph) -> None:
    """Blocks, one all-reduce of the embedding, three small ones of the loss, one backward of the head."""
    result = shard(gpt, names(gpt), layout=megatron_layout(), sizes={"tensor": 8})
    assert ops(result.forward) == {("all_reduce", GPT_SBH): 2 * 96 + 1, ("all_reduce", 2048): 3}
    assert ops(result.backward) == {("all_reduce", GPT_SBH): 2 * 96 + 1}


def test_stages_together_send_what_the_model_sends(gpt: LayerGraph) -> None:
    """Wherever a model is cut, at its weakest place or not, every collective is paid for exactly once."""
    layout = megatron_layout(sequence_parallel=True)
    whole = shard(gpt, names(gpt), layout=layout, sizes={"tensor": 8})
    cuts = [0, 3, 17, 18, 23, 24, 25, 26, 27, 480, 959, 965]
    forward, backward = Counter(), Counter()
    for start, stop in itertools.pairwise(cuts):
        part = shard(gpt, names(gpt)[start:stop], layout=layout, sizes={"tensor": 8})
        forward.update(item.op for item in part.forward)
        backward.update(item.op for item in part.backward)
    assert forward == Counter(item.op for item in whole.forward)
    assert backward == Counter(item.op for item in whole.backward)


def test_work_and_parameters_of_a_block(llama: LayerGraph) -> None:
    block = llama.blocks["layers.3"]
    result = shard(llama, block, layout=megatron_layout(), sizes={"tensor": 8})
    work = dict(zip(names(llama), result.work.tolist(), strict=True))
    for name in block:
        whole = "norm" in name or name.endswith("add")
        assert work[name] == (1.0 if whole else 1 / 8)
        for use in llama.layer[name].parameters:
            assert result.parameter_fraction[use.name] == work[name]
            assert result.parameter_axes[use.name] == (() if whole else ("tensor",))
    assert {work[n] for n in work if n not in block} == {1.0}


def test_key_value_heads_fewer_than_devices(llama: LayerGraph) -> None:
    result = shard(llama, llama.blocks["layers.3"], layout=megatron_layout(), sizes={"tensor": 16})
    assert result.parameter_fraction["layers.3.attention.k.weight"] == 1 / 8
    assert result.partial_sums["layers.3.attention.k.weight"] == (("tensor", 2),)
    assert result.parameter_fraction["layers.3.attention.q.weight"] == 1 / 16
    assert ops(result.forward) == {("all_reduce", LLAMA_SBH): 2}


def test_sizes_that_do_not_divide_are_noted() -> None:
    graph = load_model("gpt2-small")
    result = shard(graph, graph.blocks["layers.3"], layout=megatron_layout(), sizes={"tensor": 8})
    assert result.parameter_fraction["layers.3.attention.proj.weight"] == pytest.approx(2 / 12)
    assert result.notes == ("heads 12 does not divide by tensor 8: the largest piece, 2, counts",)


def test_context_parallelism_gathers_keys_and_values(llama: LayerGraph) -> None:
    result = shard(llama, llama.blocks["layers.3"], layout=context_layout(), sizes={"context": 4})
    kv = LLAMA_SBH / 4  # 8 of 32 heads
    assert ops(result.forward) == {("all_gather", kv): 2}
    assert ops(result.backward) == {("reduce_scatter", kv): 2}
    assert all(sums == (("context", 4),) for sums in result.partial_sums.values())
    assert len(result.partial_sums) == 9


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_of_a_fused_tensor_only_keys_and_values_are_gathered(devices: int) -> None:
    """GPT-2: queries, keys and values in one tensor of 3 S h, of which each device gathers 2 S h.

    The backward gathers them again, and reduce-scatters their gradients: as with three tensors.
    """
    graph = load_model("gpt2-small")
    result = shard(graph, graph.blocks["layers.3"], layout=context_layout(), sizes={"context": devices})
    both = 2 * graph.defaults.sequence_length * 768
    assert ops(result.forward) == ops(result.regather) == {("all_gather", both): 1}
    assert ops(result.backward) == {("reduce_scatter", both): 1}


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_a_device_sends_its_part_of_keys_and_values(devices: int) -> None:
    """(c - 1) / c of K and V in every block, forward; that and their gradients backward."""
    graph, cluster = load_model("gpt2-small"), load_cluster("dgx-a100")
    job = default_workload(graph).with_job(global_batch=1, precision="bf16").job
    strategy = uniform(graph, cluster, job, stages=1, context=devices, microbatch_size=1)
    report = simulate(graph, cluster, Workload(jobs=(job,)), strategy)
    program, prices = report.timeline.program, report.timeline.prices
    sent = {slot.kind: prices.lane_bytes[number] for number, slot in enumerate(program.slots)}
    once = 12 * (devices - 1) / devices * 2 * job.sequence_length * 768 * 2
    assert sent[F] == pytest.approx(once)
    assert sent[B] == pytest.approx(2 * once)


def test_ulysses_sends_four_all_to_alls_each_way(llama: LayerGraph) -> None:
    result = shard(llama, llama.blocks["layers.3"], layout=ulysses_layout(), sizes={"context": 4})
    expected = {("all_to_all", LLAMA_SBH / 4): 2, ("all_to_all", LLAMA_SBH / 16): 2}
    assert ops(result.forward) == ops(result.backward) == expected


def _mixtral_stage(graph: LayerGraph, replicas: int, experts: int) -> Stage:
    devices = tuple(range(replicas))
    mesh = Mesh(devices=devices, axes=(("replica", replicas // experts), ("expert", experts)))
    sharding = Sharding(layers=("*.experts*",), layout=expert_layout(), meshes=(mesh,))
    return Stage(layers=graph.blocks["layers.1"], meshes=(Mesh(devices=devices),), shardings=(sharding,))


def test_experts_over_the_data_parallel_ranks(mixtral: LayerGraph) -> None:
    """Mixtral over 16 ranks, 8 of them for the experts: every rank sends its tokens twice each way."""
    result = shard_stage(mixtral, _mixtral_stage(mixtral, 16, 8))
    sbh = mixtral.defaults.sequence_length * 4096
    assert ops(result.forward) == ops(result.backward) == {("all_to_all", 2 * sbh): 2}
    assert {item.axis for item in result.forward} == {"expert"}
    expert = "layers.1.moe.experts.gate"
    assert result.parameter_fraction[expert] == 1 / 8
    assert result.parameter_axes[expert] == ("expert",)
    assert result.carved == {f"layers.1.moe.experts.{part}": 8.0 for part in ("gate", "up", "down")}
    assert result.partial_gradients == frozenset()
    np.testing.assert_array_equal(result.work, 1.0)  # an eighth of the experts, for eight times the samples


def test_experts_inside_a_replica(mixtral: LayerGraph) -> None:
    """Over an axis with equal samples each device sends its part of the sequence, and gathers the sum."""
    result = shard(mixtral, mixtral.blocks["layers.1"], layout=expert_layout(), sizes={"expert": 8})
    sbh = mixtral.defaults.sequence_length * 4096
    assert ops(result.forward) == {("all_to_all", 2 * sbh / 8): 2, ("all_gather", sbh): 1}
    assert result.work[mixtral.index["layers.1.moe.experts"]] == 1 / 8


def test_experts_over_tensor_and_data_ranks(mixtral: LayerGraph) -> None:
    """4 replicas x 2 tensor become 8 for experts: a rank sends the half of the tokens that it has."""
    override = Override(layers=("*.experts*",), layout=expert_layout(), sizes=(("expert", 8),))
    result = shard(
        mixtral,
        mixtral.blocks["layers.1"],
        layout=megatron_layout(sequence_parallel=True),
        sizes={"tensor": 2},
        overrides=(override,),
    )
    sbh = mixtral.defaults.sequence_length * 4096
    sent = [item.elements_per_sample for item in result.forward if item.op == "all_to_all"]
    assert sent == [sbh, sbh]
    assert result.carved["layers.1.moe.experts.gate"] == 4


def test_tied_embeddings_are_one_shard() -> None:
    graph = load_model("gpt2-small")
    result = shard(graph, names(graph), layout=megatron_layout(), sizes={"tensor": 4})
    shared = [
        p for p in graph.parameters if sum(u.name == p.name for x in graph.layers for u in x.parameters) > 1
    ]
    assert [result.parameter_axes[item.name] for item in shared] == [("tensor",)]


def test_overrides_come_from_a_stage(mixtral: LayerGraph) -> None:
    stage = _mixtral_stage(mixtral, 4, 2)
    assert overrides_of(stage) == (
        Override(layers=("*.experts*",), layout=(("experts", "expert"),), sizes=(("expert", 2),)),
    )


def test_equal_calls_give_the_same_object(gpt: LayerGraph) -> None:
    def again() -> ShardedLayers:
        return shard(gpt, tuple(names(gpt)[:40]), layout=megatron_layout(), sizes={"tensor": 4, "replica": 3})

    assert again() is again()


def test_without_layout_nothing_is_split_or_sent(llama: LayerGraph) -> None:
    result = shard(llama, names(llama), sizes={"replica": 8, "tensor": 4})
    assert (result.forward, result.backward, result.notes) == ((), (), ())
    assert set(result.parameter_fraction.values()) == set(result.tensor_fraction.values()) == {1.0}
    assert result.work.sum() == len(llama.layers)


def test_equal_blocks_are_resolved_once(gpt: LayerGraph) -> None:
    """What makes a cold call fast: 965 layers have a dozen distinct plans."""
    from explorer.sharding.stage import GraphSharding, Request

    found = GraphSharding(gpt, Request(megatron_layout(), (("tensor", 8),), ()))
    assert len({id(plan) for plan in found.plans}) < 20
