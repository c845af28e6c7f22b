"""GNMT: LSTMs that read a sentence, LSTMs that write its translation, and additive attention between them.

Shapes are those of NVIDIA's implementation, which PipeDream and MLPerf train: width 1024, 32,320 subwords, a
first encoder layer in both directions, residual connections from the third on, and the attention's result for
the first decoder layer's states as an additional input of every later one. GNMT-8 has four and four layers,
GNMT-16 eight and eight (Wu et al.); a layer in both directions counts once.

Counts are PipeDream's: two embeddings of 33.1M, one for each language, and a separate head, 193,765,952 in
its published profile of GNMT-8. MLPerf shares one embedding (`--set shared_embedding=true`: 160,670,272,
which with 1025 scalars of a normalised attention are its "160M"). Dropout is left out.
"""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models.builder import GraphBuilder, Value

PAPER = "Wu et al. 2016, Google's Neural Machine Translation System, arXiv:1609.08144, section 3"
_VOCAB, _EMBED = 32_320, 1024
_RESIDUAL_FROM = 2
_PAIRS = 4_500_000
"""Sentence pairs of WMT16 English-German, in round numbers."""
_MLPERF_LAYERS = 4
_EPOCHS = ((2048, 4.0), (4096, 6.0), (8192, 7.0), (12288, 8.0))
_EPOCHS_SOURCE = (
    "logs of MLPerf training 0.6 (mlcommons/training_results_v0.6, gnmt, first run of each system) with Adam"
    " to a BLEU of 24.0: NVIDIA's dgx1 and dgx2 at 2,048 and dgx1_n48 at 12,288, Google's tpu-v3-32 at 4,096"
    " and tpu-v3-128, -256 and -1024 at 8,192"
)
_NO_EPOCHS = (
    "no source with epochs by batch was found for eight and eight layers; those of gnmt-8 are MLPerf's"
)
_SHARED = Option(name="shared_embedding", default=False, help="one embedding for both languages (MLPerf)")


def _encoder(b: GraphBuilder, x: Value, layers: int) -> Value:
    with b.block("encoder.0"):
        x = b.concat("concat", b.lstm("forward", x, _EMBED), b.lstm("reverse", x, _EMBED), axis="embed")
    for i in range(1, layers):
        with b.block(f"encoder.{i}"):
            y = b.lstm("lstm", x, _EMBED)
            x = b.add("add", y, x) if i >= _RESIDUAL_FROM else y
    return x


def _decoder(b: GraphBuilder, x: Value, memory: Value, layers: int) -> Value:
    """Add the decoder; `memory` is the encoder's result (kv_seq, embed)."""
    with b.block("decoder.0"):
        x = b.lstm("lstm", x, _EMBED)
        q, k = (b.linear(f"attention.{name}", v, {"units": _EMBED}) for name, v in (("q", x), ("k", memory)))
        found = b.additive_attention("attention", q, k, memory)
    for i in range(1, layers):
        with b.block(f"decoder.{i}"):
            y = b.lstm("lstm", b.concat("concat", x, found, axis="embed"), _EMBED)
            x = b.add("add", y, x) if i >= _RESIDUAL_FROM else y
    return x


def _gnmt(name: str, layers: int, sequence_length: int | None, *, shared_embedding: bool) -> LayerGraph:
    seq = sequence_length or 50
    # PipeDream trains with Adam, 64 sentences of up to 50 subwords a device, on 4 to 16 devices; its profile
    # has two bytes an activation (64 states of 1024 in 131,072 bytes).
    defaults = Defaults(
        global_batch=256, sequence_length=seq, precision="fp16", optimizer="adam", samples_per_epoch=_PAIRS,
        epochs=_EPOCHS if layers == _MLPERF_LAYERS else (),
        epochs_source=_EPOCHS_SOURCE if layers == _MLPERF_LAYERS else _NO_EPOCHS,
    )  # fmt: skip
    b = GraphBuilder(name, defaults=defaults, source=PAPER)
    parts = ("source", "target", "targets")
    source, target, targets = (b.input(part, {"seq": seq}, dtype="int64") for part in parts)
    table, width = {"vocab": _VOCAB}, {"embed": _EMBED}
    x = b.embedding("encoder.embed", source, table, width)
    memory = _encoder(b, x, layers).seen_as("kv_seq", "embed")
    weight = "encoder.embed.weight" if shared_embedding else ""
    x = b.embedding("decoder.embed", target, table, width, weight=weight)
    b.loss("loss", b.linear("head", _decoder(b, x, memory, layers), table, bias=True), targets)
    return b.build()


@SOURCES.add(
    "gnmt-8", title="GNMT, 4 + 4 LSTM layers", paper=PAPER, family="gnmt", parameters=193_765_952,
    options=(_SHARED,),
)  # fmt: skip
def gnmt_8(*, shared_embedding: bool, sequence_length: int | None = None) -> LayerGraph:
    """Build GNMT-8: four encoder and four decoder layers; both sentences have the sequence length."""
    return _gnmt("gnmt-8", 4, sequence_length, shared_embedding=shared_embedding)


@SOURCES.add(
    "gnmt-16", title="GNMT, 8 + 8 LSTM layers", paper=PAPER, family="gnmt", parameters=277_717_568,
    options=(_SHARED,),
)  # fmt: skip
def gnmt_16(*, shared_embedding: bool, sequence_length: int | None = None) -> LayerGraph:
    """Build GNMT-16: eight encoder and eight decoder layers, as in the paper."""
    return _gnmt("gnmt-16", 8, sequence_length, shared_embedding=shared_embedding)
