"""Spaces: the sets of strategies that searchers choose from, each with a plain list of its members.

The lists are for small problems: what a search claims to be best of its space is held against all of them,
and uniform random search draws from them. They are made by nested loops and nothing that a searcher uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product

from explorer.base.errors import ExplorerError
from explorer.search.problem import Problem, respecting
from explorer.strategies.degrees import RECOMPUTE, ZERO_LEVELS, Degrees
from explorer.strategy import Strategy

Members = Callable[[Problem], Iterator[Strategy]]
"""Yields all strategies of a space for a problem, those that break pins or do not fit memory included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A set of strategies."""

    words: str
    """What is chosen, in a few words, for tables."""
    members: Members | None = None
    """Its list; None if it has none: random search then draws from the uniform strategies."""

    def __str__(self) -> str:
        return self.words


def uniform_strategies(problem: Problem) -> Iterator[Strategy]:
    """Yield every uniform strategy: t x p x d devices, chunks, microbatch, recomputation and ZeRO.

    On every proposed order of devices: t divides all nodes, d is the largest that the devices left allow and
    the batch divides into, chunks are 1, 2 or 4, and microbatches divide what a replica has.
    """
    batch, cluster = problem.job.global_batch, problem.needed_cluster
    for order in problem.orders():
        count = len(order)
        for t, p, v in product(range(1, count + 1), range(1, count + 1), (1, 2, 4)):
            if t * p > count or any(cluster.node_size(device) % t for device in order):
                continue
            d = max(d for d in range(1, count // (t * p) + 1) if batch % d == 0)
            for size, again, level in product(range(1, batch // d + 1), RECOMPUTE, ZERO_LEVELS):
                rounds, rest = divmod(batch, d * size)
                if rest or (v > 1 and (p == 1 or rounds % p)) or (level and d == 1):
                    continue
                degrees = Degrees(
                    tensor=t,
                    stages=p,
                    replicas=d,
                    chunks=v,
                    microbatch_size=size,
                    recompute=again,
                    zero=level,
                )
                try:
                    found = degrees.build(problem.graph, cluster, problem.job, devices=order)
                except ExplorerError:
                    continue  # more stages than the model has blocks
                held = respecting(problem, found)
                if held is not None:
                    yield held


UNIFORM = Space(words="all uniform tp × pp × dp", members=uniform_strategies)
"""All stages treated alike, on every proposed order of devices."""
