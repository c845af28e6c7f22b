"""Gradient sums over microbatches made by separate kernels.

A matrix product may add its weight gradient to the sum as it writes it. Without such a kernel, another one
reads both and writes the sum, each time: three times the weights through memory for every microbatch
(Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, came with the fused
one in Megatron-LM).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import LayerGraph

_PASSES = 3  # the new gradient and the sum are read, the sum is written


def with_accumulation(graph: LayerGraph) -> LayerGraph:
    """Make the matrix products of a model leave the sums of their weight gradients to a separate kernel."""
    layers = (
        replace(layer, gradient_passes=_PASSES) if layer.kind == "linear" else layer for layer in graph.layers
    )
    return replace(graph, layers=tuple(layers))
