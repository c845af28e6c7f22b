"""Vertex orders: which vertex of a graph of choices to settle next, and on which others that depends.

GENERATESEQ (Elango, PaSE): always the vertex with the smallest dependent set, the vertices not settled yet
that it reaches through settled ones. A program over the order has a table for every vertex, with an entry for
each combination of its choices and those of its dependent set.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from explorer.base.errors import InputError

MOST_ENTRIES = 8_000_000
"""Entries of the largest table that a program may make: 64 MB."""


class Turn(NamedTuple):
    """One vertex of the order."""

    vertex: int
    dependent: tuple[int, ...]
    """Vertices not settled yet on whose choices it depends, ascending."""


def vertex_order(sizes: Sequence[int], edges: Iterable[tuple[int, int]]) -> tuple[Turn, ...]:
    """Return the order by smallest dependent sets; of equal ones that of fewest entries, then the first.

    Args:
        sizes: choices of each vertex.
        edges: pairs of vertices.
    """
    near: list[set[int]] = [set() for _ in sizes]
    for u, v in edges:
        near[u].add(v)
        near[v].add(u)
    left, found = set(range(len(sizes))), []
    rank = {v: _rank(v, near[v], sizes) for v in left}
    while left:
        v = min(left, key=rank.__getitem__)
        left.remove(v)
        for u in near[v]:
            near[u] |= near[v]
            near[u] -= {u, v}
            rank[u] = _rank(u, near[u], sizes)
        found.append(Turn(v, tuple(sorted(near[v]))))
    return tuple(found)


def _rank(v: int, near: set[int], sizes: Sequence[int]) -> tuple[int, int, int]:
    return len(near), sizes[v] * math.prod(sizes[u] for u in near), v


def checked(order: Sequence[Turn], sizes: Sequence[int], most: int = MOST_ENTRIES) -> tuple[Turn, ...]:
    """Return an order whose tables are small enough.

    Raises:
        InputError: one of them has too many entries.
    """
    largest = max(sizes[v] * math.prod(sizes[u] for u in dependent) for v, dependent in order)
    if largest > most:
        raise InputError(
            f"layers depend on each other in a table of {largest:,} entries", key="model", found=largest,
            allowed=f"up to {most:,}: fewer mesh axes (--option axes=1)",
        )  # fmt: skip
    return tuple(order)
