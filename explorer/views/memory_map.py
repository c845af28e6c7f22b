"""Memory of every device: over time (constant parts, and the level of activations in one step) and by part.

Devices folded into one row are represented by the fullest of them, since that one decides what fits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from explorer.passes.timing import FloatArray
from explorer.simulation.lane_memory import MEMORY_PARTS, activation_changes
from explorer.simulation.report import Report
from explorer.views.scene import LaneRow, Scene, device_rows

COLUMNS = 240
"""Number of slices of time."""


def memory_view(scene: Scene, *, columns: int = COLUMNS, name: str = "") -> tuple[dict[str, Any], bytes]:
    """Return `Heatmap.view` of kind `memory` and its cells (rows x columns float32, bytes in use)."""
    report = scene.report
    levels = memory_levels(report, columns)
    rows = device_rows(scene)
    held = _lanes_of(report, rows)
    cells = np.stack([levels[lanes].max(axis=0) for lanes in held])
    at = int(cells.argmax())
    row, column = divmod(at, columns)
    end = report.makespan_s
    return {
        "kind": "memory",
        "title": "Memory, device by time, one step",
        "name": name,
        "rows": [item.as_dict() for item in rows],
        "folded": "the fullest device of each" if any(len(row.devices) > 1 for row in rows) else None,
        "columns": columns,
        "start_s": 0.0,
        "end_s": end,
        "capacity_bytes": float(max(report.capacity_bytes)),
        "peak": {"row": row, "time_s": (column + 0.5) / columns * end, "bytes": float(cells[row, column])},
        "parts": _parts(report, held),
    }, cells.astype("<f4").tobytes()


def _lanes_of(report: Report, rows: list[LaneRow]) -> list[list[int]]:
    """Return the report's lanes that each row's devices are in."""
    lane_of = {device: lane for lane, devices in enumerate(report.lane_devices) for device in devices}
    return [sorted({lane_of[device] for device in row.devices}) for row in rows]


def _parts(report: Report, held: list[list[int]]) -> dict[str, Any]:
    """Return bytes by part at the peak of each row's fullest device, without parts that nobody has."""
    table = np.array(report.memory_parts_bytes)
    fullest = [lanes[int(np.argmax(table[lanes].sum(axis=1)))] for lanes in held]
    used = [k for k in range(len(MEMORY_PARTS)) if MEMORY_PARTS[k] != "versions" or table[:, k].any()]
    return {
        "names": ["weight versions" if MEMORY_PARTS[k] == "versions" else MEMORY_PARTS[k] for k in used],
        "bytes": table[np.ix_(fullest, used)].tolist(),
        "capacity_bytes": [float(report.capacity_bytes[lane]) for lane in fullest],
    }


def memory_levels(report: Report, columns: int) -> FloatArray:
    """Return the most bytes in use in each slice of the first step, shape (lanes, columns)."""
    parts = np.array(report.memory_parts_bytes)
    static = parts.sum(axis=1) - parts[:, 4]
    found = np.repeat(static[:, None], columns, axis=1)
    for lane, (times, level) in _activations(report).items():
        column = np.clip(times / report.makespan_s * columns, 0, columns - 1).astype(np.int64)
        most = np.full(columns, -1.0)
        np.maximum.at(most, column, level)
        # the level when a slice begins is that after the last event before it
        before = np.searchsorted(column, np.arange(columns), side="left")
        held = np.concatenate(([0.0], level))[before]
        found[lane] += np.maximum(most, held)
    return found


def _activations(report: Report) -> dict[int, tuple[FloatArray, FloatArray]]:
    """Return times of the first step's memory events and the activation bytes after each, by lane."""
    line = report.timeline
    events = line.program.memory
    if not len(events.lane) or report.makespan_s <= 0:
        return {}
    change = activation_changes(line.program, line.prices)
    time = np.where(events.at_end, line.timing.end_s[events.task], line.timing.start_s[events.task])
    first = line.program.step[events.task] == 0
    found = {}
    for start, stop in zip(events.lane_start, [*events.lane_start[1:], len(change)], strict=True):
        inside = np.arange(start, stop)[first[start:stop]]
        if len(inside):
            found[int(events.lane[start])] = (time[inside], np.maximum(0.0, np.cumsum(change[inside])))
    return found
