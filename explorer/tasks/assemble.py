"""The last phases of lowering: sequences on wires and groups, cycle check, arrays in topological order."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque

import numpy as np
import numpy.typing as npt

from explorer.actions import Action, ReadRule
from explorer.errors import DeadlockError
from explorer.tasks.lower import Lowering
from explorer.tasks.placement import Piece
from explorer.tasks.program import JOIN, REDUCE, TRANSFER, MemoryEvents, Program, Slot
from explorer.tasks.program import B as KIND_B
from explorer.tasks.program import F as KIND_F
from explorer.tasks.program import I as KIND_I
from explorer.tasks.program import W as KIND_W
from explorer.tasks.versions import count_versions

IntArray = npt.NDArray[np.int64]


def assemble(work: Lowering) -> Program:
    """Turn finished lists into a program.

    Raises:
        DeadlockError: a cycle in program order and dependencies.
        PlanError: a read of a weight version that no earlier U made.
    """
    preds = _with_program_order(work)
    level = _levels(work, preds)
    _sequence_channels(work, preds, level)
    ids = sorted(range(len(preds)), key=lambda task: (level[task], task))
    return _arrays(work, preds, ids)


def _with_program_order(work: Lowering) -> list[list[int]]:
    preds = work.preds
    for program in work.programs:
        for before, after in itertools.pairwise(program):
            if before != after:
                preds[after].append(before)
    return preds


def _levels(work: Lowering, preds: list[list[int]]) -> list[int]:
    """Longest path in tasks to each task (Kahn); names a cycle if there is one."""
    successors: list[list[int]] = [[] for _ in preds]
    missing = [0] * len(preds)
    for task, before in enumerate(preds):
        missing[task] = len(before)
        for item in before:
            successors[item].append(task)
    level = [0] * len(preds)
    ready = deque(task for task, count in enumerate(missing) if not count)
    done = 0
    while ready:
        task = ready.popleft()
        done += 1
        above = level[task] + 1
        for after in successors[task]:
            if level[after] < above:
                level[after] = above
            missing[after] -= 1
            if not missing[after]:
                ready.append(after)
    if done < len(preds):
        raise DeadlockError(_cycle(work, preds, missing))
    return level


def _cycle(work: Lowering, preds: list[list[int]], missing: list[int]) -> list[str]:
    """Names of the tasks on one cycle, in the order in which they wait."""
    task = next(i for i, count in enumerate(missing) if count)
    path: list[int] = []
    while task not in path:
        path.append(task)
        task = next(item for item in preds[task] if missing[item])
    cycle = path[path.index(task) :][::-1]
    return [_name(work, item) for item in cycle]


def _name(work: Lowering, task: int) -> str:
    slot, action = work.slot_of(task), work.action[task]
    if slot.kind == TRANSFER:
        target = work.sections[slot.peer.section].stage
        return f"transfer of {action} to stage {target}"
    if slot.kind == REDUCE:
        return f"reduction before {action}"
    lane = work.lanes.of_piece[slot.piece][0]
    return f"{action} on device {work.lanes.devices[lane][0]}"


def _sequence_channels(work: Lowering, preds: list[list[int]], level: list[int]) -> None:
    """One sequence on every wire and group, by (level, id): equal at all ends, and no new cycle."""
    members: dict[object, list[int]] = defaultdict(list)
    for task, channel in enumerate(work.channel):
        if channel[0] != "lane":  # type: ignore[index]
            members[channel].append(task)
    for tasks in members.values():
        tasks.sort(key=lambda task: (level[task], task))
        for before, after in itertools.pairwise(tasks):
            preds[after].append(before)


def _arrays(work: Lowering, preds: list[list[int]], ids: list[int]) -> Program:
    lanes = work.lanes.of_piece
    position: dict[int, int] = {}
    first: list[int] = []
    second: list[int] = []
    columns: dict[str, list[int]] = {
        name: [] for name in ("slot", "lane", "peer", "step", "action", "microbatch", "channel")
    }
    actions: dict[Action, int] = {}
    channels: dict[object, int] = {}
    slots = list(work.slots)
    lane_position = _lane_positions(work)
    kinds: list[int] = []

    def emit(a: int, b: int, kind: int, values: tuple[int, ...]) -> int:
        first.append(a)
        second.append(b)
        kinds.append(kind)
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
        return len(first)

    for task in ids:
        before = [position[item] for item in _needed(preds[task], lane_position)]
        while len(before) > 2:
            joined = (0, -1, -1, work.step[task], -1, -1, -1)
            before = [emit(before[0], before[1], JOIN, joined), *before[2:]]
        slot, action = slots[work.slot[task]], work.action[task]
        compute = slot.kind < TRANSFER
        values = (
            work.slot[task],
            lanes[slot.piece][0],
            lanes[slot.peer][0] if slot.kind == TRANSFER else -1,
            work.step[task],
            actions.setdefault(action, len(actions)) if compute and action else -1,
            action.first_microbatch if action else -1,
            channels.setdefault(work.channel[task], len(channels)),
        )
        padded = [*before, 0, 0]
        position[task] = emit(padded[0], padded[1], slot.kind, values)
    index = {task: place - 1 for task, place in position.items()}
    table = {name: np.array(column, dtype=np.int64) for name, column in columns.items()}
    programs = tuple(np.array([index[task] for task in program], dtype=np.int64) for program in work.programs)
    versions, delay = _versions(work)
    return Program(
        skeleton=work.skeleton,
        shape=work.shape,
        order=work.order,
        lane_devices=work.lanes.devices,
        slots=tuple(slots),
        kind=np.array(kinds, dtype=np.int8),
        first=first,
        second=second,
        actions=tuple(actions),
        other_lanes={index[task]: found for task, found in work.shared_lanes.items()},
        programs=programs,
        memory=_memory_events(work, slots, index),
        versions=versions,
        delay=delay,
        slot=table["slot"],
        lane=table["lane"],
        peer=table["peer"],
        step=table["step"],
        action=table["action"],
        microbatch=table["microbatch"],
        channel=table["channel"],
    )


def _lane_positions(work: Lowering) -> dict[int, tuple[int, int]]:
    """(lane, position) of the tasks that run on one lane alone."""
    return {
        task: (lane, place)
        for lane, program in enumerate(work.programs)
        for place, task in enumerate(program)
        if task not in work.shared_lanes
    }


def _needed(before: list[int], lane_position: dict[int, tuple[int, int]]) -> list[int]:
    """Predecessors without those that the order of one lane implies."""
    if len(before) <= 1:
        return before
    latest: dict[int, tuple[int, int]] = {}
    kept: list[int] = []
    for item in dict.fromkeys(before):
        if item not in lane_position:
            kept.append(item)
            continue
        lane, place = lane_position[item]
        if lane not in latest or latest[lane][0] < place:
            latest[lane] = (place, item)
    return kept + [item for _, item in latest.values()]


def _memory_events(work: Lowering, slots: list[Slot], index: dict[int, int]) -> MemoryEvents:
    """Forward allocates what backward needs; the last op that needs it frees it."""
    splits = {(slot.where) for slot in slots if slot.kind == KIND_W}
    rows: list[tuple[int, int, float, bool, int]] = []
    starts: list[int] = []
    training = work.shape.training
    for lane, program in enumerate(work.programs):
        starts.append(len(rows))
        for task in program:
            slot = slots[work.slot[task]]
            recompute = work.sections[slot.where].full_recompute if slot.kind < TRANSFER else False
            frees = slot.kind in (KIND_B, KIND_W) or (slot.kind == KIND_I and slot.where not in splits)
            if slot.kind == KIND_F:
                rows.append((lane, slot.where, slot.samples, False, index[task]))
                if not training:
                    rows.append((lane, slot.where, -slot.samples, False, index[task]))
            elif frees:
                if recompute:
                    rows.append((lane, slot.where, slot.samples, True, index[task]))
                    rows.append((lane, slot.where, -slot.samples, True, index[task]))
                rows.append((lane, slot.where, -slot.samples, False, index[task]))
    table = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
    used = [start for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True) if stop > start]
    return MemoryEvents(
        lane=np.array(table[0], dtype=np.int64),
        section=np.array(table[1], dtype=np.int64),
        samples=np.array(table[2], dtype=np.float64),
        temporary=np.array(table[3], dtype=np.bool_),
        task=np.array(table[4], dtype=np.int64),
        lane_start=np.array(used, dtype=np.int64),
    )


def _versions(work: Lowering) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Per section the most versions alive and the largest delay, over its pieces."""
    count = len(work.sections)
    versions, delay = [1] * count, [0] * count
    if not work.shape.training:
        return tuple(versions), tuple(delay)
    rule: ReadRule = work.order.read_rule
    first_reads: dict[int, int] = {}
    seen: dict[tuple[int, int, int], tuple[int, int, dict[int, int]]] = {}
    for s, section in enumerate(work.sections):
        for copy in range(len(section.rows)):
            for replica in work.kept(s):
                lane = work.lanes.of_piece[Piece(s, copy, replica)][0]
                key = (section.stage, copy, lane)
                if key not in seen:
                    program = [
                        a for a in work.order.lanes[lane] if a.stage == section.stage and a.copy == copy
                    ]
                    seen[key] = count_versions(
                        program,
                        rule,
                        microbatches=work.shape.microbatches[section.stage],
                        first_stage_reads=first_reads if section.stage else None,
                    )
                most, late, reads = seen[key]
                if section.stage == 0:
                    first_reads.update(reads)
                versions[s], delay[s] = max(versions[s], most), max(delay[s], late)
    return tuple(versions), tuple(delay)
