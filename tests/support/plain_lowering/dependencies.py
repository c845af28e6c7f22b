"""Data dependencies: which task waits for which samples, through a transfer if the devices differ.

One `_Reader` per piece, sweep and flow knows where the values it reads are made, so that each of its many
tasks costs a few look-ups.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from explorer.tasks.placement import Flow, Piece
from explorer.tasks.program import TRANSFER, Slot
from explorer.tasks.sample_overlaps import Overlap, Overlaps
from tests.support.plain_lowering.work import Lowering, Site

Sent = dict[tuple[tuple[int, ...], int, int], int]
"""(producers, first sample, samples) -> transfer: what one set of devices is sent of a flow, each piece
once.
"""


def add_waits(work: Lowering) -> list[str]:
    """Make every forward, input and weight gradient wait for its data; return what is missing, in words."""
    problems: list[str] = []
    readers = _Readers(work)
    for site, n in work.forward.order:
        task = work.forward.tasks[site][n]
        for reader in readers.of(site, backward=False):
            reader.wait(n, task, problems)
    for site, n in work.input_grad.order:
        task = work.input_grad.tasks[site][n]
        if n not in work.forward.tasks.get(site, ()):
            problems.append(f"{work.action[task]} runs backward without a forward on its lane")
        for reader in readers.of(site, backward=True):
            reader.wait(n, task, problems)
    for site, n in work.weight_grad.order:
        task = work.weight_grad.tasks[site][n]
        before = work.input_grad.tasks.get(site, {}).get(n)
        if before is None:
            problems.append(f"{work.action[task]} needs the input gradient of its microbatch first")
        elif before != task:
            work.preds[task].append(before)
    return list(dict.fromkeys(problems))


class _Readers:
    """The values each site reads, found on first use."""

    def __init__(self, work: Lowering) -> None:
        self.work = work
        self.into: dict[int, list[tuple[int, Flow]]] = defaultdict(list)
        self.out_of: dict[int, list[tuple[int, Flow]]] = defaultdict(list)
        for f, flow in enumerate(work.skeleton.flows):
            for target in flow.targets:
                self.into[target].append((f, flow))
            if flow.gradient:
                self.out_of[flow.source].append((f, flow))
        self.sent: dict[tuple[int, tuple[int, ...], bool], Sent] = defaultdict(dict)
        self.overlaps: dict[tuple[int, int, int], Overlaps] = {}
        self.found: dict[tuple[Site, bool], list[_Reader]] = {}

    def of(self, site: Site, *, backward: bool) -> list[_Reader]:
        """Return the readers of a site: of values it needs forward, or of gradients it needs backward."""
        found = self.found.get((site, backward))
        if found is None:
            found = self.found[site, backward] = self._find(site, backward=backward)
        return found

    def _find(self, site: Site, *, backward: bool) -> list[_Reader]:
        piece, sweep = site
        lags = self.work.order.lag
        lag = lags[sweep] if sweep < len(lags) else 0
        if sweep < lag:
            return []  # the first sweep of a lagged neighbour starts from its initial guess
        flows = (self.out_of if backward else self.into)[piece.section]
        return [_Reader(self, f, flow, piece, sweep - lag, backward=backward) for f, flow in flows]

    def overlap(self, asked: int, replica: int, source: int) -> Overlaps:
        """Return the samples that a replica of section `asked` shares with the pieces of section `source`."""
        key = (asked, replica, source)
        if key not in self.overlaps:
            sections = self.work.sections
            self.overlaps[key] = Overlaps(sections[asked], replica, sections[source], self.work.kept(source))
        return self.overlaps[key]


class _Source(NamedTuple):
    """A replica of the sections that make the values read."""

    pieces: tuple[Piece, ...]
    """Its pieces: one, or several on one set of devices, which sums their gradients."""
    tasks: tuple[dict[int, int], ...]
    """Per piece: microbatch -> task."""
    channel: int
    """Wire from it; -1 on the same devices."""
    slots: dict[int, int]
    """Samples -> slot of a transfer."""


class _Reader:
    """A piece that reads one flow, forward or backward, as made in one sweep."""

    def __init__(
        self, readers: _Readers, f: int, flow: Flow, piece: Piece, sweep: int, *, backward: bool
    ) -> None:
        self.work, self.f, self.piece, self.sweep, self.backward = readers.work, f, piece, sweep, backward
        self.sections = flow.targets if backward else (flow.source,)
        self.row = self._row(piece)
        self.sent = readers.sent[f, self.row, backward]
        self.overlaps = readers.overlap(piece.section, piece.replica, self.sections[0])
        self.sources: dict[int, _Source] = {}

    def wait(self, n: int, task: int, problems: list[str]) -> None:
        """Make the task of microbatch `n` wait for all samples it reads."""
        preds = self.work.preds[task]
        for part in self.overlaps.of(n):
            replica, number, low, samples = part
            source = self.sources.get(replica) or self._source(replica)
            producers = tuple([tasks.get(number, -1) for tasks in source.tasks])
            if -1 in producers:
                problems.append(self._missing(task, source.pieces[producers.index(-1)], part))
            elif source.channel < 0:
                preds.extend(producers)
            else:
                transfer = self.sent.get((producers, low, samples))
                if transfer is None:
                    transfer = self._transfer(source, producers, samples)
                    self.sent[producers, low, samples] = transfer
                preds.append(transfer)

    def _transfer(self, source: _Source, producers: tuple[int, ...], samples: int) -> int:
        work, first = self.work, producers[0]
        slot = source.slots.get(samples)
        if slot is None:
            made = Slot(TRANSFER, self.f, source.pieces[0], self.piece, samples, self.backward)
            slot = source.slots[samples] = work.slot_id(made)
        return work.add(slot, source.channel, list(producers), work.action[first], work.step[first])

    def _row(self, piece: Piece) -> tuple[int, ...]:
        return self.work.sections[piece.section].rows[piece.copy][piece.replica]

    def _source(self, replica: int) -> _Source:
        work = self.work
        made = work.input_grad if self.backward else work.forward
        pieces = tuple(Piece(section, self.piece.copy, replica) for section in self.sections)
        channel, lanes = -1, work.lanes.of_piece
        if self._row(pieces[0]) != self.row:
            channel = work.channel_id("wire", lanes[pieces[0]][0], lanes[self.piece][0])
        tasks = tuple(made.tasks.get((piece, self.sweep), {}) for piece in pieces)
        self.sources[replica] = _Source(pieces, tasks, channel, {})
        return self.sources[replica]

    def _missing(self, task: int, piece: Piece, part: Overlap) -> str:
        stage, way = self.work.sections[piece.section].stage, "backward" if self.backward else "forward"
        return (
            f"{self.work.action[task]} needs the {way} of microbatch {part.microbatch} on stage {stage}"
            f" (copy {piece.copy}, replica {part.replica}), which no lane runs"
        )
