"""Split backward: which tensors the input gradient (I) frees, and which wait for the weight gradient (W).

A backward in two parts (Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024) puts off the weight gradients
of layers that contract their input with the gradient of their output: products, convolutions, cells, experts,
tables. From I to W these layers keep both factors. Everything else, saved by activations, softmaxes, dropouts
and attention kernels, is read by I alone. So are the inputs of norms: the gradients of their few parameters
are sums that I can make on its way, as Megatron-LM's zero-bubble branch does (their seconds, which hardly
count, stay in W).

Of Korthikanti's layer, s b h (34 + 5 a s / h) bytes from F to I, 32 s b h are left from I to W: 14 of inputs
(qkv 2, projection 2, up 2, down 8) and 18 of gradients of outputs (qkv 6, projection 2, up 8, down 2): M_W in
section 3.1 of the paper.
"""

from __future__ import annotations

from explorer.graph import BY_INPUT, BY_WEIGHT, Layer, LayerGraph

MADE_WITH_INPUT = frozenset({"norm"})
"""Kinds whose weight gradients leave nothing to W."""
_READS_OUTPUT = frozenset({"router"})
"""Kinds that save their own output for the input gradient, and their input for the weight gradient."""


def puts_off(graph: LayerGraph, layer: Layer) -> bool:
    """Tell whether the weight gradient of a layer waits for W."""
    if not any(graph.parameter[use.name].trainable for use in layer.parameters):
        return False
    return BY_WEIGHT in layer.last_read_by if layer.last_read_by else layer.kind not in MADE_WITH_INPUT


def last_readers(graph: LayerGraph, layer: Layer) -> tuple[str, ...]:
    """Return for each tensor that a layer saves the gradient that reads it last.

    Layers that do not state it (`Layer.last_read_by`) go by their kind. If the inner workings are unknown (an
    `other` layer, experts read from a program), everything stays for W, which is never too little.
    """
    if layer.last_read_by:
        return layer.last_read_by
    if not puts_off(graph, layer):
        return (BY_INPUT,) * len(layer.saves)
    written = {use.name for use in layer.writes} if layer.kind in _READS_OUTPUT else frozenset()
    return tuple(BY_INPUT if name in written else BY_WEIGHT for name in layer.saves)
