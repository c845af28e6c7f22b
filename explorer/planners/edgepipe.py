"""EdgePipe's partition: a line of layers over a subset of unlike devices, its slowest stage or link fastest.

    h(j, S, u)  =  min over i < j, v in S of  max( h(i, S - u, v), seconds(i, j, u), bytes(i) / b(v, u) )

with S the devices used and u the last of them (Hu et al.). Devices of equal kind are alike, so S says how
many of each kind; not all need be used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.planners._pieces.fleet import Fleet, fleet_of, room_bytes
from explorer.planners._pieces.line import Line, line_of
from explorer.planners._pieces.plans import judged, sizes_worth_trying, strategy_of
from explorer.planners._pieces.work_graph import work_graph
from explorer.search import SEARCHERS, Searcher, Space
from explorer.search.evaluator import Candidate, Evaluator
from explorer.search.problem import Problem

FloatArray = npt.NDArray[np.float64]


class Run(NamedTuple):
    """A stage: nodes from `start` to before `stop` on a device of a kind."""

    start: int
    stop: int
    kind: int


class Bottleneck(NamedTuple):
    """A partition, and the seconds of its slowest stage or link for one microbatch."""

    seconds: float
    stages: tuple[Run, ...]


@SEARCHERS.add(
    Searcher(
        name="edgepipe",
        title="Least bottleneck of a line over a subset of unlike devices",
        paper="Hu et al., Pipeline Parallelism for Inference on Heterogeneous Edge Computing, 2021",
        space=Space(words="cuts x device subsets"),
        rigid=True,
        alone=True,
        objectives=("time",),
    )
)
def edgepipe(problem: Problem, evaluator: Evaluator) -> Iterator[Candidate | None]:
    """Find the partition of least bottleneck for each size of microbatches, and have it judged.

    Raises:
        InputError: there is no cluster.
    """
    fleet = fleet_of(problem)
    rates = _rates(fleet)
    rooms = [room_bytes(problem, kind) for kind in fleet.kinds]
    counts = [len(own) for own in fleet.groups]
    for size in sizes_worth_trying(problem, fleet.count, replicas=fleet.size):
        samples = size / fleet.size
        work = work_graph(problem.graph, fleet.kinds, problem.job, samples=samples, bytes_per_s=1.0)
        found = least_bottleneck(line_of(work), counts, rooms, rates)
        yield None
        if found is None:
            continue
        used = [0] * len(counts)
        stages = []
        for start, stop, kind in found.stages:
            stages.append((work.layers(range(start, stop)), fleet.groups[kind][used[kind]]))
            used[kind] += 1
        label = f"{len(stages)} stages, microbatches of {size}"
        yield from judged(problem, evaluator, strategy_of(problem, stages, size), label)


def least_bottleneck(
    line: Line, counts: Sequence[int], room_bytes: Sequence[float], bytes_per_s: FloatArray
) -> Bottleneck | None:
    """Return the partition of least bottleneck; None if none fits.

    Args:
        line: the model.
        counts: devices of each kind.
        room_bytes: bytes of a device of each kind.
        bytes_per_s: (kinds, kinds) rate from a device of one kind to another of a kind.
    """
    kinds, size = range(len(counts)), line.count + 1
    alone = [np.where(line.held_bytes <= room_bytes[u], line.seconds[u], np.inf) for u in kinds]
    value: dict[tuple[tuple[int, ...], int], FloatArray] = {}
    origin: dict[tuple[tuple[int, ...], int], tuple[npt.NDArray[np.int64], list[int]]] = {}
    nothing = np.where(np.arange(size) == 0, 0.0, np.inf)
    for used in product(*(range(count + 1) for count in counts)):
        for u in kinds:
            if not used[u]:
                continue
            before = (*used[:u], used[u] - 1, *used[u + 1 :])
            last = [v for v in kinds if before[v]]
            ways = [np.maximum(value[before, v], line.sent_bytes / bytes_per_s[v, u]) for v in last] or [
                nothing
            ]
            longest = np.maximum(np.min(ways, axis=0)[:, None], alone[u])
            value[used, u] = longest.min(axis=0)
            origin[used, u] = (
                longest.argmin(axis=0),
                [last[i] if last else -1 for i in np.argmin(ways, axis=0)],
            )
    end = min(value, key=lambda state: float(value[state][-1]))
    if not np.isfinite(value[end][-1]):
        return None
    seconds, stages, stop, (used, u) = float(value[end][-1]), [], line.count, end
    while stop:
        starts, lasts = origin[used, u]
        start = int(starts[stop])
        stages.append(Run(start, stop, u))
        used, u, stop = (*used[:u], used[u] - 1, *used[u + 1 :]), lasts[start], start
    return Bottleneck(seconds, tuple(reversed(stages)))


def _rates(fleet: Fleet) -> FloatArray:
    """Return the bytes/s between devices of two kinds: first ones; of one kind the slowest neighbours."""
    size = len(fleet.kinds)
    found = np.full((size, size), np.inf)
    for v, u in product(range(size), repeat=2):
        own, other = fleet.groups[v], fleet.groups[u]
        pairs = [(own[0][0], other[0][0])] if v != u else [(a[-1], b[0]) for a, b in pairwise(own)]
        rates = [fleet.cluster.path(*pair).bandwidth_bytes_per_s for pair in pairs]
        found[v, u] = min(rates, default=np.inf)
    return found
