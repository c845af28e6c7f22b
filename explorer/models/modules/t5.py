"""T5 as a module: encoder and decoder with RMS norms and relative position biases (`explorer.models.t5`)."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import Add, Loss, Part, blocks_of, input_shape, shape_of, tokens

_MOST_DISTANCE = 128


class Bias(nn.Module):
    """A bias of scores by bucket of distance (section 2.1): half the buckets one by one, then logarithms."""

    def __init__(self, buckets: int, heads: int, length: int, *, both_ways: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(buckets, heads))
        self.length, self.both_ways = length, both_ways

    def forward(self) -> Tensor:
        """Return a bias of (heads, seq, seq)."""
        places = torch.arange(self.length, device=self.weight.device)
        return self.weight[self._buckets(places[None, :] - places[:, None])].permute(2, 0, 1)

    def _buckets(self, distance: Tensor) -> Tensor:
        count, first = self.weight.shape[0], torch.zeros_like(distance)
        if self.both_ways:
            count //= 2
            first = (distance > 0) * count
            distance = distance.abs()
        else:
            distance = (-distance).clamp(min=0)
        near = count // 2
        far = (distance.clamp(min=1) / near).log() / math.log(_MOST_DISTANCE / near) * (count - near)
        return first + torch.where(distance < near, distance, (near + far.long()).clamp(max=count - 1))


class Scores(nn.Module):
    """Products of queries and keys, head by head."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        """Return scores of (samples, heads, seq, kv_seq)."""
        q, k = (x.view(*x.shape[:2], self.heads, -1).transpose(1, 2) for x in (q, k))
        return q @ k.transpose(2, 3)


class Context(nn.Module):
    """Mixed values."""

    def forward(self, chances: Tensor, v: Tensor) -> Tensor:
        """Return them with heads side by side."""
        mixed = chances @ v.view(*v.shape[:2], chances.shape[1], -1).transpose(1, 2)
        return mixed.transpose(1, 2).flatten(2)


def attention_part(width: int, heads: int, inner: int, *, biased: bool) -> Part:
    """Make an attention in parts; no bias in any product."""
    more: dict[str, nn.Module] = {"bias": Add()} if biased else {}
    return Part(
        norm=nn.RMSNorm(width, eps=1e-6),
        q=nn.Linear(width, inner, bias=False),
        k=nn.Linear(width, inner, bias=False),
        v=nn.Linear(width, inner, bias=False),
        scores=Scores(heads),
        **more,
        softmax=nn.Softmax(-1),
        context=Context(),
        o=nn.Linear(inner, width, bias=False),
        add=Add(),
    )


def run_attention(part: Part, x: Tensor, source: Tensor | None, bias: Tensor | None) -> Tensor:
    """Run attention to `source`, or to itself."""
    h = part.norm(x)
    read = h if source is None else source
    q, k, v = part.q(h), part.k(read), part.v(read)
    scores = part.scores(q, k)
    chances = part.softmax(scores if bias is None else part.bias(scores, bias))
    return part.add(part.o(part.context(chances, v)), x)  # type: ignore[no-any-return]


class Block(nn.Module):
    """One block of either half."""

    def __init__(self, width: int, heads: int, inner: int, ffn: int, *, decodes: bool) -> None:
        super().__init__()
        self.attention = attention_part(width, heads, inner, biased=True)
        self.cross = attention_part(width, heads, inner, biased=False) if decodes else None
        self.mlp = Part(
            norm=nn.RMSNorm(width, eps=1e-6),
            up=nn.Linear(width, ffn, bias=False),
            relu=nn.ReLU(),
            down=nn.Linear(ffn, width, bias=False),
            add=Add(),
        )

    def forward(self, x: Tensor, bias: Tensor, source: Tensor | None) -> Tensor:
        """Run the block."""
        x = run_attention(self.attention, x, None, bias)
        if self.cross is not None:
            x = run_attention(self.cross, x, source, None)
        part = self.mlp
        return part.add(part.down(part.relu(part.up(part.norm(x)))), x)  # type: ignore[no-any-return]


class Half(nn.Module):
    """The encoder or the decoder."""

    def __init__(self, graph: LayerGraph, name: str, tokens: str, *, decodes: bool) -> None:
        super().__init__()
        vocab, width = shape_of(graph, "embed.weight")
        heads, head, _ = shape_of(graph, f"{name}.0.attention.q.weight")
        ffn = shape_of(graph, f"{name}.0.mlp.up.weight")[0]
        self.embed = nn.Embedding(vocab, width)
        buckets = shape_of(graph, f"{name}.bias.weight")[0]
        self.bias = Bias(buckets, heads, input_shape(graph, tokens)[0], both_ways=not decodes)
        self.layers = nn.ModuleList(
            Block(width, heads, heads * head, ffn, decodes=decodes) for _ in range(blocks_of(graph, name))
        )
        self.norm = nn.RMSNorm(width, eps=1e-6)

    def forward(self, tokens: Tensor, source: Tensor | None) -> Tensor:
        """Run the half."""
        x, bias = self.embed(tokens), self.bias()
        for layer in self.layers:
            x = layer(x, bias, source)
        return self.norm(x)  # type: ignore[no-any-return]


class T5(nn.Module):
    """The whole model; one embedding for both halves and the head."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        self.encoder = Half(graph, "encoder", "tokens", decodes=False)
        self.decoder = Half(graph, "decoder", "shifted", decodes=True)
        vocab, width = shape_of(graph, "embed.weight")
        self.head, self.loss = nn.Linear(width, vocab, bias=False), Loss()
        self.head.weight = self.decoder.embed.weight = self.encoder.embed.weight

    def forward(self, tokens: Tensor, shifted: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        made = self.decoder(shifted, self.encoder(tokens, None))
        return self.loss(self.head(made), targets)  # type: ignore[no-any-return]


@MODULES.add("t5", title="T5 large", list_name="layers")
def t5(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a T5."""
    return T5(graph), tokens(graph, "tokens", "shifted", "targets")
