"""OPT-350M: the one OPT with post-norm blocks and an embedding narrower than the model."""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models._decoders import ATTENTION, positions_within, tokens_and_targets
from explorer.models.builder import GraphBuilder, Value
from explorer.models.gpt import attention_half, feed_forward_half, residual

PAPER = "Zhang et al. 2022, OPT: Open Pre-trained Transformer Language Models, arXiv:2205.01068, table 1"
_VOCAB, _WORD, _EMBED, _HEADS, _LAYERS, _POSITIONS = 50272, 512, 1024, 16, 24, 2048
_OFFSET = 2
"""Rows of the table of positions that no token uses."""


def _block(b: GraphBuilder, x: Value, *, fused: bool, dropout: bool) -> Value:
    h = attention_half(b, x, _HEADS, fused=fused, dropout=dropout)
    x = b.norm("attention.norm", residual(b, "attention", h, x, dropout=dropout))
    h = feed_forward_half(b, x, activation="relu")
    return b.norm("mlp.norm", residual(b, "mlp", h, x, dropout=dropout))


@SOURCES.add(
    "opt-350m", title="OPT 350M", paper=PAPER, family="opt", parameters=331_196_416,
    options=(ATTENTION, Option(name="dropout", default=False, help="in attention and after each half")),
)  # fmt: skip
def opt_350m(*, attention: str, dropout: bool, sequence_length: int | None = None) -> LayerGraph:
    """Build OPT-350M: 24 blocks of width 1024, words of width 512 projected up before and down after."""
    seq = positions_within("opt-350m", sequence_length, _POSITIONS)
    # Table 1: 0.5M tokens a step, that is 256 samples of 2048; AdamW, fp16.
    defaults = Defaults(global_batch=256, sequence_length=seq, precision="fp16", optimizer="adamw")
    b = GraphBuilder("opt-350m", defaults=defaults, source=PAPER)
    tokens, targets = tokens_and_targets(b, seq)
    words = b.embedding("embed", tokens, {"vocab": _VOCAB}, {"word": _WORD})
    x = b.linear("project_in", words, {"embed": _EMBED}, over=("word",))
    x = b.add_table("positions", x, _POSITIONS + _OFFSET)
    for i in range(_LAYERS):
        with b.block(f"layers.{i}"):
            x = _block(b, x, fused=attention == "fused", dropout=dropout)
    words = b.linear("project_out", x, {"word": _WORD})
    b.loss("loss", b.linear("head", words, {"vocab": _VOCAB}, over=("word",), weight="embed.weight"), targets)
    return b.build()
