"""GPT: pre-norm decoder with learned positions; GPT-2, GPT-3 and any other size.

The named models are trained without dropout, as large models are, and with fused attention; `gpt` has both as
options. GPT-3's alternating sparse attention layers are counted as dense, as in every published estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models._accumulate import with_accumulation
from explorer.models._decoders import (
    ATTENTION,
    DOCUMENTS,
    LOSS,
    check_divides,
    check_sizes,
    mix,
    padded,
    positions_within,
    read_documents,
    tokens_and_targets,
)
from explorer.models.builder import GraphBuilder, Value

GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2"
GPT3 = "Brown et al. 2020, Language Models are Few-Shot Learners, arXiv:2005.14165, table 2.1"
_VOCAB = 50257


@dataclass(frozen=True, slots=True, kw_only=True)
class GptSize:
    """Sizes and options of a decoder of this family."""

    layers: int
    """Number of blocks."""
    embed: int
    """Model width."""
    heads: int
    """Number of attention heads."""
    positions: int
    """Number of learned positions."""
    vocab: int = _VOCAB
    """Number of rows of the embedding, including padding."""
    fused: bool = True
    """Whether attention is one kernel; otherwise its scores are in memory."""
    dropout: bool = False
    """Whether there is dropout after the embedding, in the attention, after it and after the feed-forward."""
    tied: bool = True
    """Whether the head is the embedding."""
    plain_softmax: bool = False
    """Whether the softmax of an unfused attention is not fused with scale and mask either."""
    documents: tuple[int, ...] = ()
    """Lengths of documents that a sample consists of; () if it is one."""
    plain_loss: bool = False
    """Whether the cross entropy is Megatron-LM's operators in fp32."""


def attention_half(
    b: GraphBuilder,
    x: Value,
    heads: int,
    *,
    fused: bool = True,
    dropout: bool = False,
    causal: bool = True,
    plain_softmax: bool = False,
    documents: tuple[int, ...] = (),
) -> Value:
    """Add the fused qkv, attention and projection of a block, without norm and addition."""
    embed = x.size("embed")
    head = int(embed) // heads
    qkv = b.linear("attention.qkv", x, {"qkv": 3, "heads": heads, "head": head}, bias=True)
    mixed = mix(
        b, "attention", qkv, heads=heads, head=head, fused=fused, causal=causal, dropout=dropout,
        plain_softmax=plain_softmax, documents=documents,
    )  # fmt: skip
    return b.linear("attention.proj", mixed, {"embed": embed}, over=("heads", "head"), bias=True)


def feed_forward_half(b: GraphBuilder, x: Value, *, activation: str = "gelu") -> Value:
    """Add a product to four times the width, gelu (or relu, which keeps its output) and a product back."""
    embed = x.size("embed")
    saves = "output" if activation == "relu" else "inputs"
    wide = b.linear("mlp.up", x, {"ffn": 4 * embed}, bias=True)
    wide = b.activation(f"mlp.{activation}", wide, saves=saves)
    return b.linear("mlp.down", wide, {"embed": embed}, over=("ffn",), bias=True)


def residual(b: GraphBuilder, part: str, x: Value, before: Value, *, dropout: bool) -> Value:
    """Add half a block's result, `part`, to `before`; with dropout both are one kernel."""
    if dropout:
        return b.dropout(f"{part}.dropout_add", x, before)
    return b.add(f"{part}.add", x, before)


def _block(b: GraphBuilder, x: Value, size: GptSize) -> Value:
    h = b.norm("attention.norm", x)
    h = attention_half(
        b, h, size.heads, fused=size.fused, dropout=size.dropout, plain_softmax=size.plain_softmax,
        documents=size.documents,
    )  # fmt: skip
    x = residual(b, "attention", h, x, dropout=size.dropout)
    return residual(b, "mlp", feed_forward_half(b, b.norm("mlp.norm", x)), x, dropout=size.dropout)


def _gpt(name: str, size: GptSize, *, defaults: Defaults, source: str) -> LayerGraph:
    b = GraphBuilder(name, defaults=defaults, source=source)
    tokens, targets = tokens_and_targets(b, defaults.sequence_length)
    x = b.embedding("embed", tokens, {"vocab": size.vocab}, {"embed": size.embed})
    x = b.add_table("positions", x, size.positions)
    if size.dropout:
        x = b.dropout("embed_dropout", x)
    for i in range(size.layers):
        with b.block(f"layers.{i}"):
            x = _block(b, x, size)
    weight = "embed.weight" if size.tied else ""
    logits = b.linear("head", b.norm("norm", x), {"vocab": size.vocab}, weight=weight)
    b.loss("loss", logits, targets, plain=size.plain_loss)
    return b.build()


def _gpt2(name: str, layers: int, embed: int, heads: int, sequence_length: int | None) -> LayerGraph:
    seq = positions_within(name, sequence_length, 1024)
    # Section 2.3: batch 512 of 1024 tokens. The optimizer is GPT-1's Adam; the precision is today's.
    defaults = Defaults(global_batch=512, sequence_length=seq, precision="bf16", optimizer="adamw")
    size = GptSize(layers=layers, embed=embed, heads=heads, positions=1024)
    return _gpt(name, size, defaults=defaults, source=GPT2)


@SOURCES.add(
    "gpt", title="GPT of any size", paper=GPT2, family="gpt", parameters=124_439_808,
    options=(
        Option(name="layers", default=12, help="blocks"),
        Option(name="embed", default=768, help="model width"),
        Option(name="heads", default=12, help="attention heads, a divisor of embed"),
        Option(name="vocab", default=_VOCAB, help="tokens of the vocabulary"),
        Option(name="positions", default=0, help="learned positions; 0: 1024, or a sample's tokens if more"),
        ATTENTION,
        Option(
            name="softmax", default="fused", choices=("fused", "plain"),
            help="of unfused attention: fused with scale and mask, or every step a kernel",
        ),
        DOCUMENTS,
        LOSS,
        Option(name="dropout", default=False, help="after embedding, softmax, projection and feed-forward"),
        Option(name="tied", default=True, help="the head is the embedding"),
        Option(
            name="pad_vocab_to", default=0,
            help="pad the vocabulary to a multiple of this (Megatron: 128 x tensor parallel); 0: not",
        ),
        Option(
            name="accumulation", default="fused", choices=("fused", "separate", "flat"),
            help="gradients are summed by the products that make them, by kernels apart, or in flat buffers",
        ),
    ),
)  # fmt: skip
def gpt(
    *,
    layers: int,
    embed: int,
    heads: int,
    vocab: int,
    positions: int,
    attention: str,
    softmax: str,
    documents: str,
    loss: str,
    dropout: bool,
    tied: bool,
    pad_vocab_to: int,
    accumulation: str,
    sequence_length: int | None = None,
) -> LayerGraph:
    """Build GPT of any size; its defaults are GPT-2 124M.

    Raises:
        InputError: a size below 1, heads that do not divide the width, or more tokens than positions.
    """
    check_sizes("gpt", {"layers": layers, "embed": embed, "heads": heads, "vocab": vocab})
    check_sizes("gpt", {"positions": positions, "pad_vocab_to": pad_vocab_to}, least=0)
    check_divides("gpt", "heads", heads, "embed", embed)
    positions = positions or max(1024, sequence_length or 0)
    seq = positions_within("gpt", sequence_length, positions)
    size = GptSize(
        layers=layers, embed=embed, heads=heads, positions=positions, vocab=padded(vocab, pad_vocab_to),
        fused=attention == "fused", dropout=dropout, tied=tied,
        plain_softmax=softmax == "plain",
        documents=read_documents(documents, seq, fused=attention == "fused"),
        plain_loss=loss == "plain",
    )  # fmt: skip
    defaults = Defaults(global_batch=512, sequence_length=seq, precision="bf16", optimizer="adamw")
    graph = _gpt("gpt", size, defaults=defaults, source=GPT2)
    return graph if accumulation == "fused" else with_accumulation(graph, accumulation)


@SOURCES.add("gpt2-small", title="GPT-2 124M", paper=GPT2, family="gpt", parameters=124_439_808)
def gpt2_small(*, sequence_length: int | None = None) -> LayerGraph:
    """Build GPT-2 small: 12 blocks of width 768."""
    return _gpt2("gpt2-small", 12, 768, 12, sequence_length)


@SOURCES.add("gpt2-medium", title="GPT-2 355M", paper=GPT2, family="gpt", parameters=354_823_168)
def gpt2_medium(*, sequence_length: int | None = None) -> LayerGraph:
    """Build GPT-2 medium: 24 blocks of width 1024."""
    return _gpt2("gpt2-medium", 24, 1024, 16, sequence_length)


@SOURCES.add("gpt2-xl", title="GPT-2 1.5B", paper=GPT2, family="gpt", parameters=1_557_611_200)
def gpt2_xl(*, sequence_length: int | None = None) -> LayerGraph:
    """Build GPT-2 XL: 48 blocks of width 1600."""
    return _gpt2("gpt2-xl", 48, 1600, 25, sequence_length)


@SOURCES.add("gpt3-175b", title="GPT-3 175B", paper=GPT3, family="gpt", parameters=174_604_259_328)
def gpt3_175b(*, sequence_length: int | None = None) -> LayerGraph:
    """Build GPT-3: 96 blocks of width 12288."""
    seq = positions_within("gpt3-175b", sequence_length, 2048)
    # Table 2.1: 3.2M tokens a step, that is 1,536 samples of 2048 in round numbers (also Megatron-LM's).
    defaults = Defaults(global_batch=1536, sequence_length=seq, precision="bf16", optimizer="adam")
    size = GptSize(layers=96, embed=12288, heads=96, positions=2048)
    return _gpt("gpt3-175b", size, defaults=defaults, source=GPT3)
