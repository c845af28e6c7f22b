"""Sequence of tasks: levels, the order of every wire and group, and the check for cycles."""

from __future__ import annotations

import numpy as np

from explorer.base.compiling import kernel
from explorer.base.errors import DeadlockError
from explorer.tasks.indexing import BoolArray, IntArray, sorting
from explorer.tasks.program import REDUCE, TRANSFER, Slot
from explorer.tasks.work import Lowering


def add_sequence(work: Lowering) -> IntArray:
    """Add the edges of lanes, wires and groups; return the level of every task.

    A lane runs in the order of its actions, a wire or group by (level, number): equal at all ends, and free
    of new cycles, because every edge goes up in (level, number).

    Raises:
        DeadlockError: a cycle in program order and dependencies.
    """
    one, other = work.neighbours
    apart = one != other
    work.wait(other[apart], one[apart])
    level = levels(work)
    alone = np.array([name[0] != "lane" for name in work.channels])[work.channel]
    task = np.flatnonzero(alone)
    channel = work.channel[task]
    order = sorting(channel * (int(level.max(initial=0)) + 1) + level[task])
    task, channel = task[order], channel[order]
    same = channel[1:] == channel[:-1]
    work.wait(task[1:][same], task[:-1][same])
    return level


def levels(work: Lowering) -> IntArray:
    """Return the longest path in tasks to each task.

    Raises:
        DeadlockError: there is a cycle, which it names.
    """
    after, before = work.edges
    missing = np.bincount(after, minlength=work.size)
    order = sorting(before)
    ends = np.cumsum(np.bincount(before, minlength=work.size))
    ready = np.zeros(work.size, dtype=np.int64)
    level = np.zeros(work.size, dtype=np.int64)
    count = find_levels(after[order], ends, missing, ready, level)
    if count < work.size:
        raise DeadlockError(_cycle(work, missing > 0))
    return level


def _cycle(work: Lowering, stuck: BoolArray) -> list[str]:
    """Name the tasks on one cycle, in the order in which they wait."""
    after, before = work.edges
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


@kernel(results=3)
def find_levels(after: IntArray, ends: IntArray, missing: IntArray, ready: IntArray, level: IntArray) -> int:
    """Find the longest path in tasks to each task (Kahn, 1962); return how many can ever run.

    Args:
        after: tasks that wait for task 0, then those that wait for task 1, and so on.
        ends: per task: the end of those that wait for it.
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
        for edge in range(ends[task - 1] if task else 0, ends[task]):
            waiting = after[edge]
            if level[waiting] < above:
                level[waiting] = above
            missing[waiting] -= 1
            if missing[waiting] == 0:
                ready[count] = waiting
                count += 1
    return count
