"""Peak bytes of tensors that our ranks hold, from their own order: task by task, with what each holds.

A plan's prediction (`explorer.simulation.lane_memory`) adds up the most of every kind. Our ranks hold more at
some moments, and not all kinds at once at others:

* The gradients of a microbatch gather, in its backward, before they are added to the sums of earlier ones. In
  the first backward of an update there are no sums yet, in later ones earlier microbatches' activations are
  gone.
* Receives are posted ahead, each with a buffer, and the last message stays until the next one is sent.
* At an exchange gradients are copied next to each other, beside all sums.
* An update that makes a new version of the weights has it beside those that are read.

What a section adds while it works is in `section_bytes`, what ZeRO's flat weights do in `flat_bytes`, what
casts of mixed precision do in `cast_bytes`, and weights that a read rule makes in `made_bytes`; layers of a
backward are in `backward_bytes`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from explorer.actions import RECOMPUTE
from explorer.graph import LayerGraph
from explorer.run.cases.build import Prepared
from explorer.run.judging.cast_bytes import cast_bytes
from explorer.run.judging.flat_bytes import flat_bytes
from explorer.run.judging.made_bytes import made_bytes
from explorer.run.judging.section_bytes import SectionBytes
from explorer.run.ranks.gathered import last_readers
from explorer.run.ranks.lane import WINDOW, LanePlan, LaneTask, RankLanes, Transfer, Wire
from explorer.run.ranks.shard_rows import in_step, rows_of, sharded_groups
from explorer.simulation.lane_memory import MEMORY_PARTS, activation_changes, memory_by_lane
from explorer.tasks.placement import Piece
from explorer.tasks.program import REDUCE
from explorer.tasks.program_tables import derived

_PART = {name: i for i, name in enumerate(MEMORY_PARTS)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankBytes:
    """Peak bytes of the tensors of one rank."""

    rank: int
    """The rank."""
    predicted_bytes: float
    """By the cost model, which needs no profile for it."""
    measured_bytes: float
    """As counted (see `explorer.run.ranks.allocated`)."""


def predicted_bytes(priced: Prepared, graph: LayerGraph | None = None) -> list[float]:
    """Return the peak bytes of tensors of each lane of a program.

    Args:
        priced: the program.
        graph: its layers, by operator; None if they are unknown.
    """
    lanes = RankLanes(priced.program)
    during = _activations(priced)
    parts, _ = memory_by_lane(priced.program, priced.prices)
    exchanged = _exchanged_bytes(priced)
    found = []
    for lane, held in enumerate(derived(priced.program).sections):
        plan = lanes.plan(lane)
        apart = any(task.op == RECOMPUTE for task in plan.tasks)
        sections = {
            section: SectionBytes(priced, graph, section, samples, apart=apart) for section, samples in held
        }
        for section in sections.values():
            section.piled = _piled_bytes(lanes, section, exchanged)
        replay = _Replay(priced, plan, sections, parts[lane], during)
        found.append(max(replay.peak(), _update_bytes(priced, graph, held, exchanged)))
    return found


class _Replay:
    """What one lane holds from task to task."""

    def __init__(
        self,
        priced: Prepared,
        plan: LanePlan,
        sections: Mapping[int, SectionBytes],
        parts: Any,
        during: Mapping[int, tuple[float, float]],
    ) -> None:
        self.priced, self.plan, self.sections, self.during = priced, plan, sections, during
        self.always = float(sum(parts[_PART[name]] for name in ("weights", "versions", "optimizer")))
        self.always += sum(section.made.beyond + section.flat.always for section in sections.values())
        self.sums: dict[Piece, float] = {}
        self.whole: dict[Piece, float] = {}
        """Sums of whole gradients: some orders scatter them once in several microbatches."""
        self.leaves: Counter[Piece] = Counter()
        self.piled: Counter[Piece] = Counter()
        self.gathered: Counter[Piece] = Counter()
        """Gathers of weights that count: those of a piece are there as long as there is one."""
        self.holders = priced.program.skeleton.holders
        self.last_readers = last_readers(plan)
        self.delivered: Counter[Wire] = Counter()
        self.sent = 0.0
        """Bytes of the last message so far."""
        self.several = any(count > 1 for count in priced.program.versions)

    def peak(self) -> float:
        """Return the most bytes at any task."""
        most = 0.0
        for position, task in enumerate(self.plan.tasks):
            self.delivered.update(item.wire for item in task.receives)
            section = self.sections[task.piece.section]
            held = self.always + self._messages(position)
            held += sum(self.sums.values()) + sum(self.whole.values())
            held += sum(self.sections[p.section].leaves * n for p, n in self.leaves.items())
            held += sum(self.sections[p.section].piled * n for p, n in self.piled.items())
            self.gathered.update(item.piece for item in self.plan.gathers[position] if not item.moved)
            before, during = self.during[task.task]
            # weights are read before a forward makes activations, or a backward gradients
            reading = before + (section.made.reading if task.op in ("F", "B") else 0.0)
            level = before if section.remakes else during
            working = level + self._inside(task, section) + self._gathered_bytes()
            most = max(most, held + max(reading, working))
            self.gathered.subtract(self.last_readers[task.task])
            scatters = self._scatters(position + 1, task)
            if scatters:
                most = max(most, held + during + self._scattering(position, task, section))
            self._after(task, section, scatters=scatters)
        return most

    def _inside(self, task: LaneTask, section: SectionBytes) -> float:
        """Return the bytes that a task makes on top of what is there when it begins."""
        if task.op == "U":
            return section.updating + (section.version if self.several else 0.0)
        fresh = {"B": section.backward, "I": section.inputs, "W": section.late}.get(task.op, 0.0)
        if not section.known or task.op in ("F", "W"):
            fresh += section.buffers
        return fresh

    def _gathered_bytes(self, ahead: Iterable[Piece] = ()) -> float:
        """Return the bytes of all weights that are gathered now, and of pieces for which they are next."""
        pieces = {piece for piece, count in self.gathered.items() if count > 0} | set(ahead)
        return sum(self.sections[piece.section].flat.working for piece in pieces)

    def _scatters(self, position: int, task: LaneTask) -> bool:
        """Tell whether gradients of a task's piece are scattered at a position."""
        if not self.sections[task.piece.section].flat.scattered:
            return False
        groups = (self.holders[item.group] for item in self.plan.collectives[position])
        return any(task.piece in group.pieces for group in groups)

    def _scattering(self, position: int, task: LaneTask, section: SectionBytes) -> float:
        """Return the bytes of gradients that are scattered after a task, and of weights that are there then,
        less what the task has given back and what is sent in place of sums.
        """
        first = section.piled if task.piece in self.sums else section.flat.part
        ahead = (item.piece for item in self.plan.gathers[position + 1] if not item.moved)
        gone = section.saved.get(task.op, 0.0) + self.whole.get(task.piece, 0.0)
        return section.flat.scattered + first + self._gathered_bytes(ahead) - gone

    def _after(self, task: LaneTask, section: SectionBytes, *, scatters: bool) -> None:
        """Keep account of sums of gradients and of inputs that wait for a backward."""
        if task.op == "F":
            self.leaves[task.piece] += len(task.numbers)
        if task.op in ("B", "I"):
            self.leaves[task.piece] -= len(task.numbers)
        if task.op in ("B", "W") and section.flat.scattered and not scatters:
            self.whole[task.piece] = section.flat.scattered / 2
        elif task.op in ("B", "W"):
            self.whole.pop(task.piece, None)
            self.sums[task.piece] = max(0.0, section.gradients - section.piled)
            self.piled[task.piece] += 1
        if task.op == "U":
            self.sums.pop(task.piece, None)
            self.piled.pop(task.piece, None)

    def _messages(self, position: int) -> float:
        """Return the bytes of buffers posted ahead, and of the last message that was sent."""
        posted = 0.0
        for wire, items in self.plan.incoming.items():
            begin = self.delivered[wire]
            posted += sum(map(self._size, items[begin : begin + WINDOW]))
        if now := self.plan.sends[position]:
            self.sent = self._size(now[-1])
        return posted + self.sent

    def _size(self, item: Transfer) -> float:
        return float(self.priced.prices.bytes[item.slot]) if item.flow >= 0 else 0.0


def _activations(priced: Prepared) -> dict[int, tuple[float, float]]:
    """Return, per compute task, the bytes of activations when it begins, and the most while it runs."""
    program, found = priced.program, dict[int, tuple[float, float]]()
    events = program.memory
    changes = activation_changes(program, priced.prices) if len(events.lane) else np.zeros(0)
    rows: dict[int, list[tuple[bool, float]]] = defaultdict(list)
    for task, at_end, change in zip(events.task.tolist(), events.at_end.tolist(), changes, strict=True):
        rows[task].append((at_end, float(change)))
    for tasks in program.programs:
        level = 0.0
        for task in tasks.tolist():
            before = most = level
            for at_end, change in rows[task]:
                level += change
                most = max(most, level) if not at_end else most
            found[task] = (before, max(most, level))
    return found


def _update_bytes(
    priced: Prepared,
    graph: LayerGraph | None,
    held: Sequence[tuple[int, float]],
    exchanged: Mapping[int, Mapping[int, float]],
) -> float:
    """Return the bytes of a lane while its gradients are exchanged, next to each other beside all sums."""
    update, given, casting = 0.0, dict[int, float](), 0.0
    for section, _ in held:
        own, flat = priced.prices.memory[section], flat_bytes(priced, section)
        casting = max(casting, cast_bytes(priced, graph, section).updating)
        mine = {} if flat.scattered else exchanged.get(section, {})  # those went with each backward
        given |= mine
        alone = max(0.0, own.gradient_bytes - sum(mine.values()))
        update += own.weight_bytes + own.optimizer_bytes + alone + flat.always
        update += 0.0 if flat.scattered else flat.part
        update += made_bytes(priced, graph, section).copy
    return update + sum(given.values()) + max([casting, *given.values()])


def _exchanged_bytes(priced: Prepared) -> dict[int, dict[int, float]]:
    """Return, per section, the bytes of gradients of each group that it exchanges them with."""
    found: dict[int, dict[int, float]] = defaultdict(dict)
    for slot, size in zip(priced.program.slots, priced.prices.bytes.tolist(), strict=True):
        if slot.kind == REDUCE:
            for piece in priced.program.skeleton.holders[slot.where].pieces:
                found[piece.section][slot.where] = float(size)
    return found


def _piled_bytes(
    lanes: RankLanes, section: SectionBytes, exchanged: Mapping[int, Mapping[int, float]]
) -> float:
    """Return the bytes of parts of a microbatch's gradients that are scattered, and wait for an update before
    they are added up over groups of replicas: those of other stages, or other replicas, have to join in.
    """
    skeleton, found = lanes.program.skeleton, 0.0
    if not section.flat.scattered:
        return found
    k = skeleton.sections[section.number].shards
    for group, size in exchanged.get(section.number, {}).items():
        if len({lanes.lane_of[piece] for piece in skeleton.holders[group].pieces}) > k:
            found += size / k
    return found


def rank_bytes(
    priced: Prepared, rows: Sequence[Sequence[Mapping[str, Any]]], graph: LayerGraph | None = None
) -> list[RankBytes]:
    """Return predicted and counted peaks: of a lane of several ranks of the one that holds most, since the
    prediction is about the largest pieces; none where any number of reductions may be under way (ZeRO 2 and 3
    over replicas that do not run in step, whose ranks cannot wait for each other).

    Args:
        priced: the program.
        rows: per rank, the records of the counted case.
        graph: as for `predicted_bytes`.
    """
    lanes = RankLanes(priced.program)
    scattered = [group for group in sharded_groups(priced.program.skeleton) if group.level > 1]
    if not all(in_step(map(lanes.plan, row)) for group in scattered for row in rows_of(group, lanes)):
        return []
    each, found = priced.case.lane_ranks, []
    for lane, expected in enumerate(predicted_bytes(priced, graph)):
        ranks = range(lane * each, min((lane + 1) * each, len(rows)))
        peaks = {rank: float(rows[rank][0].get("peak_bytes", 0.0)) for rank in ranks if rows[rank]}
        if any(peaks.values()):
            most = max(peaks, key=lambda rank: peaks[rank])
            found.append(RankBytes(rank=most, predicted_bytes=expected, measured_bytes=peaks[most]))
    return found


__all__ = ["RankBytes", "predicted_bytes", "rank_bytes"]
