"""Sequence of tasks: levels, the order of every lane, wire and group, and the check for cycles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from explorer.base.checkpoints import checkpoint
from explorer.base.compiling import kernel
from explorer.base.errors import DeadlockError
from explorer.tasks.indexing import BoolArray, IntArray, sorting
from explorer.tasks.program import REDUCE, TRANSFER, Slot
from explorer.tasks.work import Lowering


class Sequence(NamedTuple):
    """Everything that tasks wait for."""

    order: IntArray
    """Tasks in topological order."""
    previous: IntArray
    """Per task: the one before it on its lane, wire or group; -1 for none."""
    after: IntArray
    before: IntArray
    """Pairs (waiting task, task it waits for) of all else that the order of a lane does not imply."""
    lane: IntArray
    """Per task that runs on one lane alone: that lane; -1 for others."""
    place: IntArray
    """Per task on a lane: its place there."""
    level: IntArray
    """Per task: the longest path in tasks to it."""


def sequence(work: Lowering) -> Sequence:
    """Order the tasks.

    A lane runs in the order of its actions, a wire or group by (level, number): equal at all ends, and free
    of new cycles, because every edge goes up in (level, number).

    Raises:
        DeadlockError: a cycle in program order and dependencies.
    """
    lane, place = _lane_places(work)
    previous = np.full(work.size, -1, dtype=np.int64)
    one, other = work.neighbours
    alone = (lane[one] >= 0) & (lane[other] >= 0)
    if not alone.all():
        beside = ~alone & (one != other)
        work.wait(other[beside], one[beside])
        one, other = one[alone], other[alone]
    previous[other] = one
    after, before = work.edges
    implied = (lane[after] == lane[before]) & (previous[after] >= 0) & (place[before] < place[after])
    after, before = after[~implied], before[~implied]
    level = _levels(work, previous, after, before)
    checkpoint()
    _follow_on_channels(work, level, previous)
    checkpoint()
    order = sorting(level)  # at equal levels by number
    return Sequence(order, previous, after, before, lane, place, level)


def shared_tasks(work: Lowering) -> IntArray:
    """Return the tasks that several lanes compute together."""
    several = np.array([len(work.lanes.of_piece[piece]) > 1 for piece in work.pieces.all], dtype=bool)
    return np.flatnonzero(several[work.compute_piece] & (work.compute_piece >= 0))


def _lane_places(work: Lowering) -> tuple[IntArray, IntArray]:
    """Return, per task that runs on one lane alone, that lane and the place there; lane -1 for others."""
    lane = np.full(work.size, -1, dtype=np.int64)
    place = np.zeros(work.size, dtype=np.int64)
    lane[work.program] = work.program_lane
    place[work.program] = np.arange(len(work.program)) - work.program_start[work.program_lane]
    if work.pieces.shared:
        lane[shared_tasks(work)] = -1
    return lane, place


def _follow_on_channels(work: Lowering, level: IntArray, previous: IntArray) -> None:
    """Fill in the tasks before all others on wires and groups."""
    apart = np.array([name[0] != "lane" for name in work.channels], dtype=bool)[work.channel]
    task = np.flatnonzero(apart)
    channel = work.channel[task]
    order = sorting(channel * (int(level.max(initial=0)) + 1) + level[task])
    task, channel = task[order], channel[order]
    same = channel[1:] == channel[:-1]
    previous[task[1:][same]] = task[:-1][same]


def _levels(work: Lowering, previous: IntArray, after: IntArray, before: IntArray) -> IntArray:
    """Return the longest path in tasks to each task.

    Raises:
        DeadlockError: there is a cycle, which it names.
    """
    follows = np.flatnonzero(previous >= 0)
    following = np.full(work.size, -1, dtype=np.int64)
    following[previous[follows]] = follows
    missing = np.bincount(after, minlength=work.size) + (previous >= 0)
    ends = np.cumsum(np.bincount(before, minlength=work.size))
    ready = np.zeros(work.size, dtype=np.int64)
    level = np.zeros(work.size, dtype=np.int64)
    count = find_levels(after[sorting(before)], ends, following, missing, ready, level)
    if count < work.size:
        stuck = missing > 0
        raise DeadlockError(
            _cycle(work, stuck, np.append(after, follows), np.append(before, previous[follows]))
        )
    return level


@kernel(results=3, rounds=lambda _after, _ends, following, *_: 3 * len(following))
def find_levels(
    after: IntArray,
    ends: IntArray,
    following: IntArray,
    missing: IntArray,
    ready: IntArray,
    level: IntArray,
) -> int:
    """Find the longest path in tasks to each task (Kahn, 1962); return how many can ever run.

    Args:
        after: tasks that wait for task 0, then those that wait for task 1, and so on.
        ends: per task: the end of those that wait for it.
        following: per task: one more that waits for it; -1 for none.
        missing: per task: what it waits for; above 0 at the end if it is on a cycle, or behind one.
        ready: room for the tasks in an order in which they can run.
        level: zeros, for the result.
    """
    count = 0
    for task in range(len(missing)):
        if missing[task] == 0:
            ready[count] = task
            count += 1
    done = 0
    while done < count:
        task = ready[done]
        done += 1
        above = level[task] + 1
        waiting = following[task]
        if waiting >= 0:
            if level[waiting] < above:
                level[waiting] = above
            missing[waiting] -= 1
            if missing[waiting] == 0:
                ready[count] = waiting
                count += 1
        for edge in range(ends[task - 1] if task else 0, ends[task]):
            waiting = after[edge]
            if level[waiting] < above:
                level[waiting] = above
            missing[waiting] -= 1
            if missing[waiting] == 0:
                ready[count] = waiting
                count += 1
    return count


def _cycle(work: Lowering, stuck: BoolArray, after: IntArray, before: IntArray) -> list[str]:
    """Name the tasks on one cycle, in the order in which they wait."""
    waits = stuck[before]
    blocked_by = dict(zip(after[waits][::-1].tolist(), before[waits][::-1].tolist(), strict=True))
    task = int(np.flatnonzero(stuck)[0])
    path: dict[int, None] = {}
    while task not in path:
        path[task] = None
        task = blocked_by[task]
    found = list(path)
    slots = list(work.slots)
    return [_name(work, slots, item) for item in found[found.index(task) :][::-1]]


def _name(work: Lowering, slots: list[Slot], task: int) -> str:
    slot, action = slots[int(work.slot[task])], work.text(task)
    if slot.kind == TRANSFER:
        return f"transfer of {action} to stage {work.sections[slot.peer.section].stage}"
    if slot.kind == REDUCE:
        return f"reduction before {action}"
    lane = work.lanes.of_piece[slot.piece][0]
    return f"{action} on device {work.lanes.devices[lane][0]}"
