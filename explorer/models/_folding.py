"""Folding of explicit backward nodes into the forward layers they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from explorer.graph import Layer, LayerGraph, Measured, Parameter, Use


def fold_backward(graph: LayerGraph) -> LayerGraph:
    """Move every backward node's time and memory into its forward layer, for pipelines.

    A pipeline's stage runs a layer's backward where its forward ran; the explicit nodes and their tensors
    would then say the same twice. Each folded layer gets an empty trainable parameter, so that gradients
    flow.
    """
    extra: dict[str, list[Layer]] = {}
    for layer in graph.layers:
        if layer.backward_of:
            extra.setdefault(layer.backward_of, []).append(layer)
    if not extra:
        return graph
    kept = [layer for layer in graph.layers if not layer.backward_of]
    written = {use.name for layer in kept for use in layer.writes}
    layers = tuple(_with_backward(layer, extra.get(layer.name, ()), written) for layer in kept)
    learned = tuple(Parameter(name=f"{layer.name}.learned", shape=(0.0,)) for layer in kept)
    return replace(
        graph,
        layers=layers,
        tensors=tuple(tensor for tensor in graph.tensors if tensor.name in written),
        parameters=(*graph.parameters, *learned),
    )


def _with_backward(layer: Layer, backward: Sequence[Layer], written: set[str]) -> Layer:
    parts = [layer, *backward]
    held = dict.fromkeys(use for part in parts for use in part.parameters)
    kinds = [seconds.device_kind for seconds in layer.measured]
    allowed = [k for k in kinds if all(any(m.device_kind == k for m in part.measured) for part in parts)]
    measured = tuple(
        _sum([m for part in parts for m in part.measured if m.device_kind == kind]) for kind in allowed
    )
    return replace(
        layer,
        reads=tuple(use for use in layer.reads if use.name in written),
        parameters=(*held, Use(name=f"{layer.name}.learned")),
        measured=measured,
        device_kinds=layer.device_kinds if len(allowed) == len(kinds) else tuple(allowed),
    )


def _sum(parts: Sequence[Measured]) -> Measured:
    return replace(
        parts[0],
        forward_s=sum(part.forward_s for part in parts),
        input_grad_s=sum(part.input_grad_s for part in parts),
        weight_grad_s=sum(part.weight_grad_s for part in parts),
        halves=True,
    )
