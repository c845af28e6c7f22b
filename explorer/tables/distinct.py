"""Distinct combinations of columns, found in linear time where the columns hold small codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.compiling import kernel
from explorer.tasks.skeleton import FloatArray, IntArray

DENSE = 1 << 20
"""Codes up to which a table over all of them is made, whatever the number of rows."""
FEW = 16
"""Distinct values up to which an array is gone through for each of them, rather than sorted."""


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
    Distinct(first=array([0, 1]), place=array([0, 1, 0]))
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
    where = np.empty(room, dtype=np.int64)  # only read where it was written
    first, place = np.empty((2, rows), dtype=np.int64)
    if number_codes.compiles(code, where, first, place):
        count = number_codes.compiled(code, where, first, place)
        return Distinct(first[:count], place)
    number = np.arange(rows)
    where[code[::-1]] = number[::-1]
    earliest = where[code]
    begins = earliest == number
    return Distinct(number[begins], (np.cumsum(begins) - 1)[earliest])


@kernel(results=2, rounds=lambda code, *_: len(code) // 20)  # what arrays take instead
def number_codes(code: Any, where: Any, first: Any, place: Any) -> int:
    """Give codes numbers as they are met, and return how many there are.

    Args:
        code: (N,) whole numbers from 0 on.
        where: room for as many numbers as there may be codes.
        first: (N,) filled with the first row of each, as far as there are.
        place: (N,) filled with the number of each row's code.
    """
    for value in code:
        where[value] = -1
    count = 0
    for n, value in enumerate(code):
        if where[value] < 0:
            where[value] = count
            first[count] = n
            count += 1
        place[n] = where[value]
    return count


def distinct_values(values: FloatArray | IntArray) -> tuple[npt.NDArray[Any], IntArray]:
    """Return the distinct values of an array, which are few, and of each value its place among them.

    >>> distinct_values(np.array([0.5, 2.0, 0.5]))
    (array([0.5, 2. ]), array([0, 1, 0]))
    """
    found: list[float] = []
    place = np.zeros(len(values), dtype=np.int64)
    left = np.arange(len(values))
    while len(left) and len(found) < FEW:
        value = values[left[0]]
        other = values[left] != value
        place[left[~other]] = len(found)
        found.append(value)
        left = left[other]
    if len(left):
        more, at = np.unique(values[left], return_inverse=True)
        place[left] = len(found) + at.reshape(-1)
        found += more.tolist()
    return np.array(found, dtype=values.dtype), place
