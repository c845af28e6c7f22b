"""Compute tasks: one per action and piece; a piece that spans several lanes is one task in all of them.

The actions of all lanes are one table. Each row meets the pieces of its stage and copy on its lane, which
makes the lanes' programs; equal (piece, action) pairs are one task.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from explorer.actions import (
    ALL_OPS,
    BACKWARD,
    FORWARD,
    FREE,
    INPUT_GRAD,
    OFFLOAD,
    OP_CODE,
    OVERLAP,
    RECOMPUTE,
    RELOAD,
    UPDATE,
    WEIGHT_GRAD,
    WHOLE_STAGE,
    Actions,
)
from explorer.tasks.indexing import BoolArray, IntArray, numbered, packed, ragged
from explorer.tasks.program import REMADE_BEFORE, WHOLE, B, F, I, Slot, U, W
from explorer.tasks.work import Computed, Lowering, MadeTasks

OP_KIND = {"F": F, "B": B, "I": I, "W": W, "U": U, RECOMPUTE: F}

_OF_CODE = {OP_CODE[op]: op for op in OP_KIND}
_DOWN = (FORWARD, UPDATE, RECOMPUTE)
"""Ops that go through the sections of a stage from first to last."""
_MARKS = (*WHOLE_STAGE, OFFLOAD, FREE, RELOAD)
"""Ops that other phases place."""
_BESIDE = (*_MARKS, OVERLAP)
"""Ops that do not occupy the lane itself."""
_UPDATE, _RECOMPUTE = OP_CODE[UPDATE], OP_CODE[RECOMPUTE]


def add_compute(work: Lowering) -> Computed:
    """Add the tasks of every lane in the order of its actions; return who computed what."""
    row_action, row_lane = number_actions(work)
    row, piece = _meet(work, row_action, row_lane)
    action = row_action[row]
    works_on = _count(work, action, piece)
    updates = np.array(work.skeleton.updates, dtype=bool)[work.pieces.section[piece]]
    kept = (works_on > 0) | ((work.actions.columns[0][action] == _UPDATE) & updates)
    _mark_named(work, row_action, row_lane, row[kept])
    row, piece, action, works_on = row[kept], piece[kept], action[kept], works_on[kept]
    task, first = _distinct(work, piece, action, row_action)
    work.program, work.program_lane = task, row_lane[row]
    work.program_start = np.searchsorted(work.program_lane, np.arange(len(work.order.lanes) + 1))
    piece, action, works_on = piece[first], action[first], works_on[first]
    work.compute_piece, work.compute_op = piece, work.actions.columns[0][action]
    by_task, microbatch = _microbatches(work, action, piece, works_on)
    part = _parts(work, action, by_task, microbatch)
    slot = _slots(work, piece, works_on, part)
    slot = _overlapped(work, slot, _joined(work, row_action, row_lane, row))
    channel = np.array([work.channel_id("lane", lane) for lane in work.pieces.lane.tolist()], dtype=np.int64)
    step = work.actions.columns[2][action] // work.pieces.microbatches[piece]
    work.add(slot, channel[piece], action, step)
    return _computed(work, by_task, microbatch)


def number_actions(work: Lowering) -> tuple[IntArray, IntArray]:
    """Assign numbers to the different actions of all lanes; return the number and lane of each in order."""
    lanes = work.order.lanes
    place: dict[int, int] = {}
    columns: list[Actions] = []  # lanes of equal roles share one object
    for lane in lanes:
        if id(lane) not in place:
            place[id(lane)] = len(columns)
            columns.append(Actions.of(lane))
    table = Actions.joined(columns).columns
    op, stage, begin, count, copy, sweep = table
    few = numbered(count, int(count.max(initial=0)) + 1)[0]  # the count of one action is 1 or that of a step
    number, first = numbered(*packed([op, stage, begin, few, copy, sweep]))
    work.actions = Actions(table if len(first) == table.shape[1] else table[:, first])
    ends = np.cumsum([len(item) for item in columns], dtype=np.int64)
    starts = np.array([ends[place[id(lane)]] - len(lane) for lane in lanes], dtype=np.int64)
    row_lane, within = ragged(np.array([len(lane) for lane in lanes], dtype=np.int64))
    work.row_action, work.row_lane = number[starts[row_lane] + within], row_lane
    return work.row_action, work.row_lane


def _meet(work: Lowering, row_action: IntArray, row_lane: IntArray) -> tuple[IntArray, IntArray]:
    """Return (row, piece) of every action that is work of the lane itself, for each piece that it concerns:
    in section order, or from the last section to the first.
    """
    lanes, pieces = work.lanes, work.pieces
    held = np.array([pieces.number[piece] for own in lanes.pieces for piece in own], dtype=np.int64)
    lane = np.repeat(np.arange(len(lanes.pieces)), [len(own) for own in lanes.pieces])
    op, stage, _, _, copy, _ = work.actions.columns
    stages, copies = int(pieces.stage.max(initial=0)) + 1, int(pieces.copy.max(initial=0)) + 1
    key = (lane * stages + pieces.stage[held]) * copies + pieces.copy[held]
    held = held[np.argsort(key, kind="stable")]
    count = np.bincount(key, minlength=len(lanes.pieces) * stages * copies)
    start = np.cumsum(count) - count
    possible = (stage < stages) & (copy < copies) & ~_of_ops(_BESIDE)[op]
    asked = (row_lane * stages + stage[row_action]) * copies + copy[row_action]
    asked = np.where(possible[row_action], asked, 0)
    found = np.where(possible[row_action], count[asked], 0)
    if found.size and found.min() == found.max() == 1:
        return np.arange(len(found)), held[start[asked]]
    row, within = ragged(found)
    down = _of_ops(_DOWN)[op][row_action[row]]
    within = np.where(down, within, found[row] - 1 - within)
    return row, held[start[asked[row]] + within]


def _count(work: Lowering, action: IntArray, piece: IntArray) -> IntArray:
    """Return how many microbatches of an action each piece works on: those whose turn it is, or all; none if
    it works on no samples, or the action is an update, which names samples of all pieces.
    """
    op, _, first, count, _, _ = work.actions.columns
    pieces = work.pieces
    found = count[action]
    turns = pieces.turns[piece]
    if turns.max(initial=1) > 1:
        below = first[action] - 1 - pieces.replica[piece]
        found = np.where(turns > 1, (below + found) // turns - below // turns, found)
    return np.where((op[action] == _UPDATE) | (pieces.samples[piece] == 0), 0, found)


def _mark_named(work: Lowering, row_action: IntArray, row_lane: IntArray, kept: IntArray) -> None:
    """Note the actions beside the lanes' own, each with the number of tasks before it on its lane."""
    beside = np.flatnonzero(_of_ops(_MARKS)[work.actions.columns[0]][row_action])
    for row in beside.tolist():
        lane = int(row_lane[row])
        before = np.searchsorted(kept, row) - np.searchsorted(kept, np.searchsorted(row_lane, lane))
        work.marks[lane].append((int(before), work.actions[int(row_action[row])]))


def _distinct(
    work: Lowering, piece: IntArray, action: IntArray, row_action: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the task of every (piece, action), and where each task first appears."""
    if not work.pieces.shared and len(row_action) == len(work.actions):
        everything = np.arange(len(piece))  # no action is met twice by a piece
        return everything, everything
    return numbered(piece * max(1, len(work.actions)) + action, len(work.pieces.all) * len(work.actions))


def _microbatches(
    work: Lowering, action: IntArray, piece: IntArray, works_on: IntArray
) -> tuple[IntArray, IntArray]:
    """Return (task, microbatch) for all that each task works on."""
    first, turns = work.actions.columns[2][action], work.pieces.turns[piece]
    start = first + (work.pieces.replica[piece] - first) % turns if turns.max(initial=1) > 1 else first
    if works_on.size and works_on.min() == works_on.max() == 1:
        return np.arange(len(piece)), start
    task, within = ragged(works_on)
    return task, start[task] + within * turns[task]


def _parts(work: Lowering, action: IntArray, by_task: IntArray, microbatch: IntArray) -> IntArray:
    """Return, per task, whether it is a backward for which all is made again by actions before it."""
    part = np.full(len(action), WHOLE, dtype=np.int64)
    op = work.compute_op
    if not np.any(op == _RECOMPUTE):
        return part
    remade: set[tuple[int, int]] = set()
    ends = np.searchsorted(by_task, np.arange(len(action) + 1)).tolist()
    backward = (OP_CODE[BACKWARD], OP_CODE[INPUT_GRAD])
    for task, (code, piece) in enumerate(zip(op.tolist(), work.compute_piece.tolist(), strict=True)):
        own = {(piece, n) for n in microbatch[ends[task] : ends[task + 1]].tolist()}
        if code == _RECOMPUTE:
            remade |= own
        elif code in backward and own <= remade and any(item[0] == piece for item in remade):
            part[task] = REMADE_BEFORE
    return part


def _slots(work: Lowering, piece: IntArray, works_on: IntArray, part: IntArray) -> IntArray:
    """Return the slots of compute tasks."""
    number, first = numbered(*packed([piece, work.compute_op, works_on, part]))
    made = []
    for task in first.tolist():
        own = work.pieces.all[piece[task]]
        op = _OF_CODE[int(work.compute_op[task])]
        samples = int(work.pieces.samples[piece[task]] * works_on[task])
        made.append(
            work.slot_id(Slot(OP_KIND[op], own.section, own, own, samples, op == RECOMPUTE, int(part[task])))
        )
    return np.array(made, dtype=np.int64)[number] if made else number


def _joined(work: Lowering, row_action: IntArray, row_lane: IntArray, row: IntArray) -> IntArray:
    """Return (2, pairs): the different forwards and backwards that OVERLAP joins on their lanes."""
    marks = np.flatnonzero((work.actions.columns[0] == OP_CODE[OVERLAP])[row_action])
    after = np.searchsorted(row, marks)
    inside = (after > 0) & (after < len(row))
    marks, after = marks[inside], after[inside]
    same = (row_lane[row[after - 1]] == row_lane[marks]) & (row_lane[row[after]] == row_lane[marks])
    forward, backward = work.program[after - 1][same], work.program[after][same]
    op = work.compute_op
    fits = (op[forward] == OP_CODE[FORWARD]) & (op[backward] == OP_CODE[BACKWARD])
    return np.unique(np.stack([forward[fits], backward[fits]]), axis=1)


def _overlapped(work: Lowering, slot: IntArray, pairs: IntArray) -> IntArray:
    """Return the slots with those of overlapped pairs: of equally many samples, nothing made again before."""
    if not pairs.size:
        return slot
    known = list(work.slots)
    number, first = numbered(*packed([slot[pairs[0]], slot[pairs[1]]]))
    made = np.array(
        [
            work.overlapped_slots(known[slot[forward]], known[slot[backward]])
            for forward, backward in pairs[:, first].T.tolist()
        ],
        dtype=np.int64,
    ).reshape(-1, 2)[number]
    fits = made[:, 0] >= 0
    work.overlaps = pairs[:, fits]
    slot = slot.copy()
    slot[work.overlaps] = made[fits].T
    return slot


def wait_together(work: Lowering) -> None:
    """Make overlapped pairs begin when both can, and whoever waits for their forwards wait for their ends."""
    if not work.overlaps.size:
        return
    forward, backward = work.overlaps
    after, before = work.edges
    first, last = np.full((2, work.size), -1, dtype=np.int64)
    first[backward], last[forward] = forward, backward
    begins = (first[after] >= 0) & (before != first[after])
    ends = (last[before] >= 0) & (after != last[before])
    work.wait(first[after[begins]], before[begins])
    work.wait(after[ends], last[before[ends]])


def _computed(work: Lowering, by_task: IntArray, microbatch: IntArray) -> Computed:
    """File the tasks by what they make."""
    longest = np.zeros(int(work.pieces.stage.max(initial=0)) + 1, dtype=np.int64)
    np.maximum.at(longest, work.pieces.stage[work.compute_piece[by_task]], microbatch + 1)
    span = longest[work.pieces.stage]
    sweep = work.actions.columns[5][work.action]
    sweeps = int(sweep.max(initial=0)) + 1
    op = work.compute_op[by_task]

    def made(*ops: str) -> MadeTasks:
        chosen = np.flatnonzero(_of_ops(ops)[op])
        task = by_task[chosen]
        found = MadeTasks(span, sweeps)
        found.record(work.compute_piece[task], sweep[task], microbatch[chosen], task)
        return found

    return Computed(made(FORWARD), made(BACKWARD, INPUT_GRAD), made(BACKWARD, WEIGHT_GRAD))


def _of_ops(ops: Iterable[str]) -> BoolArray:
    """Return, per number of an op, whether it is one of these."""
    found = np.zeros(len(ALL_OPS), dtype=bool)
    found[[OP_CODE[op] for op in ops]] = True
    return found
