"""Memory events of a program: what each compute task allocates and frees, in the order of its lane."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from explorer.tasks.lower import Lowering
from explorer.tasks.program import B, F, I, MemoryEvents, Slot, W


def memory_events(work: Lowering, slots: tuple[Slot, ...], index: npt.NDArray[np.int64]) -> MemoryEvents:
    """Forward allocates what backward needs; the last op that needs it frees it.

    Args:
        work: finished lowering.
        slots: its slots; tasks of one slot have equal events.
        index: per task of the lowering, its place in the program.
    """
    splits = {slot.where for slot in slots if slot.kind == W}
    found = [_of_slot(work, slot, splits) for slot in slots]
    per_slot = np.array([len(events) for events in found])
    starts = np.cumsum(per_slot) - per_slot
    table = np.array([event for events in found for event in events], dtype=np.int64).reshape(-1, 2)
    where = np.array([slot.where for slot in slots])

    tasks = np.array([task for program in work.programs for task in program], dtype=np.int64)
    lanes = np.repeat(np.arange(len(work.programs)), [len(program) for program in work.programs])
    slot = np.array(work.slot, dtype=np.int64)[tasks]
    count = per_slot[slot]
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    event = np.repeat(starts[slot], count) + within
    lane = np.repeat(lanes, count)
    return MemoryEvents(
        lane=lane,
        section=np.repeat(where[slot], count),
        samples=table[event, 0].astype(np.float64),
        temporary=table[event, 1].astype(np.bool_),
        task=np.repeat(index[tasks], count),
        lane_start=np.flatnonzero(np.diff(lane, prepend=-1)),
    )


def _of_slot(work: Lowering, slot: Slot, splits: set[int]) -> list[tuple[int, bool]]:
    """(samples allocated or freed, whether only while recomputing) of a task of a slot, in order."""
    if slot.kind == F:
        kept = [(slot.samples, False)]
        return kept if work.shape.training else [*kept, (-slot.samples, False)]
    if slot.kind not in (B, W) and (slot.kind != I or slot.where in splits):
        return []
    again = [(slot.samples, True), (-slot.samples, True)]
    freed = [(-slot.samples, False)]
    return [*again, *freed] if work.sections[slot.where].full_recompute else freed
