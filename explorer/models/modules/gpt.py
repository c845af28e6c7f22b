"""GPT as a module: pre-norm blocks with learned positions (`explorer.models.gpt`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own habit
from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import Add, Loss, Part, blocks_of, shape_of, size_of, tokens


class Positions(nn.Module):
    """A learned vector for each position, added to what is there."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(count, width))

    def forward(self, x: Tensor) -> Tensor:
        """Add the vectors of the first positions."""
        return x + self.weight[: x.shape[1]]


class Attention(nn.Module):
    """Attention of queries, keys and values that lie side by side."""

    def __init__(self, heads: int, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal

    def forward(self, x: Tensor) -> Tensor:
        """Return the mixed values, heads side by side."""
        q, k, v = x.view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return mixed.transpose(1, 2).flatten(2)


def attention_part(width: int, heads: int, *, causal: bool) -> Part:
    """Make the first half of a block."""
    return Part(
        norm=nn.LayerNorm(width),
        qkv=nn.Linear(width, 3 * width),
        attention=Attention(heads, causal=causal),
        proj=nn.Linear(width, width),
        add=Add(),
    )


def feed_forward_part(width: int, ffn: int, *, relu: bool = False) -> Part:
    """Make the second half of a block."""
    activation: dict[str, nn.Module] = {"relu": nn.ReLU()} if relu else {"gelu": nn.GELU()}
    return Part(
        norm=nn.LayerNorm(width),
        up=nn.Linear(width, ffn),
        **activation,
        down=nn.Linear(ffn, width),
        add=Add(),
    )


class Block(nn.Module):
    """One block."""

    def __init__(self, width: int, heads: int, ffn: int, *, causal: bool = True) -> None:
        super().__init__()
        self.attention = attention_part(width, heads, causal=causal)
        self.mlp = feed_forward_part(width, ffn)

    def forward(self, x: Tensor) -> Tensor:
        """Run both halves."""
        half = self.attention
        x = half.add(half.proj(half.attention(half.qkv(half.norm(x)))), x)
        half = self.mlp
        return half.add(half.down(half.gelu(half.up(half.norm(x)))), x)  # type: ignore[no-any-return]


class Gpt(nn.Module):
    """The whole model."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        vocab, width = shape_of(graph, "embed.weight")
        self.embed = nn.Embedding(vocab, width)
        self.positions = Positions(shape_of(graph, "positions.weight")[0], width)
        heads = size_of(graph, "layers.0.attention.attention", "heads")
        ffn = size_of(graph, "layers.0.mlp.up", "ffn")
        count = blocks_of(graph, "layers")
        self.layers = nn.ModuleList(Block(width, heads, ffn) for _ in range(count))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocab, bias=False)
        if "head.weight" not in graph.parameter:
            self.head.weight = self.embed.weight
        self.loss = Loss()

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        x = self.positions(self.embed(tokens))
        for layer in self.layers:
            x = layer(x)
        return self.loss(self.head(self.norm(x)), targets)  # type: ignore[no-any-return]


@MODULES.add("gpt", title="GPT-2, GPT-3 and any other size")
def gpt(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a GPT."""
    return Gpt(graph), tokens(graph, "tokens", "targets")
