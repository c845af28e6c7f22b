"""Activations of a block with unfused attention and dropout, to the byte.

Korthikanti et al. 2022, Reducing Activation Recomputation in Large Transformer Models, arXiv:2205.05198,
table 2, in 16 bit for microbatch b, tokens s, width h, heads a, tensor parallel size t:

    none                s b h (34 + 5 a s / h)
    tensor              s b h (10 + 24 / t + 5 a s / (h t))
    and sequence        s b h / t (34 + 5 a s / h)
    selective           the same without 5 a s / h
    full                2 s b h
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from explorer.cluster_profiles import load_cluster
from explorer.costs.memory import StageMemory, stage_memory
from explorer.costs.memory_arrays import core_layers
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.sharding import megatron_layout, shard
from explorer.simulation.lane_memory import MEMORY_PARTS
from explorer.simulation.simulate import simulate
from explorer.strategies.uniform import uniform
from explorer.workload import default_workload

SIZES = [(1024, 1024, 16), (2048, 6144, 64), (2048, 12288, 96), (2048, 20480, 128), (2048, 25600, 160)]
"""Tokens, width, heads: a small one, then table 3 of the paper (22B, 175B, 530B, 1T)."""


@lru_cache
def gpt(s: int, h: int, a: int, **more: str) -> LayerGraph:
    settings = {"layers": "2", "embed": str(h), "heads": str(a), "attention": "unfused", "dropout": "true"}
    return load_model("gpt", sequence_length=s, settings={**settings, "positions": str(s), **more})


def block(graph: LayerGraph, recompute: str = "none", *, t: int = 1, sequence: bool = False) -> StageMemory:
    layers = graph.blocks["layers.1"]
    layout = megatron_layout(sequence_parallel=sequence)
    sharded = shard(graph, layers, layout=layout, sizes={"tensor": t})
    return stage_memory(
        graph, layers, sharded, precision="fp16", optimizer="adam", zero=0, replicas=1, recompute=recompute,
        training=True,
    )  # fmt: skip


def kept(*args: Any, **more: Any) -> float:
    return block(*args, **more).activation_bytes_per_sample


@pytest.mark.parametrize(("s", "h", "a"), SIZES)
def test_one_device(s: int, h: int, a: int) -> None:
    graph = gpt(s, h, a)
    assert kept(graph) == s * h * 34 + 5 * a * s * s
    assert kept(graph, "selective") == s * h * 34
    assert kept(graph, "full") == s * h * 2


@pytest.mark.parametrize("t", [2, 4, 8])
@pytest.mark.parametrize(("s", "h", "a"), SIZES)
def test_tensor_parallel(s: int, h: int, a: int, t: int) -> None:
    graph = gpt(s, h, a)
    assert kept(graph, t=t) == s * h * (10 + 24 / t) + 5 * a * s * s / t
    assert kept(graph, "selective", t=t) == s * h * (10 + 24 / t)
    assert kept(graph, "full", t=t) == s * h * 2


@pytest.mark.parametrize("t", [2, 4, 8])
@pytest.mark.parametrize(("s", "h", "a"), SIZES)
def test_tensor_and_sequence_parallel(s: int, h: int, a: int, t: int) -> None:
    graph = gpt(s, h, a)
    assert kept(graph, t=t, sequence=True) == (s * h * 34 + 5 * a * s * s) / t
    assert kept(graph, "selective", t=t, sequence=True) == s * h * 34 / t
    assert kept(graph, "full", t=t, sequence=True) == s * h * 2 / t


@pytest.mark.parametrize("t", [1, 8])
def test_what_is_made_again_at_once(t: int) -> None:
    """Selective: the core of one block; full: all of a block but its input, which is kept anyway."""
    s, h, a = SIZES[2]
    graph = gpt(s, h, a)
    core = 5 * a * s * s / t
    assert block(graph, "selective", t=t).recompute_peak_bytes_per_sample == core
    assert block(graph, "full", t=t).recompute_peak_bytes_per_sample == s * h * (8 + 24 / t) + core


def test_only_the_core_runs_again() -> None:
    """Not the dropouts behind the projection and the feed-forward, whose masks are kept."""
    graph = gpt(*SIZES[0])
    names = [item.name for item, core in zip(graph.layers, core_layers(graph), strict=True) if core]
    parts = ("scores", "softmax", "dropout", "context")
    assert names == [f"layers.{i}.attention.{part}" for i in range(2) for part in parts]


def test_embedding_keeps_its_mask() -> None:
    """Section 4.4: the input embedding's dropout keeps s b h bytes, and with sequence parallelism a part."""
    s, h, a = SIZES[0]
    graph = gpt(s, h, a)
    layers = ("embed", "positions", "embed_dropout")

    def embedding(t: int, *, sequence: bool) -> float:
        layout = megatron_layout(sequence_parallel=sequence)
        sharded = shard(graph, layers, layout=layout, sizes={"tensor": t})
        return stage_memory(
            graph, layers, sharded, precision="fp16", optimizer="adam", zero=0, replicas=1, recompute="none",
            training=True,
        ).activation_bytes_per_sample  # fmt: skip

    tokens = 8 * s
    assert embedding(1, sequence=False) == s * h + tokens
    assert embedding(4, sequence=False) == s * h + tokens
    assert embedding(4, sequence=True) == s * h / 4 + tokens


@pytest.mark.parametrize(("attention", "dropout", "bytes_per_element"), [
    ("fused", "false", 32), ("fused", "true", 34), ("unfused", "false", 32),
])  # fmt: skip
def test_what_attention_and_dropout_change(attention: str, dropout: str, bytes_per_element: int) -> None:
    """A fused kernel keeps an fp32 number a head and row, a softmax without dropout only its output."""
    s, h, a = SIZES[1]
    inner = 4 * a * s if attention == "fused" else 2 * a * s * s
    assert kept(gpt(s, h, a, attention=attention, dropout=dropout)) == s * h * bytes_per_element + inner


def test_a_softmax_in_fp32_keeps_its_output_in_fp32() -> None:
    """Without the fused kernel 4 a s^2 of it instead of 2; selective recomputation drops it all the same."""
    s, h, a = SIZES[1]
    graph = gpt(s, h, a, softmax="plain")
    assert kept(graph) == s * h * 34 + 7 * a * s * s
    assert kept(graph, "selective") == s * h * 34


@pytest.mark.parametrize("kv_heads", [1, 4, 16])
def test_grouped_queries_keep_fewer_keys(kv_heads: int) -> None:
    """2 (s h + 2 s d kv) bytes of queries, keys and values, and 2 a s^2 of the softmax."""
    s, h, a = 512, 2048, 16
    settings = {"layers": "1", "embed": str(h), "heads": str(a), "kv_heads": str(kv_heads), "ffn": "4096"}
    graph = load_model("llama", sequence_length=s, settings={**settings, "attention": "unfused"})
    members = [graph.layer[f"layers.0.attention.{part}"] for part in ("scores", "softmax", "context")]
    names = dict.fromkeys(name for layer in members for name in layer.saves)
    total = sum(graph.tensor[name].bytes_per_sample("bf16") for name in names)
    assert total == 2 * (s * h + 2 * s * h // a * kv_heads) + 2 * a * s * s


def test_products_have_the_flops_of_the_fused_kernel() -> None:
    """Forward and backward, in all and per block, with as many key heads or fewer."""
    cases: list[tuple[str, dict[str, str]]] = [("gpt", {}), ("llama", {"kv_heads": "4"})]
    for family, settings in cases:
        both = [
            load_model(family, sequence_length=256, settings={"layers": "2", **settings, "attention": kind})
            for kind in ("fused", "unfused")
        ]
        fused, parts = (np.array([(x.forward.flops, x.input_grad.flops) for x in g.layers]) for g in both)
        assert fused.sum(axis=0).tolist() == parts.sum(axis=0).tolist()
        assert np.count_nonzero(parts[:, 0]) == np.count_nonzero(fused[:, 0]) + 2


@pytest.mark.parametrize(("recompute", "again"), [("none", 0), ("selective", 5)])
def test_what_is_made_again_is_there_at_the_peak(recompute: str, again: int) -> None:
    """While one block goes backward, its 5 a s^2 b bytes of attention exist beside all that is kept."""
    s, h, a, blocks = 512, 256, 4, 3
    settings = {
        "layers": str(blocks), "embed": str(h), "heads": str(a), "positions": str(s),
        "attention": "unfused", "dropout": "true",
    }  # fmt: skip
    graph = load_model("gpt", sequence_length=s, settings=settings)
    cluster, workload = load_cluster("dgx-a100"), default_workload(graph).with_job(global_batch=1)
    strategy = uniform(graph, cluster, workload.job, stages=1, microbatch_size=1, recompute=recompute)
    report = simulate(graph, cluster, workload, strategy)
    (memory,) = report.timeline.prices.memory
    kept = memory.activation_bytes_per_sample
    activations = report.memory_parts_bytes[0][MEMORY_PARTS.index("activations")]
    assert activations - kept == pytest.approx(again * a * s**2)
