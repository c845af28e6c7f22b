"""AWD-LSTM language model of Penn Treebank: three LSTMs between an embedding and a head tied to it.

24,221,600 parameters, which the paper rounds to 24M; the head's bias is one of them. Dropout (of words,
inputs, layers and recurrent weights) is left out: its masks are one per sequence, and small.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder

PAPER = "Merity et al. 2017, Regularizing and Optimizing LSTM Language Models, arXiv:1708.02182, section 5"
_VOCAB, _EMBED, _HIDDEN, _LAYERS = 10_000, 400, 1150, 3
_TOKENS = 929_589
"""Words of Penn Treebank's training part, including ends of sentences."""


@SOURCES.add("awd-lm", title="AWD-LSTM 24M", paper=PAPER, family="awd-lm", parameters=24_221_600)
def awd_lm(*, sequence_length: int | None = None) -> LayerGraph:
    """Build the model with widths 400, 1150, 1150, 400; a sample is one stretch of 70 tokens."""
    seq = sequence_length or 70
    # Section 5: batch 40 of 70 tokens, SGD (averaged near the end, which is free), 750 epochs.
    defaults = Defaults(
        global_batch=40, sequence_length=seq, precision="fp32", optimizer="sgd",
        samples_per_epoch=_TOKENS // seq, epochs=((40, 750.0),),
        epochs_source="the paper, section 5: 750 epochs",
    )  # fmt: skip
    b = GraphBuilder("awd-lm", defaults=defaults, source=PAPER)
    tokens, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "targets"))
    x = b.embedding("embed", tokens, {"vocab": _VOCAB}, {"embed": _EMBED})
    for i in range(_LAYERS):
        with b.block(f"layers.{i}"):
            x = b.lstm("lstm", x, _EMBED if i == _LAYERS - 1 else _HIDDEN)
    b.loss("loss", b.linear("head", x, {"vocab": _VOCAB}, weight="embed.weight", bias=True), targets)
    return b.build()
