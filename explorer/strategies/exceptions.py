"""Exceptions of single layers from the layout of their stage: made, dropped, and kept when layers move.

What single layers keep for their backward (`explorer.strategies.keeping`) goes where they go, too.

An exception *by name* belongs to its layers and goes where they go, as long as the mesh there has its axes.
One by pattern (`*.experts`) belongs to its stage and covers whatever the stage holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from explorer.graph import LayerGraph
from explorer.strategies.keeping import carried_keeping
from explorer.strategy import REPLICA, JobStrategy, Mesh, Sharding, Stage

_PATTERN = frozenset("*?[")
"""Letters that make a name a pattern."""


class OwnLayout(NamedTuple):
    """How a layer is laid out in place of its stage's layout."""

    layout: tuple[tuple[str, str], ...] = ()
    """(dimension, mesh axis) pairs."""
    meshes: tuple[Mesh, ...] = ()
    """Mesh of each copy; () is the stage's."""


def mesh_over(mesh: Mesh, kept: Sequence[str]) -> Mesh:
    """Return the same devices with all but some axes joined to the replicas; lines along the others stay.

    >>> mesh_over(Mesh(devices=(0, 1, 2, 3), axes=(("replica", 2), ("tensor", 2))), ()).axes
    (('replica', 4),)
    """
    names, sizes = [name for name, _ in mesh.axes], [size for _, size in mesh.axes]
    inner = [k for k, name in enumerate(names) if name in kept]
    outer = [k for k in range(len(names)) if k not in inner]
    devices = np.array(mesh.devices).reshape(sizes).transpose(outer + inner)
    axes = tuple(mesh.axes[k] for k in inner)
    count = len(mesh.devices) // int(np.prod([size for _, size in axes], initial=1))
    return Mesh(devices=tuple(devices.ravel().tolist()), axes=((REPLICA, count), *axes))


def named_layout(stage: Stage, layer: str) -> OwnLayout | None:
    """Return the exception that names a layer of a stage; None if the stage's own choices cover it."""
    found = stage.sharding_of(layer)
    return OwnLayout(found.layout, found.meshes) if found is not None and layer in found.layers else None


def with_own_layout(graph: LayerGraph, stage: Stage, layers: Iterable[str], own: OwnLayout | None) -> Stage:
    """Return a stage in which some layers have a layout of their own.

    Args:
        graph: the model, for the order of names.
        stage: the stage that holds them.
        layers: names of the layers.
        own: their layout; None goes back to what the stage has for them.
    """
    wanted = dict.fromkeys(layers, own)
    named = {name: named_layout(stage, name) for name in stage.all_layers} | wanted
    return _with_named(graph, stage, {name: item for name, item in named.items() if item is not None})


def _with_named(graph: LayerGraph, stage: Stage, named: dict[str, OwnLayout]) -> Stage:
    """Return the stage with exactly these exceptions by name; those by pattern stay behind them."""
    members: dict[OwnLayout, list[str]] = {}
    for name in sorted(named, key=graph.index.__getitem__):
        members.setdefault(named[name], []).append(name)
    first = tuple(
        Sharding(layers=tuple(names), layout=item.layout, meshes=item.meshes)
        for item, names in members.items()
    )
    shardings = (*first, *_by_pattern(stage))
    return stage if shardings == stage.shardings else replace(stage, shardings=shardings)


def _by_pattern(stage: Stage) -> tuple[Sharding, ...]:
    """Return the exceptions by pattern that cover a layer of the stage, without names."""
    found = []
    for item in stage.shardings:
        patterns = tuple(name for name in item.layers if set(name) & _PATTERN)
        kept = item if patterns == item.layers else replace(item, layers=patterns)
        if patterns and any(kept.covers(name) for name in stage.all_layers):
            found.append(kept)
    return tuple(found)


def carried(graph: LayerGraph, before: JobStrategy, stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return stages after a move of layers, with the exceptions that their layers had before it.

    An exception is dropped if the mesh of the new stage lacks one of its axes.

    Args:
        graph: the model.
        before: the strategy before the move.
        stages: the stages after it, with the exceptions of any stage on the same devices.
    """
    if not any(stage.shardings or stage.keeping for stage in (*before.stages, *stages)):
        return tuple(stages)
    home = {name: stage for stage in before.stages for name in stage.all_layers}
    known = {id(stage) for stage in before.stages}
    return tuple(stage if id(stage) in known else _carried(graph, home, stage) for stage in stages)


def _carried(graph: LayerGraph, home: dict[str, Stage], stage: Stage) -> Stage:
    named: dict[str, OwnLayout] = {}
    for name in stage.all_layers:
        old = home.get(name)
        own = None if old is None else named_layout(old, name)
        if old is not None and own is not None and (there := _moved(own, old, stage)) is not None:
            named[name] = there
    return carried_keeping(home, _with_named(graph, stage, named))


def _moved(own: OwnLayout, old: Stage, new: Stage) -> OwnLayout | None:
    """Return a layer's layout on the devices of another stage; None if they cannot have it."""
    if old.meshes == new.meshes:
        return own
    axes = dict(new.meshes[0].axes)
    if not own.meshes:
        return own if all(axis in axes for _, axis in own.layout) else None
    kept = [name for name, _ in own.meshes[0].axes if name != REPLICA]
    ours = own.meshes == tuple(mesh_over(mesh, kept) for mesh in old.meshes)
    if not ours or not set(kept) <= set(axes):
        return None
    return own._replace(meshes=tuple(mesh_over(mesh, kept) for mesh in new.meshes))
