"""Shares of tensors and weights that one rank has, makes and is sent: of slices, and of cut layers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from explorer.costs.memory_arrays import FloatArray, graph_arrays
from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared
from explorer.sharding import shard_stage
from explorer.tasks.placement import PlacedStrategy


class PieceShares(NamedTuple):
    """What a rank has of everything of a piece; 1 is all of it."""

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


def piece_shares(priced: Prepared, graph: LayerGraph, section: int) -> PieceShares | None:
    """Return the shares of a section on one rank; None if a rank has whole layers.

    Args:
        priced: the program.
        graph: the whole layers.
        section: number of the section.
    """
    if any(fractions is not None for fractions in priced.placement.fractions):
        return _of_slices(graph, priced.placement, section)
    shape = priced.program.skeleton.sections[section]
    held = shard_stage(graph, priced.strategy.stages[shape.stage])
    if np.all(held.tensor_share == 1) and np.all(held.holdings.fraction == 1):
        return None
    arrays, share = graph_arrays(graph), held.tensor_share
    inside = np.zeros(len(graph.layers), dtype=bool)
    inside[priced.placement.layers[section]] = True
    made = (arrays.writer >= 0) & inside[arrays.writer]
    read_here, read_elsewhere = np.zeros(len(share), dtype=bool), np.zeros(len(share), dtype=bool)
    read_here[arrays.reads.item[inside[arrays.reads.layer]]] = True
    read_elsewhere[arrays.reads.item[~inside[arrays.reads.layer]]] = True
    arriving = np.where(read_here & ~made & (arrays.writer >= 0), share, 0.0)
    sent = np.where(made & read_elsewhere, share, 0.0)
    return PieceShares(share, held.holdings.fraction, arriving, sent, np.zeros(len(share)))


def _of_slices(graph: LayerGraph, placement: PlacedStrategy, section: int) -> PieceShares:
    """Return the shares of a section of a strategy that cuts layers into slices."""
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
    return PieceShares(tensors, weights, arriving, sent, np.where(copied, arriving, 0.0))


def _carried(placement: PlacedStrategy, flows: Iterable[int], count: int) -> tuple[FloatArray, FloatArray]:
    """Return per tensor the share of it that some flows carry, and in how many parts."""
    shares, parts = np.zeros(count), np.zeros(count)
    for flow in flows:
        for tensor, share in placement.flow_tensors[flow]:
            shares[tensor] += share
            parts[tensor] += 1
    return shares, parts


__all__ = ["PieceShares", "piece_shares"]
