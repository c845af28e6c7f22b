"""The cheapest choices of a graph of choices, by A* over its vertices in order.

A state is how many vertices have chosen, and the choices of those that later ones still meet. What it costs
to go on is at least, for every vertex left, the least of its own seconds and, for each earlier neighbour, of
the edge between them whatever that one chose; so the first complete state is the cheapest.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from explorer.base.checkpoints import checkpoint
from explorer.base.errors import InputError
from explorer.planners._pieces.choice_graph import ChoiceGraph, FloatArray

MOST_STATES = 200_000


class Chosen(NamedTuple):
    """The cheapest choices."""

    seconds: float
    chosen: tuple[int, ...]
    states: int
    """States from which the search went on."""


def cheapest(costs: ChoiceGraph, *, most: int = MOST_STATES) -> Chosen:
    """Return the choices of least total cost.

    Args:
        costs: the graph.
        most: most states to go on from.

    Raises:
        InputError: there are more.
    """
    way = _Way(costs)
    queue: list[tuple[float, int, tuple[int, ...], float, tuple[int, ...]]] = [(way.left[0], 0, (), 0.0, ())]
    done: set[tuple[int, tuple[int, ...]]] = set()
    while True:
        _, less, near, spent, chosen = heapq.heappop(queue)
        v = -less
        if v == costs.count:
            return Chosen(spent, chosen, len(done))
        if (v, near) in done:
            continue
        done.add((v, near))
        if len(done) > most:
            raise InputError(
                f"more than {most:,} programs of {costs.count} layers", key="states", found=len(done),
                allowed="a larger --option states=N, or --searcher pase",
            )  # fmt: skip
        if len(done) % 256 == 0:
            checkpoint()
        added = way.added(v, near)
        for k in range(len(added)):
            total = spent + float(added[k])
            state = way.next(v, near, k)
            if (v + 1, state) not in done:
                heapq.heappush(queue, (total + way.left[v + 1], -(v + 1), state, total, (*chosen, k)))


class _Way:
    """What vertices add as they choose, and what is left at least."""

    def __init__(self, costs: ChoiceGraph) -> None:
        self.costs, count = costs, costs.count
        before: list[list[tuple[int, FloatArray]]] = [[] for _ in range(count)]
        last = list(range(count))
        for (u, v), x in costs.edges.items():
            low, high, table = (u, v, x) if u < v else (v, u, x.T)
            before[high].append((low, table))
            last[low] = max(last[low], high)
        self.before = before
        self.near = [tuple(u for u in range(v) if last[u] >= v) for v in range(count + 1)]
        """Per number of vertices that have chosen: those of them that later ones meet."""
        least = [
            float((costs.seconds[v] + sum((x.min(axis=0) for _, x in before[v]), np.zeros(1))).min())
            for v in range(count)
        ]
        self.left = [*np.cumsum(least[::-1])[::-1].tolist(), 0.0]

    def added(self, v: int, near: tuple[int, ...]) -> FloatArray:
        """Return what each choice of a vertex adds, (choices,)."""
        known = dict(zip(self.near[v], near, strict=True))
        found = self.costs.seconds[v].copy()
        for u, table in self.before[v]:
            found += table[known[u]]
        return found

    def next(self, v: int, near: tuple[int, ...], choice: int) -> tuple[int, ...]:
        """Return the choices that later vertices meet when this one has chosen."""
        known = dict(zip(self.near[v], near, strict=True)) | {v: choice}
        return tuple(known[u] for u in self.near[v + 1])
