"""What the ranks of a run did when, under what was predicted, as two plans of one timeline.

Messages have no times of their own in a run: they are drawn where they were predicted, and show in the
measured plan as the wait for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from explorer.views.timeline import BarStructure, FloatTable, bar_structure

if TYPE_CHECKING:
    from explorer.run.judging.timelines import RunTimeline

_FIRST_WIRE = 6
"""Least code of a kind of bar that is on the wire."""
Plan = tuple[dict[str, Any], bytes]
"""`Timeline.view` and its bars."""


def run_timeline_view(found: RunTimeline) -> tuple[Plan, Plan]:
    """Return the predicted and the measured plan."""
    program = found.program
    fixed = bar_structure(program, program.order.steps)
    predicted = fixed.columns.copy()
    predicted[:, :2] = found.predicted_s[fixed.task]
    measured, seen = fixed.columns.copy(), np.zeros(len(fixed.task), dtype=bool)
    for bar, task in enumerate(fixed.task.tolist()):
        if task in found.measured_s:
            measured[bar, :2], seen[bar] = found.measured_s[task], True
    which = f"measured, round {found.round + 1} of {found.rounds}" if found.rounds > 1 else "measured"
    return _plan("predicted", predicted, fixed), _plan(which, measured[seen], fixed)


def _plan(name: str, rows: FloatTable, fixed: BarStructure) -> Plan:
    end_s = float(rows[:, 1].max()) if len(rows) else 0.0
    lanes = int(fixed.columns[:, 2].max()) + 1 if len(fixed.columns) else 0
    view = {
        "name": name,
        "text": None,
        "end_s": end_s,
        "lanes": [
            {"id": str(lane), "name": f"rank {lane}", "busy_fraction": _busy_fraction(rows, lane, end_s)}
            for lane in range(lanes)
        ],
        "omitted": None,
        "critical": None,
        "of_run": True,
    }
    return view, rows.astype("<f4", copy=False).tobytes()


def _busy_fraction(rows: FloatTable, lane: int, end_s: float) -> float:
    """Return the share of the time in which a lane computes."""
    own = rows[(rows[:, 2] == lane) & (rows[:, 3] < _FIRST_WIRE)]
    return min(1.0, float((own[:, 1] - own[:, 0]).sum()) / end_s) if end_s else 0.0
