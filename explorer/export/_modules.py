"""Modules of the stages of a plan, for trainers that run a model of the user's own."""

from __future__ import annotations

from explorer.graph import LayerGraph
from explorer.strategy import Stage


def module_names_of(graph: LayerGraph, stage: Stage) -> list[str]:
    """Return the modules of a stage in order: blocks, and layers with weights outside of blocks."""
    layers = [graph.layer[name] for name in stage.layers]
    return list(
        dict.fromkeys(layer.block or layer.name for layer in layers if layer.block or layer.parameters)
    )
