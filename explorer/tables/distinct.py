"""Distinct combinations of columns, found in linear time where the columns hold small codes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.tasks.skeleton import IntArray

DENSE = 1 << 20
"""Codes up to which a table over all of them is made, whatever the number of rows."""


class Distinct(NamedTuple):
    """The distinct combinations of some columns."""

    first: IntArray
    """(U,): a row of each."""
    place: IntArray
    """(N,): of each row its combination."""

    @property
    def size(self) -> int:
        """U, the number of combinations."""
        return len(self.first)


def distinct(*columns: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Distinct:
    """Return the distinct combinations of columns of whole numbers from 0 on.

    >>> distinct(np.array([3, 0, 3]), np.array([1, 1, 1]))
    Distinct(first=array([1, 0]), place=array([1, 0, 1]))
    """
    spans = [int(column.max(initial=0)) + 1 for column in columns]
    room = 1
    for span in spans:
        room *= span
    rows = len(columns[0])
    if room >= 2**62:
        table = np.stack([column.astype(np.int64) for column in columns], axis=1)
        _, first, place = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return Distinct(first, place.reshape(-1))
    code = columns[0].astype(np.int64)
    for column, span in zip(columns[1:], spans[1:], strict=True):
        code *= span
        code += column
    if room > max(DENSE, 4 * rows):
        _, first, place = np.unique(code, return_index=True, return_inverse=True)
        return Distinct(first, place.reshape(-1))
    where = np.full(room, -1, dtype=np.int64)
    where[code[::-1]] = np.arange(rows - 1, -1, -1)
    found = np.flatnonzero(where >= 0)
    first = where[found]
    where[found] = np.arange(len(found))
    return Distinct(first, where[code])
