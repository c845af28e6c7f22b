"""Shares of tensors and weights that a piece with slices of layers has, makes and is sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from explorer.costs.memory_arrays import FloatArray, graph_arrays
from explorer.graph import LayerGraph
from explorer.tasks.placement import PlacedStrategy


class SliceShares(NamedTuple):
    """What a piece of which some layers are slices has of everything; 1 is all of it, each from its graph."""

    tensors: FloatArray
    """Per tensor, as the cost model counts it (`explorer.costs.memory_counts`)."""
    weights: FloatArray
    """Per parameter."""
    arriving: FloatArray
    """Per tensor, what other pieces send of it: of a sum each its own term, so more than 1 may come."""
    sent: FloatArray
    """Per tensor, what other pieces are sent of it."""
    in_parts: FloatArray
    """Per tensor, what arrives of it if layers read a copy, put together from several parts; 0 otherwise."""


def slice_shares(graph: LayerGraph, placement: PlacedStrategy, section: int) -> SliceShares | None:
    """Return the shares of a section of a strategy that cuts layers; None if all sections have whole ones.

    Args:
        graph: the whole layers.
        placement: the strategy's sections and flows.
        section: number of the section.
    """
    if all(fractions is None for fractions in placement.fractions):
        return None
    arrays, layers = graph_arrays(graph), placement.layers[section]
    scale, fractions = np.zeros(len(graph.layers)), placement.fractions[section]
    scale[layers] = 1.0 if fractions is None else fractions
    tensors, weights = np.zeros(len(graph.tensors)), np.zeros(len(graph.parameters))
    for pairs in (arrays.saves, arrays.touches):
        np.maximum.at(tensors, pairs.item, scale[pairs.layer])
    np.maximum.at(weights, arrays.uses.item, scale[arrays.uses.layer])
    weights[list(placement.whole[section])] = 1.0
    flows = placement.skeleton.flows
    came = [f for f, flow in enumerate(flows) if section in flow.targets]
    went = [f for f, flow in enumerate(flows) if flow.source == section]
    arriving, parts = _carried(placement, came, len(tensors))
    sent, _ = _carried(placement, went, len(tensors))
    made_here = (arrays.writer >= 0) & (scale[arrays.writer] > 0)
    copied = made_here | (parts > 1)
    return SliceShares(tensors, weights, arriving, sent, np.where(copied, arriving, 0.0))


def _carried(placement: PlacedStrategy, flows: Iterable[int], count: int) -> tuple[FloatArray, FloatArray]:
    """Return per tensor the share of it that some flows carry, and in how many parts."""
    shares, parts = np.zeros(count), np.zeros(count)
    for flow in flows:
        for tensor, share in placement.flow_tensors[flow]:
            shares[tensor] += share
            parts[tensor] += 1
    return shares, parts


__all__ = ["SliceShares", "slice_shares"]
