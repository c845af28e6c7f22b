"""Fits of timings to the numbers of a profile: medians with bands, curves, lines, and tilings.

Every fit inverts the very formula that the costs use, so timings made by the formula give its numbers back:
`explorer.costs.products` for tiles, `explorer.costs.collectives` for collectives.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any, NamedTuple

import numpy as np

from explorer.base.units import dtype_bytes
from explorer.cluster import Cluster, Curve, DeviceKind, Tile
from explorer.cluster_profiles import MOST_EXPOSED
from explorer.costs.collectives import collective_seconds
from explorer.costs.efficiency import curve_of, effective_size
from explorer.costs.products import product_seconds

LEAST_BAND = 0.02
"""Half-width that even the steadiest timing keeps: clock and temperature change from day to day."""
SHAPES = ((256, 128), (128, 256), (128, 128), (128, 64), (64, 128), (64, 64))
"""Tiles that matrix libraries choose from."""


class Key(NamedTuple):
    """The thing that was timed: operation, precision and size."""

    what: str
    precision: str
    size: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MedianSeconds:
    """Seconds of one thing over all rounds and ranks."""

    seconds: float
    """Median, seconds."""
    band: float
    """Relative half-width of the 80 % band."""


def timings(rows: Iterable[Mapping[str, Any]]) -> dict[Key, MedianSeconds]:
    """Return medians and bands of rows with `what`, `precision`, `size` and `seconds`."""
    found: dict[Key, list[float]] = defaultdict(list)
    for row in rows:
        found[Key(row["what"], row["precision"], tuple(row["size"]))].append(row["seconds"])
    return {key: _timing(values) for key, values in found.items()}


def _timing(values: Sequence[float]) -> MedianSeconds:
    middle = median(values)
    low, high = np.quantile(values, (0.1, 0.9))
    spread = float(high - low) / 2 / middle if middle > 0 else 0.0
    return MedianSeconds(seconds=middle, band=max(LEAST_BAND, spread))


def mean_band(found: Iterable[MedianSeconds]) -> float:
    """Return one band for numbers that were fitted to several timings."""
    return round(fmean([timing.band for timing in found] or [LEAST_BAND]), 3)


def best_rate(work: Mapping[float, float], overhead_s: float = 0.0) -> float:
    """Return the most work per second that was reached; `work` is seconds by size.

    Each timing is reduced by `overhead_s`, which the costs add to every kernel, but by half of itself at
    most.
    """
    return max(size / _relieved(seconds, overhead_s) for size, seconds in work.items())


def curve(work: Mapping[float, float], peak: float, overhead_s: float = 0.0) -> Curve:
    """Return the fraction of peak by size: size / (peak (seconds - overhead)), at most 1, to four digits.

    Args:
        work: seconds by size, in FLOPs or bytes.
        peak: FLOPs or bytes per second.
        overhead_s: seconds that the costs add to every kernel.
    """
    points = [
        (size, min(1.0, float(f"{size / (peak * _relieved(seconds, overhead_s)):.4g}")))
        for size, seconds in work.items()
    ]
    return Curve(points=tuple(sorted(points)))


def by_size(pairs: Iterable[tuple[float, float]]) -> dict[float, float]:
    """Average the seconds of equal sizes geometrically, from (size, seconds): shapes differ in speed."""
    found: dict[float, list[float]] = defaultdict(list)
    for size, seconds in pairs:
        found[size].append(math.log(seconds))
    return {size: math.exp(fmean(logs)) for size, logs in sorted(found.items())}


def line(messages: Mapping[int, float]) -> tuple[float, float]:
    """Fit (latency, bandwidth) of seconds = latency + size / bandwidth; least squares of relative errors."""
    sizes = np.array(list(messages), dtype=float)
    seconds = np.array(list(messages.values()))
    if len(sizes) < 2:
        return float(seconds[0]) / 2, 2 * float(sizes[0] / seconds[0])
    from scipy.optimize import nnls

    factors, _ = nnls(np.stack([1 / seconds, sizes / seconds], axis=1), np.ones(len(sizes)))
    latency = max(float(factors[0]), 1e-9)
    per_byte = float(factors[1]) or float(seconds[-1] / sizes[-1])
    return latency, 1 / per_byte


def collective_line(cluster: Cluster, reduces: Mapping[int, float]) -> tuple[float, float]:
    """Fit (overhead, efficiency) of the first level to the seconds of all-reduces over all devices.

    The fit is least squares of log errors of `collective_seconds`; the efficiency is 1 at most.
    """
    from scipy.optimize import least_squares

    devices = tuple(range(cluster.device_count))
    seconds = np.array(list(reduces.values()))

    def errors(logs: Any) -> Any:
        overhead, share = math.exp(logs[0]), math.exp(logs[1])
        tried = with_collectives(cluster, overhead, share)
        found = [collective_seconds(tried, "all_reduce", devices, float(size)) for size in reduces]
        return np.log(np.array(found) / seconds)

    smallest = float(seconds.min())
    bounds = ([math.log(1e-9), math.log(1e-3)], [math.log(max(10 * smallest, 1e-8)), 0.0])
    start = [math.log(max(smallest / 2, 2e-9)), math.log(0.5)]
    found = least_squares(errors, start, bounds=bounds)
    return math.exp(float(found.x[0])), min(1.0, math.exp(float(found.x[1])))


def with_collectives(cluster: Cluster, overhead_s: float, efficiency: float) -> Cluster:
    """Return the cluster with other numbers for its first level's collectives."""
    first, *others = cluster.levels
    first = replace(first, collective_overhead_s=overhead_s, collective_efficiency=efficiency)
    return replace(cluster, levels=(first, *others))


def fit_tiles(
    kind: DeviceKind, precision: str, products: Mapping[tuple[int, int, int], float], overhead_s: float = 0.0
) -> tuple[DeviceKind, float]:
    """Fit tiles to the seconds of a kind's products; return the kind and the mean relative error.

    Tiles of one area share a fraction; the fit (Nelder, Mead, 1965) is of four fractions and the depth that a
    tile's start and end cost, and minimises the mean absolute log error.
    """
    from scipy.optimize import minimize

    sizes = np.array(list(products), dtype=float).T
    seconds = np.array([_relieved(value, overhead_s) for value in products.values()])
    areas = sorted({rows * columns for rows, columns in SHAPES}, reverse=True)

    def made(point: Any) -> DeviceKind:
        fractions = dict(zip(areas, 1 / (1 + np.exp(-np.asarray(point[:-1]))), strict=True))
        tiles = tuple(
            Tile(rows=rows, columns=columns, fraction=round(float(fractions[rows * columns]), 3) or 0.001)
            for rows, columns in SHAPES
        )
        return replace(kind, tiles=tiles, tile_depth=round(float(math.exp(point[-1])), 1))

    def error(point: Any) -> float:
        tried = made(point)
        found = product_seconds(tried, precision, np.ones(len(seconds)), *sizes)
        return float(np.mean(np.abs(np.log(found / seconds))))

    starts = [[first, first - 0.3, first - 0.9, first - 1.5, math.log(100.0)] for first in (0.5, 1.5, 2.5)]
    tries = [minimize(error, start, method="Nelder-Mead", options={"maxiter": 600}) for start in starts]
    best = min(tries, key=lambda found: float(found.fun))
    return made(best.x), float(best.fun)


def exposed_share(kind: DeviceKind, precision: str, seconds: Mapping[tuple[int, ...], float]) -> float:
    """Return the share of the shorter of compute and memory that products take besides the longer.

    The three products of a linear layer read or write its weights once each. The share, between 0 and
    `MOST_EXPOSED`, has the least sum of absolute log errors over layers: it lies at one of theirs.

    Args:
        kind: the device, with its curves.
        precision: of the products.
        seconds: by rows, columns and depth, of all three.
    """
    wide, parts = dtype_bytes(precision), []
    for (rows, columns, depth), measured in seconds.items():
        flops = np.array([2.0 * rows * columns * depth])
        moved = np.array([wide * float(rows * depth + depth * columns + rows * columns)])
        compute = float(effective_size(curve_of(kind, "matmul"), flops)[0]) / kind.peak(precision)
        memory = effective_size(curve_of(kind, "memory"), moved)[0] / kind.memory_bandwidth_bytes_per_s
        one = measured / 3 - kind.launch_overhead_s
        parts.append((max(compute, memory), min(compute, memory), one))
    longer, shorter, taken = np.maximum(np.array(parts, dtype=float).T, 1e-12)
    shares = np.clip((taken - longer) / shorter, 0.0, MOST_EXPOSED)
    errors = np.abs(np.log((longer + np.outer(shares, shorter)) / taken)).sum(axis=1)
    return float(shares[np.argmin(errors)])


def without_memory(kind: DeviceKind, moved_bytes: float, seconds: float) -> float:
    """Return the compute that with its memory takes the seconds, the inverse of what the costs add up:
    seconds = max(compute, memory) + exposed x min(compute, memory).

    It is a quarter of the seconds at least: what hides behind memory cannot be told.
    """
    exposed = kind.exposed_memory
    bandwidth = kind.memory_bandwidth_bytes_per_s
    moved = np.array([moved_bytes])
    memory = float(effective_size(curve_of(kind, "memory"), moved)[0]) / bandwidth
    longer = seconds - exposed * memory
    shorter = (seconds - memory) / exposed if exposed else seconds
    return max(longer if longer >= memory else min(shorter, memory), seconds / 4)


def _relieved(seconds: float, overhead_s: float) -> float:
    return max(seconds - overhead_s, seconds / 2)
