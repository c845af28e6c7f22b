"""Sums of gradients over microbatches by kernels of their own.

A matrix product may add its weight gradient to the sum as it writes it. Without such a kernel a further one
reads both and writes the sum, each time: three times the weights through memory for every microbatch
(Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, came with the fused
one in Megatron-LM).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import LayerGraph

_PASSES = 3  # the new gradient and the sum are read, the sum is written


def with_accumulation(graph: LayerGraph) -> LayerGraph:
    """The same model, whose matrix products leave the sum of their weights' gradients to a kernel apart."""
    layers = (
        replace(layer, gradient_passes=_PASSES) if layer.kind == "linear" else layer for layer in graph.layers
    )
    return replace(graph, layers=tuple(layers))
