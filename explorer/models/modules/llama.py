"""Llama as a module: RMS norms, grouped-query attention with rotary positions, gated feed-forward."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import Add, Loss, Part, blocks_of, shape_of, size_of, tokens

_BASE = 500_000.0
"""Base of the rotation's wavelengths (Llama 3)."""


class Rope(nn.Module):
    """Rotation of queries and keys by position (RoFormer, arXiv:2104.09864)."""

    def __init__(self, head: int) -> None:
        super().__init__()
        self.head = head

    def forward(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        """Return both, rotated; heads stay side by side."""
        steps = torch.arange(0, self.head, 2, device=q.device, dtype=q.dtype) / self.head
        places = torch.arange(q.shape[1], device=q.device, dtype=q.dtype)
        angles = places[:, None] * _BASE**-steps
        wave = torch.cat([angles, angles], -1)[:, None]
        return self._turned(q, wave), self._turned(k, wave)

    def _turned(self, x: Tensor, wave: Tensor) -> Tensor:
        rows = x.view(*x.shape[:2], -1, self.head)
        first, second = rows.chunk(2, -1)
        turned = rows * wave.cos() + torch.cat([-second, first], -1) * wave.sin()
        return turned.flatten(2)


class Attention(nn.Module):
    """Causal attention in which several query heads share a head of keys and values."""

    def __init__(self, head: int) -> None:
        super().__init__()
        self.head = head

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Return the mixed values, heads side by side."""
        q, k, v = (x.view(*x.shape[:2], -1, self.head).transpose(1, 2) for x in (q, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=q.shape[1] != k.shape[1])
        return mixed.transpose(1, 2).flatten(2)


class SiluMul(nn.Module):
    """The gate's silu times the other branch."""

    def forward(self, gate: Tensor, up: Tensor) -> Tensor:
        """Return the product."""
        return F.silu(gate) * up


def attention_part(width: int, heads: int, kv_heads: int, head: int) -> Part:
    """Make the first half of a block."""
    return Part(
        norm=nn.RMSNorm(width, eps=1e-5),
        q=nn.Linear(width, heads * head, bias=False),
        k=nn.Linear(width, kv_heads * head, bias=False),
        v=nn.Linear(width, kv_heads * head, bias=False),
        rope=Rope(head),
        attention=Attention(head),
        o=nn.Linear(heads * head, width, bias=False),
        add=Add(),
    )


def run_attention(half: Part, x: Tensor) -> Tensor:
    """Run the first half of a block."""
    h = half.norm(x)
    q, k, v = half.q(h), half.k(h), half.v(h)
    return half.add(half.o(half.attention(*half.rope(q, k), v)), x)  # type: ignore[no-any-return]


class Block(nn.Module):
    """One block."""

    def __init__(self, graph: LayerGraph, width: int) -> None:
        super().__init__()
        first = "layers.0.attention"
        sizes = (size_of(graph, f"{first}.q", "heads"), size_of(graph, f"{first}.k", "kv_heads"))
        self.attention = attention_part(width, *sizes, size_of(graph, f"{first}.q", "head"))
        ffn = size_of(graph, "layers.0.mlp.up", "ffn")
        self.mlp = Part(
            norm=nn.RMSNorm(width, eps=1e-5),
            gate=nn.Linear(width, ffn, bias=False),
            up=nn.Linear(width, ffn, bias=False),
            silu_mul=SiluMul(),
            down=nn.Linear(ffn, width, bias=False),
            add=Add(),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Run both halves."""
        x = run_attention(self.attention, x)
        half = self.mlp
        h = half.norm(x)
        return half.add(half.down(half.silu_mul(half.gate(h), half.up(h))), x)  # type: ignore[no-any-return]


class Llama(nn.Module):
    """The whole model."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        vocab, width = shape_of(graph, "embed.weight")
        self.embed = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Block(graph, width) for _ in range(blocks_of(graph, "layers")))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        if "head.weight" not in graph.parameter:
            self.head.weight = self.embed.weight
        self.loss = Loss()

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        x = self.embed(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.loss(self.head(self.norm(x)), targets)  # type: ignore[no-any-return]


@MODULES.add("llama", title="Llama 3 and any other size")
def llama(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a Llama."""
    return Llama(graph), tokens(graph, "tokens", "targets")
