"""Rows of costs by small codes: a dense array instead of a dictionary, so that many are found at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np

from explorer.tables.distinct import distinct_values
from explorer.tasks.skeleton import FloatArray, IntArray


class Codes:
    """Numbers from 0 on for values as they are met."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, int] = {}

    def of(self, values: Sequence[Hashable]) -> IntArray:
        """Return the numbers of some values."""
        codes = self._codes
        return np.array([codes.setdefault(value, len(codes)) for value in values], dtype=np.int64)

    def of_array(self, values: IntArray | FloatArray) -> IntArray:
        """Return the numbers of an array of which few values differ."""
        different, place = distinct_values(values)
        return self.of(different.tolist())[place]


class CodedRows:
    """Numbers of rows by tuples of codes, made when first asked."""

    def __init__(self, axes: int) -> None:
        self._rows = np.full((4,) * axes, -1, dtype=np.int64)

    def rows(self, codes: tuple[IntArray, ...], make: Callable[[list[int]], list[int]]) -> IntArray:
        """Return the rows of many tuples; `make` is given a position of each new one, and returns their rows.

        Args:
            codes: per part of the tuples an array.
            make: function that makes rows.
        """
        most = [int(part.max(initial=0)) + 1 for part in codes]
        if any(size > there for size, there in zip(most, self._rows.shape, strict=True)):
            shape = [max(2 * size, there) for size, there in zip(most, self._rows.shape, strict=True)]
            grown = np.full(shape, -1, dtype=np.int64)
            grown[tuple(slice(size) for size in self._rows.shape)] = self._rows
            self._rows = grown
        found: IntArray = self._rows[codes]
        new = np.flatnonzero(found < 0)
        if not len(new):
            return found
        flat = np.ravel_multi_index([part[new] for part in codes], self._rows.shape)
        earliest: dict[int, int] = {}
        for n, code in zip(new.tolist(), flat.tolist(), strict=True):
            earliest.setdefault(code, n)
        self._rows.reshape(-1)[list(earliest)] = make(list(earliest.values()))
        rows: IntArray = self._rows[codes]
        return rows
