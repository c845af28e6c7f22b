"""Placement of a graph of nodes with the shortest makespan, by integer program, part after part.

With binaries x(v, d) that node v is on device d, o(u, v) that u goes before v, starts s and the makespan T:

    minimise  T  >=  s(v) + sum over d of seconds(v, d) x(v, d)               and  >= the work of every device
    sum over d of x(v, d) = 1
    s(r)  >=  s(p) + seconds of p + c(t, d, e) (x(p, d) + x(r, e) - 1)        t made by p on d, read by r on e
    s(v)  >=  s(u) + seconds(u, d) - H (3 - o(u, v) - x(u, d) - x(v, d))       both on d, u first; or v first
    sum over v of bytes(v) x(v, d)  <=  room(d)

(Pal et al., IEEE Micro 2019). Only nodes of which neither needs the other have an order to be chosen. A graph
is placed in parts, between nodes through which everything passes; each begins where the one before ended. The
solver starts from a list schedule, which also stands where a part has too many orders.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from explorer.planners._pieces.earliest_finish import Placement, Workers, earliest_finish, timed
from explorer.planners._pieces.free_nodes import joined
from explorer.planners._pieces.integer_program import solved
from explorer.planners._pieces.lattice import bits
from explorer.planners._pieces.work_graph import WorkGraph
from explorer.schedules._milp_program import Program

MOST_ORDERS = 150
"""Most pairs of nodes in a part whose order is open."""


def shortest(work: WorkGraph, workers: Workers, *, nodes: int) -> Placement | None:
    """Return a placement of a graph, the parts each as short as the solver finds; None if nothing fits.

    Args:
        work: the graph; its transfers take a second a byte.
        workers: the devices.
        nodes: most nodes of the solver's branch and bound for each part.
    """
    known = earliest_finish(work, workers)
    if known is None:
        return None
    device, starts, room = [0] * work.count, [0.0] * work.count, np.array(workers.room_bytes)
    begin, at = -1, 0.0
    for end in (*gates(work), work.count - 1):
        if end <= begin:
            continue
        inner = range(max(begin, 0), end + 1)
        part, own = part_of(work, inner, done=begin >= 0), workers._replace(room_bytes=tuple(room.tolist()))
        found = placed(part, own, {0: device[begin]} if begin >= 0 else {}, nodes=nodes)
        if found is None:
            return known
        for k, v in enumerate(inner):
            if v > begin:
                device[v], starts[v] = found.device[k], at + found.start_s[k]
                room[device[v]] -= work.held_bytes[v]
        begin, at = end, at + found.finish_s[-1]
    order = sorted(range(work.count), key=lambda v: (starts[v], v))
    whole = timed(work, workers, device, order)
    return whole if whole is not None and whole.makespan_s < known.makespan_s else known


def gates(work: WorkGraph) -> list[int]:
    """Return the nodes that need all before them and that all after them need, past which nothing is sent."""
    last = [-1] * work.count
    for maker, readers in zip(work.producer.tolist(), work.readers, strict=True):
        last[maker] = max(last[maker], *readers)
    found, sent = [], -1
    needed = (1 << work.count) - 1
    for v in range(work.count - 1, -1, -1):
        if work.above[v] == (1 << v) - 1 and needed >> v & 1:
            found.append(v)
        needed &= work.above[v]
    passed, wanted = [], set(found)
    for v in range(work.count):
        if v in wanted and sent <= v:
            passed.append(v)
        sent = max(sent, last[v])
    return passed


def part_of(work: WorkGraph, nodes: range, *, done: bool) -> WorkGraph:
    """Return the graph of some consecutive nodes.

    Args:
        work: the whole graph.
        nodes: the nodes.
        done: whether the first one has been placed before: it takes and holds nothing here.
    """
    first, makers = nodes.start, enumerate(work.producer.tolist())
    kept = [t for t, p in makers if p in nodes and any(r in nodes for r in work.readers[t])]
    seconds, held = work.seconds[:, list(nodes)].copy(), work.held_bytes[list(nodes)].copy()
    if done:
        seconds[:, 0], held[0] = 0.0, 0.0
    mask = (1 << len(nodes)) - 1
    return WorkGraph(
        members=tuple(work.members[v] for v in nodes),
        above=tuple(work.above[v] >> first & mask for v in nodes),
        seconds=seconds,
        held_bytes=held,
        reduced_bytes=work.reduced_bytes[list(nodes)],
        producer=work.producer[kept] - first,
        readers=tuple(tuple(r - first for r in work.readers[t] if r in nodes) for t in kept),
        transfer_s=work.transfer_s[kept],
    )


def in_chains(work: WorkGraph, *, room_bytes: float = math.inf) -> WorkGraph:
    """Return the same graph with nodes joined that pass all they make to one, which reads nothing else.

    Args:
        work: the graph.
        room_bytes: most bytes that joined nodes may hold, so that a device has room for them.
    """
    while moves := _links(work, room_bytes):
        work = joined(work, moves)
    return work


def _links(work: WorkGraph, room_bytes: float) -> dict[int, int]:
    made: list[set[int]] = [set() for _ in range(work.count)]
    read: list[set[int]] = [set() for _ in range(work.count)]
    for maker, readers in zip(work.producer.tolist(), work.readers, strict=True):
        made[maker].update(readers)
        for reader in readers:
            read[reader].add(maker)
    found: dict[int, int] = {}
    for v in range(work.count):
        (u,) = read[v] if len(read[v]) == 1 else (-1,)
        if u >= 0 and made[u] == {v} and u not in found and work.held_bytes[[u, v]].sum() <= room_bytes:
            found[v] = u
    return found


def placed(work: WorkGraph, workers: Workers, fixed: Mapping[int, int], *, nodes: int) -> Placement | None:
    """Return the placement with the shortest makespan that the solver finds; None if nothing fits.

    Args:
        work: the graph; its transfers take a second a byte.
        workers: the devices.
        fixed: device of nodes that cannot be chosen.
        nodes: most nodes of the solver's branch and bound.
    """
    every = range(len(workers.kind))
    known = earliest_finish(work, workers, may=lambda v: (fixed[v],) if v in fixed else every)
    if known is None or known.makespan_s <= longest_path_s(work, workers) * (1 + 1e-12):
        return known
    model = _Model(work, workers, known.makespan_s)
    if len(model.orders) > MOST_ORDERS:
        return known
    for v, d in fixed.items():
        model.program.lower[model.places[v, d]] = 1.0
    values = solved(model.program, start=model.start(known), nodes=nodes).values
    if not values:
        return known
    chosen = {v: d for (v, d), column in model.places.items() if round(values[column])}
    # the solver's starts differ by roundings: what is made goes before who reads it
    when = [round(values[column], 6) for column in model.starts]
    order = sorted(range(work.count), key=lambda v: (when[v], v))
    found = timed(work, workers, [chosen[v] for v in range(work.count)], order)
    return found if found is not None and found.makespan_s < known.makespan_s else known


def longest_path_s(work: WorkGraph, workers: Workers) -> float:
    """Return the seconds of the longest path, each node where it is fastest: no placement takes less."""
    least = work.seconds[list(workers.kind)].min(axis=0).tolist()
    finish: list[float] = []
    for v in range(work.count):
        finish.append(least[v] + max((finish[u] for u in bits(work.above[v])), default=0.0))
    return max(finish, default=0.0)


class _Model:
    """The program of a graph, in units of a known makespan, and its columns by what they stand for."""

    def __init__(self, work: WorkGraph, workers: Workers, unit: float) -> None:
        self.work, self.unit, self.program = work, unit, Program()
        self.seconds = work.seconds[list(workers.kind)] / unit  # (devices, n)
        self.known = np.where(np.isfinite(self.seconds), self.seconds, 0.0)
        count = range(len(workers.kind))
        self.makespan = self.program.column(0.0, 1.0)
        self.starts = [self.program.column(0.0, 1.0) for _ in range(work.count)]
        self.places = {
            (v, d): self.program.column(0.0, float(np.isfinite(self.seconds[d, v])), binary=True)
            for v in range(work.count)
            for d in count
        }
        self.orders = {
            (u, v): self.program.column(0.0, 1.0, binary=True)
            for v in range(work.count)
            for u in range(v)
            if not work.above[v] >> u & 1
        }
        for v in range(work.count):
            self.program.exactly(1.0, *((self.places[v, d], 1.0) for d in count))
            self.program.at_least(0.0, (self.makespan, 1.0), (self.starts[v], -1.0), *self._lasts(v))
        for d in count:
            self._device(d, workers.room_bytes[d])
        self._transfers(workers)

    def start(self, known: Placement) -> dict[int, float]:
        """Return the binaries of a known placement."""
        found = {column: float(known.device[v] == d) for (v, d), column in self.places.items()}
        return found | {
            column: float((known.start_s[u], u) < (known.start_s[v], v))
            for (u, v), column in self.orders.items()
        }

    def _lasts(self, v: int) -> list[tuple[int, float]]:
        """Return the terms of less the seconds that a node takes where it is."""
        return [(self.places[v, d], -float(own[v])) for d, own in enumerate(self.known)]

    def _device(self, d: int, room: float) -> None:
        program, every = self.program, range(self.work.count)
        program.at_least(
            0.0, (self.makespan, 1.0), *((self.places[v, d], -float(self.known[d, v])) for v in every)
        )
        if room < self.work.held_bytes.sum():
            scale = max(room, 1.0)
            held = ((self.places[v, d], -float(self.work.held_bytes[v]) / scale) for v in every)
            program.at_least(-max(room, 0.0) / scale * (1 + 1e-12), *held)
        for (u, v), first in self.orders.items():
            both = (self.places[u, d], self.places[v, d])
            for before, after, sign in ((u, v, 1.0), (v, u, -1.0)):
                length = float(self.known[d, before])
                far = 1.0 + length
                # far enough that nothing is said unless both are here, in this order
                least = length - far * (3.0 if sign > 0 else 2.0)
                program.at_least(
                    least,
                    (self.starts[after], 1.0), (self.starts[before], -1.0),
                    (both[0], -far), (both[1], -far), (first, -far * sign),
                )  # fmt: skip

    def _transfers(self, workers: Workers) -> None:
        count = range(len(workers.kind))
        for maker, readers, size in zip(
            self.work.producer.tolist(), self.work.readers, self.work.transfer_s.tolist(), strict=True
        ):
            sent = (workers.latency_s + size * workers.s_per_byte) / self.unit
            for reader in readers:
                there = [(self.starts[reader], 1.0), (self.starts[maker], -1.0), *self._lasts(maker)]
                self.program.at_least(0.0, *there)
                for d in count:
                    for e in count:
                        if d != e and sent[d, e] > 0:
                            cost = float(sent[d, e])
                            ends = (self.places[maker, d], -cost), (self.places[reader, e], -cost)
                            self.program.at_least(-cost, *there, *ends)


def slowest(work: WorkGraph, kinds: Sequence[Sequence[int]]) -> WorkGraph:
    """Return a graph with a row of seconds for each position: of the slowest kind of its devices."""
    return replace(work, seconds=np.array([work.seconds[list(own)].max(axis=0) for own in kinds]))
