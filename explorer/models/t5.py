"""T5: encoder and decoder with RMS norms, relative position biases, relu, and no bias in any product.

This is version 1.0: one embedding for both halves and the head. Self-attention adds a bias by relative
position to its scores, looked up once in each half, so the scores are in memory. Dropout is left out.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder, Value

PAPER = "Raffel et al. 2019, Exploring the Limits of Transfer Learning with T5, arXiv:1910.10683, section 3.7"
_LAYERS, _EMBED, _HEADS, _FFN, _VOCAB, _BUCKETS = 24, 1024, 16, 4096, 32128, 32
_HEAD = _EMBED // _HEADS
_TOKENS, _TARGETS = 512, 114


def _relative_bias(b: GraphBuilder, name: str, seq: float) -> Value:
    """Add one half's bias of attention scores: a table's row for each bucket of distances."""
    table = b.parameter(f"{name}.weight", {"": _BUCKETS, "heads": _HEADS})
    y = b.output(name, {"heads": _HEADS, "seq": seq, "kv_seq": seq}, [], [table])
    moved = Work(moved_elements=2 * y.elements)
    b.layer(name, "embedding", reads=[], writes=[y], weights=[table], forward=moved, weight_grad=moved)
    return y


def _attention(b: GraphBuilder, part: str, x: Value, source: Value | None, bias: Value | None) -> Value:
    """Add norm, attention to `source` (None for self-attention) in parts, projection and addition."""
    h = b.norm(f"{part}.norm", x, bias=False)
    read = source or h
    q, k, v = (
        b.linear(f"{part}.{name}", y, {"heads": _HEADS, "head": _HEAD})
        for name, y in (("q", h), ("k", read), ("v", read))
    )
    mixed = b.attention_parts(part, q, k, v, heads=_HEADS, head=_HEAD, bias=bias)
    out = b.linear(f"{part}.o", mixed, {"embed": _EMBED}, over=("heads", "head"))
    return b.add(f"{part}.add", out, x)


def _feed_forward(b: GraphBuilder, x: Value) -> Value:
    h = b.linear("mlp.up", b.norm("mlp.norm", x, bias=False), {"ffn": _FFN})
    h = b.activation("mlp.relu", h, saves="output")
    return b.add("mlp.add", b.linear("mlp.down", h, {"embed": _EMBED}, over=("ffn",)), x)


def _half(b: GraphBuilder, name: str, tokens: Value, source: Value | None) -> Value:
    """Add the encoder, or, given a `source`, the decoder that reads it."""
    x = b.embedding(f"{name}.embed", tokens, {"vocab": _VOCAB}, {"embed": _EMBED}, weight="embed.weight")
    bias = _relative_bias(b, f"{name}.bias", tokens.size("seq"))
    for i in range(_LAYERS):
        with b.block(f"{name}.{i}"):
            x = _attention(b, "attention", x, None, bias)
            if source is not None:
                x = _attention(b, "cross", x, source, None)
            x = _feed_forward(b, x)
    return b.norm(f"{name}.norm", x, bias=False)


@SOURCES.add("t5-large", title="T5 large", paper=PAPER, family="t5", parameters=737_668_096)
def t5_large(*, sequence_length: int | None = None) -> LayerGraph:
    """Build T5-large: 24 blocks of width 1024 per half; the decoder reads 114 tokens, the encoder 512.

    The count is version 1.0's, with one embedding that is also the head; version 1.1 has other shapes.
    """
    seq = sequence_length or _TOKENS
    # Sections 3.1.2 and 3.1.4: batch 128 of 512 tokens, AdaFactor; Adam stands for it. Inputs of 512 tokens
    # have targets of 114.
    defaults = Defaults(global_batch=128, sequence_length=seq, precision="bf16", optimizer="adam")
    b = GraphBuilder("t5-large", defaults=defaults, source=PAPER)
    length = max(1, seq * _TARGETS // _TOKENS)
    tokens = b.input("tokens", {"seq": seq}, dtype="int64")
    shifted, targets = (b.input(name, {"seq": length}, dtype="int64") for name in ("shifted", "targets"))
    x = _half(b, "decoder", shifted, _half(b, "encoder", tokens, None))
    b.loss("loss", b.linear("head", x, {"vocab": _VOCAB}, weight="embed.weight"), targets)
    return b.build()
