"""Spaces: the sets of strategies that searchers choose from, each with a plain list of its members.

The lists are for small problems: a claim to be best of a space is checked against all of its members, and
uniform random search draws from them. They are made by nested loops and nothing that a searcher uses.
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
"""Type of a function that yields all strategies of a space, even those that break pins or do not fit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """A set of strategies."""

    words: str
    """Its choices in a few words, for tables."""
    members: Members | None = None
    """Function that lists it; None if there is none: random search then draws from the uniform strategies."""

    def __str__(self) -> str:
        return self.words


def uniform_strategies(problem: Problem) -> Iterator[Strategy]:
    """Yield every uniform strategy: t x p x d devices, chunks, microbatch, recomputation and ZeRO.

    It covers every proposed order of devices: t divides all nodes, d is the largest that the remaining
    devices allow and the batch divides into, chunks are 1, 2 or 4, and microbatches divide a replica's
    samples.
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
"""Uniform strategies: all stages treated alike, on every proposed order of devices."""
