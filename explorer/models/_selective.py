"""Selective recomputation: what it repeats, layer by layer.

Without a policy the core of an attention is recomputed (Korthikanti et al., Reducing Activation Recomputation
in Large Transformer Models, 2022). torch's selective checkpointing decides by operator: its usual policy
keeps what an attention and every other matrix product of a block write. A checkpoint of whole blocks stops
once it has made the last tensor that the backward needs (`torch.utils.checkpoint`, early stop): the block's
last product and what follows are not repeated.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from explorer.graph import AGAIN, DROP, KEEP, Layer, LayerGraph

_PRODUCTS = frozenset({"linear"})
_SLOW = frozenset({"attention"})

POLICIES: Mapping[str, str] = MappingProxyType({
    "attention": "the core of attention",
    "operators": "all but attention and every other matrix product",
    "blocks": "all of a block that its backward needs",
})  # fmt: skip
"""Policies by name."""


def with_policy(graph: LayerGraph, policy: str) -> LayerGraph:
    """Mark every layer with what selective recomputation does with it.

    Args:
        graph: a model with blocks, whose layers are in the order in which they run.
        policy: a name in `POLICIES`; `attention` marks nothing.
    """
    if policy == "attention":
        return graph
    said: dict[str, str] = {}
    for names in graph.blocks.values():
        layers = [graph.layer[name] for name in names if graph.layer[name].block]
        said.update(_operators(layers) if policy == "operators" else _needed(layers))
    changed = (replace(layer, selective=said.get(layer.name, "")) for layer in graph.layers)
    return replace(graph, layers=tuple(changed))


def with_early_stop(graph: LayerGraph) -> LayerGraph:
    """Mark the layers of each block that its full recomputation does not come to.

    Args:
        graph: a model with blocks, whose layers are in the order in which they run.
    """
    said: dict[str, str] = {}
    for names in graph.blocks.values():
        said.update(_needed([graph.layer[name] for name in names if graph.layer[name].block]))
    changed = (replace(layer, once=said.get(layer.name) == DROP) for layer in graph.layers)
    return replace(graph, layers=tuple(changed))


def _operators(layers: list[Layer]) -> dict[str, str]:
    found = _needed(layers)
    products = [layer.name for layer in layers if layer.kind in _PRODUCTS]
    found.update(dict.fromkeys(products[::2], KEEP))
    found.update({layer.name: KEEP for layer in layers if layer.kind in _SLOW})
    return found


def _needed(layers: list[Layer]) -> dict[str, str]:
    """Map everything up to the last tensor that a layer keeps."""
    kept = {name for layer in layers for name in layer.saves}
    needed = [i for i, layer in enumerate(layers) if any(use.name in kept for use in layer.writes)]
    last = max(needed, default=-1)
    return {layer.name: AGAIN if i <= last else DROP for i, layer in enumerate(layers)}
