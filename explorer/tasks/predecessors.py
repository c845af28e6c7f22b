"""Predecessors: of all that a task waits for, what nothing else implies; at most two, by joins."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.tasks.indexing import IntArray, ragged
from explorer.tasks.sequence import Sequence


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


def find_predecessors(found: Sequence) -> Predecessors:
    """Give every task at most two predecessors, by joins before it; tasks on lanes follow the others."""
    tasks = len(found.previous)
    count = np.bincount(found.after, minlength=tasks)
    one, other = _pairs(found)
    joins = np.zeros(tasks, dtype=np.int64)
    many = (count > 1)[found.after]
    several = bool(many.any())
    if several:
        after, before = _settle(found, np.flatnonzero(many), count)
        needed = np.bincount(after, minlength=tasks)
        joins = np.maximum(needed - 2, 0)
    at = np.empty(tasks, dtype=np.int64)
    at[found.order] = np.cumsum(1 + joins[found.order]) - 1 if several else np.arange(tasks)
    value = np.append(at + 1, 0)  # what is not there is number -1
    size = tasks + int(joins.sum())
    first, second = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
    first[at], second[at] = value[one], value[other]
    if not several:
        return Predecessors(first, second, at, joins[:0], joins[:0])
    # the k-th join of a task waits for the one before it and predecessor k + 1; the task for the last join
    rank = ragged(needed[needed > 0])[1]
    place = at[after] - joins[after] + np.maximum(rank - 1, 0)
    opens = rank == 0
    first[at[after]] = second[at[after]] = 0
    first[place[opens]], second[place[~opens]] = value[before[opens]], value[before[~opens]]
    joined = found.order[joins[found.order] > 0]
    row, within = ragged(joins[joined])
    of = joined[row]
    made = at[of] - joins[of] + within
    first[made + 1] = made + 1
    return Predecessors(first, second, at, made, of)


def _pairs(found: Sequence) -> tuple[IntArray, IntArray]:
    """Return the two predecessors of every task that waits for at most one thing besides the one before it;
    -1 for none.
    """
    one, other = np.full_like(found.previous, -1), found.previous.copy()
    one[found.after] = found.before
    other[one == other] = -1
    swap = np.flatnonzero((one < 0) | ((found.lane[one] >= 0) & (other >= 0) & (found.lane[other] < 0)))
    one[swap], other[swap] = other[swap], one[swap]
    return one, other


def _settle(found: Sequence, edges: IntArray, count: IntArray) -> tuple[IntArray, IntArray]:
    """Return all edges of tasks with several: each once, of each lane the latest, in order of appearance."""
    tasks = np.flatnonzero((count > 1) & (found.previous >= 0))
    after = np.concatenate([found.after[edges], tasks])
    before = np.concatenate([found.before[edges], found.previous[tasks]])
    on = found.lane[before]
    # of equal (task, lane) the latest comes first, of equal (task, task) on no lane the first added
    group = np.where(on >= 0, on, len(found.lane) + before)
    order = np.lexsort((-found.place[before], group, after))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(after[order]) != 0) | (np.diff(group[order]) != 0)
    start = np.flatnonzero(new)
    latest, added = order[start], np.minimum.reduceat(order, start)
    again = np.lexsort((added, on[latest] >= 0, after[latest]))
    return after[latest[again]], before[latest[again]]
