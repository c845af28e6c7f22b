"""What may be kept for the backward, and for what: a layer, those like it, its block, its stage, all stages.

Rows of the card of a layer without what they come to (`explorer.views.layer_card`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from explorer.costs.memory_arrays import core_layers
from explorer.explain.names import block_words, counted
from explorer.strategies.memory_choices import (
    AS_STAGE,
    LAYER_CHOICES,
    MEMORY_CHOICES,
    OUTPUT,
    RECOMPUTE,
    TO_HOST,
)
from explorer.tables.layer_layouts import alike_layers
from explorer.views.scene import Scene

SCOPES = (LAYER, ALIKE, BLOCK, STAGE, STAGES) = ("layer", "alike", "block", "stage", "stages")
"""What a choice is for: the layer, the same one of all blocks, its block, its stage, all stages."""

_USUAL = {"none": "all kept", "selective": "recomputed selectively", "full": "recomputed"}
_WORDS = {
    ("keep", ""): "Keep all activations",
    ("selective", ""): "Recompute selectively",
    ("full", ""): "Recompute the layer",
    ("full", ALIKE): "Recompute these layers",
    ("full", BLOCK): "Recompute the block",
    (OUTPUT, ""): "Drop and remake its output",
    (OUTPUT, ALIKE): "Drop and remake their outputs",
    (TO_HOST, ""): "Activations to the host",
}
"""What a choice of layers does, by its key and what it is for; an empty text is for anything else."""


class KeptRow(NamedTuple):
    """One choice."""

    key: str
    """Its name."""
    words: str
    """What it does, in words."""
    one_of: bool
    """Whether it is one of several; else it can be had beside others."""
    held: tuple[bool, ...]
    """Whether each of those that it is for has it."""


def kept_layers(scene: Scene, layer: str, scope: str) -> tuple[str, ...]:
    """Return the layers that a choice is for; () where it is for whole stages."""
    graph = scene.graph
    if scope == BLOCK and (block := graph.layer[layer].block):
        return tuple(item.name for item in graph.layers if item.block == block)
    if scope == ALIKE:
        return alike_layers(graph, scene.strategy, layer)
    return () if scope in (STAGE, STAGES) else (layer,)


def kept_scopes(scene: Scene, layer: str, home: int, *, whole: bool) -> list[tuple[str, str]]:
    """Return what choices may be for, each with its words.

    Args:
        scene: the strategy shown.
        layer: name of a layer.
        home: number of its stage.
        whole: whether a part of the model is meant that begins with the layer, not the layer.
    """
    graph, job = scene.graph, scene.strategy
    block, alike = graph.layer[layer].block, len(alike_layers(graph, job, layer))
    found = [] if whole else [(LAYER, "This layer")]
    if alike > 1 and not whole:
        found.append((ALIKE, f"All {alike} alike"))
    if block:
        found.append((BLOCK, block_words(graph, block).capitalize()))
    found.append((STAGE, f"Stage {home}"))
    if len(job.stages) > 1:
        found.append((STAGES, f"All {counted(len(job.stages), 'stage')}"))
    return found


def scope_words(scene: Scene, layer: str, home: int, scope: str) -> str:
    """Name what a choice is for, as a list of states does: `block 3`."""
    graph, block = scene.graph, scene.graph.layer[layer].block
    more = len(kept_layers(scene, layer, ALIKE)) - 1
    return {
        ALIKE: f"{layer} and {more} alike" if more else layer,
        BLOCK: block_words(graph, block) if block else layer,
        STAGE: f"stage {home}",
        STAGES: "all stages",
    }.get(scope, layer)


def stage_rows(scene: Scene, numbers: Sequence[int]) -> list[KeptRow]:
    """Return what whole stages may keep."""
    stages = [scene.strategy.stages[number] for number in numbers]
    return [
        KeptRow(item.key, item.words, item.kind == RECOMPUTE, tuple(map(item.held_by, stages)))
        for item in MEMORY_CHOICES
    ]


def layer_rows(scene: Scene, layers: Sequence[str], scope: str) -> list[KeptRow]:
    """Return what may be kept of single layers: as their stage does, and what differs from it.

    Recomputation of the core of an attention is left out where there is none, and the outputs of a block are
    not dropped one by one.
    """
    graph, wanted = scene.graph, frozenset(layers)
    homes = [(s, name) for s in scene.strategy.stages for name in s.all_layers if name in wanted]
    usual = {stage.recompute for stage, _ in homes}
    cores = core_layers(graph)[[graph.index[name] for name in layers]].any()
    return [
        KeptRow(
            item.key,
            _as_stage(usual) if item.key == AS_STAGE else _words(item.key, scope),
            item.kind == RECOMPUTE,
            tuple(item.held_by(stage, name) for stage, name in homes),
        )
        for item in LAYER_CHOICES
        if usual != {item.value}
        and not (item.value == "selective" and not cores)
        and not (item.key == OUTPUT and scope == BLOCK)
    ]


def _as_stage(usual: set[str]) -> str:
    """Say that no exception is made: `As the stage: all kept`."""
    return f"As the stage: {_USUAL[next(iter(usual))]}" if len(usual) == 1 else "As their stages"


def _words(key: str, scope: str) -> str:
    return _WORDS[key, scope if (key, scope) in _WORDS else ""]
