"""Llama 3: RMS norm, grouped-query attention with rotary positions, gated feed-forward, untied head."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder, Value

PAPER = "Llama Team 2024, The Llama 3 Herd of Models, arXiv:2407.21783, table 3"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSize:
    """What a decoder of this family is built from."""

    layers: int
    """Blocks."""
    embed: int
    """Model width."""
    heads: int
    """Query heads."""
    kv_heads: int
    """Key and value heads."""
    ffn: int
    """Feed-forward width."""
    vocab: int = 128256
    """Rows of the embedding."""

    @property
    def head(self) -> int:
        """Head size."""
        return self.embed // self.heads


def attention_half(b: GraphBuilder, x: Value, size: DecoderSize) -> Value:
    """Norm, q, k, v, rope, attention, o and the residual addition."""
    h = b.norm("attention.norm", x, bias=False)
    q = b.linear("attention.q", h, {"heads": size.heads, "head": size.head})
    k = b.linear("attention.k", h, {"kv_heads": size.kv_heads, "head": size.head})
    v = b.linear("attention.v", h, {"kv_heads": size.kv_heads, "head": size.head})
    q, k = b.rope("attention.rope", q, k)
    mixed = b.attention("attention.attention", q, k, v, heads=size.heads, head=size.head)
    out = b.linear("attention.o", mixed, {"embed": size.embed}, over=("heads", "head"))
    return b.add("attention.add", out, x)


def feed_forward_half(b: GraphBuilder, x: Value, size: DecoderSize) -> Value:
    """Norm, gate, up, silu times up as one fused kernel, down and the residual addition."""
    h = b.norm("mlp.norm", x, bias=False)
    gate = b.linear("mlp.gate", h, {"ffn": size.ffn})
    up = b.linear("mlp.up", h, {"ffn": size.ffn})
    product = b.elementwise("mlp.silu_mul", gate, up, saves="inputs")
    out = b.linear("mlp.down", product, {"embed": size.embed}, over=("ffn",))
    return b.add("mlp.add", out, x)


def _llama(name: str, size: DecoderSize, sequence_length: int | None, global_batch: int) -> LayerGraph:
    seq = sequence_length or 8192
    # Section 3.4.1: Adam, 8192 tokens; 405B starts at 4M tokens a step and ends at 16M, the smaller
    # models' batch is not published (4M assumed). Epochs are unknown: 15T tokens are seen about once.
    defaults = Defaults(global_batch=global_batch, sequence_length=seq, precision="bf16", optimizer="adamw")
    b = GraphBuilder(name, defaults=defaults, source=PAPER)
    tokens, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": size.vocab}, {"embed": size.embed})
    for i in range(size.layers):
        with b.block(f"layers.{i}"):
            x = feed_forward_half(b, attention_half(b, x, size), size)
    b.loss("loss", b.linear("head", b.norm("norm", x, bias=False), {"vocab": size.vocab}), targets)
    return b.build()


@SOURCES.add("llama3-8b", title="Llama 3 8B", paper=PAPER, family="llama", parameters=8_030_261_248)
def llama3_8b(*, sequence_length: int | None = None) -> LayerGraph:
    """32 blocks of width 4096."""
    size = DecoderSize(layers=32, embed=4096, heads=32, kv_heads=8, ffn=14336)
    return _llama("llama3-8b", size, sequence_length, 512)


@SOURCES.add("llama3-70b", title="Llama 3 70B", paper=PAPER, family="llama", parameters=70_553_706_496)
def llama3_70b(*, sequence_length: int | None = None) -> LayerGraph:
    """80 blocks of width 8192."""
    size = DecoderSize(layers=80, embed=8192, heads=64, kv_heads=8, ffn=28672)
    return _llama("llama3-70b", size, sequence_length, 512)


@SOURCES.add("llama3-405b", title="Llama 3 405B", paper=PAPER, family="llama", parameters=405_853_388_800)
def llama3_405b(*, sequence_length: int | None = None) -> LayerGraph:
    """126 blocks of width 16384."""
    size = DecoderSize(layers=126, embed=16384, heads=128, kv_heads=8, ffn=53248)
    return _llama("llama3-405b", size, sequence_length, 2048)
