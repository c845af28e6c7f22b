"""Traffic: bytes that one step sends from device to device.

Collectives count as rings in the order of the devices; partial gradients as a ring around the lane and one
over the replicas. The traffic of folded replicas is counted where it would be sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import numpy as np

from explorer.pricing.link_shares import dropped_groups
from explorer.pricing.mesh_lines import Line, lines_along, summed_with
from explorer.pricing.piece_tensors import Groups
from explorer.pricing.pricer import Pricer
from explorer.pricing.prices import Prices
from explorer.tasks.program import GATHER, HOST, REDUCE, TRANSFER, F, Program, Slot, U, W
from explorer.tasks.skeleton import Piece

Sent = tuple[int, int, float]
"""(sender, receiver, bytes)."""


def device_traffic(program: Program, prices: Prices) -> dict[tuple[int, int], float]:
    """Average the bytes of one step by (sender, receiver) over the steps of a program."""
    counts = (np.bincount(program.slot, minlength=len(program.slots)) / program.order.steps).tolist()
    found: dict[tuple[int, int], float] = defaultdict(float)
    for number, (sender, receiver, size) in slot_traffic(program, prices):
        found[sender, receiver] += counts[number] * size
    return dict(found)


def slot_traffic(program: Program, prices: Prices) -> Iterator[tuple[int, Sent]]:
    """Yield what one task of every slot that a program uses sends, as (slot, (sender, receiver, bytes))."""
    work = _Traffic(program, prices.pricer)
    for number in np.unique(program.slot).tolist():
        for sent in work.of(program.slots[number]):
            if sent[0] != sent[1]:
                yield number, sent


class _Traffic:
    """Bytes that each slot of one program sends, each found once."""

    def __init__(self, program: Program, pricer: Pricer) -> None:
        self.program, self.pricer = program, pricer
        self.dropped = dropped_groups(program)
        self.gathered: dict[tuple[int, int], Groups] = {}
        self.rings: dict[int, tuple[tuple[Line, ...], dict[int, tuple[Line, Line]]]] = {}

    def of(self, slot: Slot) -> Iterable[Sent]:
        if slot.kind < 0 or slot.part == HOST:
            return ()
        if slot.kind == TRANSFER:
            return self._transfer(slot)
        if slot.kind == REDUCE:
            groups = [slot.where, *self.dropped.get(slot.where, ())]
            return self._part(slot, [item for group in groups for item in self._reduction(group)])
        places = [slot.piece._replace(replica=replica) for replica in self._alike(slot.piece)]
        if slot.kind == GATHER:
            found = [item for piece in places for item in self._gather(piece, self._gathered(piece))]
            return self._part(slot, found)
        sends = {}
        if slot.kind not in (W, U):  # the same on replicas that are folded
            sends = self.pricer.sends(slot.piece, slot.samples, backward=slot.kind != F)
        return [item for piece in places for item in self._inside(slot, piece, sends)]

    def _part(self, slot: Slot, sent: list[Sent]) -> list[Sent]:
        parts = self.pricer.parts(slot)
        return [(sender, receiver, size * parts.here / parts.total) for sender, receiver, size in sent]

    def _alike(self, piece: Piece) -> tuple[int, ...]:
        return self.program.replica_classes.get(piece.replica, (piece.replica,))

    def _transfer(self, slot: Slot) -> Iterator[Sent]:
        size = self.pricer.flow(slot.where)[0] * slot.samples
        folded = self.program.kept_replicas is not None
        for replica in self._alike(slot.piece):
            own = slot
            if folded:
                piece, peer = slot.piece._replace(replica=replica), slot.peer._replace(replica=replica)
                own = slot._replace(piece=piece, peer=peer)
            for sender, receiver, share in self.pricer.route(own).pairs:
                yield sender, receiver, share * size

    def _reduction(self, number: int) -> Iterator[Sent]:
        group = self.program.skeleton.holders[number]
        rows, lines, parts = self.pricer.reduced(number)
        zero = self.pricer.stages[group.pieces[0].section].zero
        around = 1.0 if zero and group.method == "all_reduce" else 2.0
        for sums, size in parts:
            count = 1
            if sums:
                groups = [
                    [summed_with(along, device, sums) for device in row]
                    for row, along in zip(rows, lines, strict=True)
                ]
                count = len(groups[0][0])
                yield from self._around_lane(rows, groups, 2 * size)
            if group.servers:
                for row in rows:
                    yield from _served(row, group.servers, size / count)
            else:
                chunks = self.pricer.chunks(number) if zero else (0,) * len(rows)
                yield from _reduced(rows, chunks, around, size / count)

    def _around_lane(self, rows: Iterable[Line], groups: list[list[Line]], size: float) -> Iterator[Sent]:
        for row, own in zip(rows, groups, strict=True):
            for device, line in zip(row, own, strict=True):
                yield device, _next(device, line), (len(line) - 1) / len(line) * size

    def _gathered(self, piece: Piece) -> Groups:
        """Return what a piece gathers, found once for the replicas that share their weights."""
        section = self.pricer.sections[piece.section]
        if self.pricer.sharded[piece.section].shards.carved:
            return self.pricer.gathered(piece)
        group = (piece.section, section.shard_group(piece.copy, piece.replica))
        if group not in self.gathered:
            self.gathered[group] = self.pricer.gathered(piece)
        return self.gathered[group]

    def _gather(self, piece: Piece, groups: Groups) -> Iterator[Sent]:
        own = set(self.pricer.row(piece))
        for rows, size in groups:
            if not size:
                continue
            ring = self._ring(rows)
            for device in self.pricer.row(piece):
                row, following = ring.get(device, ((), ()))
                if row and own.issuperset(row):  # all of its row, or a part that holds the same as others
                    yield from _passed_on(row, following, (len(rows) - 1) / len(rows) * size)

    def _ring(self, rows: tuple[Line, ...]) -> dict[int, tuple[Line, Line]]:
        """Return the rows by their first device, each with the next one of a ring, found once."""
        known = self.rings.get(id(rows))
        if known is None:
            after = {row[0]: (row, following) for row, following in _around(rows)}
            known = self.rings[id(rows)] = (rows, after)
        return known[1]

    def _inside(self, slot: Slot, piece: Piece, sends: dict[tuple[str, int], float]) -> Iterator[Sent]:
        row, lines = (
            self.pricer.row(piece),
            self.pricer.lines(piece.section, piece.copy, self.pricer.row(piece)),
        )
        zero, gathers = self.pricer.sections[piece.section].zero, self.pricer.spread(piece)
        if slot.kind != W and (zero == 3) == (slot.kind != U):
            yield from self._gather(piece, gathers)
        if slot.kind == U:
            for sums, size in self.pricer.summed(piece):
                groups = [[summed_with(lines, device, sums) for device in row]]
                yield from self._around_lane([row], groups, size if gathers else 2 * size)
        for (axis, count), size in sends.items():
            for line in lines_along(lines, axis, count):
                for device in set(line) & set(row):
                    yield device, _next(device, line), size


def _reduced(rows: tuple[Line, ...], chunks: tuple[int, ...], around: float, size: float) -> Iterator[Sent]:
    """Send a ring inside each group of rows; if there are several, one of each shard over them."""
    members: dict[int, list[Line]] = {}
    for row, chunk in zip(rows, chunks, strict=True):
        members.setdefault(chunk, []).append(row)
    for near in members.values():
        for row, following in _around(near):
            yield from _passed_on(row, following, around * (len(near) - 1) / len(near) * size)
    shards, groups = min(map(len, members.values())), len(members)
    for across in zip(*members.values(), strict=False) if groups > 1 else ():
        for row, following in _around(across):
            yield from _passed_on(row, following, 2 * (groups - 1) / groups * size / shards)


def _next(device: int, line: Line) -> int:
    ring = sorted(line)
    return ring[(ring.index(device) + 1) % len(ring)]


def _around(rows: Iterable[Line]) -> Iterator[tuple[Line, Line]]:
    """Yield every row of a ring with the one after it."""
    ring = sorted(rows)
    yield from zip(ring, (*ring[1:], ring[0]), strict=True)


def _passed_on(row: Line, following: Line, size: float) -> Iterator[Sent]:
    """Send from a row's devices to those of the next row of a ring."""
    for sender, receiver in zip(row, following, strict=False):
        yield sender, receiver, size


def _served(row: Line, servers: tuple[int, ...], size: float) -> Iterator[Sent]:
    """Send to and from parameter servers with equal shards."""
    for device in row:
        for server in servers:
            yield device, server, size / len(servers)
            yield server, device, size / len(servers)
