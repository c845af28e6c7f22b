"""Least max-load of nodes over some devices, contiguous or not, by integer programs (Tarnawski et al., 5.2).

With binaries x(v, i) that node v is on device i, and for every tensor t the share cut(t, i) by which device i
sends or receives it,

    minimise  L
    sum over i of x(v, i) = 1                                              every node is somewhere
    cut(t, i)  >=  x(v, i) - x(w, i)      for all v, w that make or read t     some of them are here, not all
    sum over v of seconds(v, i) x(v, i) + sum over t of c(t) cut(t, i)  <=  L    for every i that pays
    sum over v of bytes(v) x(v, i)  <=  room(i)

As cut follows from x, only x are integers. The paper has a column for what is received and one for what is
sent; of one tensor a device does either, so one will do: cut = most - least of x over the nodes of t, which
is the same relaxation with half the columns. Nodes may stay elsewhere while those of some devices are placed
anew: what such a device shares with others crosses in any case, and their loads stay as they are.

Devices of a kind are alike. So the mean of a solution over all their orders is one of the relaxation too, and
the least of the relaxation is that of a program with one share for each node and kind: `shared_bound`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from explorer.planners._pieces.integer_program import Asked, solved, solved_each
from explorer.planners._pieces.max_load import Pool, load_of
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.schedules._milp_program import Program

LOOSE = 1e-6
"""Share by which the solver's answers may be off."""
MOST_SECONDS = 1e9
"""Upper end of L, in units."""
Places = dict[tuple[int, int], int]
"""Columns of (node, device)."""


def kinds_of(pools: Sequence[Pool]) -> list[int]:
    """Return the kind of every device."""
    return [k for k, pool in enumerate(pools) for _ in range(pool.count)]


def loads_of(work: WorkGraph, pools: Sequence[Pool], device: Sequence[int]) -> list[float]:
    """Return the seconds of every device, none for those without nodes."""
    own: list[list[int]] = [[] for _ in kinds_of(pools)]
    for v, i in enumerate(device):
        own[i].append(v)
    return [load_of(work, own[i], k, pools[k]) if own[i] else 0.0 for i, k in enumerate(kinds_of(pools))]


def split_program(
    work: WorkGraph, pools: Sequence[Pool], free: Sequence[int], devices: Sequence[int], unit: float
) -> tuple[Program, Places]:
    """Return the program, in units of some seconds, of some nodes on some devices; the rest is elsewhere."""
    program, kinds = Program(), kinds_of(pools)
    load, may = program.column(0.0, MOST_SECONDS), np.isfinite(work.seconds)
    places = {
        (v, i): program.column(0.0, float(may[kinds[i], v]), binary=True) for v in free for i in devices
    }
    for v in free:
        program.exactly(1.0, *((places[v, i], 1.0) for i in devices))
    for i in devices:
        pool, here = pools[kinds[i]], {v: places[v, i] for v in free}
        paid = [(here[v], -float(work.seconds[kinds[i], v]) / unit) for v in free if may[kinds[i], v]]
        paid += _sent(program, work, here, unit) if pool.pays else []
        program.at_least(0.0, (load, 1.0), *paid)
        _held(program, work, here, pool.room_bytes)
    return program, places


def shared_bound(work: WorkGraph, pools: Sequence[Pool]) -> float:
    """Return seconds that no split is below: the least of the relaxation, 0 if it has none."""
    program, may = Program(), np.isfinite(work.seconds)
    unit = float(np.where(may, work.seconds, 0.0).max(axis=0).sum()) or 1.0
    load, nodes = program.column(0.0, MOST_SECONDS), range(work.count)
    shares = {
        (v, k): program.column(0.0, float(may[k, v] and pool.count > 0))
        for v in nodes
        for k, pool in enumerate(pools)
    }
    for v in nodes:
        program.exactly(1.0, *((shares[v, k], 1.0) for k in range(len(pools))))
    for k, pool in enumerate(pools):
        here = {v: shares[v, k] for v in nodes}
        paid = [(here[v], -float(work.seconds[k, v]) / unit) for v in nodes if may[k, v]]
        paid += _sent(program, work, here, unit) if pool.pays else []
        program.at_least(0.0, (load, float(pool.count)), *paid)
        _held(program, work, here, pool.count * pool.room_bytes)
    answer = solved(program)
    return answer.bound * unit * (1 - LOOSE) if answer.values else 0.0


def _sent(
    program: Program, work: WorkGraph, here: dict[int, int], unit: float
) -> Iterator[tuple[int, float]]:
    """Add what crosses to a device that has such columns of nodes; yield the terms of its load."""
    for maker, readers, seconds in zip(work.producer.tolist(), work.readers, work.transfer_s, strict=True):
        own = [here[v] for v in (maker, *readers) if v in here]
        cost = float(seconds) / unit
        if not cost or not own:
            continue
        if len(own) == 2 == 1 + len(readers):
            cut = program.column(0.0, 1.0)
            yield cut, -cost
            for a, b in (own, own[::-1]):
                program.at_least(0.0, (cut, 1.0), (a, 1.0), (b, -1.0))
            continue
        if len(own) == 1:
            yield own[0], -cost
            continue
        most = program.column(0.0, 1.0)
        yield most, -cost
        for column in own:
            program.at_least(0.0, (most, 1.0), (column, -1.0))
        if len(own) == 1 + len(readers):
            least = program.column(0.0, 1.0)
            yield least, cost
            for column in own:
                program.at_least(0.0, (column, 1.0), (least, -1.0))


def _held(program: Program, work: WorkGraph, here: dict[int, int], room_bytes: float) -> None:
    """Add that what a device holds fits it."""
    if room_bytes < work.held_bytes[list(here)].sum():
        scale = room_bytes or 1.0
        held = [(column, -float(work.held_bytes[v]) / scale) for v, column in here.items()]
        program.at_least(-room_bytes / scale * (1 + 1e-12), *held)


# ---- two devices at a time ------------------------------------------------------------------------------


def by_pairs(
    work: WorkGraph, pools: Sequence[Pool], device: Sequence[int], nodes: int
) -> Iterator[tuple[int, ...]]:
    """Yield splits, each no worse than the one before: nodes of two devices are divided anew between them.

    Rounds of disjoint pairs, as in a tournament, one process for each, until all pairs in turn leave the
    busiest device as busy as it was.

    Args:
        work: the graph.
        pools: its devices.
        device: of every node, to begin with.
        nodes: most nodes of the solver's branch and bound for a pair.
    """
    now, tried = list(device), set[tuple[int, ...]]()
    rounds = tournament(len(kinds_of(pools)))
    before = float("inf")
    while (busiest := max(loads_of(work, pools, now))) < before * (1 - LOOSE):
        before = busiest
        for pairs in rounds:
            _round(work, pools, now, [pair for pair in pairs if _key(now, pair) not in tried], nodes)
            tried.update(_key(now, pair) for pair in pairs)
            yield tuple(now)


def tournament(count: int) -> list[list[tuple[int, int]]]:
    """Return rounds of disjoint pairs in which each two meet once (the circle method).

    >>> tournament(4)
    [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]]
    """
    places = [*range(count), *([-1] * (count % 2))]
    found = []
    for _ in range(len(places) - 1):
        met = zip(places[: len(places) // 2], reversed(places), strict=False)
        found.append([(min(pair), max(pair)) for pair in met if -1 not in pair])
        places = [places[0], places[-1], *places[1:-1]]
    return [sorted(pairs) for pairs in found if pairs]


def _key(device: Sequence[int], pair: tuple[int, int]) -> tuple[int, ...]:
    """Return what two devices have: what was divided once is not divided again."""
    return (*pair, *(v if device[v] == pair[0] else ~v for v in range(len(device)) if device[v] in pair))


def _round(
    work: WorkGraph,
    pools: Sequence[Pool],
    device: list[int],
    pairs: Sequence[tuple[int, int]],
    nodes: int,
) -> None:
    """Divide the nodes of each pair anew, where that makes its busier device less busy."""
    loads, asked, columns = loads_of(work, pools, device), list[Asked](), list[Places]()
    pairs = [pair for pair in pairs if max(loads[i] for i in pair) > 0]
    for pair in pairs:
        free = [v for v in range(work.count) if device[v] in pair]
        program, places = split_program(work, pools, free, pair, max(loads[i] for i in pair))
        start = {column: float(device[v] == i) for (v, i), column in places.items()}
        asked.append(Asked(program, start))
        columns.append(places)
    if not asked:
        return
    for pair, places, answer in zip(pairs, columns, solved_each(asked, nodes=nodes), strict=True):
        if not answer.values:
            continue
        new = list(device)
        for (v, i), column in places.items():
            if round(answer.values[column]):
                new[v] = i
        better = loads_of(work, pools, new)
        if max(better[i] for i in pair) < max(loads[i] for i in pair) * (1 - LOOSE):
            device[:] = new
