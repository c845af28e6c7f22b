"""A small Llama as a user would write it, with the three functions that an exported `train.py` asks for."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

EMBED, HEAD, HEADS, KV_HEADS, FFN, VOCAB, BLOCKS, LENGTH = 32, 8, 4, 2, 48, 64, 4, 16


class Attention(nn.Module):
    """Grouped-query attention that takes its number of heads from what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(EMBED)
        self.q = nn.Linear(EMBED, HEADS * HEAD, bias=False)
        self.k = nn.Linear(EMBED, KV_HEADS * HEAD, bias=False)
        self.v = nn.Linear(EMBED, KV_HEADS * HEAD, bias=False)
        self.o = nn.Linear(HEADS * HEAD, EMBED, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = (part(h).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return x + self.o(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    """Gated feed-forward."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(EMBED)
        self.gate = nn.Linear(EMBED, FFN, bias=False)
        self.up = nn.Linear(EMBED, FFN, bias=False)
        self.down = nn.Linear(FFN, EMBED, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Block(nn.Module):
    """One block."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(), FeedForward()

    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.attention(x))


class Decoder(nn.Module):
    """Embedding, blocks, norm and head, called one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, EMBED)
        self.layers = nn.ModuleList(Block() for _ in range(BLOCKS))
        self.norm = nn.RMSNorm(EMBED)
        self.head = nn.Linear(EMBED, VOCAB, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.layers:
            x = block(x)
        return self.head(self.norm(x))


def model() -> nn.Module:
    """Make the model."""
    return Decoder()


def batches(samples: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield random tokens and the next ones, the same on every rank."""
    random = torch.Generator().manual_seed(1)
    while True:
        tokens = torch.randint(VOCAB, (samples, LENGTH + 1), generator=random)
        yield tokens[:, :-1], tokens[:, 1:]


def loss(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy."""
    return F.cross_entropy(outputs.float().flatten(0, 1), targets.flatten())
