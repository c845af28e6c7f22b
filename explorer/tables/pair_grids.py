"""Pair grids: numbers of every run of units, from unit i to before unit j, as square arrays.

A unit is a run of layers that no cut divides, mostly a block: a hundred units make ten thousand runs, so all
of them fit in one array. Two kinds of numbers fill one at a time:

    sums of items that several units touch, each counted once in a run
    maxima over the units of a run
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.costs.memory_arrays import FloatArray, IntArray


class Members(NamedTuple):
    """(unit, item) pairs, each once, by item and then by unit."""

    unit: IntArray
    item: IntArray

    @property
    def previous(self) -> IntArray:
        """The unit before in the same item; -1 for the first."""
        return _neighbour(self.unit, self.item, 1, -1)

    def following(self, none: int) -> IntArray:
        """Return the unit behind in the same item; `none` for the last."""
        return _neighbour(self.unit, self.item, -1, none)


def _neighbour(unit: IntArray, item: IntArray, step: int, none: int) -> IntArray:
    found = np.full_like(unit, none)
    here, there = (slice(1, None), slice(None, -1)) if step > 0 else (slice(None, -1), slice(1, None))
    found[here] = np.where(item[here] == item[there], unit[there], none)
    return found


def members_of(unit: IntArray, item: IntArray) -> Members:
    """Return pairs in order, each once."""
    units = int(unit.max(initial=0)) + 1
    pairs = np.unique(item * units + unit)
    return Members(pairs % units, pairs // units)


def union_grids(
    members: Members, weights: FloatArray, units: int, after: IntArray | None = None
) -> FloatArray:
    """Sum the items that any unit of a run touches, each once: shape (k, units + 1, units + 1).

    An item counts by its first member in the run: that is `u` for runs that start behind the member before
    `u`, at `u` at the latest, and stop behind it.

    Args:
        members: (unit, item) pairs.
        weights: shape (k, items).
        units: number of units.
        after: per item a unit behind which a run has to start for the item to count; None for anywhere.
    """
    unit, item = members
    first = members.previous + 1
    if after is not None:
        first = np.maximum(first, after[item] + 1)
        kept = first <= unit
        unit, item, first = unit[kept], item[kept], first[kept]
    return rectangle_sums(first, unit + 1, unit + 1, np.full_like(unit, units + 1), weights[:, item], units)


def rectangle_sums(
    low: IntArray, high: IntArray, left: IntArray, right: IntArray, weights: FloatArray, units: int
) -> FloatArray:
    """Sum weights over runs with low <= start < high and left <= stop < right: (k, units + 1, units + 1)."""
    size = units + 2
    found = np.zeros((len(weights), size, size))
    flat = found.reshape(len(weights), -1)
    for rows, columns, sign in ((low, left, 1), (high, left, -1), (low, right, -1), (high, right, 1)):
        place = rows * size + columns
        for k in range(len(weights)):
            flat[k] += sign * np.bincount(place, weights=weights[k], minlength=size * size)
    np.cumsum(found, axis=1, out=found)
    np.cumsum(found, axis=2, out=found)
    return found[:, :-1, :-1]


class Largest(NamedTuple):
    """Largest of some sizes in every run: shape (units + 1, units + 1)."""

    compute: FloatArray
    fixed: FloatArray


def key_of(compute: FloatArray, fixed: FloatArray) -> FloatArray:
    """Return what sizes are compared by: bytes at two a scalar (`explorer.costs.memory_peaks.largest`)."""
    return 2 * compute + fixed


def largest_grid(sizes: FloatArray) -> Largest:
    """Return the largest unit of every run, of equals the first; sizes (2, units) are scalars and bytes."""
    units = sizes.shape[1]
    run = np.triu(np.ones((units, units), dtype=bool))
    keys = np.where(run, key_of(sizes[0], sizes[1])[None, :], -np.inf)
    best = np.maximum.accumulate(keys, axis=1)
    newer = np.zeros((units, units), dtype=bool)
    newer[:, 1:] = keys[:, 1:] > best[:, :-1]
    rows = np.arange(units)
    newer[rows, rows] = True
    place = np.maximum.accumulate(np.where(newer, rows[None, :], 0), axis=1)
    grids = np.zeros((2, units + 1, units + 1))
    for grid, values in zip(grids, sizes, strict=True):
        grid[:-1, 1:] = values[place]
    return Largest(grids[0], grids[1])


def group_sizes(group: IntArray, sizes: FloatArray, count: int) -> FloatArray:
    """Sum sizes (2, items) by group: (2, count)."""
    return np.stack([np.bincount(group, weights=row, minlength=count) for row in sizes]).astype(np.float64)


def first_largest(unit: IntArray, sizes: FloatArray, units: int) -> FloatArray:
    """Return the largest of the sizes of each unit, the first of equals; 0 for units without any.

    Args:
        unit: unit of each size, ascending.
        sizes: shape (2, sizes).
        units: number of units.
    """
    order = np.lexsort((np.arange(len(unit)), -key_of(sizes[0], sizes[1]), unit))
    found, first = np.unique(unit[order], return_index=True)
    largest = np.zeros((2, units))
    largest[:, found] = sizes[:, order[first]]
    return largest


def dropped_grid(pairs: Members, weights: FloatArray, makers: Members, units: int) -> Largest:
    """Return the largest sum of a unit's items that no maker in the run keeps.

    What a block drops and makes again depends on the run: the output of its last layer is kept if the next
    block, which reads it, is there as well.

    Args:
        pairs: (unit, item) of the items of each unit.
        weights: (2, items): scalars and fixed bytes; 0 for those never dropped.
        makers: (unit, item): a unit keeps an item in every run that has it.
        units: number of units.
    """
    own = np.isin(pairs.item * units + pairs.unit, makers.item * units + makers.unit)
    unit, item = pairs.unit[~own], pairs.item[~own]
    some = (weights[:, item] != 0).any(axis=0)
    unit, item = unit[some], item[some]
    keys = makers.item * units + makers.unit
    behind = np.searchsorted(keys, item * units + unit)
    padded = np.concatenate([makers.item, [-1]]), np.concatenate([makers.unit, [0]])
    above = np.where(padded[0][behind] == item, padded[1][behind], units)
    before = np.maximum(behind - 1, 0)
    same = (behind > 0) & (padded[0][before] == item)
    below = np.where(same, padded[1][before], -1)
    free = (above == units) & (below < 0)  # no unit keeps it
    low = group_sizes(unit[free], weights[:, item[free]], units)
    grid = largest_grid(low)
    kept = ~free
    for u in np.unique(unit[kept]).tolist():
        mine = kept & (unit == u)
        _raise(grid, u, low[:, u], weights[:, item[mine]], above[mine], below[mine], units)
    return grid


def _raise(
    grid: Largest,
    unit: int,
    low: FloatArray,
    weights: FloatArray,
    above: IntArray,
    below: IntArray,
    units: int,
) -> None:
    """Raise the largest in runs in which some makers of a unit's items are missing."""
    last = min(units, int(above.max()))
    rows, columns = np.arange(unit + 1)[:, None], np.arange(unit + 1, last + 1)[None, :]
    found = np.tile(low[:, None, None], (1, unit + 1, last - unit))
    for k in range(weights.shape[1]):
        missing = (columns <= above[k]) & (rows > below[k])
        found += weights[:, k, None, None] * missing
    here = (slice(0, unit + 1), slice(unit + 1, last + 1))
    more = key_of(found[0], found[1]) > key_of(grid.compute[here], grid.fixed[here])
    for values, new in zip(grid, found, strict=True):
        values[here] = np.where(more, new, values[here])
