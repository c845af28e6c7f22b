"""Exceptions of layers from what their stage keeps for its backward: read, made, carried and said in words.

Of what covers a layer the first that says something counts, for what is made again and for where tensors
are kept each by itself. What edits make names its layers one by one, in the order of the stage: one exception
for each different choice, and none for a layer that is kept as its stage says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from explorer.graph import LayerGraph
from explorer.strategy import ACTIVATIONS, ON_DEVICE, ON_HOST, Keeping, Stage

RECOMPUTE_WORDS = {
    "none": "kept", "selective": "recomputed selectively", "full": "recomputed",
    "output": "dropped and remade",
}  # fmt: skip
"""What becomes of layers that are an exception, in words."""
ON_WORDS = {ON_HOST: "to the host", ON_DEVICE: "on the device"}
"""Where exceptions keep what they save, in words."""


class Kept(NamedTuple):
    """What is kept of a layer, and where; an empty text is as its stage says."""

    recompute: str = ""
    """none, selective, full or output."""
    on: str = ""
    """device or host."""


def usual(stage: Stage) -> Kept:
    """Return what a stage keeps of layers that are no exception."""
    return Kept(stage.recompute, ON_HOST if ACTIVATIONS in stage.offload else ON_DEVICE)


def own_keeping(stage: Stage, layer: str) -> Kept:
    """Return what the exceptions of a stage say of a layer."""
    return Kept(*stage.keeping_of(layer))


def kept_of(stage: Stage, layer: str) -> Kept:
    """Return what is kept of a layer of a stage, and where; neither is empty."""
    own, plain = own_keeping(stage, layer), usual(stage)
    return Kept(own.recompute or plain.recompute, own.on or plain.on)


def exceptions_of(stage: Stage) -> dict[str, Kept]:
    """Return the layers of a stage that it keeps otherwise than the rest, with what differs.

    >>> from explorer.strategy import Mesh
    >>> items = (Keeping(layers=("a",), recompute="full"), Keeping(layers=("*",), recompute="none"))
    >>> exceptions_of(Stage(layers=("a", "b"), meshes=(Mesh(devices=(0,)),), keeping=items))
    {'a': Kept(recompute='full', on='')}
    """
    if not stage.keeping:
        return {}
    plain = usual(stage)
    differing = ((name, _differing(own_keeping(stage, name), plain)) for name in stage.all_layers)
    return {name: own for name, own in differing if any(own)}


def _differing(own: Kept, plain: Kept) -> Kept:
    """Return what an exception says that its stage does not say anyway."""
    return Kept(
        "" if own.recompute == plain.recompute else own.recompute, "" if own.on == plain.on else own.on
    )


def with_kept(stage: Stage, changes: Mapping[str, Kept]) -> Stage:
    """Return a stage with exactly these exceptions, by name, where they differ from what it says.

    Args:
        stage: a stage.
        changes: what is kept of some of its layers; of the others what the stage says.
    """
    plain = usual(stage)
    members: dict[Kept, list[str]] = {}
    for name in stage.all_layers:
        own = _differing(changes.get(name, Kept()), plain)
        if any(own):
            members.setdefault(own, []).append(name)
    keeping = tuple(
        Keeping(layers=tuple(names), recompute=own.recompute, on=own.on) for own, names in members.items()
    )
    return stage if keeping == stage.keeping else replace(stage, keeping=keeping)


def changed_keeping(stage: Stage, layers: Collection[str], change: Callable[[Kept], Kept]) -> Stage:
    """Return a stage in which the exceptions of some layers are changed, and of the others left.

    Args:
        stage: a stage.
        layers: names of layers.
        change: makes what is kept of a layer of what its exceptions say (`own_keeping`).
    """
    own = {name: own_keeping(stage, name) for name in stage.all_layers}
    return with_kept(stage, own | {name: change(own[name]) for name in stage.all_layers if name in layers})


def carried_keeping(home: Mapping[str, Stage], stage: Stage) -> Stage:
    """Return a stage after a move of layers with the exceptions that its layers had before it.

    Args:
        home: the stage of every layer before the move.
        stage: the stage after it, with the exceptions of any stage.
    """
    own = {name: own_keeping(home[name], name) for name in stage.all_layers if name in home}
    return with_kept(stage, own)


def full_blocks(graph: LayerGraph, stage: Stage) -> tuple[tuple[str, ...], ...]:
    """Return the layers of each block of a stage that is made again as a whole, in the order of the stage."""
    blocks: dict[str, list[str]] = {}
    for name in stage.all_layers:
        if block := graph.layer[name].block:
            blocks.setdefault(block, []).append(name)
    return tuple(
        tuple(names)
        for names in blocks.values()
        if all(kept_of(stage, name).recompute == "full" for name in names)
    )


def partly_kept(graph: LayerGraph, stage: Stage) -> list[str]:
    """Return the layers whose exceptions are not what a whole block does: kept, or made again in full."""
    again = {name for names in full_blocks(graph, stage) for name in names}
    return [
        name
        for name, own in exceptions_of(stage).items()
        if own.recompute and name not in again and kept_of(stage, name).recompute != "none"
    ]


# ---- words ----------------------------------------------------------------------------------------


def kept_words(own: Kept) -> str:
    """Say what becomes of a layer that is an exception.

    >>> kept_words(Kept("full", "host")), kept_words(Kept(on="device"))
    ('recomputed, to the host', 'on the device')
    """
    return ", ".join(words for words in (RECOMPUTE_WORDS.get(own.recompute), ON_WORDS.get(own.on)) if words)


def keeping_words(stages: Iterable[Stage]) -> list[str]:
    """Say what stages keep of some layers otherwise than of the rest: `4 layers to the host`."""
    counts = Counter(own for stage in stages for own in exceptions_of(stage).values())
    return [f"{count} layer{'s' * (count != 1)} {kept_words(own)}" for own, count in counts.items()]
