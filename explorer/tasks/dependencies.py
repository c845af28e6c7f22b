"""Data dependencies: which task waits for which samples, through a transfer if the devices differ.

What a piece reads of one flow is a small pattern that repeats with the least common multiple of the
microbatches on both sides (`sample_overlaps`): `_Links` holds the patterns of all pieces as columns, and all
microbatches of all pieces meet them at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from explorer.tasks.indexing import IntArray, numbered, packed, ragged
from explorer.tasks.placement import Piece
from explorer.tasks.program import TRANSFER, Slot
from explorer.tasks.sample_overlaps import Overlaps
from explorer.tasks.work import Computed, Lowering, MadeTasks


def add_waits(work: Lowering, computed: Computed) -> list[str]:
    """Make every forward, input and weight gradient wait for its data; return what is missing, in words."""
    overlaps: dict[tuple[int, int, int], Overlaps] = {}
    forward, input_grad, weight_grad = computed
    problems = _read(work, _Links(work, forward.span, overlaps, backward=False), forward, forward)
    own = forward.of(input_grad.piece, input_grad.sweep, input_grad.microbatch)
    alone = {
        row: f"{work.text(int(input_grad.task[row]))} runs backward without a forward on its lane"
        for row in np.flatnonzero(own < 0).tolist()
    }
    links = _Links(work, input_grad.span, overlaps, backward=True)
    problems += _read(work, links, input_grad, input_grad, alone)
    before = input_grad.of(weight_grad.piece, weight_grad.sweep, weight_grad.microbatch)
    problems += [
        f"{work.text(task)} needs the input gradient of its microbatch first"
        for task in weight_grad.task[before < 0].tolist()
    ]
    work.in_order = bool(
        forward.once and (own < input_grad.task).all() and (before <= weight_grad.task).all()
    ) and bool((work.pieces.samples > 0).all())
    apart = before != weight_grad.task
    work.wait(weight_grad.task[apart], before[apart])
    return list(dict.fromkeys(problems))


_NONE = -2
"""In place of a piece: there is no further one."""


class _Links:
    """What all pieces read, forward or backward: readers of each piece, phases of each reader, parts of each
    phase.

    A part is what a reader reads from one replica: (piece that makes it, or -1 if it is not lowered; replica;
    its microbatch; first sample; samples; wire from it, or -1 on the same devices; kind of transfer).
    """

    def __init__(
        self,
        work: Lowering,
        span: IntArray,
        overlaps: dict[tuple[int, int, int], Overlaps],
        *,
        backward: bool,
    ) -> None:
        self.work, self.overlaps, self.backward = work, overlaps, backward
        self.kinds: dict[Slot, int] = {}
        """Slots of transfers that may be made."""
        self.sources: list[tuple[Piece, ...]] = []
        """Per part: the pieces that make it, whose gradients are summed on their devices."""
        parts: list[tuple[int, ...]] = []
        readers: list[tuple[int, int, int, int, int]] = []
        phases: list[int] = []
        counts = []
        senders: dict[tuple[int, tuple[int, ...]], int] = {}
        flows = self._flows()
        for number, piece in enumerate(work.pieces.all):
            counts.append(len(flows[piece.section]))
            row = work.sections[piece.section].rows[piece.copy][piece.replica]
            for f in flows[piece.section]:
                found = self._overlap(f, piece)
                sender = senders.setdefault((f, row), len(senders))
                readers.append((found.period, found.numbers, found.samples, len(phases), sender))
                for phase in range(min(found.period, int(span[number]))):
                    phases.append(len(parts))
                    parts += self._parts(f, piece, row, found, phase)
        self.count = np.array(counts, dtype=np.int64)
        """Per piece: its readers, which follow each other."""
        self.start = np.cumsum(self.count) - self.count
        columns = np.array(readers, dtype=np.int64).reshape(-1, 5).T.copy()
        self.period, self.numbers, self.samples, self.phase, self.sender = columns
        self.several = len(senders) < len(readers)
        """Whether some devices read a flow for more than one piece."""
        self.part_start = np.array([*phases, len(parts)], dtype=np.int64)
        self.parts = np.array(parts, dtype=np.int64).reshape(-1, 7)
        self.others = self._others()
        """(further pieces, parts): pieces besides the first of each part, or `_NONE`."""

    def _flows(self) -> list[list[int]]:
        """List per section the flows that it reads."""
        found: list[list[int]] = [[] for _ in self.work.sections]
        for f, flow in enumerate(self.work.skeleton.flows):
            for asked in ((flow.source,) if flow.gradient else ()) if self.backward else flow.targets:
                found[asked].append(f)
        return found

    def _makers(self, f: int) -> tuple[int, ...]:
        """Return the sections that make what goes through a flow."""
        flow = self.work.skeleton.flows[f]
        return flow.targets if self.backward else (flow.source,)

    def _overlap(self, f: int, piece: Piece) -> Overlaps:
        """Return the samples that a piece shares with those that make what it reads of a flow."""
        source = self._makers(f)[0]
        key = (piece.section, piece.replica, source)
        if key not in self.overlaps:
            asked, have = self.work.sections[piece.section], self.work.sections[source]
            self.overlaps[key] = Overlaps(asked, piece.replica, have, self.work.kept(source))
        return self.overlaps[key]

    def _parts(
        self, f: int, piece: Piece, row: tuple[int, ...], overlaps: Overlaps, phase: int
    ) -> Iterator[tuple[int, ...]]:
        """Yield what a piece reads of a flow in one phase of the pattern."""
        work, lanes = self.work, self.work.lanes.of_piece
        for replica, microbatch, low, samples in overlaps.of(phase):
            pieces = tuple(Piece(section, piece.copy, replica) for section in self._makers(f))
            first = pieces[0]
            channel = kind = -1
            if work.sections[first.section].rows[first.copy][replica] != row:
                channel = work.channel_id("wire", lanes[first][0], lanes[piece][0])
                slot = Slot(TRANSFER, f, first, piece, samples, self.backward)
                kind = self.kinds.setdefault(slot, len(self.kinds))
            self.sources.append(pieces)
            yield work.pieces.number.get(first, -1), replica, microbatch, low, samples, channel, kind

    def _others(self) -> IntArray:
        most = max(map(len, self.sources), default=1)
        found = np.full((most - 1, len(self.sources)), _NONE, dtype=np.int64)
        for part, pieces in enumerate(self.sources) if most > 1 else ():
            for k, piece in enumerate(pieces[1:]):
                found[k, part] = self.work.pieces.number.get(piece, -1)
        return found


class _Reads(NamedTuple):
    """Everything that is read, one entry for each part."""

    row: IntArray
    """Row of the reading tasks."""
    part: IntArray
    """Part of the links."""
    sender: IntArray
    """Number of (flow, devices sent to)."""
    sweep: IntArray
    """Sweep in which it is made."""
    number: IntArray
    """Microbatch of the maker."""
    low: IntArray
    """First sample."""


def _read(
    work: Lowering,
    links: _Links,
    readers: MadeTasks,
    made: MadeTasks,
    wrong: dict[int, str] | None = None,
) -> list[str]:
    """Make all tasks of one kind of work wait for what they read; return what is missing, in words.

    Args:
        work: the lowering.
        links: what each piece reads.
        readers: the tasks that read.
        made: those that make it.
        wrong: row of `readers` -> what is wrong with it besides.
    """
    reads = _reads(work, links, readers)
    sources = [links.parts[reads.part, 0], *links.others[:, reads.part]]
    before = [made.of(source, reads.sweep, reads.number) for source in sources]
    absent = [(tasks < 0) & (source > _NONE) for source, tasks in zip(sources, before, strict=True)]
    if wrong or any(found.any() for found in absent):
        said = [(row, text) for row, text in (wrong or {}).items()]
        for entry in np.flatnonzero(np.any(absent, axis=0)).tolist():
            which = next(k for k, found in enumerate(absent) if found[entry])
            row = int(reads.row[entry])
            said.append((row, _missing(work, links, int(readers.task[row]), reads, entry, which)))
        return [text for _, text in sorted(said, key=lambda item: item[0])]
    waiting = readers.task[reads.row]
    apart = links.parts[reads.part, 5] >= 0
    waits_for = before[0].copy()
    sent = np.flatnonzero(apart)
    if len(sent):
        number, first = _transfers(links, reads, before[0], sent)
        opening = sent[first]
        tasks = _add_transfers(work, links, reads.part[opening], before[0][opening])
        waits_for[sent] = tasks[number]
        for source, found in zip(sources[1:], before[1:], strict=True):
            has = source[opening] > _NONE
            work.wait(tasks[has], found[opening][has])
    work.wait(waiting, waits_for)
    for source, found in zip(sources[1:], before[1:], strict=True):
        has = ~apart & (source > _NONE)
        work.wait(waiting[has], found[has])
    return []


def _reads(work: Lowering, links: _Links, readers: MadeTasks) -> _Reads:
    """Let all microbatches of all readers meet their patterns."""
    lags = work.order.lag
    sweeps = int(readers.sweep.max(initial=0)) + 1
    lag = np.array([lags[sweep] if sweep < len(lags) else 0 for sweep in range(sweeps)], dtype=np.int64)
    source_sweep = readers.sweep - lag[readers.sweep]
    # the first sweep of a lagged neighbour starts from its initial guess
    count = np.where(source_sweep >= 0, links.count[readers.piece], 0)
    row, within = ragged(count)
    reader = links.start[readers.piece[row]] + within
    rounds, phase = np.divmod(readers.microbatch[row], links.period[reader])
    phase += links.phase[reader]
    entry, within = ragged(links.part_start[phase + 1] - links.part_start[phase])
    part, row, reader, rounds = (
        links.part_start[phase][entry] + within,
        row[entry],
        reader[entry],
        rounds[entry],
    )
    return _Reads(
        row=row,
        part=part,
        sender=links.sender[reader],
        sweep=source_sweep[row],
        number=links.parts[part, 2] + rounds * links.numbers[reader],
        low=links.parts[part, 3] + rounds * links.samples[reader],
    )


def _transfers(links: _Links, reads: _Reads, before: IntArray, sent: IntArray) -> tuple[IntArray, IntArray]:
    """Return the transfer of every entry that needs one, by number, and the entry that first needs it: what
    one set of devices is sent of a flow, each piece once.
    """
    if not links.several:
        everything = np.arange(len(sent))
        return everything, everything
    samples = links.parts[reads.part[sent], 4]
    return numbered(*packed([reads.sender[sent], before[sent], reads.low[sent], samples]))


def _add_transfers(work: Lowering, links: _Links, part: IntArray, first: IntArray) -> IntArray:
    """Add transfers of parts from their (first) producers; return their numbers."""
    slots = list(links.kinds)
    kind, opening = numbered(links.parts[part, 6], len(slots))
    slot = np.array([work.slot_id(slots[k]) for k in links.parts[part[opening], 6].tolist()], dtype=np.int64)
    tasks = work.add(slot[kind], links.parts[part, 5], work.action[first], work.step[first])
    work.wait(tasks, first)
    return tasks


def _missing(work: Lowering, links: _Links, task: int, reads: _Reads, entry: int, which: int) -> str:
    part = int(reads.part[entry])
    section, copy, replica = links.sources[part][which]
    stage, way = work.sections[section].stage, "backward" if links.backward else "forward"
    return (
        f"{work.text(task)} needs the {way} of microbatch {reads.number[entry]} on stage {stage}"
        f" (copy {copy}, replica {replica}), which no lane runs"
    )
