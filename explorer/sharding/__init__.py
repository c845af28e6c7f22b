"""Sharding: what devices compute, hold and send, derived from named dimensions and a layout.

    layer dimensions --derive--> signatures per mesh axis --layout--> one per layer (assign)
        --reshard--> collectives per tensor (traffic) --cut--> ShardedLayers of a stage

>>> from explorer.sharding import megatron_layout
>>> megatron_layout(sequence_parallel=True)[-1]
('seq', 'tensor')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from explorer.base.caching import STAGES_KEPT, remembered
from explorer.base.errors import InputError
from explorer.graph import LayerGraph
from explorer.sharding.layouts import (
    context_layout,
    expert_layout,
    layout_problems,
    megatron_layout,
    table_layout,
    ulysses_layout,
)
from explorer.sharding.result import Collective, Override, ShardedLayers
from explorer.sharding.stage import GraphSharding, Request, Uneven
from explorer.strategy import REPLICA, Stage

__all__ = [
    "Collective",
    "Override",
    "ShardedLayers",
    "Uneven",
    "context_layout",
    "expert_layout",
    "layout_problems",
    "megatron_layout",
    "overrides_of",
    "shard",
    "shard_stage",
    "table_layout",
    "ulysses_layout",
    "uneven_of",
]

LAYOUTS_KEPT = 64
"""Number of layouts of whole graphs that are remembered."""


def shard(
    graph: LayerGraph,
    layers: tuple[str, ...],
    *,
    layout: Iterable[tuple[str, str]] = (),
    sizes: Mapping[str, int] | None = None,
    overrides: Iterable[Override] = (),
    uneven: Uneven = (),
) -> ShardedLayers:
    """Return what one device computes, holds and sends for some layers of a graph under a layout.

    Args:
        graph: the model.
        layers: names of the layers of one stage.
        layout: (dimension, mesh axis) pairs; see `explorer.sharding.layouts`.
        sizes: mesh axes with their sizes; the replica axis and axes of size 1 do not matter.
        overrides: exceptions for some layers; the first that covers a layer counts; see `overrides_of`.
        uneven: axes whose devices have unequal shares, and the device to look at.

    Returns:
        The layers; the same object for the same arguments until many other calls have been made.

    Raises:
        InputError: an unknown layer, or a layer whose dimensions do not match its tensors.
    """
    plain = tuple(sizes.items()) if sizes else ()
    return _shard(graph, layers, tuple(layout), plain, tuple(overrides), uneven)


@remembered(STAGES_KEPT)
def _shard(
    graph: LayerGraph,
    layers: tuple[str, ...],
    layout: tuple[tuple[str, str], ...],
    sizes: tuple[tuple[str, int], ...],
    overrides: tuple[Override, ...],
    uneven: Uneven,
) -> ShardedLayers:
    return _whole(graph, *_request(layout, sizes, overrides, uneven)).cut(layers)


@remembered(LAYOUTS_KEPT)
def _whole(
    graph: LayerGraph,
    layout: tuple[tuple[str, str], ...],
    sizes: tuple[tuple[str, int], ...],
    overrides: tuple[Override, ...],
    uneven: Uneven,
) -> GraphSharding:
    return GraphSharding(graph, Request(layout, sizes, overrides, uneven))


def _request(
    layout: tuple[tuple[str, str], ...],
    sizes: tuple[tuple[str, int], ...],
    overrides: tuple[Override, ...],
    uneven: Uneven,
) -> Request:
    if wrong := [(name, size) for name, size in sizes if size < 1]:
        raise InputError(
            f"mesh axis {wrong[0][0]!r} has no device", key="axes", found=wrong[0][1], allowed=">= 1"
        )
    if any(axis == REPLICA for _, axis in layout):
        raise InputError(
            f"a layout cannot name {REPLICA!r}, which splits samples only",
            key="layout",
            found=REPLICA,
            allowed=", ".join(name for name, _ in sizes if name != REPLICA) or "another mesh axis",
        )
    return Request(layout, _inner(sizes), overrides, uneven)


def _inner(sizes: Iterable[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple((name, size) for name, size in sizes if name != REPLICA and size > 1)


def overrides_of(stage: Stage, copy: int = 0) -> tuple[Override, ...]:
    """Return the exceptions of a stage in the form that `shard` takes.

    Axes of an exception's mesh that the stage lacks are carved out of the stage's replicas: their devices
    hold different samples outside the layers that the exception covers.
    """
    return tuple(
        Override(
            layers=item.layers,
            layout=item.layout,
            sizes=_inner(item.meshes[copy].axes) if item.meshes else None,
        )
        for item in stage.shardings
    )


def uneven_of(stage: Stage, place: int | None = None) -> Uneven:
    """Return the unequal shares of a stage in the form that `shard` takes.

    Args:
        stage: the stage.
        place: the device along the axis to look at; None for the one with the largest share.
    """
    return tuple(
        (axis, shares, shares.index(max(shares)) if place is None else place)
        for axis, shares in stage.axis_shares
    )


def shard_stage(graph: LayerGraph, stage: Stage, copy: int = 0) -> ShardedLayers:
    """Shard a whole stage on the mesh of one of its copies; of unequal shares the largest counts."""
    mesh = stage.meshes[copy]
    return shard(
        graph,
        stage.all_layers,
        layout=stage.layout,
        sizes=dict(mesh.axes),
        overrides=overrides_of(stage, copy),
        uneven=uneven_of(stage),
    )
