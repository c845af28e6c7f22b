"""Arithmetic on index arrays: ragged rows, numbers by first appearance, stable sorting of small numbers."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.base.checkpoints import checkpoint

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

NO_INTS: IntArray = np.empty(0, dtype=np.int64)

_SHORT = 1 << 16


def ragged(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return, for rows of so many elements, the row of every element and its place in the row.

    >>> ragged(np.array([2, 0, 1]))[0].tolist(), ragged(np.array([2, 0, 1]))[1].tolist()
    ([0, 0, 2], [0, 1, 0])
    """
    checkpoint()
    if counts.max(initial=0) <= 1:
        rows = np.flatnonzero(counts)
        return rows, np.zeros(len(rows), dtype=np.int64)
    rows = np.repeat(np.arange(len(counts)), counts)
    return rows, np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]


def numbered(keys: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Return the number of every key by first appearance, and where each number first appears.

    Args:
        keys: from 0 to `size` - 1.
        size: number of possible keys.

    >>> numbered(np.array([7, 3, 7]), 8)[0].tolist(), numbered(np.array([7, 3, 7]), 8)[1].tolist()
    ([0, 1, 0], [0, 1])
    """
    checkpoint()
    if size > 8 * len(keys) + 1024:
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[inverse.reshape(-1)], np.sort(first)
    places = np.arange(len(keys))
    if size == len(keys) and np.bincount(keys, minlength=size).all():
        return places, places  # every key once
    table = np.empty(size, dtype=np.int64)
    table[keys[::-1]] = places[::-1]  # of equal keys the last assignment stays: the first key
    firsts = np.flatnonzero(table[keys] == places)
    table[keys[firsts]] = np.arange(len(firsts))
    return table[keys], firsts


def packed(columns: list[IntArray]) -> tuple[IntArray, int]:
    """Return one key for every row of some columns of numbers from 0 on, and the number of possible keys."""
    size = 1
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        most = int(column.max(initial=0)) + 1
        if most == 1:
            continue
        if size * most >= 1 << 62:
            numbers, firsts = numbered(key, size)
            key, size = numbers, max(1, len(firsts))
        key = key * most + column
        size *= most
    return key, size


def sorting(keys: IntArray) -> IntArray:
    """Return the stable order of some numbers from 0 on; in 16 bits at a time NumPy sorts by radix."""
    checkpoint()
    if (keys[1:] >= keys[:-1]).all():
        return np.arange(len(keys))
    most = int(keys.max(initial=0))
    if most < _SHORT:
        return np.argsort(keys.astype(np.uint16), kind="stable")
    if len(keys) < 1024 or most >= _SHORT * _SHORT:
        return np.argsort(keys, kind="stable")
    low = np.argsort((keys & (_SHORT - 1)).astype(np.uint16), kind="stable")
    return low[np.argsort((keys[low] >> 16).astype(np.uint16), kind="stable")]


class Places:
    """Where each number stands in an array.

    Args:
        values: numbers from 0 to `size` - 1.
        size: how many there can be.

    >>> rows, places = Places(np.array([4, 2, 4]), 5).of(np.array([2, 4]))
    >>> rows.tolist(), places.tolist()
    ([0, 1, 1], [1, 0, 2])
    """

    def __init__(self, values: IntArray, size: int) -> None:
        self.order = sorting(values)
        self.count = np.bincount(values, minlength=size)
        self.start = np.cumsum(self.count) - self.count

    def of(self, asked: IntArray) -> tuple[IntArray, IntArray]:
        """Return every (place in `asked`, place in the array) with equal numbers, by the first."""
        checkpoint()
        rows, within = ragged(self.count[asked])
        return rows, self.order[self.start[asked][rows] + within]
