"""GPT-2 and GPT-3: pre-norm decoder, learned positions, fused qkv, gelu, head tied to the embedding.

Dropout is left out: large models are trained without it, and its masks would be the only difference.
GPT-3's alternating sparse attention layers are counted dense, as every published estimate of it does.
"""

from __future__ import annotations

from explorer.errors import InputError
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder, Value

GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2"
GPT3 = "Brown et al. 2020, Language Models are Few-Shot Learners, arXiv:2005.14165, table 2.1"
_VOCAB = 50257


def attention_half(b: GraphBuilder, x: Value, heads: int) -> Value:
    """Fused qkv, attention and projection of a block, without norm and addition."""
    embed = x.size("embed")
    head = int(embed) // heads
    qkv = b.linear("attention.qkv", x, {"qkv": 3, "heads": heads, "head": head}, bias=True)
    mixed = b.attention("attention.attention", qkv, heads=heads, head=head)
    return b.linear("attention.proj", mixed, {"embed": embed}, over=("heads", "head"), bias=True)


def feed_forward_half(b: GraphBuilder, x: Value) -> Value:
    """Up to four times the width, gelu, down; without norm and addition."""
    embed = x.size("embed")
    wide = b.activation("mlp.gelu", b.linear("mlp.up", x, {"ffn": 4 * embed}, bias=True))
    return b.linear("mlp.down", wide, {"embed": embed}, over=("ffn",), bias=True)


def positions_within(name: str, sequence_length: int | None, positions: int) -> int:
    """The sequence length to build, `positions` if none is asked for.

    Raises:
        InputError: longer than the table of learned positions.
    """
    seq = sequence_length or positions
    if seq > positions:
        raise InputError(
            f"{name} has {positions} learned positions and cannot read {seq} tokens",
            key="sequence_length",
            found=seq,
            allowed=f"1 to {positions}",
        )
    return seq


def _gpt(
    name: str, *, layers: int, embed: int, heads: int, positions: int, defaults: Defaults, source: str
) -> LayerGraph:
    seq = defaults.sequence_length
    b = GraphBuilder(name, defaults=defaults, source=source)
    tokens, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": _VOCAB}, {"embed": embed})
    x = b.add_table("positions", x, positions)
    for i in range(layers):
        with b.block(f"layers.{i}"):
            x = b.add("attention.add", attention_half(b, b.norm("attention.norm", x), heads), x)
            x = b.add("mlp.add", feed_forward_half(b, b.norm("mlp.norm", x)), x)
    logits = b.linear("head", b.norm("norm", x), {"vocab": _VOCAB}, weight="embed.weight")
    b.loss("loss", logits, targets)
    return b.build()


def _gpt2(name: str, layers: int, embed: int, heads: int, sequence_length: int | None) -> LayerGraph:
    seq = positions_within(name, sequence_length, 1024)
    # Section 2.3: batch 512 of 1024 tokens. The optimizer is GPT-1's Adam; the precision is today's.
    defaults = Defaults(global_batch=512, sequence_length=seq, precision="bf16", optimizer="adamw")
    return _gpt(name, layers=layers, embed=embed, heads=heads, positions=1024, defaults=defaults, source=GPT2)


@SOURCES.add("gpt2-small", title="GPT-2 124M", paper=GPT2, family="gpt", parameters=124_439_808)
def gpt2_small(*, sequence_length: int | None = None) -> LayerGraph:
    """12 blocks of width 768."""
    return _gpt2("gpt2-small", 12, 768, 12, sequence_length)


@SOURCES.add("gpt2-medium", title="GPT-2 355M", paper=GPT2, family="gpt", parameters=354_823_168)
def gpt2_medium(*, sequence_length: int | None = None) -> LayerGraph:
    """24 blocks of width 1024."""
    return _gpt2("gpt2-medium", 24, 1024, 16, sequence_length)


@SOURCES.add("gpt2-xl", title="GPT-2 1.5B", paper=GPT2, family="gpt", parameters=1_557_611_200)
def gpt2_xl(*, sequence_length: int | None = None) -> LayerGraph:
    """48 blocks of width 1600."""
    return _gpt2("gpt2-xl", 48, 1600, 25, sequence_length)


@SOURCES.add("gpt3-175b", title="GPT-3 175B", paper=GPT3, family="gpt", parameters=174_604_259_328)
def gpt3_175b(*, sequence_length: int | None = None) -> LayerGraph:
    """96 blocks of width 12288."""
    seq = positions_within("gpt3-175b", sequence_length, 2048)
    # Table 2.1: 3.2M tokens a step, that is 1,536 samples of 2048 in round numbers (also Megatron-LM's).
    defaults = Defaults(global_batch=1536, sequence_length=seq, precision="bf16", optimizer="adam")
    return _gpt("gpt3-175b", layers=96, embed=12288, heads=96, positions=2048, defaults=defaults, source=GPT3)
