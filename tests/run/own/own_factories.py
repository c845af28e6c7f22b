"""Modules of users, which own layers are tested on."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Skip(nn.Module):
    """Linear layers with a connection over all of them, batch normalisation, dropout and two outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.head, self.side = nn.Linear(8, 4), nn.Linear(8, 1)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 8), persistent=False)

    def forward(self, x: Any, mask: Any) -> Any:
        x = torch.relu(self.first(x)) * self.scale
        y = self.drop(self.norm(self.second(x)))
        y = torch.where(mask > 0, torch.relu(y), 0.1 * y)
        y = self.third(y) + x
        return self.head(y), self.side(y)


def skip() -> Any:
    """A user's module with inputs by name."""
    return Skip(), {"x": torch.zeros(1, 6), "mask": torch.ones(1, 8, dtype=torch.long)}


class Touchy(nn.Module):
    """Layers whose outputs turn some thousand times faster than their inputs: in fp32 no digit of a gradient
    is sure.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = torch.sin(3000 * self.first(x))
        return self.head(torch.sin(3000 * self.second(x)))


def touchy() -> Any:
    """A module that no precision is enough for."""
    return Touchy(), {"x": torch.zeros(1, 6)}


class Block(nn.Module):
    """A residual block of two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(x)))


class Stack(nn.Module):
    """Twelve equal blocks between an input and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
        self.blocks = nn.ModuleList(Block() for _ in range(12))

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def stack() -> Any:
    """A user's module whose blocks can be taken away."""
    return Stack(), {"x": torch.zeros(1, 6)}


class Noisy(nn.Module):
    """Layers around random numbers that are no dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.head(x + torch.rand_like(x))


def noisy() -> Any:
    """A user's module of which no two runs compute the same."""
    return Noisy(), {"x": torch.zeros(1, 6)}


class Rows(nn.Module):
    """Pairs of samples pass between its layers: a tensor that grows with the square of the samples."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        pairs = torch.tanh(x[:, None] + x[None])
        return self.head(pairs).mean(1)


def rows() -> Any:
    """A user's module that cannot be cut between its layers."""
    return Rows(), {"x": torch.zeros(1, 6)}


class Turned(nn.Module):
    """A feed-forward whose hidden scalars change places on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Any) -> Any:
        return x + self.down(torch.relu(self.up(x)).flip(-1))


def turned() -> Any:
    """A user's module that cannot be cut inside of its feed-forward."""
    return Turned(), {"x": torch.zeros(1, 4, 8)}


class Particular(nn.Module):
    """Linear layers with one more function between them in fp64."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.act, self.head = nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.head(self.act(x) if x.dtype == torch.float64 else x)


def particular() -> Any:
    """A user's module that computes something else in fp64."""
    return Particular(), {"x": torch.zeros(1, 6)}


class Pictures(nn.Module):
    """Convolutions with a norm between them, one of them of single pixels, over small pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.second, self.mix = nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 12, 1)
        self.head = nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.norm(self.first(x)))
        x = torch.tanh(self.mix(self.second(x)))
        return self.head(x.mean((2, 3)))


def pictures() -> Any:
    """A user's convolutional module."""
    return Pictures(), {"x": torch.zeros(1, 3, 6, 6)}


class Lifting(nn.Module):
    """Sines in fp32, whatever the precision of the layers around."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.second(torch.sin(self.first(x).float()).to(x.dtype))


def lifting() -> Any:
    """A module with casts of its own."""
    return Lifting(), {"x": torch.zeros(1, 6)}


class Single(nn.Module):
    """A layer that wants its input in fp32, and so its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.router = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.router(self.first(x).float())


def single() -> Any:
    """A module that cannot be in bf16 as a whole."""
    return Single(), {"x": torch.zeros(1, 6)}


class Scaled(nn.Module):
    """A norm in fp32 that is cast to the data type of its input, as Gemma's is."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: Any) -> Any:
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1 + self.weight.float())).type_as(x)


class Casting(nn.Module):
    """A norm that two layers read, each behind the cast at its end, and a constant of another's shape."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Linear(6, 8), Scaled()
        self.left, self.right, self.head = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        y = self.norm(x)
        y = torch.where(y > 0, self.left(y) * self.right(y), torch.zeros_like(x))
        return self.head(y)


def casting() -> Any:
    """A user's module whose layers take data type and shape of tensors that they do not read."""
    return Casting(), {"x": torch.zeros(1, 6)}


class Gated(nn.Module):
    """A layer that decides which way is taken, so that no loss depends on its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.gate, self.second, self.head = (
            nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 4),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        x = torch.tanh(self.first(x))
        return self.head(torch.where(self.gate(x) > 0, self.second(x), x))


def gated() -> Any:
    """A user's module with weights that no loss depends on."""
    return Gated(), {"x": torch.zeros(1, 6)}


class Endless(nn.Module):
    """A layer whose outputs are no numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(6, 8), nn.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.head(torch.log(-torch.exp(self.first(x))))


def endless() -> Any:
    """A user's module that gives no numbers."""
    return Endless(), {"x": torch.zeros(1, 6)}


class Placed(nn.Module):
    """Words at places that a buffer numbers: a layer that reads nothing of others."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(20, 8), nn.Embedding(16, 8)
        self.register_buffer("numbers", torch.arange(16).unsqueeze(0), persistent=False)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 4)

    def forward(self, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(self.numbers[:, : tokens.shape[1]])
        return self.head(self.norm(x))


def placed() -> Any:
    """A user's module with a table of positions of its own."""
    return Placed(), {"tokens": torch.zeros(1, 8, dtype=torch.long)}
