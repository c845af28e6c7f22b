"""Demands of transfers, reductions and gathers on shared links, and with whom they share them.

Demands do not depend on sizes, so they are found once per program, cluster and sharding. Of folded replicas
the kept ones count for themselves and for the equal ones that use the same links.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import NamedTuple

import numpy as np

from explorer.base.caching import STAGES_KEPT, Hashed, remembered
from explorer.base.checkpoints import checkpoint
from explorer.cluster import Cluster
from explorer.costs.collective_ports import PortUse, ring_use, server_use
from explorer.passes.timing import Shares
from explorer.pricing.near_replicas import near_replicas
from explorer.pricing.routes import Pattern, lane_route, reversed_pattern
from explorer.tasks.holder_groups import find_groups
from explorer.tasks.program import GATHER, HOST, REDUCE, TRANSFER, Program, Slot
from explorer.tasks.skeleton import Piece

Row = tuple[int, ...]


class Demand(NamedTuple):
    """One task's demand on a shared resource."""

    capacity: float
    amount: float


def find_shares(program: Program, cluster: Cluster, patterns: tuple[Pattern, ...]) -> Shares:
    """Find the shared rates of all slots of a program.

    Args:
        program: the tasks.
        cluster: the links.
        patterns: per flow who holds and who needs which share of its tensors.
    """
    work = _Demands(program, cluster)
    index: dict[str, int] = {}
    capacity: list[float] = []
    demands: list[tuple[tuple[int, float], ...]] = []
    for slot in program.slots:
        checkpoint()
        asked: dict[str, Demand] = {}
        if slot.kind == TRANSFER:
            asked = work.transfer(slot, patterns[slot.where])
        elif slot.kind == REDUCE:
            asked = work.reduction(slot)
        elif slot.kind == GATHER and slot.part != HOST:
            asked = work.gather(slot)
        for name, demand in asked.items():
            if name not in index:
                index[name] = len(capacity)
                capacity.append(demand.capacity)
        demands.append(tuple((index[name], demand.amount) for name, demand in asked.items()))
    return Shares(capacity=np.array(capacity), names=tuple(index), demands=tuple(demands))


class _Demands:
    """Demands of the slots of one program."""

    def __init__(self, program: Program, cluster: Cluster) -> None:
        self.program, self.cluster = program, cluster
        self.sections, self.holders = program.skeleton.sections, program.skeleton.holders
        self.dropped = dropped_groups(program)
        self.groups = find_groups(program.skeleton, program.kept_replicas)
        self.alike = {first: frozenset(members) for first, members in program.replica_classes.items()}

    def row(self, piece: Piece) -> Row:
        return self.sections[piece.section].rows[piece.copy][piece.replica]

    def beside(self, slot: Slot) -> list[int]:
        """Return the folded replicas whose part of a slot may meet that of its own; [] if none does."""
        members = self.alike.get(slot.piece.replica, frozenset())
        if len(members) < 2:
            return []
        sides = tuple(self.sections[piece.section].rows[piece.copy] for piece in (slot.piece, slot.peer))
        return sorted(members & near_replicas(self.cluster, sides, slot.piece.replica))

    def transfer(self, slot: Slot, pattern: Pattern) -> dict[str, Demand]:
        """Return the demands of a transfer, with those of folded replicas that run at the same time."""
        way = reversed_pattern(pattern) if slot.backward else pattern
        users: dict[str, float] = defaultdict(float)
        for replica in self.beside(slot):
            source = self.row(slot.piece._replace(replica=replica))
            target = self.row(slot.peer._replace(replica=replica))
            for name, _, amount in lane_route(self.cluster, source, target, way).resources:
                users[name] += amount
        route = lane_route(self.cluster, self.row(slot.piece), self.row(slot.peer), way)
        return {name: Demand(room, users.get(name, amount)) for name, room, amount in route.resources}

    def reduction(self, slot: Slot) -> dict[str, Demand]:
        """Return a whole group's demand on the links of the lowered rows; equal folded groups are added."""
        asked = {**self._group(slot.where, self.groups[slot.where].pieces, frozenset())}
        names = frozenset(asked)
        for other in self.dropped.get(slot.where, ()) if names else ():
            for name, demand in self._group(other, self.holders[other].pieces, names).items():
                asked[name] = Demand(demand.capacity, asked[name].amount + demand.amount)
        return asked

    def _group(self, number: int, pieces: tuple[Piece, ...], among: frozenset[str]) -> dict[str, Demand]:
        """Return the demand of some pieces of a group: on the resources in `among`, on all if that is
        empty.
        """
        group, rows = self.holders[number], tuple(map(self.row, pieces))
        return _demand_of(self.cluster, group.method, group.servers, self.groups[number].rows, rows, among)

    def gather(self, slot: Slot) -> dict[str, Demand]:
        """Return one replica's part of a gather, and that of the folded replicas on the same resources."""
        section, copy, own = self.sections[slot.where], slot.piece.copy, slot.piece.replica
        everyone = Hashed(chain.from_iterable(section.rows)) if len(section.rows) > 1 else section.rows[0]
        found: dict[str, Demand] = {}
        for replica in (own, *(other for other in self.beside(slot) if other != own)):
            row = section.rows[copy][replica]
            first = section.shard_group(copy, replica) * section.shards
            whole = section.shards == len(everyone)
            rows = everyone if whole else Hashed(everyone[first : first + section.shards])
            beside = len(row) * max(1, len(everyone) // len(rows))  # as in its price
            for k in range(len(row)):
                for item in _ring_of(self.cluster, rows, k, beside).of(row[k]):
                    if replica == own or item.resource in found:
                        before = found[item.resource].amount if item.resource in found else 0.0
                        found[item.resource] = Demand(item.capacity, min(item.capacity, before + item.own))
        return found


@remembered(STAGES_KEPT)
def _demand_of(
    cluster: Cluster, method: str, servers: Row, rows: tuple[Row, ...], lowered: tuple[Row, ...],
    among: frozenset[str],
) -> dict[str, Demand]:  # fmt: skip
    """Return the demand of a group's devices in some of its rows, and of its servers."""
    found: dict[str, Demand] = {}
    for k in range(len(rows[0])):
        use = _group_use(cluster, method, servers, rows, k)
        asking = [row[k % len(row)] for row in lowered] + list(servers)
        column: dict[str, Demand] = {}
        for device in dict.fromkeys(asking):
            for item in use.of(device):
                if not among or item.resource in among:
                    column[item.resource] = Demand(item.capacity, item.group)
        for name, demand in column.items():
            before = found[name].amount if name in found else 0.0
            found[name] = Demand(demand.capacity, min(demand.capacity, before + demand.amount))
    return found


def ring_demand(cluster: Cluster, rows: tuple[Row, ...]) -> dict[str, Demand]:
    """Return the demand of a collective over some rows of devices on the links of all of them."""
    return _demand_of(cluster, "all_reduce", (), rows, rows, frozenset())


def _group_use(cluster: Cluster, method: str, servers: Row, rows: tuple[Row, ...], k: int) -> PortUse:
    if method == "all_reduce":
        return _ring_of(cluster, rows, k, len(rows[0]))
    devices = tuple(row[k % len(row)] for row in rows)
    return server_use(cluster, devices, servers or devices, len(rows[0]))


@remembered(4096)
def _ring_of(cluster: Cluster, rows: tuple[Row, ...], k: int, beside: int) -> PortUse:
    """Return the use of the ring of the k-th devices of some rows."""
    return ring_use(cluster, tuple([row[k % len(row)] for row in rows]), beside)


def dropped_groups(program: Program) -> dict[int, list[int]]:
    """Return lowered group -> equal groups of folded replicas, which run at the same time as it."""
    kept = program.kept_replicas
    if kept is None:
        return {}
    away = [not any(p.replica in kept for p in group.pieces) for group in program.skeleton.holders]
    if not any(away):
        return {}
    home = {replica: first for first, members in program.replica_classes.items() for replica in members}
    lowered: dict[object, list[int]] = defaultdict(list)
    folded: list[tuple[int, object]] = []
    for g, group in enumerate(program.skeleton.holders):
        places = sorted((p.section, p.copy, home.get(p.replica, p.replica)) for p in group.pieces)
        alike = (tuple(places), group.method, group.servers, group.update)
        if away[g]:
            folded.append((g, alike))
        else:
            lowered[alike].append(g)
    found: dict[int, list[int]] = defaultdict(list)
    for number, (g, key) in enumerate(folded):
        if same := lowered.get(key):
            found[same[number % len(same)]].append(g)
    return found
