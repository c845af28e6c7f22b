"""Ideals of a graph as a lattice: which of them grow into which by one node, and sums over each.

An ideal is a set of nodes with everything that they need, so a stage of a pipeline is the difference of two.
A graph put in one order, or a chain, has only its prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.base.errors import InputError
from explorer.tables.ideals import count_ideals

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

MOST_IDEALS = 200_000
"""Most ideals of a graph: its tables then take some hundred MiB."""
_STEP = 2_000
"""Ideals that are found between two pauses."""


@dataclass(frozen=True, slots=True, eq=False)
class Lattice:
    """Ideals, the smaller ones first; the first is empty, the last has every node."""

    sets: tuple[int, ...]
    """Nodes of each of the N ideals, as bits."""
    start: IntArray
    """(N + 1,): place of the first edge out of each ideal."""
    node: IntArray
    """(e,): node by which an edge makes its ideal larger."""
    to: IntArray
    """(e,): the larger ideal."""

    @property
    def count(self) -> int:
        """Number of ideals N."""
        return len(self.sets)

    def sums(self, values: FloatArray) -> FloatArray:
        """Return the sums of a value of nodes over each ideal: shape (..., n) becomes (..., N)."""
        found = np.zeros((*values.shape[:-1], self.count))
        source = np.repeat(np.arange(self.count), np.diff(self.start))
        last, edge = np.unique(self.to, return_index=True)  # one way to each ideal is enough
        for ideal, e in zip(last.tolist(), edge.tolist(), strict=True):
            found[..., ideal] = found[..., source[e]] + values[..., self.node[e]]
        return found


def bits(number: int) -> Iterator[int]:
    """Yield the positions of the ones, ascending.

    >>> list(bits(0b1101))
    [0, 2, 3]
    """
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def lattice_of(above: Sequence[int], *, limit: int = MOST_IDEALS) -> Iterator[Lattice | None]:
    """Yield None while working, then the lattice of all ideals.

    Args:
        above: per node the nodes that it needs, as a bit set; they have lower numbers.
        limit: most ideals.

    Raises:
        InputError: there are more.
    """
    readers = [[v for v, needed in enumerate(above) if needed >> u & 1] for u in range(len(above))]
    free = sum(1 << v for v, needed in enumerate(above) if not needed)
    sets, ready, place = [0], [free], {0: 0}
    start, node, to = [0], [], []
    for number, ideal in enumerate(sets):  # which grows meanwhile
        for v in bits(ready[number]):
            more = ideal | 1 << v
            if more not in place:
                if len(sets) >= limit:
                    raise _too_many(above, limit)
                place[more] = len(sets)
                sets.append(more)
                freed = sum(1 << w for w in readers[v] if not above[w] & ~more)
                ready.append(ready[number] & ~(1 << v) | freed)
            node.append(v)
            to.append(place[more])
        start.append(len(node))
        if number % _STEP == 0:
            yield None
    yield Lattice(tuple(sets), *(np.array(item, dtype=np.int64) for item in (start, node, to)))


def prefixes(order: Sequence[int]) -> Lattice:
    """Return the ideals of a graph whose nodes come in one order."""
    sets = [0]
    for v in order:
        sets.append(sets[-1] | 1 << v)
    count = len(order)
    start = np.array([*range(count + 1), count], dtype=np.int64)
    return Lattice(tuple(sets), start, np.array(order, dtype=np.int64), np.arange(1, count + 1))


def depth_first(above: Sequence[int]) -> list[int]:
    """Return the nodes in the topological order of a depth-first search."""
    seen = 0
    found: list[int] = []
    for last in reversed(range(len(above))):
        pending = [last]
        while pending:
            v = pending[-1]
            missing = above[v] & ~seen
            if missing:
                pending.append(missing.bit_length() - 1)
                continue
            pending.pop()
            if not seen >> v & 1:
                seen |= 1 << v
                found.append(v)
    return found


def _too_many(above: Sequence[int], limit: int) -> InputError:
    count = count_ideals(list(above))
    said = "more ideals than can be counted" if count is None else f"{count:,} ideals"
    return InputError(
        f"the model has {said} of {len(above)} blocks and layers", key="ideals", found=count or said,
        allowed=f"<= {limit:,}: tarnawski_linear, which puts them in one order, or --option ideals=N",
    )  # fmt: skip
