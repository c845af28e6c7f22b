"""The last phases of lowering: sequences on wires and groups, cycle check, arrays in topological order."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from explorer.base.errors import DeadlockError
from explorer.reads import reading_of
from explorer.tasks.program import JOIN, REDUCE, TRANSFER, Program
from tests.support.plain_lowering.memory_events import memory_events
from tests.support.plain_lowering.offloads import ActivationMove
from tests.support.plain_lowering.runs import Runs
from tests.support.plain_lowering.versions import versions_of
from tests.support.plain_lowering.work import Lowering

IntArray = npt.NDArray[np.int64]
T = TypeVar("T")


def assemble(work: Lowering, runs: Runs, moved: list[ActivationMove]) -> Program:
    """Turn finished lists into a program.

    Raises:
        DeadlockError: a cycle in program order and dependencies.
        PlanError: a read of a weight version that no earlier U made.
    """
    preds = _with_program_order(work)
    level = _levels(work, preds)
    _sequence_channels(work, preds, level)
    ids = sorted(range(len(preds)), key=level.__getitem__)  # stable: at equal levels by id
    return _arrays(work, preds, ids, runs, moved)


def _with_program_order(work: Lowering) -> list[list[int]]:
    preds = work.preds
    for program in work.programs:
        for before, after in itertools.pairwise(program):
            if before != after:
                preds[after].append(before)
    return preds


def _levels(work: Lowering, preds: list[list[int]]) -> list[int]:
    """Return the longest path in tasks to each task (Kahn); name a cycle if there is one."""
    successors: list[list[int]] = [[] for _ in preds]
    for task, before in enumerate(preds):
        for item in before:
            successors[item].append(task)
    missing = [len(before) for before in preds]
    level = [0] * len(preds)
    ready = [task for task, count in enumerate(missing) if not count]
    for task in ready:  # grows as it is read
        above = level[task] + 1
        for after in successors[task]:
            if level[after] < above:
                level[after] = above
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    if len(ready) < len(preds):
        raise DeadlockError(_cycle(work, preds, missing))
    return level


def _cycle(work: Lowering, preds: list[list[int]], missing: list[int]) -> list[str]:
    """Name the tasks on one cycle, in the order in which they wait."""
    task = next(i for i, count in enumerate(missing) if count)
    path: list[int] = []
    while task not in path:
        path.append(task)
        task = next(item for item in preds[task] if missing[item])
    cycle = path[path.index(task) :][::-1]
    return [_name(work, item) for item in cycle]


def _name(work: Lowering, task: int) -> str:
    slot, action = list(work.slots)[work.slot[task]], work.action[task]
    if slot.kind == TRANSFER:
        target = work.sections[slot.peer.section].stage
        return f"transfer of {action} to stage {target}"
    if slot.kind == REDUCE:
        return f"reduction before {action}"
    lane = work.lanes.of_piece[slot.piece][0]
    return f"{action} on device {work.lanes.devices[lane][0]}"


def _sequence_channels(work: Lowering, preds: list[list[int]], level: list[int]) -> None:
    """Sequence every wire and group by (level, id): equal at all ends, and free of new cycles."""
    apart = [name[0] != "lane" for name in work.channels]
    members: dict[int, list[int]] = defaultdict(list)
    for task, channel in enumerate(work.channel):
        if apart[channel]:
            members[channel].append(task)
    for tasks in members.values():
        tasks.sort(key=level.__getitem__)  # stable: at equal levels by id
        for before, after in itertools.pairwise(tasks):
            preds[after].append(before)


def _arrays(
    work: Lowering, preds: list[list[int]], ids: list[int], runs: Runs, moved: list[ActivationMove]
) -> Program:
    joined = _join(work, preds, ids)
    order = np.array(ids, dtype=np.int64)
    index = np.empty(len(ids), dtype=np.int64)
    index[order] = joined.at
    slots = tuple(work.slots)
    lanes = work.lanes.of_piece
    slot = np.array(work.slot, dtype=np.int64)[order]
    kind = np.array([item.kind for item in slots])[slot]
    lane = np.array([0, *(lanes[item.piece][0] for item in slots[1:])])
    peer = np.array([lanes[item.peer][0] if item.kind == TRANSFER else -1 for item in slots])
    actions, number = _numbered([work.action[task] for task in order[kind < TRANSFER].tolist()])
    action = np.full(len(ids), -1, dtype=np.int64)
    action[kind < TRANSFER] = number
    _, channel = _numbered([work.channel[task] for task in ids])
    step = np.array(work.step, dtype=np.int64)[order]
    versions, delay = versions_of(work)
    reading = reading_of(work.order.read_rule)

    def column(values: IntArray, joins: int | IntArray = -1) -> IntArray:
        """Return the values of all tasks as an array, with the value `joins` for joins."""
        full = np.empty(len(joined.first), dtype=np.int64)
        full[joined.at] = values
        full[joined.joins] = joins
        return full

    return Program(
        skeleton=work.skeleton,
        shape=work.shape,
        order=work.order,
        lane_devices=work.lanes.devices,
        slots=slots,
        kind=column(kind, JOIN).astype(np.int8),
        first=np.array(joined.first, dtype=np.int64),
        second=np.array(joined.second, dtype=np.int64),
        actions=tuple(actions),
        other_lanes={int(index[task]): found for task, found in work.shared_lanes.items()},
        programs=tuple(index[np.array(program, dtype=np.int64)] for program in work.programs),
        memory=memory_events(work, slots, index, moved),
        versions=versions,
        delay=delay,
        copies=tuple(reading.copies(section.stage) for section in work.sections),
        whole_over_runs=runs.whole,
        gathered_together=runs.together,
        slot=column(slot, 0),
        lane=column(lane[slot]),
        peer=column(peer[slot]),
        step=column(step, step[joined.before]),
        action=column(action),
        microbatch=column(np.array([work.action[task].first_microbatch for task in ids], dtype=np.int64)),
        channel=column(np.array(channel, dtype=np.int64)),
    )


class _Joined(NamedTuple):
    """Tasks and joins in topological order, with at most two predecessors each (as index + 1, or 0)."""

    first: list[int]
    second: list[int]
    at: IntArray
    """New position of each task."""
    joins: IntArray
    """Positions of the joins."""
    before: IntArray
    """Per join: position in the order of the task for which it joins."""


def _join(work: Lowering, preds: list[list[int]], ids: list[int]) -> _Joined:
    """Give every task at most two predecessors, by joins before it."""
    lane, place = _lane_positions(work)
    position = [0] * len(ids)
    first: list[int] = []
    second: list[int] = []
    joins: list[tuple[int, int]] = []
    for number, task in enumerate(ids):
        before = [position[item] for item in _needed(preds[task], lane, place)]
        while len(before) > 2:
            joins.append((len(first), number))
            first.append(before[0])
            second.append(before[1])
            before = [len(first), *before[2:]]
        first.append(before[0] if before else 0)
        second.append(before[1] if len(before) > 1 else 0)
        position[task] = len(first)
    table = np.array(joins, dtype=np.int64).reshape(-1, 2)
    at = np.array([position[task] - 1 for task in ids], dtype=np.int64)
    return _Joined(first, second, at, table[:, 0], table[:, 1])


def _numbered(values: Iterable[T]) -> tuple[dict[T, int], list[int]]:
    """Assign numbers to values by first appearance; return each value's number, and the values as numbers."""
    numbers: dict[T, int] = {}
    return numbers, [numbers.setdefault(value, len(numbers)) for value in values]


def _lane_positions(work: Lowering) -> tuple[list[int], list[int]]:
    """Return, per task that runs on one lane alone, that lane and the position there; lane -1 for the
    others.
    """
    lane, place = [-1] * len(work.slot), [0] * len(work.slot)
    for number, program in enumerate(work.programs):
        for position, task in enumerate(program):
            lane[task], place[task] = number, position
    for task in work.shared_lanes:
        lane[task] = -1
    return lane, place


def _needed(before: list[int], lane: list[int], place: list[int]) -> list[int]:
    """Return the predecessors without those that the order of one lane implies; those on lanes follow the
    others.
    """
    if len(before) <= 1:
        return before
    latest: dict[int, int] = {}
    kept: list[int] = []
    for item in dict.fromkeys(before):
        on = lane[item]
        if on < 0:
            kept.append(item)
        elif on not in latest or place[latest[on]] < place[item]:
            latest[on] = item
    kept.extend(latest.values())
    return kept
