"""What plans of one group have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from explorer.schedules import Schedule
from explorer.tables.run_kinds import Cut
from explorer.tables.stage_rows import StageRows
from explorer.tasks.skeleton import IntArray

CHUNK = 2048
"""Columns of arrays that are worked on at once, so that these stay in cache."""


class PlanShape:
    """Schedule, positions and stages of plans."""

    def __init__(self, rows: StageRows, schedule: Schedule, options: Mapping[str, Any]) -> None:
        """Put together what is shared.

        Args:
            rows: of the stages, on their grid.
            schedule: the schedule.
            options: its options, with their defaults.
        """
        self.rows, self.schedule, self.options = rows, schedule, options
        self.costs, self.grid, self.cut, self.job = rows.costs, rows.grid, rows.cut, rows.costs.table.job
        self.held, self.stages, self.home, self.period = rows.held, rows.count, rows.home, rows.period
        self.begins = _begins(self.held, self.cut)


def _begins(held: tuple[tuple[tuple[int, int], ...], ...], cut: Cut) -> IntArray:
    """Return the first of every run of positions whose stages are of the same kinds, and the last position.

    Spans get shorter along a run, and exchanges are the same: a step is no longer for the others.
    """
    kinds = [tuple(int(cut.runs[stage]) for stage, _ in pairs) for pairs in held]
    changes = [r for r in range(len(kinds)) if r == 0 or kinds[r] != kinds[r - 1]]
    return np.array(sorted({*changes, len(kinds) - 1}), dtype=np.int64)
