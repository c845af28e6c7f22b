"""DeepSeek-V2 and V3: latent attention, first some dense blocks, then routed and shared experts.

Latent attention (V2, section 2.1): queries, and keys with values, are made from narrow vectors; all heads
share the rotated part of the keys. A head has 128 + 64 elements in queries and keys, and 128 in values. V3's
multi-token-prediction module is left out, as in its published 671B; the biases that balance its experts are
counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph, Work
from explorer.models import SOURCES
from explorer.models._decoders import FUSED_LOSS, check_at_most, check_sizes, tokens_and_targets
from explorer.models._routing import ROUTING, read_routing
from explorer.models.builder import GraphBuilder, Value
from explorer.models.llama import feed_forward_half, gated, head_and_loss
from explorer.routing import Routing

V2 = "DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434, section 3.1.2"
V3 = "DeepSeek-AI 2024, DeepSeek-V3 Technical Report, arXiv:2412.19437, section 4.2"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSize:
    """Sizes of a decoder of this family; the defaults are V3's."""

    layers: int = 61
    """Number of blocks."""
    dense_layers: int = 3
    """Number of first blocks, which have one feed-forward instead of experts."""
    embed: int = 7168
    """Model width."""
    heads: int = 128
    """Number of attention heads."""
    q_lora: int = 1536
    """Width of the vector that queries are made from; 0 if they are made from the model's width."""
    kv_lora: int = 512
    """Width of the vector that keys and values are made from."""
    head: int = 128
    """Size of a head of queries and keys without its rotated part."""
    rope: int = 64
    """Size of the rotated part."""
    v_head: int = 128
    """Size of a head of the values."""
    ffn: int = 18432
    """Feed-forward width of the dense blocks."""
    experts: int = 256
    """Number of routed experts."""
    active: int = 8
    """Number of routed experts per token."""
    expert_ffn: int = 2048
    """Feed-forward width of a routed expert."""
    shared_ffn: int = 2048
    """Feed-forward width of all shared experts together; 0 if none."""
    vocab: int = 129280
    """Number of rows of the embedding."""
    balanced: bool = True
    """Whether the router has a bias for each expert that balances their load."""
    fused_loss: bool = False
    """Whether the cross entropy is one kernel that writes its gradient over the logits."""


def _norm_of_latent(b: GraphBuilder, latent: Value, width: int) -> tuple[Value, Value]:
    """Split (seq, latent) into its first `width` elements, RMS-normalised, and the keys' rotated part."""
    name, seq = "attention.kv_norm", latent.size("seq")
    weight = b.parameter(f"{b.full(name)}.weight", {"kv_lora": width})
    y = b.output(name, {"seq": seq, "kv_lora": width}, [latent], [weight])
    rest = b.output(f"{name}.rope", {"seq": seq, "": latent.shape[-1] - width}, [latent])
    b.layer(
        name, "norm", reads=[latent.seen_as("seq", "")], writes=[y, rest], weights=[weight], saves=[latent],
        fixed=["kv_lora"], forward=Work(moved_elements=2 * y.elements),
        input_grad=Work(moved_elements=3 * y.elements), weight_grad=Work(moved_elements=2 * y.elements),
    )  # fmt: skip
    return y, rest


def _rope(b: GraphBuilder, q: Value, kv: Value, rotated: Value, size: LatentSize) -> tuple[Value, ...]:
    """Rotate the queries, give every head the rotated part of the keys, and split keys from values."""
    name, seq = "attention.rope", q.size("seq")
    heads, wide = {"seq": seq, "heads": size.heads}, size.head + size.rope
    sizes = {
        "q": {**heads, "head": wide},
        "k": {**heads, "head": wide},
        "v": {**heads, "v_head": size.v_head},
    }
    made = [b.output(f"{name}.{part}", sizes[part], [q, kv, rotated]) for part in sizes]
    moved = q.elements + kv.elements + rotated.elements + sum(value.elements for value in made)
    b.layer(
        name, "elementwise", reads=[q, kv, rotated], writes=made,
        fixed=("head", "key_value", "v_head"), forward=Work(moved_elements=moved),
        input_grad=Work(moved_elements=moved),
    )  # fmt: skip
    return tuple(made)


def _attention_half(b: GraphBuilder, x: Value, size: LatentSize) -> Value:
    h = b.norm("attention.norm", x, bias=False)
    heads = {"heads": size.heads, "head": size.head + size.rope}
    if size.q_lora:
        narrow = b.linear("attention.q_down", h, {"q_lora": size.q_lora})
        narrow = b.norm("attention.q_norm", narrow, over=("q_lora",), bias=False)
        q = b.linear("attention.q_up", narrow, heads, over=("q_lora",))
    else:
        q = b.linear("attention.q", h, heads)
    latent = b.linear("attention.kv_down", h, {"kv_latent": size.kv_lora + size.rope})
    narrow, rotated = _norm_of_latent(b, latent, size.kv_lora)
    both = {"heads": size.heads, "key_value": size.head + size.v_head}
    kv = b.linear("attention.kv_up", narrow, both, over=("kv_lora",))
    inputs = _rope(b, q, kv, rotated, size)
    mixed = b.attention("attention.attention", *inputs, heads=size.heads, head=size.v_head, causal=True)
    return b.add(
        "attention.add", b.linear("attention.o", mixed, {"embed": size.embed}, over=("heads", "v_head")), x
    )


def _mixture_half(b: GraphBuilder, x: Value, size: LatentSize, routing: Routing) -> Value:
    h = b.norm("moe.norm", x, bias=False)
    scores = b.router("moe.router", h, size.experts, bias=size.balanced)
    y = b.experts("moe.experts", h, scores, ffn=size.expert_ffn, active=size.active, routing=routing)
    if size.shared_ffn:
        y = b.add("moe.sum", y, gated(b, "moe.shared", h, size.shared_ffn))
    return b.add("moe.add", y, x)


def _deepseek(
    name: str,
    size: LatentSize,
    sequence_length: int | None,
    settings: Mapping[str, Any],
    *,
    global_batch: int,
    source: str,
) -> LayerGraph:
    seq = sequence_length or 4096
    routing = read_routing(size.experts, **settings)
    # Both papers: AdamW, 4096 tokens. V3 was trained in fp8; bf16 is what others run it in.
    defaults = Defaults(global_batch=global_batch, sequence_length=seq, precision="bf16", optimizer="adamw")
    b = GraphBuilder(name, defaults=defaults, source=source)
    tokens, targets = tokens_and_targets(b, seq)
    x = b.embedding("embed", tokens, {"vocab": size.vocab}, {"embed": size.embed})
    for i in range(size.layers):
        with b.block(f"layers.{i}"):
            x = _attention_half(b, x, size)
            if i < size.dense_layers:
                x = feed_forward_half(b, x, size.ffn)
            else:
                x = _mixture_half(b, x, size, routing)
    head_and_loss(b, x, targets, size.vocab, fused=size.fused_loss)
    return b.build()


_V3 = LatentSize()
_V2 = replace(
    _V3, layers=60, dense_layers=1, embed=5120, ffn=12288, experts=160, active=6, expert_ffn=1536,
    shared_ffn=3072, vocab=102400, balanced=False,
)  # fmt: skip
_HELP = {
    "layers": "blocks",
    "dense_layers": "first blocks, without experts",
    "embed": "model width",
    "heads": "attention heads",
    "q_lora": "width that queries are made from; 0: the model's",
    "kv_lora": "width that keys and values are made from",
    "head": "size of a query and key head without its rotated part",
    "rope": "size of the rotated part",
    "v_head": "size of a value head",
    "ffn": "feed-forward width of the dense blocks",
    "experts": "routed experts",
    "active": "routed experts of one token",
    "expert_ffn": "feed-forward width of a routed expert",
    "shared_ffn": "feed-forward width of all shared experts together; 0: none",
    "vocab": "rows of the embedding",
    "balanced": "the router has a bias for each expert (V3)",
    "fused_loss": FUSED_LOSS.help,
}


@SOURCES.add(
    "deepseek", title="DeepSeek of any size", paper=V3, family="deepseek", parameters=671_026_419_200,
    options=(
        *(Option(name=name, default=getattr(_V3, name), help=text) for name, text in _HELP.items()), *ROUTING,
    ),
)  # fmt: skip
def deepseek(
    *, balanced: bool, fused_loss: bool, sequence_length: int | None = None, **settings: Any
) -> LayerGraph:
    """Build DeepSeek of any size; its defaults are V3.

    Raises:
        InputError: a size below 1, more dense blocks than blocks, more active experts than there are, or a
            routing that cannot be.
    """
    routing = {option.name: settings.pop(option.name) for option in ROUTING}
    sizes: dict[str, int] = settings
    size = LatentSize(balanced=balanced, fused_loss=fused_loss, **sizes)
    may_be_none = {"q_lora", "shared_ffn", "dense_layers"}
    check_sizes("deepseek", {name: value for name, value in sizes.items() if name not in may_be_none})
    check_sizes("deepseek", {name: sizes[name] for name in may_be_none}, least=0)
    check_at_most("deepseek", "dense_layers", size.dense_layers, "layers", size.layers)
    check_at_most("deepseek", "active", size.active, "experts", size.experts)
    return _deepseek("deepseek", size, sequence_length, routing, global_batch=15360, source=V3)


@SOURCES.add(
    "deepseek-v2", title="DeepSeek-V2 236B", paper=V2, family="deepseek", parameters=235_741_434_880,
    options=ROUTING,
)  # fmt: skip
def deepseek_v2(*, sequence_length: int | None = None, **routing: Any) -> LayerGraph:
    """Build DeepSeek-V2: 60 blocks of width 5120, one dense, with 2 shared and 6 of 160 routed experts."""
    # Section 3.1.2: the batch grows from 2304 to 9216.
    return _deepseek("deepseek-v2", _V2, sequence_length, routing, global_batch=9216, source=V2)


@SOURCES.add(
    "deepseek-v3", title="DeepSeek-V3 671B", paper=V3, family="deepseek", parameters=671_026_419_200,
    options=ROUTING,
)  # fmt: skip
def deepseek_v3(*, sequence_length: int | None = None, **routing: Any) -> LayerGraph:
    """Build DeepSeek-V3: 61 blocks of width 7168, three dense, one shared and 8 of 256 routed experts."""
    # Section 4.2: the batch grows from 3072 to 15360.
    return _deepseek("deepseek-v3", _V3, sequence_length, routing, global_batch=15360, source=V3)
