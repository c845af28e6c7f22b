"""Families of models by their sizes: the named models are members, and counts follow closed forms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.models import load_model
from explorer.sharding import megatron_layout, shard


def member(family: str, sequence_length: int | None = None, **sizes: object) -> LayerGraph:
    given = {name: str(size) for name, size in sizes.items()}
    return load_model(family, sequence_length=sequence_length, settings=given)


def leaves(graph: LayerGraph, block: str = "layers.0") -> list[str]:
    return [name.removeprefix(f"{block}.") for name in graph.blocks[block]]


MEMBERS = [
    ("gpt2-small", "gpt", {}),
    ("gpt2-medium", "gpt", {"layers": 24, "embed": 1024, "heads": 16}),
    ("gpt3-175b", "gpt", {"layers": 96, "embed": 12288, "heads": 96, "positions": 2048}),
    ("llama3-8b", "llama", {}),
    ("llama3-70b", "llama", {"layers": 80, "embed": 8192, "heads": 64, "ffn": 28672}),
    ("deepseek-v3", "deepseek", {}),
    ("deepseek-v2", "deepseek", {
        "layers": 60, "dense_layers": 1, "embed": 5120, "ffn": 12288, "experts": 160, "active": 6,
        "expert_ffn": 1536, "shared_ffn": 3072, "vocab": 102400, "balanced": False,
    }),
]  # fmt: skip


@pytest.mark.parametrize(("name", "family", "sizes"), MEMBERS)
def test_named_models_are_members(name: str, family: str, sizes: dict[str, object]) -> None:
    named = load_model(name)
    found = member(family, named.defaults.sequence_length, **sizes)
    assert replace(found, name=name, source=named.source, defaults=named.defaults) == named


def test_equal_sizes_share_one_graph() -> None:
    assert member("gpt", layers=3, dropout=True) is member("gpt", dropout=True, layers=3)


@settings(max_examples=20)
@given(
    st.integers(1, 4), st.integers(1, 8), st.sampled_from([8, 64]), st.integers(1, 5000),
    st.sampled_from([0, 1, 128, 1024]), st.booleans(),
)  # fmt: skip
def test_parameters_of_gpt(layers: int, heads: int, head: int, vocab: int, pad: int, tied: bool) -> None:
    """V h + s h + L (12 h^2 + 13 h) + 2 h, and once more V h for a head of its own."""
    h, s = heads * head, 32
    found = member(
        "gpt", s, layers=layers, embed=h, heads=heads, vocab=vocab, positions=s, pad_vocab_to=pad, tied=tied
    )
    rows = next(n for n in range(vocab, vocab + max(1, pad)) if n % max(1, pad) == 0)
    tables = (1 if tied else 2) * rows * h + s * h
    assert found.parameter_count == tables + layers * (12 * h * h + 13 * h) + 2 * h


@settings(max_examples=20)
@given(
    st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.sampled_from([0, 32]), st.integers(1, 300),
    st.booleans(),
)  # fmt: skip
def test_parameters_of_llama(layers: int, groups: int, kv: int, head: int, ffn: int, tied: bool) -> None:
    """V h (tied) + L (2 h d (a + k) + 3 h f + 2 h) + h for a query heads of size d and k key-value heads."""
    heads, h, vocab = groups * kv, 64 * groups * kv, 1000
    found = member(
        "llama", 16, layers=layers, embed=h, heads=heads, kv_heads=kv, head=head, ffn=ffn, vocab=vocab,
        tied=tied,
    )  # fmt: skip
    block = 2 * h * (head or 64) * (heads + kv) + 3 * h * ffn + 2 * h
    assert found.parameter_count == (1 if tied else 2) * vocab * h + layers * block + h


def test_as_many_key_heads_as_heads() -> None:
    assert member("llama", layers=1, kv_heads=0) == member("llama", layers=1, kv_heads=32)


def test_block_with_dropout_and_scores_in_memory() -> None:
    graph = member("gpt", layers=1, attention="unfused", dropout=True)
    assert leaves(graph) == [
        "attention.norm", "attention.qkv", "attention.scores", "attention.softmax", "attention.dropout",
        "attention.context", "attention.proj", "attention.dropout_add",
        "mlp.norm", "mlp.up", "mlp.gelu", "mlp.down", "mlp.dropout_add",
    ]  # fmt: skip
    assert graph.layer["embed_dropout"].kind == "dropout"
    kinds = {name: graph.layer[f"layers.0.attention.{name}"].kind for name in ("scores", "context")}
    assert kinds == {"scores": "scores", "context": "context"}


def test_dropout_adds_no_parameters_and_no_flops() -> None:
    with_it, without = (member("gpt", layers=2, attention="unfused", dropout=d) for d in (True, False))
    assert with_it.parameter_count == without.parameter_count
    assert with_it.flops_per_sample == without.flops_per_sample
    assert sum(t.dtype == "int8" for t in with_it.tensors) == 1 + 2 * 3
    assert not any(t.dtype == "int8" for t in without.tensors)


def test_only_decoders_hide_what_follows() -> None:
    for name, causal in (
        ("gpt2-small", True),
        ("llama3-8b", True),
        ("bert-large", False),
        ("vit-l16", False),
    ):
        found = {layer.causal for layer in load_model(name).layers if layer.kind == "attention"}
        assert found == {causal}, name


def test_latent_attention() -> None:
    """DeepSeek-V2, section 2.1: scores over heads of 128 + 64, values of 128; 2 s^2 a (192 + 128) FLOPs."""
    s, graph = 512, member("deepseek", 512, layers=2, dense_layers=1)
    layer = graph.layer["layers.0.attention.attention"]
    assert layer.forward.flops == 2 * s * s * 128 * (192 + 128)
    assert [graph.tensor[use.name].shape for use in layer.reads] == [(s, 128, n) for n in (192, 192, 128)]
    assert leaves(graph, "layers.1")[11:] == [
        "moe.norm", "moe.router", "moe.experts", "moe.shared.gate", "moe.shared.up", "moe.shared.silu_mul",
        "moe.shared.down", "moe.sum", "moe.add",
    ]  # fmt: skip
    assert not graph.parameter["layers.1.moe.router.bias"].trainable


def test_latent_attention_gathers_narrow_vectors() -> None:
    """With sequence parallelism: 1536 of the queries, 512 of keys and values and the 64 rotated, not 7168."""
    graph = member("deepseek", 64, layers=1, dense_layers=1)
    names = tuple(name for name in graph.blocks["layers.0"] if ".attention." in name)
    layout = megatron_layout(sequence_parallel=True)
    result = shard(graph, names, layout=layout, sizes={"tensor": 4})
    gathered = [c.elements_per_sample for c in result.forward if c.op == "all_gather"]
    assert gathered == [64 * 1536, 64 * 512, 64 * 64]


def test_the_decoder_reads_the_encoder() -> None:
    graph = load_model("t5-large")
    assert graph.tensor["decoder.0.cross.scores"].shape == (16, 114, 512)
    readers = graph.consumers["encoder.norm"]
    assert readers == tuple(f"decoder.{i}.cross.{part}" for i in range(24) for part in "kv")
    biased = [layer.name for layer in graph.layers if any(u.name == "encoder.bias" for u in layer.reads)]
    assert biased == [f"encoder.{i}.attention.bias" for i in range(24)]


@pytest.mark.parametrize(
    ("family", "sizes", "key"),
    [
        ("gpt", {"layers": 0}, "layers"),
        ("gpt", {"heads": 7}, "heads"),
        ("gpt", {"embed": -768}, "embed"),
        ("gpt", {"pad_vocab_to": -1}, "pad_vocab_to"),
        ("gpt", {"attention": "flash"}, "attention"),
        ("gpt", {"dropout": "perhaps"}, "dropout"),
        ("gpt", {"width": 768}, "width"),
        ("llama", {"kv_heads": 5}, "kv_heads"),
        ("llama", {"embed": 100}, "heads"),
        ("llama", {"ffn": "wide"}, "ffn"),
        ("deepseek", {"layers": 2}, "dense_layers"),
        ("deepseek", {"experts": 4}, "active"),
        ("deepseek", {"rope": 0}, "rope"),
        ("opt-350m", {"attention": "none"}, "attention"),
    ],
)
def test_wrong_sizes_are_named(family: str, sizes: dict[str, object], key: str) -> None:
    with pytest.raises(InputError) as caught:
        member(family, **sizes)
    assert caught.value.key == key


def test_more_tokens_than_positions() -> None:
    with pytest.raises(InputError, match="cannot read 64 tokens"):
        member("gpt", 64, positions=32)
    assert member("gpt", 4096, layers=1).parameter["positions.weight"].shape == (4096, 768)
