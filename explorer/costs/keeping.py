"""What a stage keeps for its backward, layer by layer: its own choices and the exceptions of `Stage.keeping`.

Both answers are plain values, by position of the layers in ascending order, so that equal stages have equal
ones. Where all layers agree they are what a stage without exceptions says, and cost exactly that.
"""

from __future__ import annotations

from typing import TypeAlias

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.costs.memory_arrays import IntArray
from explorer.graph import LayerGraph
from explorer.strategy import ACTIVATIONS, ON_HOST, RECOMPUTE_OUTPUT, RECOMPUTES, Stage

Recompute: TypeAlias = str | tuple[str, ...]
"""What is made again: one of `RECOMPUTES` for all layers, or one of `LAYER_CHOICES` for each."""
OnHost: TypeAlias = bool | tuple[bool, ...]
"""Whether what layers keep goes to the host: of all layers, or of each."""
LAYER_CHOICES = (*RECOMPUTES, RECOMPUTE_OUTPUT)
"""What single layers may choose."""


def recompute_of(graph: LayerGraph, stage: Stage, layers: IntArray) -> Recompute:
    """Return what a stage makes again of some of its layers, given by position."""
    return _choices(graph, stage, layers)[0] if stage.keeping else stage.recompute


def on_host(graph: LayerGraph, stage: Stage, layers: IntArray) -> OnHost:
    """Return which of some of its layers a stage keeps the tensors of on the host."""
    return _choices(graph, stage, layers)[1] if stage.keeping else ACTIVATIONS in stage.offload


@remembered(STAGES_KEPT)
def _choices(graph: LayerGraph, stage: Stage, layers: IntArray) -> tuple[Recompute, OnHost]:
    again, away = [], []
    for position in sorted(layers.tolist()):
        recompute, place = stage.keeping_of(graph.layers[position].name)
        again.append(recompute or stage.recompute)
        away.append(place == ON_HOST if place else ACTIVATIONS in stage.offload)
    # `output` for all layers is no choice of a stage, so it stays layer by layer
    one = len(set(again)) == 1 and again[0] in RECOMPUTES
    return again[0] if one else tuple(again), away[0] if len(set(away)) == 1 else tuple(away)
