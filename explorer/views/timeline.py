"""The timeline: every action and transfer of one step as rows of float32, made by whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.identity import IdentityCache
from explorer.tasks.placement import IntArray
from explorer.tasks.program import GATHER, JOIN, REDUCE, TRANSFER, B, F, I, Program, U, W
from explorer.views.scene import Scene

COLUMNS = ("start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes")
"""What the numbers of one bar mean, in order."""

_CODE = np.full(JOIN + 1, -1, dtype=np.int64)
_CODE[[F, B, I, W, U, TRANSFER, REDUCE, GATHER]] = [0, 1, 2, 3, 4, 6, 7, 8]

FloatTable = npt.NDArray[np.float32]
_STRUCTURE = IdentityCache(64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Structure:
    """What does not depend on durations: one entry per bar, by lane and task."""

    task: IntArray
    slot: IntArray
    columns: FloatTable


def timeline_view(scene: Scene, *, name: str = "current") -> tuple[dict[str, Any], bytes]:
    """`Timeline.view` and its bars (see `timeline_rows`)."""
    report = scene.report
    step = report.step_time_s
    flush = report.timeline.program.order.flush
    rows = timeline_rows(scene)
    lanes = _lane_names(scene)
    return {
        "name": name,
        "text": f"{name}, {scene.strategy.schedule}",
        "end_s": float(rows[:, 1].max()) if len(rows) else step,
        "lanes": [
            {
                "id": ident,
                "name": label,
                "busy_fraction": min(1.0, report.busy_s[i] / step) if step else 0.0,
                "devices": list(report.lane_devices[i]),
            }
            for i, (ident, label) in enumerate(lanes)
        ],
        "omitted": None if flush else "steps after the second",
    }, rows.astype("<f4", copy=False).tobytes()


def timeline_rows(scene: Scene) -> FloatTable:
    """(bars, `COLUMNS`), by lane and start. One step, or the first two where steps overlap."""
    line = scene.report.timeline
    steps = 1 if line.program.order.flush else 2
    fixed = _STRUCTURE.get((line.program,), steps, lambda: _structure(line.program, steps))
    rows = fixed.columns.copy()
    rows[:, 0] = line.timing.start_s[fixed.task]
    rows[:, 1] = line.timing.end_s[fixed.task]
    sizes = np.where(rows[:, 3] >= 6, line.prices.bytes[fixed.slot], 0.0)
    rows[:, 9] = sizes
    return rows


def _structure(program: Program, steps: int) -> _Structure:
    task = np.flatnonzero((program.kind != JOIN) & (program.step < steps) & (program.lane >= 0))
    lane = program.lane[task]
    if program.other_lanes:
        extra = [(t, other) for t, lanes in program.other_lanes.items() for other in lanes[1:]]
        more = np.array([pair for pair in extra if program.step[pair[0]] < steps], dtype=np.int64)
        if len(more):
            task, lane = np.concatenate([task, more[:, 0]]), np.concatenate([lane, more[:, 1]])
    order = np.lexsort((task, lane))
    task, lane = task[order], lane[order]
    by_slot = _slot_columns(program)
    by_action = np.array([1, *(action.count for action in program.actions)], dtype=np.float32)
    slot = program.slot[task]
    columns = np.zeros((len(task), len(COLUMNS)), dtype=np.float32)
    columns[:, 2] = lane
    columns[:, 3] = _CODE[program.kind[task]]
    columns[:, 4:6] = by_slot[slot]
    update = program.kind[task] == U
    columns[:, 6] = np.where(update, -1, program.microbatch[task])
    columns[:, 7] = np.where(columns[:, 6] < 0, 0, by_action[program.action[task] + 1])
    columns[:, 8] = program.peer[task]
    return _Structure(task=task, slot=slot, columns=columns)


def _slot_columns(program: Program) -> FloatTable:
    """(slots, 2): stage and copy of who computes or sends."""
    sections: Sequence[Any] = program.skeleton.sections
    return np.array(
        [
            (sections[slot.piece.section].stage, slot.piece.copy) if slot.kind >= 0 else (-1, 0)
            for slot in program.slots
        ],
        dtype=np.float32,
    )


def _lane_names(scene: Scene) -> list[tuple[str, str]]:
    """(board lane id, name) of every lane of the report."""
    lanes, report = scene.lane_of_device, scene.report
    ids = [lanes.get(devices[0], 0) for devices in report.lanes]
    stages: dict[int, list[int]] = {}
    for stage, lane in enumerate(scene.lane_of_stage):
        stages.setdefault(lane, []).append(stage)
    found = []
    for ident, devices in zip(ids, report.lanes, strict=True):
        held = stages.get(ident, [])
        if ids.count(ident) > 1 or not held:
            label = f"gpu {devices[0]}" if len(devices) == 1 else f"gpu {devices[0]}–{devices[-1]}"
        else:
            label = f"stage {held[0]}" if len(held) == 1 else f"stages {'·'.join(map(str, held))}"
        found.append((str(ident), label))
    return found
