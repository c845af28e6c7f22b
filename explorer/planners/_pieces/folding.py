"""Graphs of choices folded: vertices that repeat along the model become one, which chooses for all of them.

A run repeats with period p if each of its vertices is alike the one p before it. Of all runs the one that
saves most vertices is folded, then what is left of it and right of it, likewise. Vertices are alike if they
have the same options at the same seconds, so every plan of the folded graph is one of the whole graph in
which they choose the same, and costs the same:

    t of a class    sum of t of its vertices, and of x between any two of them, both in the same choice
    x of two        sum of x of all edges between their vertices

Equal tables are added by multiplying, so what is done after reading the edges does not grow with the depth.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.planners._pieces.choice_graph import ChoiceGraph, FloatArray

IntArray = npt.NDArray[np.int64]
LONGEST = 512
"""Vertices of the longest period that is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Folded:
    """A folded graph."""

    costs: ChoiceGraph
    """Costs of the m classes."""
    of: tuple[int, ...]
    """Class of each of the n vertices."""

    def spread(self, chosen: Sequence[int]) -> tuple[int, ...]:
        """Return the choice of every vertex: that of its class."""
        return tuple([chosen[k] for k in self.of])


def folded(costs: ChoiceGraph) -> Folded:
    """Return a graph of choices with one vertex for all that repeat."""
    numbers: dict[tuple[int, int], int] = {}
    alike = [
        numbers.setdefault((id(own), id(held)), len(numbers))
        for own, held in zip(costs.seconds, costs.held_bytes, strict=True)
    ]
    of = repeats(alike)
    first = {k: v for v, k in reversed(list(enumerate(of)))}
    times = Counter(of)
    seconds = [times[k] * costs.seconds[v] for k, v in sorted(first.items())]
    held = [times[k] * costs.held_bytes[v] for k, v in sorted(first.items())]
    tables = {id(x): x for x in costs.edges.values()}
    edges: dict[tuple[int, int], FloatArray] = {}
    for (a, b, name), count in Counter((of[u], of[v], id(x)) for (u, v), x in costs.edges.items()).items():
        x = count * tables[name]
        if a == b:
            seconds[a] = seconds[a] + x.diagonal()
        elif a < b:
            edges[a, b] = edges[a, b] + x if (a, b) in edges else x
        else:
            edges[b, a] = edges[b, a] + x.T if (b, a) in edges else x.T
    graph = ChoiceGraph(seconds=tuple(seconds), held_bytes=tuple(held), edges=edges)
    return Folded(costs=graph, of=of)


def repeats(alike: Sequence[int]) -> tuple[int, ...]:
    """Return the class of every item of a sequence, numbered in order.

    >>> repeats([7, 1, 2, 1, 2, 1, 9])
    (0, 1, 2, 1, 2, 1, 3)
    """
    same, left = list(range(len(alike))), [(0, len(alike))]
    items = np.array(alike, dtype=np.int64)
    while left:
        start, stop = left.pop()
        begin, end, period = _longest_run(items[start:stop])
        if not period:
            continue
        for i in range(start + begin + period, start + end):
            same[i] = same[i - period]
        left += [(start, start + begin), (start + begin, start + begin + period), (start + end, stop)]
    place: dict[int, int] = {}
    found = [place.setdefault(_first(same, i), len(place)) for i in range(len(same))]
    return tuple(found)


def _first(same: Sequence[int], i: int) -> int:
    """Return the first item of a class; classes may have been folded further."""
    while same[i] != i:
        i = same[i]
    return i


def _longest_run(items: IntArray) -> tuple[int, int, int]:
    """Return start, stop and period of the run that saves most items; a period of 0 if none repeats."""
    best, found = 0, (0, 0, 0)
    for period in range(1, min(len(items) // 2, LONGEST) + 1):
        equal = np.concatenate([[False], items[period:] == items[:-period], [False]])
        edges = np.flatnonzero(equal[1:] != equal[:-1])
        lengths = edges[1::2] - edges[::2]
        if len(lengths) and lengths.max() >= period and lengths.max() > best:
            best, at = int(lengths.max()), int(lengths.argmax())
            found = (int(edges[2 * at]), int(edges[2 * at]) + best + period, period)
    return found
