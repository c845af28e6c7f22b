"""Memory events of a program: what each compute task allocates and frees, in the order of its lane.

A forward leaves what the backward needs. A backward in one part frees it all; in two parts the input gradient
frees it and leaves what the weight gradient needs, which that frees.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.tasks.offloads import ActivationMove
from explorer.tasks.program import (
    REMADE,
    REMADE_BEFORE,
    REMADE_IN_TURN,
    REMADE_REST,
    REMADE_WHOLE,
    SAVED,
    WAITING,
    B,
    F,
    I,
    MemoryEvents,
    Slot,
    W,
)
from explorer.tasks.work import Lowering


def memory_events(
    work: Lowering, slots: tuple[Slot, ...], index: npt.NDArray[np.int64], moved: list[ActivationMove]
) -> MemoryEvents:
    """Return the memory events of all lanes.

    Args:
        work: finished lowering.
        slots: its slots; tasks of one slot have equal events.
        index: per task of the lowering, its place in the program.
        moved: activations that leave for the host and come back.
    """
    splits = {slot.where for slot in slots if slot.kind == W}
    found = [_of_slot(work, slot, splits) for slot in slots]
    per_slot = np.array([len(events) for events in found])
    starts = np.cumsum(per_slot) - per_slot
    table = np.array([event for events in found for event in events], dtype=np.int64).reshape(-1, 2)
    at_end = (table[:, 0] < 0) | np.isin(table[:, 1], (WAITING, REMADE_REST))
    where = np.array([slot.where for slot in slots])

    tasks, lanes = work.program, work.program_lane
    slot = work.slot[tasks]
    count = per_slot[slot]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    event = np.repeat(starts[slot], count) + within
    lane = np.repeat(lanes, count)
    events = MemoryEvents(
        lane=lane,
        section=np.repeat(where[slot], count),
        samples=table[:, 0].astype(np.float64)[event],
        part=table[:, 1].astype(np.int8)[event],
        task=np.repeat(index[tasks], count),
        at_end=at_end[event],
        lane_start=np.flatnonzero(np.diff(lane, prepend=-1)),
    )
    if not moved:
        return events
    place = np.arange(len(tasks)) - work.program_start[lanes]
    return _with_moves(events, np.repeat(place, count), work, index, moved)


def _with_moves(
    events: MemoryEvents,
    position: npt.NDArray[np.int64],
    work: Lowering,
    index: npt.NDArray[np.int64],
    moved: list[ActivationMove],
) -> MemoryEvents:
    """Merge in the events of moves: what comes back precedes its task's own events, what leaves follows
    them.
    """
    samples = np.array([item.samples for item in moved], dtype=np.float64)
    lane = np.concatenate([events.lane, [item.lane for item in moved]])
    phase = np.concatenate([np.zeros(len(position)), np.where(samples > 0, -1, 1)])
    order = np.lexsort((phase, np.concatenate([position, [item.position for item in moved]]), lane))
    task = [work.program[work.program_start[item.lane] + item.position] for item in moved]
    return MemoryEvents(
        lane=lane[order],
        section=np.concatenate([events.section, [item.section for item in moved]])[order],
        samples=np.concatenate([events.samples, samples])[order],
        part=np.concatenate([events.part, np.full(len(moved), SAVED, dtype=np.int8)])[order],
        task=np.concatenate([events.task, index[task]])[order],
        at_end=np.concatenate([events.at_end, samples < 0])[order],
        lane_start=np.flatnonzero(np.diff(lane[order], prepend=-1)),
    )


def _of_slot(work: Lowering, slot: Slot, splits: set[int]) -> list[tuple[int, int]]:
    """Return (samples allocated or freed, which part) of a task of a slot, in order."""
    n = slot.samples
    if slot.kind == F and slot.backward:
        return [(n, REMADE_WHOLE)]
    if slot.kind == F:
        kept = [(n, SAVED)]
        return kept if work.shape.training else [*kept, (-n, SAVED)]
    if slot.kind == W:
        return [(-n, WAITING)]
    if slot.kind not in (B, I):
        return []
    remade = work.sections[slot.where].recomputes and slot.part != REMADE_BEFORE
    whole = slot.kind == B and slot.where not in splits
    part = REMADE_IN_TURN if whole else REMADE  # in two parts nothing is free that a weight gradient reads
    again = [(n, part), (-n, part)] if remade else []
    freed = [(-n, SAVED), *([(-n, REMADE_WHOLE)] if slot.part == REMADE_BEFORE else [])]
    if slot.kind == B or slot.where not in splits:
        return [*again, *freed]
    rest = [(n, REMADE_REST), (-n, REMADE_REST)] if remade else []
    return [*again, *freed, (n, WAITING), *rest]
