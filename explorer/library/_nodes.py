"""Small graphs of nodes and equal devices, on which claims of placement algorithms are worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from explorer.planners._pieces.earliest_finish import Workers
from explorer.planners._pieces.work_graph import WorkGraph


def graph_of(seconds: Sequence[float], sent_bytes: float, reads: Mapping[int, Sequence[int]]) -> WorkGraph:
    """Return nodes of given seconds, each of which makes a tensor of so many bytes."""
    count = len(seconds)
    above = [0] * count
    for v in range(count):
        for u in reads.get(v, ()):
            above[v] |= above[u] | 1 << u
    readers = [tuple(v for v in range(count) if u in reads.get(v, ())) for u in range(count)]
    made = [u for u in range(count) if readers[u]]
    return WorkGraph(
        members=tuple((v,) for v in range(count)),
        above=tuple(above),
        seconds=np.array([seconds]),
        held_bytes=np.zeros(count),
        reduced_bytes=np.zeros(count),
        producer=np.array(made, dtype=np.int64),
        readers=tuple(readers[u] for u in made),
        transfer_s=np.full(len(made), sent_bytes),
    )


def workers(count: int) -> Workers:
    """Return equal devices with room for all, joined by links of a byte a second."""
    links = np.ones((count, count))
    return Workers((0,) * count, (float("inf"),) * count, 0 * links, links)
