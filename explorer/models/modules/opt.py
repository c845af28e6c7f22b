"""OPT-350M as a module: post-norm blocks and an embedding narrower than the model (`explorer.models.opt`)."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import Loss, blocks_of, missing, shape_of, size_of, tokens
from explorer.models.modules.bert import Block
from explorer.models.modules.gpt import Positions


class Opt(nn.Module):
    """The whole model."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        fused = "layers.0.attention.attention"
        if fused not in graph.layer or any(layer.kind == "dropout" for layer in graph.layers):
            raise missing(graph, fused)
        (vocab, word), (width, _) = shape_of(graph, "embed.weight"), shape_of(graph, "project_in.weight")
        self.embed = nn.Embedding(vocab, word)
        self.project_in = nn.Linear(word, width, bias=False)
        self.positions = Positions(shape_of(graph, "positions.weight")[0], width)
        sizes = size_of(graph, fused, "heads"), size_of(graph, "layers.0.mlp.up", "ffn")
        count = blocks_of(graph, "layers")
        self.layers = nn.ModuleList(Block(width, *sizes, causal=True, relu=True) for _ in range(count))
        self.project_out = nn.Linear(width, word, bias=False)
        self.head, self.loss = nn.Linear(word, vocab, bias=False), Loss()
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        x = self.positions(self.project_in(self.embed(tokens)))
        for layer in self.layers:
            x = layer(x)
        return self.loss(self.head(self.project_out(x)), targets)  # type: ignore[no-any-return]


@MODULES.add("opt", title="OPT-350M")
def opt(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of an OPT."""
    return Opt(graph), tokens(graph, "tokens", "targets")
