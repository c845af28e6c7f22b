"""The last phase of lowering: tasks as arrays in topological order."""

from __future__ import annotations

import numpy as np

from explorer.actions import Actions
from explorer.base.checkpoints import checkpoint
from explorer.reads import reading_of
from explorer.tasks.indexing import IntArray, numbered
from explorer.tasks.memory_events import memory_events
from explorer.tasks.offloads import ActivationMove
from explorer.tasks.predecessors import Predecessors
from explorer.tasks.program import JOIN, TRANSFER, Program
from explorer.tasks.runs import Runs
from explorer.tasks.sequence import Sequence, shared_tasks
from explorer.tasks.versions import versions_of
from explorer.tasks.work import Lowering


def assemble(
    work: Lowering, runs: Runs, moved: list[ActivationMove], sequenced: Sequence, found: Predecessors
) -> Program:
    """Turn finished columns into a program.

    Raises:
        PlanError: a read of a weight version that no earlier U made.
    """
    slots = tuple(work.slots)
    lanes = work.lanes.of_piece
    shared = shared_tasks(work).tolist() if work.pieces.shared else []
    versions, delay = versions_of(work)
    reading = reading_of(work.order.read_rule)

    def column(values: IntArray, joins: IntArray | int) -> IntArray:
        """Return the values of all tasks in order, with the values `joins` for joins."""
        if not len(found.joins):
            return values[sequenced.order]
        full = np.empty(len(found.first), dtype=np.int64)
        full[found.at] = values
        full[found.joins] = joins
        return full

    slot = column(work.slot, 0)
    kind = np.array([JOIN, *(item.kind for item in slots[1:])], dtype=np.int8)
    lane = np.array([-1, *(lanes[item.piece][0] for item in slots[1:])])
    peer = np.array([lanes[item.peer][0] if item.kind == TRANSFER else -1 for item in slots])
    number = column(work.action, -1)
    computes = np.flatnonzero(kind[slot] < TRANSFER)
    action = np.full(len(slot), -1, dtype=np.int64)
    action[computes], first = numbered(number[computes], len(work.actions))
    microbatch = np.append(work.actions.columns[2], -1)[number]
    checkpoint()
    channel = np.append(numbered(work.channel[sequenced.order], len(work.channels))[0], -1)
    if len(found.joins):
        place = np.full(len(slot), -1, dtype=np.int64)
        place[found.at[sequenced.order]] = np.arange(work.size)
        channel = channel[place]
    checkpoint()
    return Program(
        skeleton=work.skeleton,
        shape=work.shape,
        order=work.order,
        lane_devices=work.lanes.devices,
        slots=slots,
        kind=kind[slot],
        first=found.first,
        second=found.second,
        actions=Actions(work.actions.columns[:, number[computes[first]]]),
        other_lanes={
            int(found.at[task]): lanes[work.pieces.all[work.compute_piece[task]]] for task in shared
        },
        programs=tuple(np.split(found.at[work.program], work.program_start[1:-1])),
        memory=memory_events(work, slots, found.at, moved),
        versions=versions,
        delay=delay,
        copies=tuple(reading.copies(section.stage) for section in work.sections),
        whole_over_runs=runs.whole,
        gathered_together=runs.together,
        slot=slot,
        lane=lane[slot],
        peer=peer[slot],
        step=column(work.step, work.step[found.of]),
        action=action,
        microbatch=microbatch,
        channel=channel[: len(slot)],
    )
