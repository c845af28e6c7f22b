"""Modules that a user might bring, for campaigns of real runs: `benchmarks.user_modules:skip`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Block(nn.Module):
    """Two linear layers around a GELU, with a connection that skips them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.act = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU()
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        return x + self.down(self.act(self.up(self.norm(x))))  # type: ignore[no-any-return]


class Skipping(nn.Module):
    """Blocks, and a connection from the first layer over all of them to the head."""

    def __init__(self, width: int = 512, blocks: int = 6) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(64, width), nn.Linear(2 * width, 16)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores for each of 64 places."""
        first = x = torch.relu(self.first(x))
        for block in self.blocks:
            x = block(x)
        return self.head(torch.cat([x, first], -1))  # type: ignore[no-any-return]


def skip() -> tuple[nn.Module, dict[str, Any]]:
    """Return the module and an example of its inputs."""
    return Skipping(), {"x": torch.zeros(1, 64, 64)}
