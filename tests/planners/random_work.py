"""Small random graphs of work, and what they cost, in plain words of their own."""

from __future__ import annotations

import random

import numpy as np

from explorer.planners._pieces.max_load import Pool
from explorer.planners._pieces.work_graph import WorkGraph


def random_work(draw: random.Random, *, most: int = 5, kinds: int = 1) -> WorkGraph:
    """A graph of a few nodes in a topological order, some without seconds, some that a kind may not run."""
    n = draw.randint(1, most)
    above: list[int] = []
    readers: list[set[int]] = [set() for _ in range(n)]
    for v in range(n):
        needed = 0
        for u in range(v):
            if draw.random() < 0.4:
                readers[u].add(v)
                needed |= above[u] | 1 << u
        above.append(needed)
    made = [u for u in range(n) if readers[u]]
    seconds = [
        [draw.choice([0.0, 1.0, 2.0, draw.uniform(0, 4), draw.uniform(0, 4)]) for _ in range(n)]
        for _ in range(kinds)
    ]
    for v in range(n):
        if kinds > 1 and draw.random() < 0.2:
            seconds[draw.randrange(kinds)][v] = float("inf")
    return WorkGraph(
        members=tuple((v,) for v in range(n)),
        above=tuple(above),
        seconds=np.array(seconds),
        held_bytes=np.array([float(draw.choice([0, 1, 2, 3])) for _ in range(n)]),
        reduced_bytes=np.array([float(draw.choice([0, 0, 1, 2])) for _ in range(n)]),
        producer=np.array(made, dtype=np.int64),
        readers=tuple(tuple(sorted(readers[u])) for u in made),
        transfer_s=np.array([draw.choice([0.0, 0.5, draw.uniform(0, 2)]) for _ in made]),
    )


def random_pools(draw: random.Random, kinds: int, *, devices: int = 3) -> list[Pool]:
    """One or two devices of each kind, with memory that may not do."""
    return [
        Pool(
            count=draw.randint(1, max(1, devices - kinds + 1)),
            room_bytes=draw.choice([float("inf"), 6.0, 4.0]),
            pays=k == 0 or draw.random() < 0.5,
            reduce_s_per_byte=draw.choice([0.0, 0.3]),
        )
        for k in range(kinds)
    ]
