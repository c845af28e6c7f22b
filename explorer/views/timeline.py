"""The timeline: every action and transfer of one step as rows of float32, made by whole columns.

Whatever a backward recomputes is a bar of its own in front of it. The critical path goes with the bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from explorer.passes.critical_path import CriticalPath, critical_path
from explorer.simulation.report import Report
from explorer.tasks.placement import IntArray
from explorer.tasks.program import GATHER, JOIN, REDUCE, REMADE_BEFORE, TRANSFER, B, F, I, Program, U, W
from explorer.views.link_map import shown_steps
from explorer.views.scene import Scene

COLUMNS = ("start_s", "end_s", "lane", "kind", "stage", "copy", "microbatch", "count", "peer", "bytes")
"""Meaning of the numbers of one bar, in order."""

_CODE = np.full(JOIN + 1, -1, dtype=np.int64)
_CODE[[F, B, I, W, U, TRANSFER, REDUCE, GATHER]] = [0, 1, 2, 3, 4, 6, 7, 8]
_RECOMPUTE = 5

PATH_WORDS = {
    "F": "compute", "B": "compute", "I": "compute", "W": "compute", "U": "update", "transfer": "transfer",
    "reduce": "gradient reduction", "gather": "weight gather", "collective": "collectives inside layers",
    "contention": "slowed by shared links", "wait": "waiting",
}  # fmt: skip
"""Names of the parts of a critical path."""

FloatTable = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class BarStructure:
    """Everything that does not depend on durations: one entry per bar, by lane and task."""

    task: IntArray
    slot: IntArray
    columns: FloatTable


def timeline_view(scene: Scene, *, name: str = "current") -> tuple[dict[str, Any], bytes]:
    """Return `Timeline.view` and its bars (see `timeline_rows`)."""
    report = scene.report
    step = report.step_time_s
    rows, task = _bars(report)
    lanes = lane_names(scene)
    return {
        "name": name,
        "text": scene.strategy.schedule,
        "end_s": float(rows[:, 1].max()) if len(rows) else step,
        "lanes": [
            {
                "id": ident,
                "name": label,
                "busy_fraction": min(1.0, report.busy_s[i] / step) if step else 0.0,
            }
            for i, (ident, label) in enumerate(lanes)
        ],
        "omitted": None if shown_steps(report) == 1 else "steps after the second",
        "critical": _critical_view(report, task),
    }, rows.astype("<f4", copy=False).tobytes()


def timeline_rows(scene: Scene) -> FloatTable:
    """Return the bars (bars, `COLUMNS`), by lane and start: one step, or the first two if they overlap."""
    return report_rows(scene.report)


def report_rows(report: Report) -> FloatTable:
    """Return the bars of a report, as `timeline_rows`."""
    return _bars(report)[0]


def _bars(report: Report) -> tuple[FloatTable, IntArray]:
    """Return rows of all bars, and the task of each."""
    line, steps = report.timeline, shown_steps(report)
    fixed = line.program.memo(f"views.bars {steps}", lambda: bar_structure(line.program, steps))
    rows = fixed.columns.copy()
    rows[:, 0] = line.timing.start_s[fixed.task]
    rows[:, 1] = line.timing.end_s[fixed.task]
    rows[:, 9] = np.where(rows[:, 3] >= 6, line.prices.bytes[fixed.slot], 0.0)
    return _with_recompute(report, rows, fixed)


def _with_recompute(report: Report, rows: FloatTable, fixed: BarStructure) -> tuple[FloatTable, IntArray]:
    """Split the recomputing front part of a backward into a bar of its own, before it."""
    part = recompute_share(report)[fixed.slot]
    again = np.flatnonzero(part > 0)
    if not len(again):
        return rows, fixed.task
    extra = rows[again].copy()
    extra[:, 3] = _RECOMPUTE
    extra[:, 1] = rows[again, 0] + part[again] * (rows[again, 1] - rows[again, 0])
    rows[again, 0] = extra[:, 1]
    return np.insert(rows, again, extra, axis=0), np.insert(fixed.task, again, fixed.task[again])


def recompute_share(report: Report) -> npt.NDArray[np.float64]:
    """Return the share of each slot's seconds in which a backward recomputes activations."""
    line = report.timeline
    pricer, found = line.prices.pricer, np.zeros(len(line.program.slots))
    for number, slot in enumerate(line.program.slots):
        if slot.kind == F and slot.backward:
            found[number] = 1.0
        elif slot.kind in (B, I) and slot.part != REMADE_BEFORE and pricer.sections[slot.where].recomputes:
            time = pricer.section_time(slot.where, pricer.row(slot.piece)[0], slot.samples)
            seconds = float(line.prices.seconds[number])
            found[number] = min(1.0, time.recompute_s / seconds) if seconds > 0 else 0.0
    return found


def report_critical_path(report: Report) -> CriticalPath:
    """Return the chain that decides when the last task shown ends."""
    line = report.timeline
    shown = np.flatnonzero(line.program.step < shown_steps(report))
    return critical_path(line.program, line.timing, line.prices.seconds, line.prices.comm_s, shown)


def _critical_view(report: Report, task: IntArray) -> dict[str, Any] | None:
    """Return the path's bars, what decided each start, and its seconds by part, largest first."""
    path = report_critical_path(report)
    if not len(path.tasks):
        return None
    bars = np.argsort(task, kind="stable")
    ordered = task[bars]
    found, reasons = [], []
    for number, reason in zip(path.tasks.tolist(), path.reason, strict=True):
        own = bars[np.searchsorted(ordered, number) : np.searchsorted(ordered, number, side="right")]
        found += own.tolist()
        reasons += [reason] * len(own)
    parts: dict[str, float] = {}
    for key, seconds in path.parts_s.items():
        parts[PATH_WORDS[key]] = parts.get(PATH_WORDS[key], 0.0) + seconds
    shown = sorted(((name, s) for name, s in parts.items() if s > 0), key=lambda item: -item[1])
    return {
        "bars": found,
        "reasons": reasons,
        "length_s": path.length_s,
        "parts": [{"name": name, "seconds": seconds} for name, seconds in shown],
    }


def bar_structure(program: Program, steps: int) -> BarStructure:
    """Return what is the same of the bars of a program's first steps whenever they run."""
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
    return BarStructure(task=task, slot=slot, columns=columns)


def _slot_columns(program: Program) -> FloatTable:
    """Return stage and copy of who computes or sends, shape (slots, 2)."""
    sections: Sequence[Any] = program.skeleton.sections
    return np.array(
        [
            (sections[slot.piece.section].stage, slot.piece.copy) if slot.kind >= 0 else (-1, 0)
            for slot in program.slots
        ],
        dtype=np.float32,
    )


def lane_names(scene: Scene) -> list[tuple[str, str]]:
    """Return (board lane id, name) of every lane of the report."""
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
