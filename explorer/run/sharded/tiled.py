"""Which tensors of sharded layers go in tiles, and how layers compute one tile of what they make.

A collective is cut into tiles where a plan says so of its mesh axis (`Stage.overlap`), where it is the only
conversion of a tensor, and where products read that tensor, or one writes it, that can compute a part along
an axis alone: an axis that their result has as well, and no weight. Everything else goes as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
import torch

from explorer.graph import LayerGraph, Use
from explorer.pricing.overlap import PRODUCTS
from explorer.run.sharded.boxing import Boxer, Want
from explorer.run.sharded.collectives import split_evenly
from explorer.run.sharded.here import Here
from explorer.run.sharded.mesh import RankMesh
from explorer.run.sharded.overlapped import Arriving, Tiling, scattered
from explorer.run.sharded.pieces import Indices, array_axis
from explorer.sharding.reshard import reshard
from explorer.sharding.states import TensorPlacement


class Running(Protocol):
    """What tiles ask of the layers that run (see `explorer.run.sharded.execution.ShardedExecution`)."""

    graph: LayerGraph
    mesh: RankMesh
    tiled: frozenset[int]
    position: dict[str, int]
    here: dict[str, Here]

    def boxer(self, name: str) -> Boxer:
        """Return the conversions of a tensor."""

    def readers_here(self, name: str) -> list[tuple[int, int]]:
        """Return (layer, position among its reads) of the readers of a tensor that run here."""

    def can_tile(self, here: Here, use: Use, axis: int) -> bool:
        """Tell whether a layer can compute what belongs to a part of a tensor along an axis alone."""

    def compute_tile(
        self,
        here: Here,
        reads: Sequence[torch.Tensor],
        weights: Sequence[torch.Tensor],
        axes: TileAxes,
        rows: Sequence[int],
    ) -> torch.Tensor:
        """Return a tile of what a layer makes."""


class InTiles(NamedTuple):
    """A collective in tiles."""

    way: Tiling
    """The tiles."""
    op: str
    """all_gather, reduce_scatter or all_reduce."""


class TileAxes(NamedTuple):
    """Along which axes (samples first) a layer computes a tile."""

    reads: tuple[int | None, ...]
    """Per read; None for one that every tile needs whole."""
    write: int
    """Of its result."""


def tile_axes(here: Here, use: Use, axis: int) -> TileAxes | None:
    """Return along which axes a layer can compute what belongs to a part of a tensor; None if it cannot.

    Args:
        here: the layer.
        use: its read or write that is cut.
        axis: axis along which it is cut, samples first.
    """
    layer = here.layer
    if layer.kind not in PRODUCTS or here.plan.forward or here.plan.backward or len(layer.writes) > 1:
        return None
    if axis == 0:
        return TileAxes((0,) * len(layer.reads), 0)
    dim = use.dims[axis - 1] if axis <= len(use.dims) else ""
    uses = (*layer.reads, *layer.writes, *layer.parameters)
    if not dim or any(item.dims.count(dim) > 1 for item in uses) or dim not in layer.writes[0].dims:
        return None
    if any(dim in item.dims for item in layer.parameters):
        return None
    reads = tuple(item.dims.index(dim) + 1 if dim in item.dims else None for item in layer.reads)
    return TileAxes(reads, layer.writes[0].dims.index(dim) + 1)


def gather_in_tiles(
    run: Running, name: str, origin: TensorPlacement, goal: TensorPlacement, wants: Sequence[Want]
) -> InTiles | None:
    """Return how a tensor comes to its readers in tiles; None if it comes whole.

    Args:
        run: the layers.
        name: the tensor.
        origin: state in which it is there.
        goal: state in which its gradient is needed.
        wants: how it is read.
    """
    if not run.tiled or len(wants) != 1:
        return None
    boxer, (want,) = run.boxer(name), wants
    there = reshard(origin, want.placement, boxer.sizes, boxer.axes)
    back = reshard(want.gradient, goal, boxer.sizes, boxer.axes)
    if len(back) != 1 or back[0].axis not in run.tiled:
        return None
    a = back[0].axis
    whole = boxer.indices(want.placement)
    if [step.op for step in there] == ["all_gather"] and back[0].op == "reduce_scatter":
        axis = array_axis(there[0].source)
        if there[0].axis != a or axis is None or back[0].target != there[0].source:
            return None
        axes = [(axis, _tiles(whole[axis], boxer.peers(origin, a, axis)))]
        op = "all_gather"
    elif not there and back[0].op == "all_reduce":
        axes, op = _even(whole, boxer.mesh.lines[a].size), "all_reduce"
    else:
        return None
    readers = [(run.here[run.graph.layers[i].name], k) for i, k in run.readers_here(name)]
    for axis, tiles in axes:
        if tiles and any(run.can_tile(here, here.layer.reads[k], axis) for here, k in readers):
            return InTiles(_tiling(run, name, a, axis, tiles), op)
    return None


def scatter_in_tiles(run: Running, here: Here, wants: Sequence[Want]) -> InTiles | None:
    """Return how what a layer writes is added up in tiles; None if it is as a whole.

    Args:
        run: the layers.
        here: the layer.
        wants: how its result is read, and passed on.
    """
    if not run.tiled or len(wants) != 1 or len(here.layer.writes) != 1:
        return None
    use, (want,) = here.layer.writes[0], wants
    boxer, origin, goal = run.boxer(use.name), here.plan.writes[0], here.plan.write_gradients[0]
    there = reshard(origin, want.placement, boxer.sizes, boxer.axes)
    back = reshard(want.gradient, goal, boxer.sizes, boxer.axes)
    if len(there) != 1 or there[0].axis not in run.tiled:
        return None
    a, whole = there[0].axis, boxer.indices(origin)
    if there[0].op == "reduce_scatter" and [step.op for step in back] == ["all_gather"]:
        axis = array_axis(there[0].target)
        if axis is None or back[0].axis != a or back[0].source != there[0].target:
            return None
        axes = [(axis, _tiles(whole[axis], boxer.peers(want.placement, a, axis)))]
    elif there[0].op == "all_reduce" and not back:
        axes = _even(whole, boxer.mesh.lines[a].size)
    else:
        return None
    for axis, tiles in axes:
        if tiles and run.can_tile(here, use, axis):
            return InTiles(_tiling(run, use.name, a, axis, tiles), there[0].op)
    return None


def _tiles(whole: Indices, pieces: Sequence[Indices]) -> tuple[tuple[int, ...], ...]:
    """Return the places of every rank's piece among the indices of all; () if some are held twice."""
    if sum(map(len, pieces)) != len(whole) or not all(map(len, pieces)):
        return ()
    return tuple(tuple(np.searchsorted(whole, piece).tolist()) for piece in pieces)


def _even(whole: Sequence[Indices], n: int) -> list[tuple[int, tuple[tuple[int, ...], ...]]]:
    """Return even tiles along every axis that is long enough, the samples last."""
    found = []
    for axis in (*range(1, len(whole)), 0):
        if len(whole[axis]) >= n:
            ends = np.cumsum([0, *split_evenly(len(whole[axis]), n)]).tolist()
            rows = pairwise(ends)
            found.append((axis, tuple(tuple(range(low, high)) for low, high in rows)))
    return found


def _tiling(run: Running, name: str, a: int, axis: int, tiles: tuple[tuple[int, ...], ...]) -> Tiling:
    line = run.mesh.lines[a]
    return Tiling(line=line, axis=axis, tiles=tiles, tag=1 + run.position[name], name=name)


def made_in_tiles(
    run: Running,
    here: Here,
    reads: Sequence[torch.Tensor | Arriving],
    weights: Sequence[torch.Tensor],
) -> torch.Tensor | None:
    """Compute a layer tile by tile, this rank's own first, as what it reads comes; None if it cannot so."""
    coming = [(use, x) for use, x in zip(here.layer.reads, reads, strict=True) if isinstance(x, Arriving)]
    if len(coming) != 1 or not run.can_tile(here, coming[0][0], coming[0][1].way.axis):
        return None
    ((use, first),) = coming
    way, axes = first.way, tile_axes(here, use, first.way.axis)
    if axes is None:
        return None
    parts = {}
    for place in (way.line.place, *way.order[:-1]):
        tile = [
            x.tile(place) if isinstance(x, Arriving) else _cut(way, x, axis, place)
            for x, axis in zip(reads, axes.reads, strict=True)
        ]
        parts[place] = run.compute_tile(here, tile, weights, axes, way.tiles[place])
    return replace(way, axis=axes.write).join([parts[i] for i in range(way.line.size)])


def summed_in_tiles(
    run: Running,
    here: Here,
    way: InTiles,
    reads: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor],
) -> torch.Tensor:
    """Compute a layer tile by tile, each sent as soon as it is there; return this rank's sum."""
    axes, tiling = tile_axes(here, here.layer.writes[0], way.way.axis), way.way
    if axes is None:
        raise AssertionError("what is added up in tiles can be computed so")

    def make(place: int) -> torch.Tensor:
        tile = [_cut(tiling, x, axis, place) for x, axis in zip(reads, axes.reads, strict=True)]
        return run.compute_tile(here, tile, weights, axes, tiling.tiles[place])

    return scattered(tiling, make, op=way.op)


def _cut(way: Tiling, x: torch.Tensor, axis: int | None, place: int) -> torch.Tensor:
    """Return what a tile needs of a read: its part along an axis, or all of it."""
    return x if axis is None else replace(way, axis=axis).cut(x, place)


def whole_of(x: torch.Tensor | Arriving) -> torch.Tensor:
    """Return a tensor, all of its tiles if it comes so."""
    return x.whole() if isinstance(x, Arriving) else x
