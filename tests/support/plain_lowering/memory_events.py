"""Memory events of a program, told lane by lane and task by task, each case of a task on its own.

Written apart from `explorer.tasks.memory_events`, so that a fault of one is not one of the other: which
stages split their backward is read off the order, not off slots, and nothing is an array until the end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

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
from tests.support.plain_lowering.offloads import ActivationMove
from tests.support.plain_lowering.work import Lowering


class Change(NamedTuple):
    """Samples that come to memory or leave it, at the start or the end of a task."""

    samples: float
    part: int
    at_end: bool


def memory_events(
    work: Lowering, slots: tuple[Slot, ...], index: npt.NDArray[np.int64], moved: list[ActivationMove]
) -> MemoryEvents:
    """Return the memory events of all lanes.

    Args:
        work: finished lowering.
        slots: its slots.
        index: per task of the lowering, its place in the program.
        moved: activations that leave for the host and come back.
    """
    rows: list[tuple[int, int, float, int, int, bool]] = []
    starts: list[int] = []
    split = {action.stage for lane in work.order.lanes for action in lane if action.op == "W"}
    own = [_changes(work, slot, split) for slot in slots]
    for lane, program in enumerate(work.programs):
        begin = len(rows)
        for position, task in enumerate(program):
            number = work.slot[task]
            here = [item for item in moved if (item.lane, item.position) == (lane, position)] if moved else []
            back = [item for item in here if item.samples > 0]
            away = [item for item in here if item.samples <= 0]
            changes = [(item.section, Change(item.samples, SAVED, at_end=False)) for item in back]
            changes += [(slots[number].where, change) for change in own[number]]
            changes += [(item.section, Change(item.samples, SAVED, at_end=True)) for item in away]
            rows += [(lane, section, x.samples, x.part, int(index[task]), x.at_end) for section, x in changes]
        starts += [begin] * (len(rows) > begin)
    lanes, sections, samples, parts, tasks, ends = zip(*rows, strict=True) if rows else [()] * 6
    return MemoryEvents(
        lane=np.array(lanes, dtype=np.int64), section=np.array(sections, dtype=np.int64),
        samples=np.array(samples, dtype=np.float64), part=np.array(parts, dtype=np.int8),
        task=np.array(tasks, dtype=np.int64), at_end=np.array(ends, dtype=np.bool_),
        lane_start=np.array(starts, dtype=np.int64),
    )  # fmt: skip


def _changes(work: Lowering, slot: Slot, split: set[int]) -> list[Change]:
    """Return what one task changes, in order."""
    n = slot.samples
    if slot.kind == F:
        return _of_forward(n, again=slot.backward, training=work.shape.training)
    if slot.kind == W:
        return [Change(-n, WAITING, at_end=True)]
    if slot.kind not in (B, I):
        return []
    section = work.sections[slot.where]
    before = slot.part == REMADE_BEFORE
    return _of_backward(
        n,
        remakes=section.recomputes and not before,
        remade_before=before,
        leaves=slot.kind == I and section.stage in split,
        whole=slot.kind == B and section.stage not in split,
    )


def _of_forward(n: int, *, again: bool, training: bool) -> list[Change]:
    """Return the changes of a forward: what it makes stays for a backward, if there is one."""
    if again:
        return [Change(n, REMADE_WHOLE, at_end=False)]
    made = Change(n, SAVED, at_end=False)
    return [made] if training else [made, Change(-n, SAVED, at_end=True)]


def _of_backward(n: int, *, remakes: bool, remade_before: bool, leaves: bool, whole: bool) -> list[Change]:
    """Return the changes of a backward, or of its half that leaves the weight gradient for later."""
    found, part = [], REMADE_IN_TURN if whole else REMADE
    if remakes:
        found.append(Change(n, part, at_end=False))
        found.append(Change(-n, part, at_end=True))
    found.append(Change(-n, SAVED, at_end=True))
    if remade_before:
        found.append(Change(-n, REMADE_WHOLE, at_end=True))
    if leaves:
        found.append(Change(n, WAITING, at_end=True))
    if leaves and remakes:
        found.append(Change(n, REMADE_REST, at_end=True))
        found.append(Change(-n, REMADE_REST, at_end=True))
    return found
