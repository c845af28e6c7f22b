"""Mixtral 8x7B: a Llama-like decoder whose feed-forward is a router and 8 experts, 2 of them per token."""

from __future__ import annotations

from typing import Any

from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models._decoders import tokens_and_targets
from explorer.models._routing import ROUTING, read_routing
from explorer.models.builder import GraphBuilder, Value
from explorer.models.llama import DecoderSize, attention_half, head_and_loss
from explorer.routing import Routing

PAPER = "Jiang et al. 2024, Mixtral of Experts, arXiv:2401.04088, table 1"
_SIZE = DecoderSize(layers=32, embed=4096, heads=32, kv_heads=8, ffn=14336, vocab=32000)
_EXPERTS, _ACTIVE = 8, 2


def _mixture_half(b: GraphBuilder, x: Value, routing: Routing) -> Value:
    h = b.norm("moe.norm", x, bias=False)
    scores = b.router("moe.router", h, _EXPERTS)
    mixed = b.experts("moe.experts", h, scores, ffn=_SIZE.ffn, active=_ACTIVE, routing=routing)
    return b.add("moe.add", mixed, x)


@SOURCES.add(
    "mixtral-8x7b", title="Mixtral 8x7B", paper=PAPER, family="mixtral", parameters=46_702_792_704,
    options=ROUTING,
)  # fmt: skip
def mixtral_8x7b(*, sequence_length: int | None = None, **routing: Any) -> LayerGraph:
    """Build Mixtral 8x7B: 32 blocks of width 4096 with 8 experts each.

    Raises:
        InputError: a routing that cannot be.
    """
    chosen = read_routing(_EXPERTS, **routing)
    seq = sequence_length or 4096
    # How it was trained is unpublished; 4096 tokens and a batch of 256 are what Megatron-Core's public
    # benchmark of this model uses.
    defaults = Defaults(global_batch=256, sequence_length=seq, precision="bf16", optimizer="adamw")
    b = GraphBuilder("mixtral-8x7b", defaults=defaults, source=PAPER)
    tokens, targets = tokens_and_targets(b, seq)
    x = b.embedding("embed", tokens, {"vocab": _SIZE.vocab}, {"embed": _SIZE.embed})
    for i in range(_SIZE.layers):
        with b.block(f"layers.{i}"):
            x = _mixture_half(b, attention_half(b, x, _SIZE), chosen)
    head_and_loss(b, x, targets, _SIZE.vocab)
    return b.build()
