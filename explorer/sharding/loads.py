"""Load of the busiest device that holds experts: the lane waits for it, and its memory must suffice.

If the busiest of E experts has l times the mean rows, and loads are independent draws, the sum over the E / n
experts of one of n devices spreads less, and the largest of n sums is less extreme than that of E draws:

    load(n) = 1 + (l - 1) sqrt(n / E) z(n) / z(E),    at most n

with z(n) the expected maximum of n standard normals. So one device with all experts has the mean, and n = E
devices with an expert each have l. An expert with room for c times the mean has at most c, and exactly c
where it is padded (Lepikhin et al., GShard, 2020, section 2.2; Fedus et al., Switch Transformers, 2021).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import sqrt

from explorer.base.extremes import slowest_of
from explorer.graph import Layer
from explorer.routing import Routing

EXPERTS = "experts"
"""Dimension along which experts are split."""


@lru_cache(maxsize=4096)
def busiest_load(routing: Routing, experts: int, devices: int) -> float:
    """Return the rows of the busiest device over the mean of all that share some experts.

    Args:
        routing: how tokens reach their experts.
        experts: experts of the layer.
        devices: devices among which they are dealt out evenly, at most as many as experts.

    >>> busiest_load(Routing(imbalance=1.5), 8, 8), busiest_load(Routing(imbalance=1.5), 8, 1)
    (1.5, 1.0)
    >>> busiest_load(Routing(imbalance=1.5, capacity=1.25), 8, 8)
    1.25
    """
    if routing.padded:
        return routing.capacity
    load = 1.0
    if devices > 1 and routing.imbalance > 1:
        milder = sqrt(devices / experts) * slowest_of(devices) / slowest_of(experts)
        load = min(float(devices), 1.0 + (routing.imbalance - 1.0) * milder)
    return min(load, routing.capacity) if routing.capacity else load


def load_of(layer: Layer, pieces: Iterable[tuple[str, float]]) -> float:
    """Return how many times an even part of a layer's rows the busiest device has; 1 if nothing is routed.

    Args:
        layer: the layer.
        pieces: dimensions that are split, with the share of each that one device has.
    """
    if layer.routing is None:
        return 1.0
    experts = next((int(dim.size) for dim in layer.dims if dim.name == EXPERTS), 1)
    share = dict(pieces).get(EXPERTS, 1.0)
    return busiest_load(layer.routing, experts, max(1, min(experts, round(1.0 / share))))


def row_loads(layer: Layer, load: float) -> tuple[float, ...]:
    """Return by what to multiply each tensor that a layer writes: by the load if it has rows of experts."""
    return tuple(load if EXPERTS in use.dims and layer.routing is not None else 1.0 for use in layer.writes)
