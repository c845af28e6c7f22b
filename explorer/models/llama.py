"""Llama: RMS norm, grouped-query attention with rotary positions, gated feed-forward, untied head."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models._decoders import (
    ATTENTION,
    DOCUMENTS,
    FUSED_LOSS,
    LOSS,
    check_divides,
    check_sizes,
    mix,
    read_documents,
    tokens_and_targets,
)
from explorer.models._eager import eager_gated, eager_loss, eager_norm, eager_rope
from explorer.models._selective import POLICIES, with_policy
from explorer.models.builder import GraphBuilder, Value

PAPER = "Llama Team 2024, The Llama 3 Herd of Models, arXiv:2407.21783, table 3"


_TOKENS = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DecoderSize:
    """Sizes and options of a decoder of this family."""

    layers: int
    """Number of blocks."""
    embed: int
    """Model width."""
    heads: int
    """Number of query heads."""
    kv_heads: int
    """Number of key and value heads."""
    ffn: int
    """Feed-forward width."""
    vocab: int = 128256
    """Number of rows of the embedding."""
    head: int = 128
    """Head size."""
    fused: bool = True
    """Whether attention is one kernel; otherwise its scores are in memory."""
    tied: bool = False
    """Whether the head is the embedding."""
    fused_loss: bool = False
    """Whether the cross entropy is one kernel that writes its gradient over the logits."""
    eager: bool = False
    """Whether norm, rotation, activation and loss are the kernels of eager PyTorch."""
    documents: tuple[int, ...] = ()
    """Lengths of documents that a sample consists of; () if it is one."""
    plain_loss: bool = False
    """Whether a cross entropy that is not one kernel is Megatron-LM's operators in fp32."""
    policy: str = "attention"
    """Selective recomputation: a name in `POLICIES`."""


def attention_half(b: GraphBuilder, x: Value, size: DecoderSize) -> Value:
    """Add norm, q, k, v, rope, attention, o and the residual addition."""
    h = _norm(b, "attention.norm", x, size, readers=3)
    q = b.linear("attention.q", h, {"heads": size.heads, "head": size.head})
    k = b.linear("attention.k", h, {"kv_heads": size.kv_heads, "head": size.head})
    v = b.linear("attention.v", h, {"kv_heads": size.kv_heads, "head": size.head})
    q, k = eager_rope(b, "attention.rope", q, k) if size.eager else b.rope("attention.rope", q, k)
    mixed = mix(
        b, "attention", q, k, v, heads=size.heads, head=size.head, fused=size.fused, documents=size.documents
    )
    out = b.linear("attention.o", mixed, {"embed": size.embed}, over=("heads", "head"))
    return b.add("attention.add", out, x)


def _norm(b: GraphBuilder, name: str, x: Value, size: DecoderSize | None, *, readers: int = 1) -> Value:
    eager = size is not None and size.eager
    return eager_norm(b, name, x, readers=readers) if eager else b.norm(name, x, bias=False)


def gated(b: GraphBuilder, part: str, h: Value, ffn: float, size: DecoderSize | None = None) -> Value:
    """Add gate, up, silu of the gate times up (one fused kernel, unless `size` says eager), and down."""
    eager, embed = size is not None and size.eager, h.size("embed")
    gate = b.linear(f"{part}.gate", h, {"ffn": ffn})
    up = b.linear(f"{part}.up", h, {"ffn": ffn})
    name = f"{part}.silu_mul"
    product = eager_gated(b, name, gate, up) if eager else b.elementwise(name, gate, up, saves="inputs")
    return b.linear(f"{part}.down", product, {"embed": embed}, over=("ffn",))


def feed_forward_half(b: GraphBuilder, x: Value, ffn: float, size: DecoderSize | None = None) -> Value:
    """Add norm, gated feed-forward and the residual addition."""
    return b.add("mlp.add", gated(b, "mlp", _norm(b, "mlp.norm", x, size, readers=2), ffn, size), x)


def head_and_loss(
    b: GraphBuilder,
    x: Value,
    targets: Value,
    vocab: float,
    *,
    tied: bool = False,
    fused: bool = False,
    plain: bool = False,
) -> None:
    """Add the last norm, the head (the embedding if `tied`) and cross entropy."""
    h = b.norm("norm", x, bias=False)
    logits = b.linear("head", h, {"vocab": vocab}, weight="embed.weight" if tied else "")
    b.loss("loss", logits, targets, fused=fused, plain=plain)


def _eager_head_and_loss(b: GraphBuilder, x: Value, targets: Value, size: DecoderSize) -> None:
    h = eager_norm(b, "norm", x)
    logits = b.linear("head", h, {"vocab": size.vocab}, weight="embed.weight" if size.tied else "")
    eager_loss(b, "loss", logits, targets)


def _llama(name: str, size: DecoderSize, sequence_length: int | None, global_batch: int) -> LayerGraph:
    seq = sequence_length or _TOKENS
    # Section 3.4.1: Adam, 8192 tokens; 405B starts at 4M tokens a step and ends at 16M, the smaller
    # models' batch is not published (4M assumed). Epochs are unknown: 15T tokens are seen about once.
    defaults = Defaults(global_batch=global_batch, sequence_length=seq, precision="bf16", optimizer="adamw")
    b = GraphBuilder(name, defaults=defaults, source=PAPER)
    tokens, targets = tokens_and_targets(b, seq)
    x = b.embedding("embed", tokens, {"vocab": size.vocab}, {"embed": size.embed})
    for i in range(size.layers):
        with b.block(f"layers.{i}"):
            x = feed_forward_half(b, attention_half(b, x, size), size.ffn, size)
    if size.eager:
        _eager_head_and_loss(b, x, targets, size)
    else:
        head_and_loss(b, x, targets, size.vocab, tied=size.tied, fused=size.fused_loss, plain=size.plain_loss)
    return with_policy(b.build(), size.policy)


KERNELS = Option(
    name="kernels", default="fused", choices=("fused", "eager"),
    help="norm, rotation, activation and loss: one kernel each, or those of eager PyTorch",
)  # fmt: skip
"""Option of all models of this file; if not given, a framework decides it."""


@SOURCES.add(
    "llama", title="Llama of any size", paper=PAPER, family="llama", parameters=8_030_261_248,
    options=(
        Option(name="layers", default=32, help="blocks"),
        Option(name="embed", default=4096, help="model width"),
        Option(name="heads", default=32, help="query heads"),
        Option(name="kv_heads", default=8, help="key and value heads, a divisor of heads; 0: as many"),
        Option(name="head", default=0, help="head size; 0: embed / heads"),
        Option(name="ffn", default=14336, help="feed-forward width"),
        Option(name="vocab", default=128256, help="rows of the embedding"),
        ATTENTION,
        DOCUMENTS,
        Option(name="tied", default=False, help="the head is the embedding"),
        FUSED_LOSS,
        LOSS,
        KERNELS,
        Option(
            name="selective", default="attention", choices=tuple(POLICIES),
            help="selective recomputation makes again: the core of attention; all but attention and every"
            " other product (torchtitan); all that a backward needs, the block's last product not (torch)",
        ),
    ),
)  # fmt: skip
def llama(
    *,
    layers: int,
    embed: int,
    heads: int,
    kv_heads: int,
    head: int,
    ffn: int,
    vocab: int,
    attention: str,
    documents: str,
    tied: bool,
    fused_loss: bool,
    loss: str,
    kernels: str,
    selective: str,
    sequence_length: int | None = None,
) -> LayerGraph:
    """Build Llama of any size; its defaults are Llama 3 8B.

    Raises:
        InputError: a size below 1, or heads that do not divide.
    """
    check_sizes("llama", {"layers": layers, "embed": embed, "heads": heads, "ffn": ffn, "vocab": vocab})
    check_sizes("llama", {"kv_heads": kv_heads, "head": head}, least=0)
    check_divides("llama", "kv_heads", kv_heads or heads, "heads", heads)
    if not head:
        check_divides("llama", "heads", heads, "embed", embed)
    size = DecoderSize(
        layers=layers, embed=embed, heads=heads, kv_heads=kv_heads or heads, head=head or embed // heads,
        ffn=ffn, vocab=vocab, fused=attention == "fused", tied=tied,
        fused_loss=fused_loss, eager=kernels == "eager", policy=selective,
        documents=read_documents(documents, sequence_length or _TOKENS, fused=attention == "fused"),
        plain_loss=loss == "plain" and not fused_loss,
    )  # fmt: skip
    return _llama("llama", size, sequence_length, 512)


@SOURCES.add(
    "llama3-8b", title="Llama 3 8B", paper=PAPER, family="llama", parameters=8_030_261_248,
    options=(KERNELS,),
)  # fmt: skip
def llama3_8b(*, kernels: str, sequence_length: int | None = None) -> LayerGraph:
    """Build Llama 3 8B: 32 blocks of width 4096."""
    size = DecoderSize(layers=32, embed=4096, heads=32, kv_heads=8, ffn=14336, eager=kernels == "eager")
    return _llama("llama3-8b", size, sequence_length, 512)


@SOURCES.add(
    "llama3-70b", title="Llama 3 70B", paper=PAPER, family="llama", parameters=70_553_706_496,
    options=(KERNELS,),
)  # fmt: skip
def llama3_70b(*, kernels: str, sequence_length: int | None = None) -> LayerGraph:
    """Build Llama 3 70B: 80 blocks of width 8192."""
    size = DecoderSize(layers=80, embed=8192, heads=64, kv_heads=8, ffn=28672, eager=kernels == "eager")
    return _llama("llama3-70b", size, sequence_length, 512)


@SOURCES.add(
    "llama3-405b", title="Llama 3 405B", paper=PAPER, family="llama", parameters=405_853_388_800,
    options=(KERNELS,),
)  # fmt: skip
def llama3_405b(*, kernels: str, sequence_length: int | None = None) -> LayerGraph:
    """Build Llama 3 405B: 126 blocks of width 16384."""
    size = DecoderSize(layers=126, embed=16384, heads=128, kv_heads=8, ffn=53248, eager=kernels == "eager")
    return _llama("llama3-405b", size, sequence_length, 2048)
