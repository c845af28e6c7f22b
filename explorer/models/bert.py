"""BERT-large and BERT-48: post-norm encoders with learned positions, token types and a pooler.

The published count is that of the encoder with its pooler. The pre-training heads are not part of it and left
out, so the loss reads the last hidden states and the pooled vector directly. Dropout is left out.

BERT-48 is BERT-large with 48 layers, as DAPPLE trains it on SQuAD. Its authors publish its profile
(`profiling_results/bert-48-pbs-2.txt` of AlibabaPAI/DAPPLE), in fp32: embeddings of 31,782,912 parameters
(so 512 positions), 48 layers of 12,596,224, a pooler of 1,049,600, and 384 tokens, the default of their
training flags. The paper rounds the sum to 640 million.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models._decoders import positions_within
from explorer.models.builder import GraphBuilder, Value
from explorer.models.gpt import attention_half, feed_forward_half

PAPER = "Devlin et al. 2018, BERT, arXiv:1810.04805, section 3"
DEEP_PAPER = "Fan et al. 2021, DAPPLE, arXiv:2007.01045, its benchmark BERT-48"
_VOCAB, _EMBED, _HEADS, _POSITIONS = 30522, 1024, 16, 512
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


def _bert(name: str, layers: int, defaults: Defaults, paper: str) -> LayerGraph:
    """Build a BERT of width 1024 with so many blocks, for sequences of the defaults' length."""
    b = GraphBuilder(name, defaults=defaults, source=paper)
    x = _embeddings(b, defaults.sequence_length or _POSITIONS)
    for i in range(layers):
        with b.block(f"layers.{i}"):
            mixed = attention_half(b, x, _HEADS, causal=False)
            x = b.norm("attention.norm", b.add("attention.add", mixed, x))
            x = b.norm("mlp.norm", b.add("mlp.add", feed_forward_half(b, x), x))
    _loss(b, x, _pooler(b, x))
    return b.build()


@SOURCES.add("bert-large", title="BERT large", paper=PAPER, family="bert", parameters=335_141_888)
def bert_large(*, sequence_length: int | None = None) -> LayerGraph:
    """Build BERT-large: 24 blocks of width 1024."""
    # Appendix A.2: batch 256, Adam, 1M steps, "approximately 40 epochs": 256M samples in 40 epochs.
    defaults = Defaults(
        global_batch=256, sequence_length=positions_within("bert-large", sequence_length, _POSITIONS),
        precision="bf16", optimizer="adamw", samples_per_epoch=_SAMPLES,
        epochs=tuple((n, million * 1e6 / _SAMPLES) for n, million in _MILLIONS),
        epochs_source=_EPOCHS_SOURCE,
    )  # fmt: skip
    return _bert("bert-large", 24, defaults, PAPER)


@SOURCES.add("bert-48", title="BERT, 48 layers", paper=DEEP_PAPER, family="bert", parameters=637_451_264)
def bert_48(*, sequence_length: int | None = None) -> LayerGraph:
    """Build BERT-48: 48 blocks of width 1024; 384 tokens unless told otherwise."""
    # Adam with weight decay is the optimizer of the published scripts; 64 is the batch that the paper plans.
    defaults = Defaults(
        global_batch=64, sequence_length=positions_within("bert-48", sequence_length or 384, _POSITIONS),
        precision="fp32", optimizer="adamw",
        epochs_source="no source with epochs by batch was found for 48 layers; bert-large has MLPerf's",
    )  # fmt: skip
    return _bert("bert-48", 48, defaults, DEEP_PAPER)
