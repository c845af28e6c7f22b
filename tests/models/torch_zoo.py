"""Torch modules of images, recurrent nets and recommenders, written from the papers' tables and figures.

Each function gives a module and what runs it on one sample. They are to be made on the meta device or under
fake tensors. LSTMs are in fp64, because in fp32 torch runs them as one call of a library, whose FLOPs it does
not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Built = tuple[Any, Callable[[Any], Any]]


def alexnet() -> Built:
    sizes = [
        (3, 64, 11, 4, 2),
        (64, 192, 5, 1, 2),
        (192, 384, 3, 1, 1),
        (384, 256, 3, 1, 1),
        (256, 256, 3, 1, 1),
    ]
    layers: list[Any] = []
    for i, (before, after, kernel, stride, padding) in enumerate(sizes):
        layers += [nn.Conv2d(before, after, kernel, stride, padding), nn.ReLU()]
        layers += [nn.MaxPool2d(3, 2)] if i in (0, 1, 4) else []
    layers += [nn.AdaptiveAvgPool2d(6), nn.Flatten(), nn.Linear(256 * 36, 4096), nn.ReLU()]
    layers += [nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers), lambda m: m(torch.zeros(1, 3, 224, 224)).sum()


class Unit(nn.Sequential):
    """Convolution, batch normalisation, relu."""

    def __init__(self, before: int, after: int, kernel: Any, stride: int = 1, padding: Any = 0) -> None:
        super().__init__(
            nn.Conv2d(before, after, kernel, stride, padding, bias=False), nn.BatchNorm2d(after), nn.ReLU()
        )


def chain(before: int, *steps: tuple[int, Any]) -> nn.Sequential:
    units = []
    for after, kernel in steps:
        sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
        units.append(Unit(before, after, kernel, padding=tuple(side // 2 for side in sides)))
        before = after
    return nn.Sequential(*units)


def pooled(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(nn.AvgPool2d(3, 1, 1), Unit(before, after, 1))


class Branches(nn.Module):
    """All branches of the input, one after the other along the channels."""

    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Any) -> Any:
        return torch.cat([branch(x) for branch in self.branches], 1)


def module_a(before: int, pool: int) -> Branches:
    five = chain(before, (48, 1), (64, 5))
    return Branches(Unit(before, 64, 1), five, chain(before, (64, 1), (96, 3), (96, 3)), pooled(before, pool))


def module_c(width: int) -> Branches:
    wide, tall = (1, 7), (7, 1)
    seven = chain(768, (width, 1), (width, wide), (192, tall))
    double = chain(768, (width, 1), (width, tall), (width, wide), (width, tall), (192, wide))
    return Branches(Unit(768, 192, 1), seven, double, pooled(768, 192))


def module_e(before: int) -> Branches:
    def split(width: int) -> Branches:
        return Branches(chain(width, (384, (1, 3))), chain(width, (384, (3, 1))))

    three = nn.Sequential(Unit(before, 384, 1), split(384))
    double = nn.Sequential(chain(before, (448, 1), (384, 3)), split(384))
    return Branches(Unit(before, 320, 1), three, double, pooled(before, 192))


class Inception(nn.Module):
    """Inception-v3 with its auxiliary classifier."""

    def __init__(self) -> None:
        super().__init__()
        stem = [Unit(3, 32, 3, 2), Unit(32, 32, 3), Unit(32, 64, 3, 1, 1), nn.MaxPool2d(3, 2)]
        stem += [Unit(64, 80, 1), Unit(80, 192, 3), nn.MaxPool2d(3, 2)]
        halves = nn.Sequential(chain(288, (64, 1), (96, 3)), Unit(96, 96, 3, 2))
        b = Branches(Unit(288, 384, 3, 2), halves, nn.MaxPool2d(3, 2))
        self.first = nn.Sequential(
            *stem, module_a(192, 32), module_a(256, 64), module_a(288, 64), b,
            *(module_c(width) for width in (128, 160, 160, 192)),
        )  # fmt: skip
        self.aux = nn.Sequential(
            nn.AvgPool2d(5, 3), Unit(768, 128, 1), Unit(128, 768, 5), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
            nn.Linear(768, 1000),
        )  # fmt: skip
        three = nn.Sequential(Unit(768, 192, 1), Unit(192, 320, 3, 2))
        seven = nn.Sequential(chain(768, (192, 1), (192, (1, 7)), (192, (7, 1))), Unit(192, 192, 3, 2))
        d = Branches(three, seven, nn.MaxPool2d(3, 2))
        self.second = nn.Sequential(
            d, module_e(1280), module_e(2048), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)
        )

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.second(x).sum() + self.aux(x).sum()


def inception() -> Built:
    # Batch normalisation of one value a channel, in the auxiliary classifier, needs two samples.
    return Inception(), lambda m: m(torch.zeros(2, 3, 299, 299))


class UNet(nn.Module):
    """3D U-Net without padding; normalisation without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(
            self.pair(before, first, second)
            for before, first, second in ((3, 32, 64), (64, 64, 128), (128, 128, 256), (256, 256, 512))
        )
        self.ups = nn.ModuleList(nn.ConvTranspose3d(n, n, 2, 2, bias=False) for n in (512, 256, 128))
        self.up = nn.ModuleList(self.pair(n + 2 * n, n, n) for n in (256, 128, 64))
        self.head = nn.Conv3d(64, 3, 1)

    @staticmethod
    def pair(before: int, first: int, second: int) -> nn.Sequential:
        layers: list[Any] = []
        for after in (first, second):
            layers += [nn.Conv3d(before, after, 3), nn.BatchNorm3d(after, affine=False), nn.ReLU()]
            before = after
        return nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        seen = []
        for i, pair in enumerate(self.down):
            x = pair(functional.max_pool3d(x, 2) if i else x)
            seen.append(x)
        seen.pop()
        for up, pair in zip(self.ups, self.up, strict=True):
            x, side = up(x), seen.pop()
            for axis in (2, 3, 4):
                side = side.narrow(axis, (side.shape[axis] - x.shape[axis]) // 2, x.shape[axis])
            x = pair(torch.cat([x, side], 1))
        return self.head(x)


def unet() -> Built:
    return UNet(), lambda m: m(torch.zeros(1, 3, 132, 132, 116)).sum()


@contextmanager
def fp64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def lstm(before: int, hidden: int, projection: int = 0, *, both: bool = False) -> nn.LSTM:
    return nn.LSTM(before, hidden, proj_size=projection, batch_first=True, bidirectional=both)


class Language(nn.Module):
    """Embedding, LSTMs, and a head of the embedding's words (or, of `sampled` ones)."""

    def __init__(
        self, vocab: int, embed: int, layers: list[nn.LSTM], *, tied: bool, sampled: int = 0
    ) -> None:
        super().__init__()
        self.embed, self.layers, self.sampled = nn.Embedding(vocab, embed), nn.ModuleList(layers), sampled
        self.head = nn.Linear(embed, vocab)
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: Any) -> Any:
        x = self.embed(tokens)
        for layer in self.layers:
            x, _ = layer(x)
        rows = self.sampled or self.head.out_features
        return functional.linear(x, self.head.weight[:rows], self.head.bias[:rows])


def awd_lm(seq: int = 32) -> Built:
    with fp64():
        layers = [lstm(400, 1150), lstm(1150, 1150), lstm(1150, 400)]
        model = Language(10_000, 400, layers, tied=True)
    return model, lambda m: m(torch.zeros(1, seq, dtype=torch.long)).sum()


def biglstm(seq: int = 24) -> Built:
    layers = [lstm(1024, 8192, 1024), lstm(1024, 8192, 1024)]
    model = Language(793_471, 1024, layers, tied=False, sampled=8193)
    return model, lambda m: m(torch.zeros(1, seq, dtype=torch.long)).sum()


class Translator(nn.Module):
    """GNMT of four and four layers (GNMT-16: eight and eight)."""

    def __init__(self, layers: int, vocab: int = 32_320, width: int = 1024) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(vocab, width) for _ in range(2))
        first = [lstm(width, width, both=True), lstm(2 * width, width)]
        self.encoder = nn.ModuleList([*first, *(lstm(width, width) for _ in range(layers - 2))])
        self.decoder = nn.ModuleList(
            [lstm(width, width), *(lstm(2 * width, width) for _ in range(layers - 1))]
        )
        self.q, self.k = (nn.Linear(width, width, bias=False) for _ in range(2))
        self.v = nn.Parameter(torch.zeros(width))
        self.head = nn.Linear(width, vocab)

    def forward(self, source: Any, target: Any) -> Any:
        memory = self.tables[0](source)
        for i, layer in enumerate(self.encoder):
            y, _ = layer(memory)
            memory = y + memory if i > 1 else y
        x, _ = self.decoder[0](self.tables[1](target))
        sums = torch.tanh(self.q(x)[:, :, None] + self.k(memory)[:, None])
        found = torch.softmax(sums @ self.v[:, None], 2)[..., 0] @ memory
        for i, layer in enumerate(list(self.decoder)[1:]):
            y, _ = layer(torch.cat([x, found], 2))
            x = y + x if i else y
        return self.head(x)


def gnmt(layers: int, seq: int = 32) -> Built:
    tokens = torch.zeros(1, seq, dtype=torch.long)
    with fp64():
        model = Translator(layers)
    return model, lambda m: m(tokens, tokens).sum()


class Recommender(nn.Module):
    """DLRM with tables of the given rows."""

    def __init__(self, rows: tuple[int, ...], width: int = 128) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(n, width, mode="sum") for n in rows)
        self.bottom = self.mlp(13, 512, 256, width)
        count = len(rows) + 1
        self.top = self.mlp(width + count * (count - 1) // 2, 1024, 1024, 512, 256)
        self.head = nn.Linear(256, 1)

    @staticmethod
    def mlp(*widths: int) -> nn.Sequential:
        layers: list[Any] = []
        for before, after in pairwise(widths):
            layers += [nn.Linear(before, after), nn.ReLU()]
        return nn.Sequential(*layers)

    def forward(self, dense: Any, indices: Any) -> Any:
        x = self.bottom(dense)
        vectors = torch.stack([x, *(table(indices[:, i : i + 1]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(vectors, vectors.transpose(1, 2))
        i, j = torch.tril_indices(vectors.shape[1], vectors.shape[1], -1)
        return self.head(self.top(torch.cat([x, products[:, i, j]], 1)))


def dlrm(rows: tuple[int, ...]) -> Built:
    indices = torch.zeros(1, len(rows), dtype=torch.long)
    return Recommender(rows), lambda m: m(torch.zeros(1, 13), indices).sum()
