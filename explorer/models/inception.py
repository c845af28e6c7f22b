"""Inception-v3 as in torchvision: a stem and eleven modules of parallel branches that are concatenated.

It has 27,161,264 parameters with its auxiliary classifier, a branch with its own loss that only training has;
without it (`--set aux=false`) 23,834,568, which is also what inference loads. Dropout is left out.
"""

from __future__ import annotations

from explorer.base.registry import Option
from explorer.graph import Defaults, LayerGraph
from explorer.models import SOURCES
from explorer.models._images import Window
from explorer.models.builder import GraphBuilder, Value
from explorer.models.vgg import IMAGENET_SAMPLES, refuse_sequence

PAPER = "Szegedy et al. 2015, Rethinking the Inception Architecture for Computer Vision, arXiv:1512.00567"
_CLASSES = 1000
_EPOCHS_SOURCE = (
    "Szegedy et al., section 8: 50 replicas of a batch of 32, 100 epochs. One batch only: the curve of Pal et"
    " al. 2019 could not be looked up"
)
_WIDE, _TALL = (1, 7), (7, 1)


def _conv(
    b: GraphBuilder, name: str, x: Value, channels: int, kernel: Window, stride: int = 1, *, same: bool = True
) -> Value:
    """Add a convolution without bias, batch normalisation and relu; `same` keeps the size at stride 1."""
    sides = kernel if isinstance(kernel, tuple) else (kernel, kernel)
    padding = tuple(side // 2 for side in sides) if same else 0
    x = b.conv2d(f"{name}.conv", x, channels, kernel, stride=stride, padding=padding)
    return b.activation(f"{name}.relu", b.batch_norm(f"{name}.bn", x), saves="output")


def _chain(b: GraphBuilder, name: str, x: Value, *steps: tuple[int, Window]) -> Value:
    """Add convolutions of (channels, kernel) one after the other, each keeping the size."""
    for i, (channels, kernel) in enumerate(steps, start=1):
        x = _conv(b, f"{name}.{i}", x, channels, kernel)
    return x


def _pooled(b: GraphBuilder, x: Value, channels: int) -> Value:
    return _conv(b, "pool", b.average_pool("pool.mean", x, 3, stride=1, padding=1), channels, 1)


def _join(b: GraphBuilder, *branches: Value) -> Value:
    return b.concat("concat", *branches, axis="channels")


def _module_a(b: GraphBuilder, x: Value, pool: int) -> Value:
    """Add the module of figure 5: 5x5 next to two 3x3."""
    double = _chain(b, "double", x, (64, 1), (96, 3), (96, 3))
    return _join(
        b,
        _chain(b, "single", x, (64, 1)),
        _chain(b, "five", x, (48, 1), (64, 5)),
        double,
        _pooled(b, x, pool),
    )


def _module_b(b: GraphBuilder, x: Value) -> Value:
    """Add the module of figure 10, which halves the grid of 35 x 35."""
    single = _conv(b, "single", x, 384, 3, 2, same=False)
    double = _conv(b, "double.3", _chain(b, "double", x, (64, 1), (96, 3)), 96, 3, 2, same=False)
    return _join(b, single, double, b.max_pool("pool", x, 3, stride=2))


def _module_c(b: GraphBuilder, x: Value, width: int) -> Value:
    """Add the module of figure 6: 7x7 as 1x7 and 7x1."""
    single = _chain(b, "single", x, (192, 1))
    seven = _chain(b, "seven", x, (width, 1), (width, _WIDE), (192, _TALL))
    double = _chain(b, "double", x, (width, 1), (width, _TALL), (width, _WIDE), (width, _TALL), (192, _WIDE))
    return _join(b, single, seven, double, _pooled(b, x, 192))


def _module_d(b: GraphBuilder, x: Value) -> Value:
    """Add the module that halves the grid of 17 x 17."""
    three = _conv(b, "three.2", _chain(b, "three", x, (192, 1)), 320, 3, 2, same=False)
    seven = _chain(b, "seven", x, (192, 1), (192, _WIDE), (192, _TALL))
    seven = _conv(b, "seven.4", seven, 192, 3, 2, same=False)
    return _join(b, three, seven, b.max_pool("pool", x, 3, stride=2))


def _module_e(b: GraphBuilder, x: Value) -> Value:
    """Add the module of figure 7: 3x3 as 1x3 next to 3x1."""
    three, double = _chain(b, "three", x, (384, 1)), _chain(b, "double", x, (448, 1), (384, 3))
    split = [
        _conv(b, f"{name}.{side}", value, 384, kernel)
        for name, value in (("three", three), ("double", double))
        for side, kernel in (("wide", (1, 3)), ("tall", (3, 1)))
    ]
    return _join(b, _chain(b, "single", x, (320, 1)), *split, _pooled(b, x, 192))


def _stem(b: GraphBuilder) -> Value:
    """Add the stem, from 299 x 299 to 35 x 35, as in table 1."""
    x = b.input("images", {"channels": 3, "height": 299, "width": 299})
    with b.block("stem"):
        x = _conv(b, "1", x, 32, 3, 2, same=False)
        x = _conv(b, "2", x, 32, 3, same=False)
        x = b.max_pool("pool1", _conv(b, "3", x, 64, 3), 3, stride=2)
        x = _conv(b, "5", _conv(b, "4", x, 80, 1), 192, 3, same=False)
        return b.max_pool("pool2", x, 3, stride=2)


def _classifier(b: GraphBuilder, x: Value) -> Value:
    return b.linear("head", b.mean("mean", x).seen_as("embed"), {"vocab": _CLASSES}, bias=True)


def _auxiliary(b: GraphBuilder, x: Value, targets: Value) -> Value:
    """Add the auxiliary classifier and its loss (section 4; figure 8)."""
    with b.block("aux"):
        x = _conv(b, "1", b.average_pool("pool", x, 5, stride=3), 128, 1)
        return b.loss("loss", _classifier(b, _conv(b, "2", x, 768, 5, same=False)), targets)


@SOURCES.add(
    "inception-v3", title="Inception-v3", paper=PAPER, family="inception", parameters=27_161_264,
    options=(Option(name="aux", default=True, help="with the auxiliary classifier, which training has"),),
)  # fmt: skip
def inception_v3(*, aux: bool, sequence_length: int | None = None) -> LayerGraph:
    """Build Inception-v3 for images of 3 x 299 x 299 and 1000 classes."""
    refuse_sequence("inception-v3", sequence_length)
    # RMSProp, which like momentum keeps one state.
    defaults = Defaults(
        global_batch=64, precision="fp32", optimizer="momentum", samples_per_epoch=IMAGENET_SAMPLES,
        epochs=((1600, 100.0),), epochs_source=_EPOCHS_SOURCE,
    )  # fmt: skip
    b = GraphBuilder("inception-v3", defaults=defaults, source=PAPER)
    x, targets = _stem(b), b.input("targets", {}, dtype="int64")
    for i, pool in enumerate((32, 64, 64)):
        with b.block(f"a.{i}"):
            x = _module_a(b, x, pool)
    with b.block("b"):
        x = _module_b(b, x)
    for i, width in enumerate((128, 160, 160, 192)):
        with b.block(f"c.{i}"):
            x = _module_c(b, x, width)
    losses = [_auxiliary(b, x, targets)] if aux else []
    with b.block("d"):
        x = _module_d(b, x)
    for i in range(2):
        with b.block(f"e.{i}"):
            x = _module_e(b, x)
    losses.insert(0, b.loss("loss", _classifier(b, x), targets))
    if aux:
        b.add("total", *losses)
    return b.build()
