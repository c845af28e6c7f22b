"""Factories that the tests of `module.path:factory` call."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from explorer.graph import Layer, LayerGraph


class Residual(nn.Module):
    """Two convolutions with a skip connection, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(8, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norm(self.first(x)))
        x = x + self.second(x)
        return self.head(x.mean((2, 3)))


class Answer:
    """A result that torch.export cannot describe."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits = logits


class Opaque(nn.Module):
    """Returns an object of a class of its own, which no export can follow."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> Answer:
        for block in self.blocks:
            x = block(x)
        return Answer(self.head(x))


def residual() -> Any:
    return Residual(), (torch.zeros(1, 3, 16, 16),)


def residual_on_meta() -> Any:
    with torch.device("meta"):
        return Residual(), {"x": torch.zeros(1, 3, 16, 16)}


def opaque() -> Any:
    return Opaque(), (torch.zeros(1, 8),)


def encoder(sequence_length: int = 16) -> Any:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 3), (torch.zeros(1, sequence_length, 32),)


def frozen() -> Any:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model[0].requires_grad_(False)
    return model, (torch.zeros(1, 8),)


def graph() -> LayerGraph:
    return LayerGraph(name="own", layers=(Layer(name="only"),))


def two_samples() -> Any:
    return nn.Linear(8, 8), (torch.zeros(2, 8),)


def nothing() -> None:
    return None


def failing() -> Any:
    raise RuntimeError("no\nluck")


def wrong_shape() -> Any:
    return nn.Linear(8, 8), (torch.zeros(1, 9),)


NUMBER = 3
