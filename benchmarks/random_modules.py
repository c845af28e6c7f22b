"""Small modules of odd shapes, for campaigns of random plans: `benchmarks.random_modules:tied`."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional


class Tied(nn.Module):
    """Words read and said with one table, and a block that is called twice."""

    def __init__(self, vocab: int = 500, width: int = 128) -> None:
        super().__init__()
        self.embed, self.block, self.norm = (
            nn.Embedding(vocab, width), nn.Linear(width, width), nn.LayerNorm(width),
        )  # fmt: skip
        self.head = nn.Linear(width, vocab, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Return a score for every word at every place."""
        x = self.embed(tokens)
        x = x + torch.tanh(self.block(x))
        return self.head(self.norm(x))  # type: ignore[no-any-return]


class Ports(nn.Module):
    """Two inputs of different shapes, three outputs, and one input that the last layer reads again."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right, self.mix = nn.Linear(64, 128), nn.Linear(96, 128), nn.Linear(256, 192)
        self.act, self.first, self.second = nn.SiLU(), nn.Linear(192, 5), nn.Linear(192 + 64, 3)

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, other scores, and what both were made of."""
        both = torch.cat([self.left(a), self.right(b)], -1)
        x = self.act(self.mix(both))
        return self.first(x), self.second(torch.cat([x, a], -1)), x.mean(-1)


class Basic(nn.Module):
    """The basic block of ResNet-18."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.norm1, self.norm2, self.act = nn.BatchNorm2d(out), nn.BatchNorm2d(out), nn.ReLU()
        self.down = nn.Sequential()
        if stride > 1 or channels != out:
            self.down = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: Tensor) -> Tensor:
        """Run the block."""
        y = self.norm2(self.conv2(self.act(self.norm1(self.conv1(x)))))
        return self.act(y + self.down(x))  # type: ignore[no-any-return]


class ResNet18(nn.Module):
    """ResNet-18 of few channels."""

    def __init__(self, width: int = 8, classes: int = 10) -> None:
        super().__init__()
        self.stem, self.norm, self.act = (
            nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        )  # fmt: skip
        sizes = [width, width, 2 * width, 4 * width]
        self.blocks = nn.ModuleList(
            Basic(sizes[i] if not j else sizes[i + 1], sizes[i + 1], 2 if i and not j else 1)
            for i in range(3)
            for j in range(2)
        )
        self.head = nn.Linear(4 * width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of classes."""
        x = self.act(self.norm(self.stem(x)))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))  # type: ignore[no-any-return]


class Vgg(nn.Module):
    """Convolutions with bias, pooled, and wide linear layers behind, as in VGG."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classifier = nn.Sequential(nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        """Return scores of classes."""
        return self.classifier(torch.flatten(self.features(x), 1))  # type: ignore[no-any-return]


class Nested(nn.Module):
    """A U of layers: each on the way back reads what its opposite wrote; one table of weights is frozen."""

    def __init__(self, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(depth))
        self.fixed, self.head = nn.Linear(8, width), nn.Linear(width, 4)
        self.fixed.requires_grad_(requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return scores."""
        x, kept = self.fixed(x), []
        for layer in self.down:
            x = functional.gelu(layer(x))
            kept.append(x)
        for layer, old in zip(self.up, reversed(kept), strict=True):
            x = functional.gelu(layer(torch.cat([x, old], -1)))
        return self.head(x)  # type: ignore[no-any-return]


class Learned(nn.Module):
    """Parameters that no layer holds, scalars among them, and a loss of its own."""

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, width), nn.Linear(width, width)
        self.scale, self.shift = nn.Parameter(torch.ones(())), nn.Parameter(torch.zeros(width))
        self.query = nn.Parameter(torch.randn(1, 3, width))
        self.head = nn.Linear(width, 5)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of a sample of tokens, pooled by learned queries."""
        y = torch.tanh(self.first(x)) * self.scale + self.shift
        y = functional.scaled_dot_product_attention(self.query.expand(len(y), -1, -1), y, y)
        logits = self.head(self.second(y).mean(1))
        return functional.cross_entropy(logits, targets)


def tied() -> tuple[nn.Module, dict[str, Any]]:
    """Return a module with a tied table."""
    return Tied(), {"tokens": torch.zeros(1, 8, dtype=torch.long)}


def ports() -> tuple[nn.Module, dict[str, Any]]:
    """Return a module with several inputs and outputs."""
    return Ports(), {"a": torch.zeros(1, 64), "b": torch.zeros(1, 96)}


def resnet18() -> tuple[nn.Module, dict[str, Any]]:
    """Return a small ResNet-18."""
    return ResNet18(), {"x": torch.zeros(1, 3, 16, 16)}


def vgg() -> tuple[nn.Module, dict[str, Any]]:
    """Return a small VGG."""
    return Vgg(), {"x": torch.zeros(1, 3, 16, 16)}


def nested() -> tuple[nn.Module, dict[str, Any]]:
    """Return a module with nested skip connections and a frozen layer."""
    return Nested(), {"x": torch.zeros(1, 5, 8)}


def learned() -> tuple[nn.Module, dict[str, Any]]:
    """Return a module with parameters of its own and a loss."""
    return Learned(), {"x": torch.zeros(1, 6, 8), "targets": torch.zeros(1, dtype=torch.long)}
