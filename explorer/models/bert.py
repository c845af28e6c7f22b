"""BERT-large: post-norm encoder with learned positions, token types and a pooler.

The published count is that of the encoder with its pooler. The pre-training heads are not part of it and left
out, so the loss reads the last hidden states and the pooled vector directly. Dropout is left out.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models._decoders import positions_within
from explorer.models.builder import GraphBuilder, Value
from explorer.models.gpt import attention_half, feed_forward_half

PAPER = "Devlin et al. 2018, BERT, arXiv:1810.04805, section 3"
_VOCAB, _EMBED, _HEADS, _LAYERS, _POSITIONS = 30522, 1024, 16, 24, 512
_SAMPLES = 6_400_000
_MILLIONS = (
    (256, 2.553), (448, 2.411), (1536, 2.778), (3072, 2.768), (4096, 2.843), (4608, 2.795), (6144, 3.321),
    (6912, 3.596), (8192, 4.191), (8704, 4.278), (12288, 4.470), (13056, 4.633), (16384, 5.504),
)  # fmt: skip
"""Samples to the target by batch."""
_EPOCHS_SOURCE = (
    "MLPerf's reference convergence points (mlcommons/logging, training_5.0.0/rcps_bert.json): means of some"
    " 20 runs with LAMB on sequences of 512, from MLPerf's checkpoint to a masked-LM accuracy of .72; not"
    " from scratch, for which the paper takes 40 epochs at a batch of 256"
)


def _embeddings(b: GraphBuilder, seq: int) -> Value:
    tokens, types = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "token_types"))
    x = b.embedding("embed", tokens, {"vocab": _VOCAB}, {"embed": _EMBED})
    x = b.add_table("positions", x, _POSITIONS)
    return b.norm("embed_norm", b.add_table("types", x, 2, indices=types))


def _pooler(b: GraphBuilder, x: Value) -> Value:
    """Add a linear layer and tanh on the first token; only that row of `x` is kept."""
    first = b.first_token("first", x)
    pooled = b.linear("pooler", first, {"pooled": _EMBED}, bias=True)
    return b.activation("pooler_tanh", pooled, saves="output")


def _loss(b: GraphBuilder, x: Value, pooled: Value) -> None:
    """Add a stand-in for the pre-training losses: one pass over the encoder's outputs."""
    y = b.output("loss", {}, [x, pooled], dtype="fp32")
    moved = Work(moved_elements=x.elements + pooled.elements)
    b.layer("loss", "loss", reads=[x, pooled], writes=[y], saves=[x, pooled], forward=moved, input_grad=moved)


@SOURCES.add("bert-large", title="BERT large", paper=PAPER, family="bert", parameters=335_141_888)
def bert_large(*, sequence_length: int | None = None) -> LayerGraph:
    """Build BERT-large: 24 blocks of width 1024."""
    seq = positions_within("bert-large", sequence_length, _POSITIONS)
    # Appendix A.2: batch 256, Adam, 1M steps, "approximately 40 epochs": 256M samples in 40 epochs.
    defaults = Defaults(
        global_batch=256, sequence_length=seq, precision="bf16", optimizer="adamw",
        samples_per_epoch=_SAMPLES, epochs=tuple((n, million * 1e6 / _SAMPLES) for n, million in _MILLIONS),
        epochs_source=_EPOCHS_SOURCE,
    )  # fmt: skip
    b = GraphBuilder("bert-large", defaults=defaults, source=PAPER)
    x = _embeddings(b, seq)
    for i in range(_LAYERS):
        with b.block(f"layers.{i}"):
            mixed = attention_half(b, x, _HEADS, causal=False)
            x = b.norm("attention.norm", b.add("attention.add", mixed, x))
            x = b.norm("mlp.norm", b.add("mlp.add", feed_forward_half(b, x), x))
    _loss(b, x, _pooler(b, x))
    return b.build()
