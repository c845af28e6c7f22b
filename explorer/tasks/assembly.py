"""The last phase of lowering: tasks as arrays in topological order."""

from __future__ import annotations

import numpy as np

from explorer.actions import Actions
from explorer.reads import reading_of
from explorer.tasks.indexing import IntArray, numbered, sorting
from explorer.tasks.memory_events import memory_events
from explorer.tasks.offloads import ActivationMove
from explorer.tasks.predecessors import find_predecessors, shared_tasks
from explorer.tasks.program import JOIN, TRANSFER, Program
from explorer.tasks.runs import Runs
from explorer.tasks.sequence import add_sequence
from explorer.tasks.versions import versions_of
from explorer.tasks.work import Lowering


def assemble(work: Lowering, runs: Runs, moved: list[ActivationMove]) -> Program:
    """Turn finished columns into a program.

    Raises:
        DeadlockError: a cycle in program order and dependencies.
        PlanError: a read of a weight version that no earlier U made.
    """
    order = sorting(add_sequence(work))  # at equal levels by number
    found = find_predecessors(work, order)
    slots = tuple(work.slots)
    lanes = work.lanes.of_piece
    lane = np.array([0, *(lanes[item.piece][0] for item in slots[1:])])
    peer = np.array([lanes[item.peer][0] if item.kind == TRANSFER else -1 for item in slots])
    kind = np.array([item.kind for item in slots])[work.slot]
    computes = order[kind[order] < TRANSFER]
    number, first = numbered(work.action[computes], len(work.actions))
    action = np.full(work.size, -1, dtype=np.int64)
    action[computes] = number
    channel = np.empty(work.size, dtype=np.int64)
    channel[order] = numbered(work.channel[order], len(work.channels))[0]
    shared = shared_tasks(work).tolist() if work.pieces.shared else []
    versions, delay = versions_of(work)
    reading = reading_of(work.order.read_rule)

    def column(values: IntArray, joins: int | IntArray = -1) -> IntArray:
        """Return the values of all tasks as an array, with the value `joins` for joins."""
        full = np.empty(len(found.first), dtype=np.int64)
        full[found.at] = values
        full[found.joins] = joins
        return full

    return Program(
        skeleton=work.skeleton,
        shape=work.shape,
        order=work.order,
        lane_devices=work.lanes.devices,
        slots=slots,
        kind=column(kind, JOIN).astype(np.int8),
        first=found.first,
        second=found.second,
        actions=Actions(work.actions.columns[:, work.action[computes[first]]]),
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
        slot=column(work.slot, 0),
        lane=column(lane[work.slot]),
        peer=column(peer[work.slot]),
        step=column(work.step, work.step[found.of]),
        action=column(action),
        microbatch=column(work.actions.columns[2][work.action]),
        channel=column(channel),
    )
