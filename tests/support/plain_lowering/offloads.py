"""Activations that an order sends to the host and fetches again (OFFLOAD, FREE, RELOAD), as in OptPipe.

A move starts when the lane comes to it and overlaps with its work, each way on a channel of its own. The room
of what is sent is free from the FREE on, for which the lane waits until the move is done; without one it is
when the action after the OFFLOAD is done. What is fetched takes its room from the RELOAD on, and whatever
works on the microbatch next waits for it.
"""

from __future__ import annotations

from typing import NamedTuple

from explorer.actions import BACKWARD, FREE, INPUT_GRAD, OFFLOAD, RECOMPUTE, RELOAD, Action
from explorer.tasks.placement import Piece
from explorer.tasks.program import GATHER, HOST, Slot
from tests.support.plain_lowering.work import Lowering

_USERS = (BACKWARD, INPUT_GRAD, RECOMPUTE)


class ActivationMove(NamedTuple):
    """Activations that leave or enter the memory of a lane."""

    lane: int
    position: int
    """Position in the lane's program of the task during which it happens."""
    section: int
    samples: int
    """Samples: above 0 if they enter, at that task's start; below if they leave, at its end."""


def add_offloads(work: Lowering) -> list[ActivationMove]:
    """Add the moves of all lanes; return what they change in memory."""
    found: list[ActivationMove] = []
    sent: dict[tuple[Piece, int, int], int] = {}
    for lane in range(len(work.programs)):
        marks = [action for _, action in work.marks[lane]]
        for at, (position, action) in enumerate(work.marks[lane]):
            if action.op not in (OFFLOAD, FREE, RELOAD):
                continue
            following = marks[at + 1 :]
            again = following.index(action) if action in following else len(following)
            free = action._replace(op=FREE) in following[:again]
            earlier = work.marks[lane][:at]
            for piece in work.lanes.pieces[lane]:
                here = (work.sections[piece.section].stage, piece.copy) == (action.stage, action.copy)
                if here and work.lanes.of_piece[piece][0] == lane:
                    found += _move(work, lane, position, action, piece, sent, earlier, freed_later=free)
    return found


def _move(
    work: Lowering,
    lane: int,
    position: int,
    action: Action,
    piece: Piece,
    sent: dict[tuple[Piece, int, int], int],
    earlier: list[tuple[int, Action]],
    *,
    freed_later: bool,
) -> list[ActivationMove]:
    made = work.forward.tasks.get((piece, action.sweep), {})
    span = range(action.first_microbatch, action.first_microbatch + action.count)
    numbers = [n for n in span if n in made]
    samples = work.sections[piece.section].samples(piece.replica) * len(numbers)
    if not samples:
        return []
    program, back = work.programs[lane], action.op == RELOAD
    if action.op == FREE:
        gone = list(dict.fromkeys(sent[piece, action.sweep, n] for n in numbers))
        for waiting in program[position : position + 1]:
            work.preds[waiting] += gone
        return [ActivationMove(lane, position - 1, piece.section, -samples)]
    slot = work.slot_id(Slot(GATHER, piece.section, piece, piece, samples, back, HOST))
    before = program[max(0, position - 1) : position]
    if back:
        before = [*before, *(sent[piece, action.sweep, n] for n in numbers)]
        before = list(dict.fromkeys([*before, *_freed_at(work, lane, position, earlier, sent)]))
    step = work.step[made[numbers[0]]]
    task = work.add(slot, work.channel_id("host", lane, action.op), before, action, step)
    if not back:
        sent.update({(piece, action.sweep, n): task for n in numbers})
        if freed_later:
            return []
        for waiting in program[position + 1 : position + 2]:
            work.preds[waiting].append(task)
        return [ActivationMove(lane, min(position, len(program) - 1), piece.section, -samples)]
    for user in _users(work, program[position:], action, piece):
        work.preds[user].append(task)
    return [ActivationMove(lane, position, piece.section, samples)]


def _freed_at(
    work: Lowering,
    lane: int,
    position: int,
    earlier: list[tuple[int, Action]],
    sent: dict[tuple[Piece, int, int], int],
) -> list[int]:
    """List the moves for whose room the lane waits at a position."""
    return [
        task
        for at, free in earlier
        if at == position and free.op == FREE
        for (piece, sweep, n), task in sent.items()
        if work.lanes.of_piece[piece][0] == lane
        if (work.sections[piece.section].stage, piece.copy, sweep) == (free.stage, free.copy, free.sweep)
        if free.first_microbatch <= n < free.first_microbatch + free.count
    ]


def _users(work: Lowering, tasks: list[int], action: Action, piece: Piece) -> list[int]:
    """List the tasks of a piece that next read what came back: one for each microbatch."""
    slots = list(work.slots)
    left = set(range(action.first_microbatch, action.first_microbatch + action.count))
    found = []
    for task in tasks:
        other = work.action[task]
        mine = left & set(range(other.first_microbatch, other.first_microbatch + other.count))
        if mine and other.op in _USERS and slots[work.slot[task]].piece == piece:
            found.append(task)
            left -= mine
        if not left:
            break
    return found
