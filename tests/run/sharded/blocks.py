"""Small blocks with named dimensions, as graphs, and as plain torch that knows nothing of graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812

from explorer.graph import LayerGraph
from explorer.models.builder import GraphBuilder
from tests.sharding.checking import without_internals

Weights = dict[str, torch.Tensor]


class Block(NamedTuple):
    """A graph, and the same in plain torch."""

    graph: LayerGraph
    dense: Callable[[dict[str, torch.Tensor], Weights], torch.Tensor]
    output: str
    vocab: int = 0


def mlp() -> Block:
    b = GraphBuilder("mlp")
    x = b.input("x", {"seq": 8, "embed": 8})
    x = b.linear("in", x, {"embed2": 8}, bias=True).seen_as("seq", "embed")
    h = b.norm("norm", x)
    h = b.linear("up", h, {"ffn": 16}, bias=True)
    h = b.activation("gelu", h)
    h = b.linear("down", h, {"embed": 8}, over=("ffn",), bias=True)
    b.add("add", x, h)

    def dense(inputs: dict[str, torch.Tensor], w: Weights) -> torch.Tensor:
        x = F.linear(inputs["x"], w["in.weight"], w["in.bias"])
        h = F.layer_norm(x, (8,), w["norm.weight"], w["norm.bias"])
        h = F.linear(F.gelu(F.linear(h, w["up.weight"], w["up.bias"])), w["down.weight"], w["down.bias"])
        return x + h

    return Block(b.build(), dense, "add")


def transformer(heads: int = 4, kv_heads: int = 4, *, tied: bool = True) -> Block:
    """Embedding, one block with separate queries, keys and values, head and loss."""
    seq, embed, head, vocab = 8, 8, 4, 16
    b = GraphBuilder("transformer")
    tokens = b.input("tokens", {"seq": seq}, dtype="int64")
    x = b.embedding("embed", tokens, {"vocab": vocab}, {"embed": embed})
    x = b.add_table("positions", x, 12)
    h = b.norm("norm1", x)
    q = b.linear("q", h, {"heads": heads, "head": head}, bias=True)
    k, v = (b.linear(name, h, {"kv_heads": kv_heads, "head": head}, bias=True) for name in "kv")
    k, v = (item.seen_as("kv_seq", "kv_heads", "head") for item in (k, v))
    h = b.attention("core", q, k, v, heads=heads, head=head, causal=True)
    h = b.linear("o", h, {"embed": embed}, over=("heads", "head"), bias=True)
    x = b.add("add1", x, h)
    h = b.linear("up", b.norm("norm2", x), {"ffn": 16}, bias=True)
    h = b.linear("down", b.activation("gelu", h), {"embed": embed}, over=("ffn",), bias=True)
    x = b.add("add2", x, h)
    logits = b.linear("logits", b.norm("norm3", x), {"vocab": vocab}, weight="embed.weight" if tied else "")
    b.loss("loss", logits, b.input("targets", {"seq": seq}, dtype="int64"))

    def dense(inputs: dict[str, torch.Tensor], w: Weights) -> torch.Tensor:
        def norm(x: torch.Tensor, name: str) -> torch.Tensor:
            return F.layer_norm(x, (embed,), w[f"{name}.weight"], w[f"{name}.bias"])

        def project(x: torch.Tensor, name: str) -> torch.Tensor:
            made = F.linear(x, w[f"{name}.weight"].flatten(0, 1), w[f"{name}.bias"].flatten())
            return made.unflatten(-1, (-1, head)).transpose(1, 2)

        x = w["embed.weight"][inputs["tokens"]] + w["positions.weight"][:seq]
        h = norm(x, "norm1")
        q, k, v = (project(h, name) for name in "qkv")
        k, v = (item.repeat_interleave(heads // kv_heads, 1) for item in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + torch.einsum("zshd,ehd->zse", mixed, w["o.weight"]) + w["o.bias"]
        h = F.gelu(F.linear(norm(x, "norm2"), w["up.weight"], w["up.bias"]))
        x = x + F.linear(h, w["down.weight"], w["down.bias"])
        logits = norm(x, "norm3") @ w["embed.weight" if tied else "logits.weight"].T
        losses = F.cross_entropy(logits.flatten(0, 1), inputs["targets"].flatten(), reduction="none")
        return losses.view(-1, seq).mean(1)

    return Block(without_internals(b.build()), dense, "loss", vocab)


def fused() -> Block:
    """Attention whose queries, keys and values are one tensor."""
    b = GraphBuilder("fused")
    x = b.input("x", {"seq": 8, "embed": 8})
    qkv = b.linear("qkv", x, {"qkv": 3, "heads": 4, "head": 4}, bias=True)
    h = b.attention("core", qkv, heads=4, head=4, causal=True)
    b.linear("o", h, {"embed": 8}, over=("heads", "head"))

    def dense(inputs: dict[str, torch.Tensor], w: Weights) -> torch.Tensor:
        made = torch.einsum("zse,qhde->zqhsd", inputs["x"], w["qkv.weight"])
        made = made + w["qkv.bias"].unsqueeze(2)
        mixed = F.scaled_dot_product_attention(*made.unbind(1), is_causal=True)
        return torch.einsum("zhsd,ehd->zse", mixed, w["o.weight"])

    return Block(without_internals(b.build()), dense, "o")


def llama() -> Block:
    """Queries and keys with rotary positions, and a gated feed-forward."""
    seq, embed, heads, head = 8, 8, 4, 4
    b = GraphBuilder("llama")
    x = b.linear("in", b.input("x", {"seq": seq, "inputs": 8}), {"embed": embed}, over=("inputs",))
    h = b.norm("norm", x, bias=False)
    q = b.linear("q", h, {"heads": heads, "head": head})
    k, v = (b.linear(name, h, {"kv_heads": 2, "head": head}) for name in "kv")
    q, k = b.rope("rope", q, k)
    k, v = (item.seen_as("kv_seq", "kv_heads", "head") for item in (k, v))
    h = b.attention("core", q, k, v, heads=heads, head=head, causal=True)
    x = b.add("add", x, b.linear("o", h, {"embed": embed}, over=("heads", "head")))
    gate, up = (b.linear(name, x, {"ffn": 16}) for name in ("gate", "up"))
    b.linear("down", b.elementwise("silu_mul", gate, up, saves="inputs"), {"embed": embed}, over=("ffn",))

    def dense(inputs: dict[str, torch.Tensor], w: Weights) -> torch.Tensor:
        x = inputs["x"] @ w["in.weight"].T
        h = F.rms_norm(x, (embed,), w["norm.weight"], 1e-5)
        turn = torch.polar(
            torch.ones(seq, 2, dtype=torch.float64),
            torch.arange(seq)[:, None] * torch.tensor([1.0, 0.01], dtype=torch.float64),
        )

        def project(name: str) -> torch.Tensor:
            return torch.einsum("zse,hde->zhsd", h, w[f"{name}.weight"])

        def rotated(x: torch.Tensor) -> torch.Tensor:
            made = torch.complex(x[..., :2], x[..., 2:]) * turn.to(x.dtype.to_complex())
            return torch.cat((made.real, made.imag), -1)

        q, k, v = rotated(project("q")), rotated(project("k")), project("v")
        k, v = (item.repeat_interleave(2, 1) for item in (k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + torch.einsum("zhsd,ehd->zse", mixed, w["o.weight"])
        return (F.silu(x @ w["gate.weight"].T) * (x @ w["up.weight"].T)) @ w["down.weight"].T

    return Block(without_internals(b.build()), dense, "down")


def experts() -> Block:
    """A router and gated experts, two for each token."""
    b = GraphBuilder("experts")
    x = b.linear("in", b.input("x", {"seq": 8, "inputs": 8}), {"embed": 8}, over=("inputs",))
    scores = b.router("router", x, 4)
    b.add("add", x, b.experts("experts", x, scores, ffn=16, active=2))

    def dense(inputs: dict[str, torch.Tensor], w: Weights) -> torch.Tensor:
        x = inputs["x"] @ w["in.weight"].T
        chance = torch.softmax(x @ w["router.weight"].T, -1)
        kept = torch.zeros_like(chance).scatter(-1, chance.topk(2).indices, 1.0) * chance
        gate, up = (torch.einsum("zse,nfe->zsnf", x, w[f"experts.{name}"]) for name in ("gate", "up"))
        made = torch.einsum("zsnf,nef->zsne", F.silu(gate) * up, w["experts.down"])
        return x + (made * kept.unsqueeze(-1)).sum(2)

    return Block(without_internals(b.build()), dense, "add")


def convolutions() -> Block:
    """Two convolutions, a norm by channel, an addition and a classifier."""
    b = GraphBuilder("convolutions")
    x = b.input("x", {"channels": 4, "height": 8, "width": 8})
    x = b.conv2d("stem", x, 8, 5, padding=2, bias=True)
    h = b.activation("relu", b.batch_norm("norm", x), saves="output")
    h = b.conv2d("conv", h, 8, 3, padding=1)
    x = b.add("add", x, b.conv2d("point", h, 8, 1))
    x = b.mean("pool", x)
    b.linear("head", x.seen_as("channels"), {"vocab": 8}, over=("channels",), bias=True)

    def dense(inputs: dict[str, torch.Tensor], w: Weights) -> torch.Tensor:
        x = F.conv2d(inputs["x"], w["stem.weight"], w["stem.bias"], padding=2)
        h = F.relu(F.batch_norm(x, None, None, w["norm.weight"], w["norm.bias"], training=True))
        h = F.conv2d(h, w["conv.weight"], padding=1)
        x = (x + F.conv2d(h, w["point.weight"])).mean((2, 3))
        return F.linear(x, w["head.weight"], w["head.bias"])

    return Block(without_internals(b.build()), dense, "head")


BLOCKS = {
    "mlp": mlp,
    "transformer": transformer,
    "fused": fused,
    "llama": llama,
    "experts": experts,
    "convolutions": convolutions,
}
