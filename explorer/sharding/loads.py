"""Rows of experts on the busiest device of those that share them, as shares of an even part."""

from __future__ import annotations

from collections.abc import Iterable

from explorer.costs.routing import busiest_load
from explorer.graph import Layer

EXPERTS = "experts"
"""Dimension along which experts are split."""


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
