"""Big LSTM of the one-billion-word benchmark: two LSTMs of 8192 units projected to 1024, a sampled softmax.

The paper says 1.8B parameters: an embedding and a softmax of 793,471 words by 1024 each, the softmax's
biases, and two LSTMs with one bias (as in its formula; cuDNN's second would add 65,536). That is
1,776,882,559.

Of the 793,471 classes a training step scores 8192 drawn at random for all its samples, and every token's own
(Jean et al. 2014, arXiv:1412.2007): work and activations are those of the scored classes, and gradients of
both tables have only the rows that a step touched. Dropout is left out.
"""

from __future__ import annotations

from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models._tables import check_samples, samples_per_step, touched_share
from explorer.models.builder import GraphBuilder, Value

PAPER = "Jozefowicz et al. 2016, Exploring the Limits of Language Modeling, arXiv:1602.02410, table 1"
_VOCAB, _EMBED, _HIDDEN, _LAYERS, _SAMPLED = 793_471, 1024, 8192, 2, 8192
_TOKENS, _BATCH = 768_648_884, 1024
_EPOCHS_SOURCE = (
    "NVIDIA's f-lm (its README of 2018): .99M steps of 4 x 256 samples of 20 tokens to a perplexity of 35.1."
    " One batch only: the curve of Pal et al. 2019 could not be looked up"
)


def _sampled_head(b: GraphBuilder, x: Value, tokens: float) -> Value:
    """Score the drawn classes and the right one for every token.

    The axis of the scores is mapped onto ``vocab``, so a device with one part in n of the classes has one
    part in n of those drawn.
    """
    density = (_SAMPLED + touched_share(_VOCAB, tokens) * (_VOCAB - _SAMPLED)) / _VOCAB
    classes, scores = {"vocab": _VOCAB}, _SAMPLED + 1
    weights = [
        b.parameter("head.weight", {**classes, "embed": _EMBED}, density=density),
        b.parameter("head.bias", classes, density=density),
    ]
    y = b.output("head", {"seq": x.size("seq"), "vocab": scores}, [x], weights)
    work = Work(flops=2 * y.elements * _EMBED, moved_elements=x.elements + y.elements)
    b.layer(
        "head", "matmul", reads=[x], writes=[y], weights=weights, saves=[x], sizes=classes,
        forward=work, input_grad=work, weight_grad=work,
    )  # fmt: skip
    return y


@SOURCES.add(
    "biglstm", title="Big LSTM 8192-1024", paper=PAPER, family="biglstm", parameters=1_776_882_559,
    options=(samples_per_step(_BATCH),),
)  # fmt: skip
def biglstm(*, samples_per_step: int, sequence_length: int | None = None) -> LayerGraph:
    """Build the model; a sample is one stretch of 20 tokens.

    Raises:
        InputError: fewer than one sample per step.
    """
    check_samples(samples_per_step)
    seq = sequence_length or 20
    tokens_per_step = samples_per_step * seq
    # Section 4: 20 steps, 128 a device (32 devices behind the published model; 8 of a DGX-1 in NVIDIA's
    # f-lm), AdaGrad, which like momentum keeps one state.
    defaults = Defaults(
        global_batch=samples_per_step, sequence_length=seq, precision="fp32", optimizer="momentum",
        samples_per_epoch=_TOKENS // seq, epochs=((1024, 26.4),), epochs_source=_EPOCHS_SOURCE,
    )  # fmt: skip
    b = GraphBuilder("biglstm", defaults=defaults, source=PAPER)
    tokens, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in ("tokens", "targets"))
    density = touched_share(_VOCAB, tokens_per_step)
    x = b.embedding("embed", tokens, {"vocab": _VOCAB}, {"embed": _EMBED}, density=density)
    for i in range(_LAYERS):
        with b.block(f"layers.{i}"):
            x = b.lstm("lstm", x, _HIDDEN, projection=_EMBED, biases=1)
    b.loss("loss", _sampled_head(b, x, tokens_per_step), targets)
    return b.build()
