"""Predecessors: of all that a task waits for, what nothing else implies; at most two, by joins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.tasks.indexing import BoolArray, IntArray, ragged, sorting
from explorer.tasks.work import Lowering


class Predecessors(NamedTuple):
    """Tasks and joins in topological order, with at most two predecessors each (as index + 1, or 0)."""

    first: IntArray
    second: IntArray
    at: IntArray
    """Per task of the lowering: its place in the program."""
    joins: IntArray
    """Places of the joins."""
    of: IntArray
    """Per join: the task for which it joins."""


def find_predecessors(work: Lowering, order: IntArray) -> Predecessors:
    """Give every task at most two predecessors, by joins before it.

    Args:
        work: finished lowering, with all edges.
        order: its tasks in topological order.
    """
    after, before = _needed(work)
    count = np.bincount(after, minlength=work.size)
    rank = ragged(count)[1]
    joins = np.maximum(count - 2, 0)
    at = np.empty(work.size, dtype=np.int64)
    at[order] = np.cumsum(1 + joins[order]) - 1
    size = work.size + int(joins.sum())
    first, second = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    value = at[before] + 1
    # the k-th join of a task waits for the one before it and predecessor k + 1; the task for the last join
    place = at[after] - joins[after] + np.maximum(rank - 1, 0)
    opens = rank == 0
    first[place[opens]] = value[opens]
    second[place[~opens]] = value[~opens]
    of, within = ragged(joins[order])
    of = order[of]
    made = at[of] - joins[of] + within
    first[made + 1] = made + 1
    return Predecessors(first, second, at, made, of)


def _needed(work: Lowering) -> tuple[IntArray, IntArray]:
    """Return the edges (waiting task, task it waits for), by waiting task, without equal ones and without
    those that the order of a lane implies; tasks on lanes follow the others.
    """
    lane, place, alone = _lane_places(work)
    after, before = work.edges
    # the task before it on the lane implies all earlier ones there
    implied = (lane[after] == lane[before]) & alone[after] & (place[before] < place[after] - 1)
    after, before = after[~implied], before[~implied]
    order = sorting(after)
    after, before = after[order], before[order]
    count = np.bincount(after, minlength=work.size)
    start = np.cumsum(count) - count
    kept = np.ones(len(after), dtype=bool)
    _settle_pairs(before, kept, start[count == 2], lane, place)
    many = np.flatnonzero((count > 2)[after])
    if len(many):
        tasks, found = _settle(after[many], before[many], lane, place)
        kept[many] = False
        at = start[tasks] + ragged(np.bincount(tasks, minlength=work.size))[1]
        before[at] = found
        kept[at] = True
    return after[kept], before[kept]


def _lane_places(work: Lowering) -> tuple[IntArray, IntArray, BoolArray]:
    """Return, per task that runs on one lane alone, that lane and the position there, lane -1 for others; and
    whether it is one of them that follows another.
    """
    lane = np.full(work.size, -1, dtype=np.int64)
    place = np.zeros(work.size, dtype=np.int64)
    alone = np.zeros(work.size, dtype=bool)
    lane[work.program] = work.program_lane
    place[work.program] = np.arange(len(work.program)) - work.program_start[work.program_lane]
    if work.pieces.shared:
        lane[shared_tasks(work)] = -1
    one, other = work.neighbours
    alone[other] = (lane[one] >= 0) & (lane[other] >= 0)
    return lane, place, alone


def shared_tasks(work: Lowering) -> IntArray:
    """Return the tasks that several lanes compute together."""
    several = np.array([len(work.lanes.of_piece[piece]) > 1 for piece in work.pieces.all], dtype=bool)
    return np.flatnonzero(several[work.compute_piece] & (work.compute_piece >= 0))


def _settle_pairs(before: IntArray, kept: BoolArray, pair: IntArray, lane: IntArray, place: IntArray) -> None:
    """Keep the later one of two on a lane, and put what is on no lane first."""
    one, other = before[pair], before[pair + 1]
    same = (one == other) | ((lane[one] == lane[other]) & (lane[one] >= 0))
    swap = np.where(same, place[other] > place[one], (lane[one] >= 0) & (lane[other] < 0))
    before[pair], before[pair + 1] = np.where(swap, other, one), np.where(swap, one, other)
    kept[pair[same] + 1] = False


def _settle(after: IntArray, before: IntArray, lane: IntArray, place: IntArray) -> tuple[IntArray, IntArray]:
    """Return the edges of tasks with many: each once, the latest of each lane, in order of appearance."""
    on = lane[before]
    # of equal (task, lane) the latest comes first, of equal (task, task) on no lane the first added
    group = np.where(on >= 0, on, len(lane) + before)
    order = np.lexsort((-place[before], group, after))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(after[order]) != 0) | (np.diff(group[order]) != 0)
    start = np.flatnonzero(new)
    latest, added = order[start], np.minimum.reduceat(order, start)
    again = np.lexsort((added, on[latest] >= 0, after[latest]))
    return after[latest[again]], before[latest[again]]
