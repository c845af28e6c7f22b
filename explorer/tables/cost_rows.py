"""Rows of costs: matrices that grow as they are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from explorer.tasks.skeleton import FloatArray, IntArray


class Held:
    """Bytes of many matrices together."""

    def __init__(self) -> None:
        self.bytes = 0


class Rows:
    """A matrix of some quantities: rows by key, each a (quantities, columns) array, made when first asked.

    Values lie column by column, so that one column of many rows is read from little memory.
    """

    def __init__(self, quantities: int, columns: int, held: Held) -> None:
        self.columns = columns
        self._row_of: dict[tuple[Any, ...], int] = {}
        self._values = np.zeros((quantities, columns, 16))
        self._held = held
        held.bytes += self._values.nbytes

    def _grow(self, columns: int, rows: int) -> None:
        """Have room for so many columns and rows; what is not used takes no memory yet."""
        grown = np.zeros((len(self._values), columns, rows))
        grown[:, : self._values.shape[1], : self._values.shape[2]] = self._values
        self._held.bytes += grown.nbytes - self._values.nbytes
        self._values = grown

    def rows(self, keys: Sequence[tuple[Any, ...]], make: Callable[..., FloatArray]) -> list[int]:
        """Return the numbers of rows; `make` is given the keys that are new, and returns their values as a
        (quantities, columns, keys) array.
        """
        known = self._row_of
        new = [key for key in dict.fromkeys(keys) if key not in known]
        if new:
            made, first = make(new), len(known)
            self._reserve(first + len(new))
            known.update(zip(new, range(first, first + len(new)), strict=True))
            self._values[:, :, first : len(known)] = made
        return [known[key] for key in keys]

    def _reserve(self, rows: int) -> None:
        _, columns, there = self._values.shape
        if rows > there:
            self._grow(columns, max(rows, 2 * there))

    def of(self, rows: IntArray, columns: IntArray, part: slice = slice(None)) -> FloatArray:
        """Return the (quantities, ...) values at rows and columns that broadcast, or a part of them."""
        values = self._values[part]
        place = columns * values.shape[2] + rows
        found: FloatArray = np.take(values.reshape(len(values), -1), place, axis=1)
        return found

    def whole(self, rows: IntArray, first: int | None = None) -> FloatArray:
        """Return the (quantities, columns, n) values of n rows; of the first quantities."""
        return np.take(self._values[:first], rows, axis=2)


class GrowingRows(Rows):
    """Rows to which columns are added; a row is filled as far as there are columns whenever it is asked."""

    def __init__(self, quantities: int, held: Held) -> None:
        super().__init__(quantities, 0, held)
        self._grow(4, 16)
        self._filled = np.zeros(16, dtype=np.int64)

    def widen(self, columns: int) -> None:
        """Have so many columns from now on."""
        self.columns = columns
        _, there, rows = self._values.shape
        if columns > there:
            self._grow(max(columns, 2 * there), rows)

    def row(self, key: tuple[Any, ...], make: Callable[..., FloatArray]) -> int:
        """Return the number of a row; `make(*key, n)` fills its columns from the n-th on, if it lacks any."""
        found = self._row_of.get(key)
        if found is None:
            found = self._row_of[key] = len(self._row_of)
            self._reserve(found + 1)
            if found == len(self._filled):
                self._filled = np.concatenate([self._filled, np.zeros_like(self._filled)])
        first = int(self._filled[found])
        if first < self.columns:
            self._values[:, first : self.columns, found] = make(*key, first)
            self._filled[found] = self.columns
        return found

    def unfilled(self, rows: IntArray) -> list[int]:
        """Return the places in an array of rows of those that lack columns."""
        found: list[int] = np.flatnonzero(self._filled[rows] < self.columns).tolist()
        return found
