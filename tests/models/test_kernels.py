"""Options of the llama and gpt families that say which kernels run and what is made again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from explorer.cluster import DeviceKind
from explorer.costs.compute import layer_times
from explorer.costs.memory import StageMemory, stage_memory
from explorer.costs.memory_arrays import core_layers
from explorer.graph import AGAIN, DROP, KEEP, LayerGraph
from explorer.models import load_model
from explorer.sharding import shard

EMBED, FFN, SEQ, VOCAB, LAYERS, HEADS, KV = 256, 512, 128, 1024, 2, 2, 128
KIND = DeviceKind(
    name="any", memory_bytes=80e9, memory_bandwidth_bytes_per_s=1e12, peak_flops_per_s=(("bf16", 1e15),)
)


def llama(**settings: str) -> LayerGraph:
    sizes = {"layers": LAYERS, "embed": EMBED, "heads": HEADS, "kv_heads": 1, "ffn": FFN, "vocab": VOCAB}
    return load_model(
        "llama", sequence_length=SEQ, settings={**{k: str(v) for k, v in sizes.items()}, **settings}
    )


def memory(graph: LayerGraph, recompute: str) -> StageMemory:
    """Of the second block."""
    block = graph.blocks["layers.1"]
    return stage_memory(
        graph, block, shard(graph, block), precision="bf16", optimizer="adamw", zero=0, replicas=1,
        recompute=recompute, training=True,
    )  # fmt: skip


def test_eager_kernels_move_more_and_keep_more() -> None:
    fused, eager = llama(), llama(kernels="eager")
    assert fused.parameter_count == eager.parameter_count
    assert [layer.name for layer in fused.layers] == [layer.name for layer in eager.layers]
    norm = eager.layer["layers.0.mlp.norm"]
    assert norm.forward.moved_elements == 18 * SEQ * EMBED
    assert norm.input_grad.moved_elements == (42 + 3) * SEQ * EMBED  # gate and up read it
    assert eager.layer["layers.0.attention.norm"].input_grad.moved_elements == (42 + 6) * SEQ * EMBED
    assert eager.layer["layers.0.mlp.silu_mul"].forward.moved_elements == 5 * SEQ * FFN
    slow, fast = (layer_times(graph, KIND, samples=1, precision="bf16") for graph in (eager, fused))
    assert (slow.sum(axis=0) >= fast.sum(axis=0) * (1 - 1e-12)).all()
    # Of each norm 4 bytes an element more, and silu's output.
    more = SEQ * (2 * 4 * EMBED + 2 * FFN)
    first, second = (memory(graph, "none").activation_bytes_per_sample for graph in (fused, eager))
    # The sum of the attention is kept once as the second norm's input in bf16, and by it alone in fp32.
    assert 0 < second - first <= more


def test_the_operators_policy_keeps_every_other_product_and_attention() -> None:
    graph = llama(selective="operators")
    said = {name.removeprefix("layers.1."): graph.layer[name].selective for name in graph.blocks["layers.1"]}
    assert [name for name in said if said[name] == KEEP] == [
        "attention.q", "attention.v", "attention.attention", "mlp.gate", "mlp.down",
    ]  # fmt: skip
    assert [name for name in ("attention.k", "attention.o", "mlp.up") if said[name] != AGAIN] == []
    assert said["mlp.add"] == DROP
    assert graph.layer["head"].selective == graph.layer["embed"].selective == ""


def test_kept_bytes_of_the_operators_policy() -> None:
    """Of a block: its input, q, v, attention's output with 4 bytes a head and token, gate and down."""
    graph = llama(selective="operators")
    assert memory(graph, "full") == memory(llama(), "full")
    found = memory(graph, "selective").activation_bytes_per_sample
    assert found == SEQ * (2 * (EMBED + EMBED + KV + EMBED + FFN + EMBED) + 4 * HEADS)
    assert memory(graph, "none").activation_bytes_per_sample > found


def test_the_blocks_policy_spares_the_last_product() -> None:
    graph = llama(selective="blocks")
    again = core_layers(graph)
    inside = [i for i, layer in enumerate(graph.layers) if layer.block]
    spared = {graph.layers[i].name for i in inside if not again[i]}
    assert spared == {f"layers.{i}.mlp.{part}" for i in range(LAYERS) for part in ("down", "add")}
    kept, full = memory(graph, "selective"), memory(graph, "full")
    assert kept.activation_bytes_per_sample == full.activation_bytes_per_sample


def test_sums_apart_cost_three_passes_over_the_weights() -> None:
    settings = {"layers": "2", "embed": "256", "heads": "4", "vocab": "1024", "tied": "false"}
    fused, apart = (
        load_model("gpt", sequence_length=SEQ, settings={**settings, "accumulation": how})
        for how in ("fused", "separate")
    )
    extra = layer_times(apart, KIND, samples=1, precision="bf16") - layer_times(
        fused, KIND, samples=1, precision="bf16"
    )
    weights = np.array([
        sum(apart.parameter[use.name].elements for use in layer.parameters) if layer.kind == "linear" else 0
        for layer in apart.layers
    ])  # fmt: skip
    assert extra[:2] == pytest.approx(0)
    assert extra[2] == pytest.approx(3 * 2 * weights / KIND.memory_bandwidth_bytes_per_s)


def test_a_policy_changes_nothing_else() -> None:
    plain, marked = llama(), llama(selective="operators")
    assert tuple(replace(layer, selective="") for layer in marked.layers) == plain.layers
