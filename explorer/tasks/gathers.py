"""Gathers of ZeRO: levels 1 and 2 gather updated weights after U, level 3 before every forward and backward.

A gather of level 3 *opens* with the first block of its section, before the work on it, and *closes* during
that work with the other K - 1, before anything that follows the work. How long gathered weights stay is
decided in `explorer.tasks.runs`: if they stay over a run, only its first action gathers.
"""

from __future__ import annotations

import numpy as np

from explorer.actions import BACKWARD, FORWARD, INPUT_GRAD, OP_CODE, RECOMPUTE, UPDATE
from explorer.tasks.indexing import BoolArray, IntArray, numbered, packed, ragged, sorting
from explorer.tasks.program import CLOSING, GATHER, OPENING, WHOLE, Slot
from explorer.tasks.runs import Runs
from explorer.tasks.work import Lowering

_READERS = [OP_CODE[op] for op in (FORWARD, BACKWARD, INPUT_GRAD, RECOMPUTE)]
"""Ops that read weights."""
_UPDATE, _FORWARD = OP_CODE[UPDATE], OP_CODE[FORWARD]


def add_gathers(work: Lowering, runs: Runs) -> None:
    """Add the gathers of all lanes, in the order of their programs."""
    level = np.array([s.zero if s.shards > 1 else 0 for s in work.sections], dtype=np.int64)
    if not level.any():
        return
    zero = level[work.pieces.section[work.compute_piece[work.program]]]
    op = work.compute_op[work.program]
    after = np.isin(zero, (1, 2)) & (op == _UPDATE)
    before = _gathering(work, runs, (zero == 3) & np.isin(op, _READERS))
    row, within = ragged(after + 2 * before.astype(np.int64))
    if not len(row):
        return
    part = np.where(after[row], WHOLE, np.where(within > 0, CLOSING, OPENING))
    gather = _add(work, work.program[row], part)
    place = np.full(len(work.program), -1, dtype=np.int64)
    place[row[within == 0]] = gather[within == 0]
    rest = np.full(work.size, -1, dtype=np.int64)
    rest[work.program[before]] = place[before] + 1
    work.wait(gather[part == WHOLE], work.program[row[part == WHOLE]])
    _wait_for_updated(work, zero, after, place)
    if before.any():
        _open(work, runs, np.flatnonzero(before), place, rest)
        _wait_for_rest(work, rest)


def _gathering(work: Lowering, runs: Runs, reads: BoolArray) -> BoolArray:
    """Return, per place in the lanes' programs, whether weights are gathered before it.

    A task gathers where its first lane comes to it. If weights stay over runs, the first task of a run does;
    on the j-th lane of several that compute it together, the j-th.
    """
    row = np.flatnonzero(reads)
    task, lane = work.program[row], work.program_lane[row]
    gathers = np.zeros(len(reads), dtype=bool)
    over_run = np.array(runs.gathers)[work.pieces.section[work.compute_piece[task]]]
    _, first = numbered(task, len(work.compute_op))
    gathers[row[first]] = True
    if not over_run.any():
        return gathers
    gathers[row[over_run]] = False
    row, task, lane = row[over_run], task[over_run], lane[over_run]
    piece = work.compute_piece[task]
    number, _ = numbered(*packed([lane, piece, runs.weights[task]]))
    order = sorting(number)
    rank = np.empty(len(row), dtype=np.int64)
    rank[order] = ragged(np.bincount(number))[1]
    if work.pieces.shared:
        lanes = [work.lanes.of_piece[item] for item in work.pieces.all]
        pairs = zip(piece.tolist(), lane.tolist(), strict=True)
        rank -= np.array([lanes[p].index(at) for p, at in pairs], dtype=np.int64)
    gathers[row[rank == 0]] = True
    return gathers


def _add(work: Lowering, task: IntArray, part: IntArray) -> IntArray:
    """Add gathers for some tasks; return their numbers."""
    piece = work.compute_piece[task]
    number, first = numbered(*packed([piece, part]))
    slots, channels = [], []
    for p, kind in zip(piece[first].tolist(), part[first].tolist(), strict=True):
        own = work.pieces.all[p]
        slots.append(work.slot_id(Slot(GATHER, own.section, own, own, 0, part=kind)))
        channels.append(work.channel_id("gather", int(work.pieces.lane[p])))
    slot, channel = np.array(slots, dtype=np.int64), np.array(channels, dtype=np.int64)
    return work.add(slot[number], channel[number], work.action[task], work.step[task])


def _wait_for_updated(work: Lowering, zero: IntArray, after: BoolArray, place: IntArray) -> None:
    """Make the first forward after an update wait for the updated weights."""
    op = work.compute_op[work.program]
    row = np.flatnonzero(np.isin(zero, (1, 2)) & (after | (op == _FORWARD)))
    key = work.program_lane[row] * len(work.pieces.all) + work.compute_piece[work.program[row]]
    row = row[np.argsort(key, kind="stable")]
    key = np.sort(key)
    pair = np.flatnonzero((key[1:] == key[:-1]) & after[row[:-1]] & ~after[row[1:]])
    work.wait(work.program[row[pair + 1]], place[row[pair]])


def _open(work: Lowering, runs: Runs, row: IntArray, place: IntArray, rest: IntArray) -> None:
    """Make tasks wait for their first blocks, and those for what is before them.

    A gather starts with the previous task of the lane, but not before weights are updated; blocks come in
    the order in which they are worked on.
    """
    task, first = work.program[row], place[row]
    work.wait(task, first)
    work.wait(first + 1, first)
    within = row - work.program_start[work.program_lane[row]]
    updated = work.compute_op[work.program[row - 1]] == _UPDATE
    back = np.where(updated, 1, 2)
    waits = within >= back
    if runs.begins:
        begin = [runs.begins.get(run) for run in runs.weights[task].tolist()]
        waits &= np.array([item is None for item in begin])
        named = [(f, item) for f, found in zip(first.tolist(), begin, strict=True) for item in found or ()]
        pairs = np.array(named, dtype=np.int64).reshape(-1, 2)
        work.wait(pairs[:, 0], pairs[:, 1])
    work.wait(first[waits], work.program[row - back][waits])
    before = rest[work.program[row - 1]]
    waits = (within >= 1) & (before >= 0) & (before < first)
    work.wait(first[waits], before[waits])


def _wait_for_rest(work: Lowering, rest: IntArray) -> None:
    """Make whatever waits for a task also wait for the blocks that are gathered during it."""
    after, before = work.edges
    has = rest[before] >= 0
    work.wait(after[has], rest[before[has]])
    earlier, later = work.neighbours
    has = (rest[earlier] >= 0) & (earlier != later)
    work.wait(later[has], rest[earlier[has]])
