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

from explorer.actions import FORWARD, Action, Assignment
from explorer.base.errors import PlanError
from explorer.tasks.placement import Piece
from explorer.tasks.program import JOIN, TRANSFER, B, F, Slot
from tests.support.plain_lowering.offloads import ActivationMove
from tests.support.plain_lowering.work import Lowering


class _Read(NamedTuple):
    """What a section reads: one flow, and the section it comes from."""

    flow: int
    source: int


def add_assigned(work: Lowering) -> list[ActivationMove]:
    """Add the tasks of all assignments and their transfers, and put them on the lanes in the order given.

    Returns:
        What left a lane's memory with a replica that left.

    Raises:
        PlanError: an assignment whose inputs nobody makes, or lanes that do not run what is assigned.
    """
    tasks = _Assigned(work)
    for number, item in enumerate(work.order.assignments):
        tasks.add(number, item)
    _fill_lanes(work, tasks.waiting)
    return list(_lost(work, tasks)) if work.shape.training else []


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
        record, kind = (work.forward, F) if action.op == FORWARD else (work.input_grad, B)
        slot = work.slot_id(Slot(kind, section, piece, piece, work.sections[section].samples(item.replica)))
        lane = work.lanes.of_piece[piece][0]
        task = work.add(slot, work.channel_id("lane", lane), [*inputs, *why], action, step)
        record.record((piece, 0), (action.first_microbatch,), task)
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
            slot = self.work.slot_id(Slot(JOIN, item.event, piece, piece, 0))
            channel = self.work.channel_id("event", item.event)
            self.events[item.event] = self.work.add(slot, channel, [], item.action, step)
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
        slot = work.slot_id(Slot(TRANSFER, read.flow, source, piece, samples, action.op != FORWARD))
        before = [producer, *why, *([self.last[wire]] if wire in self.last else [])]
        self.last[wire] = work.add(slot, wire, before, work.action[producer], work.step[producer])
        return self.last[wire]

    def _row(self, piece: Piece) -> tuple[int, ...]:
        return self.work.sections[piece.section].rows[0][piece.replica]


def _fill_lanes(work: Lowering, waiting: dict[tuple[int, Action], deque[int]]) -> None:
    """Put the tasks on their lanes; a repeated action is the next task of its name."""
    for lane, actions in enumerate(work.order.lanes):
        for action in actions:
            if not waiting.get((lane, action)):
                raise PlanError([f"{action} stands on lane {lane}, which was not assigned it"])
            work.programs[lane].append(waiting[lane, action].popleft())
    for (lane, action), left in waiting.items():
        if left:
            raise PlanError([f"{action} was assigned to lane {lane}, which does not run it"])


def _lost(work: Lowering, tasks: _Assigned) -> Iterator[ActivationMove]:
    """Yield what leaves memory with replicas that leave: after the last that their lane does before."""
    number = {task: n for n, task in tasks.task.items()}
    for lane, program in enumerate(work.programs):
        given = [number[task] for task in program]
        for item in [work.order.assignments[n] for n in given]:
            if item.lost_at >= 0:
                # whatever was assigned later runs after the replica came back
                stay = bisect_left(given, item.lost_at)
                section = tasks.section[item.action.stage]
                samples = work.sections[section].samples(item.replica)
                yield ActivationMove(lane, stay - 1, section, -samples)
