"""Assignments: the tasks of an order that says itself which replica works on which microbatch.

Without them a stage's rule says who works on what (all replicas on their part of every microbatch, or each
in its turn: `compute`, `dependencies`). Here everything is as the order has it: a forward reads the first
forward of the stages before that ran, wherever that was, a backward the backwards of the stages behind. A
second forward of a microbatch repeats what was lost. Tensors on one wire follow each other in the order of
the assignments, and those that were sent to a replica in vain are sent all the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from explorer.actions import FORWARD, Action, Actions, Assignment
from explorer.base.errors import PlanError
from explorer.tasks.compute import number_actions
from explorer.tasks.offloads import ActivationMove
from explorer.tasks.placement import Piece
from explorer.tasks.program import JOIN, TRANSFER, B, F, Slot
from explorer.tasks.work import Lowering, MadeTasks


class _Read(NamedTuple):
    """What a section reads: one flow, and the section it comes from."""

    flow: int
    source: int


def add_assigned(work: Lowering) -> tuple[list[ActivationMove], MadeTasks]:
    """Add the tasks of all assignments and their transfers, and put them on the lanes in the order given.

    Returns:
        What left a lane's memory with a replica that left; and the weight gradients, of which none is
        updated with.

    Raises:
        PlanError: an assignment whose inputs nobody makes, or lanes that do not run what is assigned.
    """
    number_actions(work)
    tasks = _Assigned(work)
    for number, item in enumerate(work.order.assignments):
        tasks.add(number, item)
    programs = _programs(work, tasks.waiting)
    tasks.finish(programs)
    moved = list(_lost(work, tasks, programs)) if work.shape.training else []
    return moved, MadeTasks(np.zeros(len(work.pieces.all), dtype=np.int64), sweeps=1)


class _Assigned:
    """Tasks of assignments under construction."""

    def __init__(self, work: Lowering) -> None:
        if len(work.sections) != work.shape.stages or any(len(s.rows) > 1 for s in work.sections):
            raise PlanError(["an assigned stage runs on one device set; shardings or copies name another"])
        self.work = work
        self.section = {section.stage: s for s, section in enumerate(work.sections)}
        self.reads: dict[tuple[str, int], list[_Read]] = defaultdict(list)
        for f, flow in enumerate(work.skeleton.flows):
            for target in flow.targets:
                self.reads["F", target].append(_Read(f, flow.source))
                if flow.gradient:
                    self.reads["B", flow.source].append(_Read(f, target))
        self.task: dict[int, int] = {}
        """Task of each assignment that ran."""
        self.made: dict[tuple[str, int, int], tuple[int, Piece]] = {}
        """(op, section, microbatch) -> first task that made its output, and where."""
        self.last: dict[int, int] = {}
        """Last task of each wire."""
        self.events: dict[int, int] = {}
        """Task that ends when an event of the cluster happens."""
        self.waiting: dict[tuple[int, Action], deque[int]] = defaultdict(deque)
        """Tasks that a lane is to run, by action."""
        self.numbers = {action: number for number, action in enumerate(work.actions)}
        self.rows: list[tuple[int, int, int, int]] = []
        """Per task: slot, channel, action, step."""
        self.edges: list[tuple[int, int]] = []
        """Pairs (waiting task, task it waits for)."""

    def finish(self, programs: list[list[int]]) -> None:
        """Hand all tasks over, and the programs of the lanes."""
        work = self.work
        work.actions = Actions.of(self.numbers)
        slot, channel, action, step = np.array(self.rows, dtype=np.int64).reshape(-1, 4).T
        work.add(slot, channel, action, step)
        after, before = np.array(self.edges, dtype=np.int64).reshape(-1, 2).T
        work.wait(after, before)
        work.program = np.array([task for program in programs for task in program], dtype=np.int64)
        counts = np.array([len(program) for program in programs], dtype=np.int64)
        work.program_lane = np.repeat(np.arange(len(programs)), counts)
        work.program_start = np.append(0, np.cumsum(counts))
        piece = np.array([work.pieces.number.get(slot.piece, -1) for slot in work.slots], dtype=np.int64)
        work.compute_piece = np.full(work.size, -1, dtype=np.int64)
        work.compute_piece[work.program] = piece[slot[work.program]]
        work.compute_op = np.where(work.compute_piece >= 0, work.actions.columns[0][action], -1)

    def _add(self, slot: Slot, channel: int, before: list[int], action: int, step: int) -> int:
        """Add a task; return its number."""
        task = len(self.rows)
        self.rows.append((self.work.slot_id(slot), channel, action, step))
        self.edges += [(task, item) for item in before]
        return task

    def _number(self, action: Action) -> int:
        return self.numbers.setdefault(action, len(self.numbers))

    def add(self, number: int, item: Assignment) -> None:
        """Add what an assignment has sent and computed."""
        work, action = self.work, item.action
        section = self.section[action.stage]
        piece = Piece(section, 0, item.replica)
        step = action.first_microbatch // work.shape.microbatches[action.stage]
        why = [*self._after(item), *self._event(item, piece, step)]
        inputs = [self._input(item, read, piece, why) for read in self._reads(item, section)]
        if item.sent is not None:
            return
        kind = F if action.op == FORWARD else B
        slot = Slot(kind, section, piece, piece, work.sections[section].samples(item.replica))
        lane = work.lanes.of_piece[piece][0]
        task = self._add(slot, work.channel_id("lane", lane), [*inputs, *why], self._number(action), step)
        self.task[number] = task
        self.made.setdefault((action.op, section, action.first_microbatch), (task, piece))
        self.waiting[lane, action].append(task)

    def _reads(self, item: Assignment, section: int) -> list[_Read]:
        """Return what is sent for an assignment: all it reads, or what was sent before its replica left."""
        reads = self.reads[item.action.op, section]
        if item.sent is None:
            return reads
        left = Counter(item.sent)
        found = []
        for read in reads:
            stage = self.work.sections[read.source].stage
            if left[stage]:
                left[stage] -= 1
                found.append(read)
        return found

    def _after(self, item: Assignment) -> list[int]:
        if item.after < 0:
            return []
        if item.after not in self.task:
            raise PlanError([f"{item.action} waits for assignment {item.after}, which never ran before it"])
        return [self.task[item.after]]

    def _event(self, item: Assignment, piece: Piece, step: int) -> list[int]:
        """Return the task that ends at the event that an assignment waits for: it lasts from time 0."""
        if item.event < 0:
            return []
        if item.event not in self.events:
            slot = Slot(JOIN, item.event, piece, piece, 0)
            channel = self.work.channel_id("event", item.event)
            self.events[item.event] = self._add(slot, channel, [], self._number(item.action), step)
        return [self.events[item.event]]

    def _input(self, item: Assignment, read: _Read, piece: Piece, why: list[int]) -> int:
        """Return the task that brings one input: its transfer, or what made it on the same devices."""
        work, action = self.work, item.action
        made = self.made.get((action.op, read.source, action.first_microbatch))
        if made is None:
            stage = work.sections[read.source].stage
            raise PlanError(
                [f"{action} reads its microbatch from stage {stage}, which was not assigned before"]
            )
        producer, source = made
        if self._row(source) == self._row(piece):
            return producer
        lanes = work.lanes.of_piece
        wire = work.channel_id("wire", lanes[source][0], lanes[piece][0])
        samples = work.sections[piece.section].samples(item.replica)
        slot = Slot(TRANSFER, read.flow, source, piece, samples, action.op != FORWARD)
        before = [producer, *why, *([self.last[wire]] if wire in self.last else [])]
        _, _, number, step = self.rows[producer]
        self.last[wire] = self._add(slot, wire, before, number, step)
        return self.last[wire]

    def _row(self, piece: Piece) -> tuple[int, ...]:
        return self.work.sections[piece.section].rows[0][piece.replica]


def _programs(work: Lowering, waiting: dict[tuple[int, Action], deque[int]]) -> list[list[int]]:
    """List the tasks of every lane; a repeated action is the next task of its name."""
    programs: list[list[int]] = [[] for _ in work.order.lanes]
    for lane, actions in enumerate(work.order.lanes):
        for action in actions:
            if not waiting.get((lane, action)):
                raise PlanError([f"{action} stands on lane {lane}, which was not assigned it"])
            programs[lane].append(waiting[lane, action].popleft())
    for (lane, action), left in waiting.items():
        if left:
            raise PlanError([f"{action} was assigned to lane {lane}, which does not run it"])
    return programs


def _lost(work: Lowering, tasks: _Assigned, programs: list[list[int]]) -> Iterator[ActivationMove]:
    """Yield what leaves memory with replicas that leave: after the last that their lane does before."""
    number = {task: n for n, task in tasks.task.items()}
    for lane, program in enumerate(programs):
        given = [number[task] for task in program]
        for item in [work.order.assignments[n] for n in given]:
            if item.lost_at >= 0:
                # whatever was assigned later runs after the replica came back
                stay = bisect_left(given, item.lost_at)
                section = tasks.section[item.action.stage]
                samples = work.sections[section].samples(item.replica)
                yield ActivationMove(lane, stay - 1, section, -samples)
