"""Frontiers of (seconds, bytes): products and unions of whole tables of them, without what is dominated.

A table has an axis for each of some vertices and a last one for the points of a cell, by bytes; cells with
fewer points than others end in infinite ones. Every operation says from which points its points came.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.base.checkpoints import checkpoint
from explorer.planners._pieces.choice_graph import FloatArray, IntArray

MOST_PAIRS = 1_000_000
"""Pairs of points that a product makes at once; tables are thinned where there would be more."""


class Fronts(NamedTuple):
    """A table of frontiers."""

    of: tuple[int, ...]
    """The vertices."""
    seconds: FloatArray
    """(*choices of the vertices, points)."""
    held: FloatArray
    """The same of bytes."""

    @property
    def points(self) -> int:
        """Most points of a cell."""
        return int(self.seconds.shape[-1])

    def spread(self, axes: tuple[int, ...]) -> Fronts:
        """Return the same with an axis for each of some vertices, of length 1 where they do not matter."""
        order = sorted(range(len(self.of)), key=lambda k: axes.index(self.of[k]))
        sizes = {u: self.seconds.shape[k] for k, u in enumerate(self.of)}
        shape = (*(sizes.get(u, 1) for u in axes), self.points)
        moved = (part.transpose(*order, len(order)).reshape(shape) for part in (self.seconds, self.held))
        return Fronts(axes, *moved)


class Step(NamedTuple):
    """What an operation made, and from what."""

    found: Fronts
    origin: IntArray
    """Per point: number of the pair (product), or of the choice and its point (union)."""


def product(left: Fronts, right: Fronts, most: int) -> Step:
    """Return the frontiers of all sums of a point of each of two tables that have the same axes.

    Point p is the sum of points origin // right.points and origin % right.points.
    """
    shape = np.broadcast_shapes(left.seconds.shape[:-1], right.seconds.shape[:-1])
    pairs = left.points * right.points
    sums = [
        np.broadcast_to(a[..., :, None] + b[..., None, :], (*shape, left.points, right.points)).reshape(
            *shape, pairs
        )
        for a, b in ((left.seconds, right.seconds), (left.held, right.held))
    ]
    return _pruned(Fronts(left.of, *sums), most)


def union(table: Fronts, most: int) -> Step:
    """Return the frontiers over all choices of the last vertex.

    Point p has choice origin // table.points, and there the point origin % table.points.
    """
    shape = (*table.seconds.shape[:-2], table.seconds.shape[-2] * table.points)
    return _pruned(Fronts(table.of[:-1], table.seconds.reshape(shape), table.held.reshape(shape)), most)


def room_for(cells: int, points: int, other: int) -> int:
    """Return how many points of each of two tables may meet in so many cells."""
    if cells * points * other <= MOST_PAIRS:
        return max(points, other)
    return max(2, int((MOST_PAIRS / cells) ** 0.5))


def thinned(table: Fronts, most: int) -> Step:
    """Return the table with so many points a cell at most, evenly among them, both ends included."""
    return _pruned(table, most)


def _pruned(table: Fronts, most: int) -> Step:
    """Keep the points that no other one dominates, by bytes; of more than `most` some evenly spread ones."""
    checkpoint()
    order = np.lexsort((table.seconds, table.held), axis=-1)
    seconds = np.take_along_axis(table.seconds, order, axis=-1)
    before = np.minimum.accumulate(seconds, axis=-1)
    kept = np.isfinite(seconds)
    kept[..., 1:] &= seconds[..., 1:] < before[..., :-1]
    count = kept.sum(axis=-1, keepdims=True)
    checkpoint()
    first = np.argsort(~kept, axis=-1, kind="stable")
    width = min(int(count.max(initial=1)), most)
    place = np.arange(width)
    spread = place * np.maximum(count - 1, 0) // max(width - 1, 1)
    chosen = np.where(count > width, spread, np.minimum(place, np.maximum(count - 1, 0)))
    at = np.take_along_axis(order, np.take_along_axis(first, chosen, axis=-1), axis=-1)
    beyond = place >= count
    parts = [
        np.where(beyond, np.inf, np.take_along_axis(part, at, axis=-1))
        for part in (table.seconds, table.held)
    ]
    return Step(Fronts(table.of, *parts), at)
