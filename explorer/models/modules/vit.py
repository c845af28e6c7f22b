"""Vision transformer as a module (`explorer.models.vit`)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from explorer.graph import LayerGraph
from explorer.models.modules import MODULES
from explorer.models.modules._parts import FirstToken, Loss, blocks_of, images_and_targets, shape_of, size_of
from explorer.models.modules.gpt import Block


class Tokens(nn.Module):
    """Patches in a row behind the learned class token, with learned positions."""

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.randn(width))
        self.positions = nn.Parameter(torch.randn(count, width))

    def forward(self, patches: Tensor) -> Tensor:
        """Return the tokens."""
        rows = patches.flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(rows.shape[0], 1, -1), rows], 1) + self.positions


class Vit(nn.Module):
    """The whole model."""

    def __init__(self, graph: LayerGraph) -> None:
        super().__init__()
        width, channels, patch, _ = shape_of(graph, "patches.weight")
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.tokens = Tokens(shape_of(graph, "tokens.positions")[0], width)
        heads = size_of(graph, "layers.0.attention.attention", "heads")
        ffn = size_of(graph, "layers.0.mlp.up", "ffn")
        count = blocks_of(graph, "layers")
        self.layers = nn.ModuleList(Block(width, heads, ffn, causal=False) for _ in range(count))
        self.norm, self.first = nn.LayerNorm(width), FirstToken()
        self.head, self.loss = nn.Linear(width, shape_of(graph, "head.bias")[0]), Loss()

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        """Return the loss."""
        x = self.tokens(self.patches(images))
        for layer in self.layers:
            x = layer(x)
        return self.loss(self.head(self.first(self.norm(x))), targets)  # type: ignore[no-any-return]


@MODULES.add("vit", title="ViT-L/16")
def vit(graph: LayerGraph) -> tuple[nn.Module, Mapping[str, Tensor]]:
    """Make the module of a vision transformer."""
    return Vit(graph), images_and_targets(graph)
