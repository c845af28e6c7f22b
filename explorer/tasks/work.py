"""Tasks under construction as growing columns, which the phases of lowering fill one after the other."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from explorer.actions import Action, Actions, Order, Shape
from explorer.base.checkpoints import checkpoint
from explorer.tasks.indexing import NO_INTS, IntArray, numbered
from explorer.tasks.lanes import Lanes
from explorer.tasks.placement import Piece, Skeleton
from explorer.tasks.program import BESIDE, WHOLE, Slot

NOWHERE = Piece(-1, -1, -1)


class Pieces:
    """Pieces that are lowered, numbered; facts of each as columns."""

    def __init__(self, skeleton: Skeleton, shape: Shape, lanes: Lanes) -> None:
        sections = skeleton.sections
        self.all = tuple(lanes.of_piece)
        self.number = {piece: i for i, piece in enumerate(self.all)}
        table = np.array(
            [
                (s, sections[s].stage, copy, r, sections[s].samples(r), lanes.of_piece[Piece(s, copy, r)][0])
                for s, copy, r in self.all
            ],
            dtype=np.int64,
        ).reshape(-1, 6)
        self.section, self.stage, self.copy, self.replica, self.samples, self.lane = table.T.copy()
        self.turns = np.array(
            [sections[s].replicas if sections[s].round_robin else 1 for s, _, _ in self.all], dtype=np.int64
        )
        """Replicas that take whole microbatches in turn; 1 if they split each one."""
        self.microbatches = np.maximum(1, np.array(shape.microbatches, dtype=np.int64))[self.stage]
        """Microbatches of one step of the piece's stage."""
        self.shared = any(len(found) > 1 for found in lanes.of_piece.values())
        """Whether several lanes compute one piece together."""


class MadeTasks:
    """Which task does one kind of work on a microbatch of a site: a piece in one sweep.

    Args:
        span: per piece, one more than the greatest number of a microbatch.
        sweeps: number of sweeps.
    """

    def __init__(self, span: IntArray, sweeps: int) -> None:
        self.span, self.sweeps = span, sweeps
        self.base = np.cumsum(span * sweeps) - span * sweeps
        self.table = np.full(int((span * sweeps).sum()), -1, dtype=np.int64)
        self.once = True
        """Whether no microbatch was recorded twice."""
        self.piece = self.sweep = self.microbatch = self.task = NO_INTS
        """Every (site, microbatch) in the order they were first made, and the task."""

    def record(self, piece: IntArray, sweep: IntArray, microbatch: IntArray, task: IntArray) -> None:
        """Record which tasks do this work; for equal ones the last stays."""
        at = self.base[piece] + sweep * self.span[piece] + microbatch
        self.table[at] = task
        found = self.table[at]
        if not np.array_equal(found, task):
            self.once = False
            _, first = numbered(at, len(self.table))
            piece, sweep, microbatch, found = piece[first], sweep[first], microbatch[first], found[first]
        self.piece, self.sweep, self.microbatch, self.task = piece, sweep, microbatch, found

    def of(self, piece: IntArray, sweep: IntArray, microbatch: IntArray) -> IntArray:
        """Return the tasks of some sites and microbatches; -1 where there is none, or no such piece."""
        known = (piece >= 0) & (microbatch < self.span[piece])
        at = self.base[piece] + sweep * self.span[piece] + microbatch
        return np.where(known, self.table[np.where(known, at, 0)], -1) if len(self.table) else at * 0 - 1


class Computed(NamedTuple):
    """Who computed what."""

    forward: MadeTasks
    input_grad: MadeTasks
    weight_grad: MadeTasks


class Lowering:
    """Tasks under construction: columns by task, and edges between tasks."""

    def __init__(self, skeleton: Skeleton, shape: Shape, order: Order, lanes: Lanes) -> None:
        self.skeleton, self.shape, self.order, self.lanes = skeleton, shape, order, lanes
        self.sections = skeleton.sections
        self.pieces = Pieces(skeleton, shape, lanes)
        self.actions = Actions.of(())
        """Different actions, which tasks name by number."""
        self.slots: dict[Slot, int] = {Slot(-1, -1, NOWHERE, NOWHERE, 0): 0}
        self.channels: dict[tuple[object, ...], int] = {}
        self.size = 0
        self._slot: list[IntArray] = []
        self._channel: list[IntArray] = []
        self._action: list[IntArray] = []
        self._step: list[IntArray] = []
        self._edges: list[tuple[IntArray, IntArray]] = []
        self.row_action, self.row_lane = NO_INTS, NO_INTS
        """Every action of all lanes in order: its number, and its lane."""
        self.program, self.program_lane = NO_INTS, NO_INTS
        """Compute tasks of all lanes in order, and the lane of each."""
        self.program_start: IntArray = NO_INTS
        """First place of each lane in `program`, and the end."""
        self.compute_piece, self.compute_op = NO_INTS, NO_INTS
        """Per task, up to the last compute task: its piece and op; -1 for others."""
        self.in_order = False
        """Whether every microbatch is known to go forward once on a lane, before all else is done with it."""
        self.overlaps: IntArray = np.empty((2, 0), dtype=np.int64)
        """Compute tasks that run as one: forwards, and their backwards."""
        self.marks: list[list[tuple[int, Action]]] = [[] for _ in order.lanes]
        """Per lane the actions that are placed by name: (compute tasks before it, action)."""

    def slot_id(self, slot: Slot) -> int:
        """Return the number of a slot, a new one if none is equal."""
        return self.slots.setdefault(slot, len(self.slots))

    def overlapped_slots(self, forward: Slot, backward: Slot) -> tuple[int, int]:
        """Return the numbers of the slots of a forward and a backward that run as one; -1 if they cannot."""
        if forward.samples != backward.samples or backward.part != WHOLE:
            return -1, -1
        return (
            self.slot_id(forward._replace(peer=backward.piece, part=BESIDE)),
            self.slot_id(backward._replace(peer=forward.piece, part=BESIDE)),
        )

    def channel_id(self, *name: object) -> int:
        """Return the number of a channel: ("lane", lane), ("wire", from, to), ("group", devices) or
        ("gather", lane).
        """
        return self.channels.setdefault(name, len(self.channels))

    def add(self, slot: IntArray, channel: IntArray, action: IntArray, step: IntArray) -> IntArray:
        """Add tasks; return their numbers."""
        for columns, values in (
            (self._slot, slot),
            (self._channel, channel),
            (self._action, action),
            (self._step, step),
        ):
            columns.append(values)
        self.size += len(slot)
        return np.arange(self.size - len(slot), self.size)

    def wait(self, after: IntArray, before: IntArray) -> None:
        """Make tasks wait for others, pair by pair."""
        checkpoint()
        if len(after):
            self._edges.append((after, before))

    @property
    def slot(self) -> IntArray:
        """Per task: number of its slot."""
        return _joined(self._slot)

    @property
    def channel(self) -> IntArray:
        """Per task: number of its channel."""
        return _joined(self._channel)

    @property
    def action(self) -> IntArray:
        """Per task: number of its action, or of the one it serves."""
        return _joined(self._action)

    @property
    def step(self) -> IntArray:
        """Per task: its step."""
        return _joined(self._step)

    @property
    def edges(self) -> tuple[IntArray, IntArray]:
        """Pairs (waiting task, task it waits for) so far, in the order they were added."""
        after, before = zip(*self._edges, strict=True) if self._edges else ((), ())
        self._edges = [(_joined(list(after)), _joined(list(before)))]
        return self._edges[0]

    @cached_property
    def neighbours(self) -> tuple[IntArray, IntArray]:
        """Pairs (task, the next one of its lane), lane by lane."""
        inside = self.program_lane[1:] == self.program_lane[:-1]
        return self.program[:-1][inside], self.program[1:][inside]

    def lane_tasks(self, lane: int) -> list[int]:
        """List the compute tasks of a lane in order."""
        found: list[int] = self.program[self.program_start[lane] : self.program_start[lane + 1]].tolist()
        return found

    def text(self, task: int) -> str:
        """Return the action of a task as people write it."""
        return str(self.actions[int(self.action[task])])

    def kept(self, section: int) -> tuple[int, ...]:
        """Return the replicas of a section that are lowered (equal ones are folded away)."""
        return self._kept.get(section, ())

    @cached_property
    def _kept(self) -> dict[int, tuple[int, ...]]:
        found: dict[int, list[int]] = {}
        for section, copy, replica in sorted(self.lanes.of_piece):
            if not copy:
                found.setdefault(section, []).append(replica)
        return {section: tuple(replicas) for section, replicas in found.items()}


def _joined(parts: list[IntArray]) -> IntArray:
    """Return some columns as one, which takes their place."""
    if len(parts) != 1:
        parts[:] = [np.concatenate(parts) if parts else NO_INTS]
    return parts[0]
