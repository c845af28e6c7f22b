"""BERT as a module: post-norm blocks, token types and a pooler (`explorer.models.bert`)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import FirstToken, blocks_of, shape_of, size_of, tokens
from explorer.models.modules.gpt import Positions, attention_part, feed_forward_part


class Types(nn.Module):
    """A learned vector for each type of token, added to what is there."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(count, width)

    def forward(self, x: Tensor, types: Tensor) -> Tensor:
        """Add the vectors of the types."""
        return x + nn.functional.embedding(types, self.table.weight)


class Outputs(nn.Module):
    """A stand-in for the losses of pre-training: one pass over hidden states and pooled vector."""

    def forward(self, x: Tensor, pooled: Tensor) -> Tensor:
        """Return a scalar, a mean over samples."""
        return x.square().mean() + pooled.mean()


class Block(nn.Module):
    """One block, with norms behind the additions."""

    def __init__(self, width: int, heads: int, ffn: int, *, causal: bool = False, relu: bool = False) -> None:
        super().__init__()
        self.attention = attention_part(width, heads, causal=causal)
        self.mlp = feed_forward_part(width, ffn, relu=relu)

    def forward(self, x: Tensor) -> Tensor:
        """Run both halves."""
        half = self.attention
        x = half.norm(half.add(half.proj(half.attention(half.qkv(x))), x))
        half = self.mlp
        act = half.relu if hasattr(half, "relu") else half.gelu
        return half.norm(half.add(half.down(act(half.up(x))), x))  # type: ignore[no-any-return]


class Bert(nn.Module):
    """The whole model."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        vocab, width = shape_of(graph, "embed.weight")
        self.embed = nn.Embedding(vocab, width)
        self.positions = Positions(shape_of(graph, "positions.weight")[0], width)
        self.types = Types(shape_of(graph, "types.weight")[0], width)
        self.embed_norm = nn.LayerNorm(width)
        heads = size_of(graph, "layers.0.attention.attention", "heads")
        ffn = size_of(graph, "layers.0.mlp.up", "ffn")
        self.layers = nn.ModuleList(Block(width, heads, ffn) for _ in range(blocks_of(graph, "layers")))
        self.first, self.pooler, self.pooler_tanh = FirstToken(), nn.Linear(width, width), nn.Tanh()
        self.loss = Outputs()

    def forward(self, tokens: Tensor, token_types: Tensor) -> Tensor:
        """Return the loss."""
        x = self.embed_norm(self.types(self.positions(self.embed(tokens)), token_types))
        for layer in self.layers:
            x = layer(x)
        return self.loss(x, self.pooler_tanh(self.pooler(self.first(x))))  # type: ignore[no-any-return]


@MODULES.add("bert", title="BERT")
def bert(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a BERT."""
    return Bert(graph), tokens(graph, "tokens", "token_types")
