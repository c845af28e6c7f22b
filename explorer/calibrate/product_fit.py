"""Fit the kernels of matrix products to measured products of idle devices.

The fit is of the law in `explorer.costs.products`, evaluated by its own code: descent along one number at a
time from several starts, since a smallest of many tilings has no useful slope. Fractions move as logits,
other numbers as logarithms. What is made small is the mean of |log(predicted / measured)|, where products
under 50 us, mostly launches, count for less. Tilings and splits that hardly any product needs are dropped.
Several devices may be fitted by one set of numbers, which are all relative to data sheets: what a device
takes that nobody measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster import DeviceKind, ProductKernels, Quantising, Tile
from explorer.costs.products import Sizes, alone_seconds, tile_seconds

Array = npt.NDArray[np.float64]

SHAPES = (
    (256, 128), (128, 256), (128, 128), (256, 64), (64, 256), (128, 64), (64, 128), (64, 64),
    (192, 128), (128, 192), (256, 256), (192, 192),
)  # fmt: skip
"""Rows and columns of tilings that libraries have (CUTLASS, cuBLAS)."""
SPLITS = (1, 2, 3, 4, 6, 8)
"""Parts of the depth that are tried."""
COUNTED_S = 50e-6
LEAST_S = 15e-6
"""Shorter products tell of launches alone, and are left out."""
SHORT_WEIGHT = 0.3
"""Weight of a product under `COUNTED_S`."""
SPAN = math.exp(5)
"""Clocks fall until a product is so many times as long as where they begin to."""

_SLOPE = 0.02  # errors below this count by their square: no measurement is better
_PULL = 2e-4  # of what nothing tells, towards the start
_RANGES: dict[str, tuple[float, float, float]] = {
    "tile_depth": (150.0, 1.0, 3000.0), "start_s": (4e-6, 1e-7, 2e-5), "memory_fraction": (0.85, 0.3, 1.0),
    "exposed_memory": (0.1, 1e-3, 1.0), "partial_wave": (0.5, 1e-3, 1.0), "lost": (0.1, 1e-3, 1.0),
    "lost_from_s": (1e-4, 1e-6, 1e-2), "uneven_rows_fraction": (0.9, 0.3, 1.0),
    "row_s": (6e-9, 1e-10, 5e-8), "depth_s": (1e-9, 1e-11, 1e-7), "element_bytes": (7.0, 0.5, 60.0),
}  # fmt: skip
"""Start, least and largest value of each number."""
_OF_PASS = ("row_s", "depth_s", "element_bytes")
_PLAIN = (
    "tile_depth", "partial_wave", "memory_fraction", "exposed_memory", "uneven_rows_fraction", "start_s",
)  # fmt: skip
_OF_EIGHT_BITS = ("uneven_rows_fraction", *_OF_PASS)
_LOGITS = (1.5, -2.5, 5.0)
"""Start, least and largest logit of the fraction of a tiling."""
_ROUNDS = 25
_NEEDLESS = 3e-5  # of the mean error: what a tiling or split must be worth


class MeasuredProducts(NamedTuple):
    """Products measured on one kind of device, in one precision; arrays of one length."""

    kind: DeviceKind
    precision: str
    rows: Array
    columns: Array
    depth: Array
    seconds: Array

    def taken(self, chosen: npt.NDArray[np.bool_]) -> MeasuredProducts:
        """Return some of them."""
        return MeasuredProducts(self.kind, self.precision, *(array[chosen] for array in self[2:]))

    def errors(self, kernels: ProductKernels) -> Array:
        """Return the logarithm of predicted over measured seconds by some kernels."""
        kind = replace(self.kind, product_kernels=((self.precision, kernels),))
        predicted = alone_seconds(kind, self.precision, self.rows, self.columns, self.depth)
        found: Array = np.log(predicted / self.seconds)
        return found


class _Timer:
    """Times products by kernels that differ little from one call to the next: tilings keep their seconds."""

    _MOST = 256  # arrays

    def __init__(self, products: MeasuredProducts) -> None:
        self.products = products
        self.sizes = Sizes(np.ones_like(products.rows), products.rows, products.columns, products.depth)
        self.known: dict[tuple[Any, ...], Array] = {}

    def errors(self, kernels: ProductKernels) -> Array:
        """Return `MeasuredProducts.errors`."""
        kind, precision, *sizes, seconds = self.products
        kind = replace(kind, product_kernels=((precision, kernels),))
        tiled = np.min([self._of(kind, precision, kernels, tile) for tile in kernels.tiles], axis=0)
        found: Array = np.log(alone_seconds(kind, precision, *sizes, tiled=tiled) / seconds)
        return found

    def _of(self, kind: DeviceKind, precision: str, kernels: ProductKernels, tile: Tile) -> Array:
        key = (tile, kernels.splits, kernels.tile_depth, kernels.partial_wave)
        if key not in self.known:
            if len(self.known) >= self._MOST:
                self.known.clear()
            alone = replace(kernels, tiles=(tile,))
            self.known[key] = tile_seconds(kind, alone, precision, self.sizes)
        return self.known[key]


def halves(products: MeasuredProducts, seed: int = 0) -> npt.NDArray[np.bool_]:
    """Return which products are fitted if the others judge: no pair of columns and depth is on both sides."""
    pairs, of_pair = np.unique(np.stack([products.columns, products.depth]), axis=1, return_inverse=True)
    order = np.random.default_rng(seed).permutation(pairs.shape[1])
    chosen: npt.NDArray[np.bool_] = order[of_pair.reshape(-1)] < pairs.shape[1] // 2
    return chosen


class Space(NamedTuple):
    """What a fit moves: one coordinate for each tiling, then one for each name."""

    shapes: tuple[tuple[int, int], ...]
    splits: tuple[int, ...]
    names: tuple[str, ...]

    def bounds(self) -> Array:
        """Return start, least and largest coordinates, shape (3, coordinates)."""
        numbers = [np.log(_RANGES[name]) for name in self.names]
        return np.array([_LOGITS] * len(self.shapes) + numbers).T

    def at(self, point: Array) -> ProductKernels:
        """Return the kernels at a point."""
        count = len(self.shapes)
        fractions = (1 / (1 + np.exp(-point[:count]))).tolist()
        number = dict(zip(self.names, np.exp(point[count:]).tolist(), strict=True))
        begin, lost = number["lost_from_s"], number["lost"]
        return ProductKernels(
            tiles=tuple(
                Tile(rows=rows, columns=columns, fraction=fraction)
                for (rows, columns), fraction in zip(self.shapes, fractions, strict=True)
            ),
            splits=self.splits,
            sustained=((begin, 1.0), (begin * SPAN, 1 / (1 + lost))),
            quantising=Quantising(**{name: number[name] for name in _OF_PASS if name in number}),
            **{name: number[name] for name in _PLAIN if name in number},
        )


Loss = Callable[[ProductKernels], float]


def fit_products(
    measured: Sequence[MeasuredProducts], *, starts: int = 4, seed: int = 0, ways: int = 24
) -> ProductKernels:
    """Return the kernels that explain measured products best; of several devices each counts the same.

    Args:
        measured: products of one or several kinds, all in one precision.
        starts: points from which to descend.
        seed: of the points.
        ways: most tilings times splits that are kept.
    """
    used = [_Timer(item.taken(item.seconds >= LEAST_S)) for item in measured]
    eight = measured[0].precision == "fp8"
    names = tuple(name for name in _RANGES if eight or name not in _OF_EIGHT_BITS)

    def loss(kernels: ProductKernels) -> float:
        return float(np.mean([_loss(item, kernels) for item in used]))

    space = Space(SHAPES, SPLITS, names)
    first = space.bounds()[0]
    tries = []
    for number in range(starts):
        luck = np.random.default_rng((seed, number))
        start = first + luck.normal(0.0, 0.5, len(first)) * (number > 0)
        tries.append(_descended(space, loss, start, luck))
    best = min(tries, key=lambda found: found[0])[1]
    space, best = _pruned(space, loss, best, ways)
    return rounded(space.at(_descended(space, loss, best, np.random.default_rng(seed))[1]))


def _descended(space: Space, loss: Loss, start: Array, luck: np.random.Generator) -> tuple[float, Array]:
    """Descend along one coordinate at a time, with a step for each that grows while it helps."""
    origin, low, high = space.bounds()

    def height(point: Array) -> float:
        return loss(space.at(point)) + _PULL * float(np.mean((point - origin) ** 2))

    point = np.clip(start, low, high)
    least, steps = height(point), np.full(len(point), 0.4)
    for _ in range(_ROUNDS):
        before = least
        for i in luck.permutation(len(point)):
            for sign in (1.0, -1.0):
                tried = point.copy()
                tried[i] = min(max(tried[i] + sign * steps[i], low[i]), high[i])
                if (found := height(tried)) < least:
                    least, point, steps[i] = found, tried, steps[i] * 1.3
                    break
            else:
                steps[i] = max(steps[i] * 0.6, 0.01)
        if before - least < 1e-5 and steps.max() < 0.03:
            break
    return least, point


def _pruned(space: Space, loss: Loss, point: Array, ways: int) -> tuple[Space, Array]:
    """Drop tilings and splits one by one, each time the one that is missed least."""
    while True:
        now = loss(space.at(point))
        options = [_without(space, point, i) for i in range(len(space.shapes)) if len(space.shapes) > 1]
        options += [
            (space._replace(splits=tuple(one for one in space.splits if one != split)), point)
            for split in space.splits[1:]
        ]
        if not options:
            return space, point
        # what a way fewer costs: a split is as many ways as there are tilings
        costs = [(loss(left.at(at)) - now) / (_ways(space) - _ways(left)) for left, at in options]
        least = int(np.argmin(costs))
        if costs[least] > _NEEDLESS and _ways(space) <= ways:
            return space, point
        space, point = options[least]


def _ways(space: Space) -> int:
    return len(space.shapes) * len(space.splits)


def _without(space: Space, point: Array, i: int) -> tuple[Space, Array]:
    shapes = (*space.shapes[:i], *space.shapes[i + 1 :])
    return space._replace(shapes=shapes), np.delete(point, i)


def _loss(timer: _Timer, kernels: ProductKernels) -> float:
    weight = np.where(timer.products.seconds >= COUNTED_S, 1.0, SHORT_WEIGHT)
    size = np.sqrt(timer.errors(kernels) ** 2 + _SLOPE**2)
    return float((weight * size).sum() / weight.sum())


def rounded(kernels: ProductKernels) -> ProductKernels:
    """Return the kernels with three digits, as a profile states them; the largest tilings first."""
    tiles = sorted(kernels.tiles, key=lambda tile: (-tile.rows * tile.columns, -tile.rows))
    own = kernels.quantising
    plain: dict[str, Any] = {name: _short(getattr(kernels, name)) for name in _PLAIN}
    return replace(
        kernels,
        tiles=tuple(replace(tile, fraction=_short(tile.fraction)) for tile in tiles),
        sustained=tuple((_short(size), _short(share)) for size, share in kernels.sustained),
        quantising=Quantising(**{name: _short(getattr(own, name)) for name in _OF_PASS}),
        **plain,
    )


def _short(value: float) -> float:
    return float(f"{value:.3g}")
