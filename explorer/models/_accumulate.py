"""Gradient sums over microbatches made by separate kernels.

A matrix product may add its weight gradient to the sum as it writes it. Without such a kernel, another one
reads both and writes the sum, each time: three times the weights through memory for every microbatch
(Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022, came with the fused
one in Megatron-LM).
"""

from __future__ import annotations

from dataclasses import replace

from explorer.graph import Layer, LayerGraph

PASSES = {"fused": 0, "separate": 3, "flat": 9}
"""Times the weights' elements pass memory, in the precision of compute, by who sums gradients.

`separate`: the new gradient and the sum are read, the sum is written. `flat`, with gradients of 2 bytes that
are reduced in 4 (torch.distributed.fsdp of PyTorch 2.0): they are copied together (4 bytes), widened (6) and
divided by the number of ranks (8) before each reduction; what is summed afterwards is a rank's own share.
"""


def with_accumulation(graph: LayerGraph, how: str = "separate") -> LayerGraph:
    """Make the matrix products of a model leave the sums of their weight gradients to separate kernels."""
    passes = PASSES[how]
    layers = (
        replace(layer, gradient_passes=passes)
        if layer.kind == "linear" or layer.routing is not None
        else layer
        for layer in graph.layers
    )
    return replace(graph, layers=tuple(layers))


def _is_summed(layer: Layer) -> bool:
    return layer.kind == "linear" or layer.routing is not None
