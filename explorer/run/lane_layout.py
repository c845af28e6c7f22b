"""LaneLayout: how the layers of a model that runs are cut over the ranks of a lane, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

from explorer.sharding.result import Override
from explorer.sharding.stage import Request


@dataclass(frozen=True, kw_only=True)
class LaneLayout:
    """A layout over the mesh axes of a lane; without axes a lane is one rank, and layers are whole."""

    layout: tuple[tuple[str, str], ...] = ()
    """(dimension, mesh axis) pairs; () for whole layers."""
    axes: tuple[tuple[str, int], ...] = ()
    """Mesh axes of a lane with their sizes; () for one rank."""
    exceptions: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...] = ()
    """(layers, layout) of layers laid out apart from the others."""
    uneven: tuple[tuple[str, tuple[float, ...]], ...] = ()
    """Mesh axes with unequal shares."""
    spread: tuple[tuple[tuple[str, ...], tuple[tuple[str, str], ...]], ...] = ()
    """(layers, layout) of layers laid out over ranks of several replicas of their stage (experts)."""
    spread_axis: tuple[str, int] = ("", 1)
    """Mesh axis of these layers: so many consecutive ranks of all replicas, whole lanes."""
    tiles: tuple[str, ...] = ()
    """Mesh axes whose collectives go in tiles beside the products that they feed or come from."""

    @property
    def lane_ranks(self) -> int:
        """Ranks of a lane."""
        return math.prod(size for _, size in self.axes)

    @property
    def whole(self) -> Self:
        """The same layers on one rank."""
        return replace(
            self, layout=(), axes=(), exceptions=(), uneven=(), spread=(), spread_axis=("", 1), tiles=()
        )  # fmt: skip

    @property
    def mesh_axes(self) -> tuple[tuple[str, int], ...]:
        """Mesh axes of the ranks that compute a layer together: those of a lane, then that of replicas."""
        return (*self.axes, self.spread_axis) if self.spread else self.axes

    @property
    def request(self) -> Request:
        """Layout, mesh axes and exceptions, as sharding takes them."""
        return Request(
            self.layout, self.axes,
            (
                *(Override(layers=layers, layout=layout) for layers, layout in self.exceptions),
                *(
                    Override(layers=layers, layout=layout, sizes=(self.spread_axis,))
                    for layers, layout in self.spread
                ),
            ),
            tuple((axis, shares, 0) for axis, shares in self.uneven),
        )  # fmt: skip
