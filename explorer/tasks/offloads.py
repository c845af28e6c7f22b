"""Activations that an order sends to the host and fetches again (OFFLOAD, FREE, RELOAD), as in OptPipe.

A move starts when the lane comes to it and overlaps with its work, each way on a channel of its own. The room
of what is sent is free from the FREE on, for which the lane waits until the move is done; without one it is
when the action after the OFFLOAD is done. What is fetched takes its room from the RELOAD on, and whatever
works on the microbatch next waits for it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from explorer.actions import (
    BACKWARD,
    FREE,
    INPUT_GRAD,
    OFFLOAD,
    OP_CODE,
    RECOMPUTE,
    RELOAD,
    Action,
    with_free,
)
from explorer.tasks.indexing import IntArray
from explorer.tasks.placement import Piece
from explorer.tasks.program import GATHER, HOST, Slot
from explorer.tasks.work import Lowering, MadeTasks

_USERS = [OP_CODE[op] for op in (BACKWARD, INPUT_GRAD, RECOMPUTE)]


class ActivationMove(NamedTuple):
    """Activations that leave or enter the memory of a lane."""

    lane: int
    position: int
    """Position in the lane's program of the task during which it happens."""
    section: int
    samples: int
    """Samples: above 0 if they enter, at that task's start; below if they leave, at its end."""


def add_offloads(work: Lowering, forward: MadeTasks) -> list[ActivationMove]:
    """Add the moves of all lanes, one by one; return what they change in memory."""
    moves = _Moves(work, forward)
    return [
        found
        for lane, marks in enumerate(work.marks)
        for freed in [with_free(action for _, action in marks)]
        for at, (position, action) in enumerate(marks)
        if action.op in (OFFLOAD, FREE, RELOAD)
        for piece in work.lanes.pieces[lane]
        if (work.sections[piece.section].stage, piece.copy) == (action.stage, action.copy)
        if work.lanes.of_piece[piece][0] == lane
        for found in moves.add(lane, position, action, piece, freed_later=at in freed)
    ]


class _Moves:
    """Moves of activations between a lane and its host."""

    def __init__(self, work: Lowering, forward: MadeTasks) -> None:
        self.work, self.forward = work, forward
        self.action, self.step = work.action, work.step  # of compute tasks
        self.sent: dict[tuple[Piece, int, int], int] = {}
        self.freed: dict[tuple[int, int], list[int]] = defaultdict(list)
        """Per lane and position in its program: moves for whose room the task there waits."""

    def add(
        self, lane: int, position: int, action: Action, piece: Piece, *, freed_later: bool
    ) -> Iterator[ActivationMove]:
        """Add the move of one action and piece; yield what it changes in memory."""
        work, back = self.work, action.op == RELOAD
        span = np.arange(action.first_microbatch, action.first_microbatch + action.count)
        number = np.full_like(span, work.pieces.number[piece])
        made = self.forward.of(number, np.full_like(span, action.sweep), span)
        numbers = span[made >= 0].tolist()
        samples = work.sections[piece.section].samples(piece.replica) * len(numbers)
        if not samples:
            return
        program = work.program[work.program_start[lane] : work.program_start[lane + 1]]
        if action.op == FREE:
            gone = list(dict.fromkeys(self.sent[piece, action.sweep, n] for n in numbers))
            self._wait(gone, program[position : position + 1].tolist())
            self.freed[lane, position] += gone
            yield ActivationMove(lane, position - 1, piece.section, -samples)
            return
        slot = work.slot_id(Slot(GATHER, piece.section, piece, piece, samples, back, HOST))
        channel = work.channel_id("host", lane, action.op)
        first = made[made >= 0][:1]
        task = work.add(_one(slot), _one(channel), self.action[first], self.step[first])
        before = program[max(0, position - 1) : position].tolist()
        if back:
            before += [self.sent[piece, action.sweep, n] for n in numbers] + self.freed[lane, position]
            before = list(dict.fromkeys(before))
            after = self._users(program[position:], action, piece)
        else:
            self.sent.update({(piece, action.sweep, n): int(task[0]) for n in numbers})
            after = [] if freed_later else program[position + 1 : position + 2].tolist()
        self._wait(before, task.tolist())
        self._wait(task.tolist(), after)
        if freed_later:
            return
        at = position if back else min(position, len(program) - 1)
        yield ActivationMove(lane, at, piece.section, samples if back else -samples)

    def _wait(self, before: list[int], after: list[int]) -> None:
        """Let every one of some tasks wait for every one of others."""
        first, second = np.array(before, dtype=np.int64), np.array(after, dtype=np.int64)
        self.work.wait(np.tile(second, len(first)), np.repeat(first, len(second)))

    def _users(self, tasks: IntArray, action: Action, piece: Piece) -> list[int]:
        """List the tasks of a piece that next read what came back: one for each microbatch."""
        work = self.work
        op, _, first, count, _, _ = work.actions.columns[:, self.action[tasks]]
        begin, end = action.first_microbatch, action.first_microbatch + action.count
        mine = np.isin(op, _USERS) & (work.compute_piece[tasks] == work.pieces.number[piece])
        left = set(range(begin, end))
        found = []
        for place in np.flatnonzero(mine & (first < end) & (first + count > begin)).tolist():
            again = left & set(range(int(first[place]), int(first[place] + count[place])))
            if again:
                found.append(int(tasks[place]))
                left -= again
        return found


def _one(value: int) -> IntArray:
    return np.array([value], dtype=np.int64)
