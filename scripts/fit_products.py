"""Fit the tiles of a device kind to measured matrix products, by least absolute error of the logarithm.

    python scripts/fit_products.py system_b200.json b200 b200-sxm-180gb

The file is a system description of SimuMax: fractions of peak by sizes of products (m, n, k). Products
shorter than `--least-ms` are left out of the fit: a device runs them at a clock that it does not sustain once
its power limit bites, as it does in training. Printed are the tiles, the mean error over what was fitted and
over all, and what half of the products predict of the other half.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from explorer.cluster import DeviceKind, Tile
from explorer.cluster_profiles import load_cluster
from explorer.costs.products import product_seconds

Array = npt.NDArray[np.float64]
PRECISION = "bf16"
SHAPES = ((256, 256), (256, 128), (128, 256), (128, 128))
"""Tiles whose fractions are fitted, the two oblong ones alike."""


class Products(NamedTuple):
    """Measured products: sizes and seconds."""

    batch: Array
    rows: Array
    columns: Array
    depth: Array
    seconds: Array

    def taken(self, chosen: npt.NDArray[np.bool_]) -> Products:
        """Some of them."""
        return Products(*(array[chosen] for array in self))


def read_products(path: Path) -> Products:
    """Products of a system description, with its fraction of peak turned back into seconds."""
    found = json.loads(path.read_text())["accelerator"]["op"]["matmul"]
    rows = []
    for text, fraction in found["accurate_efficient_factor"].items():
        size = {name: int(number) for name, number in re.findall(r"\b([bmnk])=(\d+)", text)}
        flops = 2.0 * size["b"] * size["m"] * size["n"] * size["k"]
        seconds = flops / (fraction * found["tflops"] * 1e12)
        rows.append((size["b"], size["m"], size["n"], size["k"], seconds))
    return Products(*np.array(rows, dtype=float).T)


def with_tiles(kind: DeviceKind, numbers: Sequence[float] | Array) -> DeviceKind:
    """The kind with a depth and the fractions of square, oblong and small tiles."""
    depth, *fractions = (float(number) for number in numbers)
    each = (fractions[0], fractions[1], fractions[1], fractions[2])
    tiles = tuple(
        Tile(rows=rows, columns=columns, fraction=min(max(fraction, 1e-3), 1.0))
        for (rows, columns), fraction in zip(SHAPES, each, strict=True)
    )
    return replace(kind, tiles=tiles, tile_depth=max(0.0, depth))


def error(kind: DeviceKind, products: Products) -> Array:
    """Logarithm of predicted over measured seconds."""
    predicted = product_seconds(kind, PRECISION, *products[:4])
    result: Array = np.log(predicted / products.seconds)
    return result


def fitted(kind: DeviceKind, products: Products) -> DeviceKind:
    """The kind whose tiles explain the products best, from several starts."""

    def loss(numbers: Array) -> float:
        return float(np.abs(error(with_tiles(kind, numbers), products)).mean())

    starts = ([256, 0.6, 0.55, 0.4], [64, 0.5, 0.5, 0.45], [512, 0.5, 0.4, 0.4])
    found = [minimize(loss, start, method="Nelder-Mead", options={"maxiter": 800}) for start in starts]
    return with_tiles(kind, min(found, key=lambda item: item.fun).x)


def mean_pct(kind: DeviceKind, products: Products) -> float:
    """Mean absolute error in per cent."""
    return float(100 * np.abs(np.expm1(error(kind, products))).mean())


def main() -> None:
    """Fit, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("system", type=Path, help="system description with measured products")
    parser.add_argument("cluster", help="profile that has the device kind")
    parser.add_argument("kind", help="name of the device kind")
    parser.add_argument(
        "--least-ms", type=float, default=1.0, help="shorter products are left out of the fit"
    )
    given = parser.parse_args()
    kind = next(item for item in load_cluster(given.cluster).device_kinds if item.name == given.kind)
    everything = read_products(given.system)
    products = everything.taken(everything.seconds * 1e3 >= given.least_ms)
    best = fitted(kind, products)
    print(f"tile_depth {best.tile_depth:.0f}")
    for tile in best.tiles:
        print(f"{tile.rows} x {tile.columns}: {tile.fraction:.3f}")
    count, every = len(products.seconds), len(everything.seconds)
    print(f"mean error {mean_pct(best, products):.1f} % of {count} fitted")
    print(f"mean error {mean_pct(best, everything):.1f} % of all {every}")
    odd = np.arange(count) % 2 == 1
    for name, half in (("even", ~odd), ("odd", odd)):
        rest = mean_pct(fitted(kind, products.taken(half)), products.taken(~half))
        print(f"fitted to the {name} ones: mean error {rest:.1f} % of the others")


if __name__ == "__main__":
    main()
