"""What plans of one group have in common, and how their stages' costs are asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from explorer.schedules import Schedule
from explorer.schedules.placements import Grid
from explorer.strategies.degrees import RECOMPUTE
from explorer.tables.coded_rows import Codes
from explorer.tables.degrees_columns import EXCHANGE_NAMES, DegreesColumns
from explorer.tables.distinct import Distinct
from explorer.tables.kind_costs import KindCosts
from explorer.tables.run_kinds import Cut
from explorer.tables.stage_choice import StageChoice
from explorer.tasks.skeleton import IntArray

CHUNK = 2048
"""Columns of arrays that are worked on at once, so that these stay in cache."""

Spread = tuple[int, ...]
"""(tensor, context, expert, sequence parallel, context exchange, replicas)."""


class PlanShape:
    """Schedule, positions and stages of plans, and codes of what tells the plans apart."""

    def __init__(
        self, costs: KindCosts, schedule: Schedule, options: Mapping[str, Any], grid: Grid, cut: Cut
    ) -> None:
        """Start without codes.

        Args:
            costs: of all kinds of runs that the stages are of.
            schedule: their schedule.
            options: its options, with their defaults.
            grid: positions, chunks and copies.
            cut: the stages.
        """
        self.costs, self.schedule, self.options = costs, schedule, options
        self.grid, self.cut, self.job = grid, cut, costs.table.job
        self.held = schedule.placement.held(grid)
        self.stages = schedule.placement.stages(grid)
        self.home = np.array([schedule.placement.position(stage, 0, grid) for stage in range(self.stages)])
        self.begins = _begins(self.held, cut)
        self.period = costs.table.period
        self.spreads, self.sizes = Codes(), Codes()

    def coded(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[IntArray, IntArray, IntArray]:
        """Return the (U,) codes of cores: of devices, of microbatch sizes and of recomputation."""
        lane = self.spreads.of(names)[lanes.place[core.first]]
        size = self.sizes.of_array(columns.microbatch_size[core.first])
        return lane, size, columns.recompute[core.first]

    def by_position(self, size: int, row: Callable[[int], int]) -> IntArray:
        """Return the (S,) rows of stages, given that of the first rank of a position of so many devices."""
        if not size or (self.period and size % self.period == 0):
            return np.full(self.stages, row(0), dtype=np.int64)
        firsts = [position * size for position in range(self.grid.positions)]
        firsts = [first % self.period if self.period else first for first in firsts]
        rows = {first: row(first) for first in dict.fromkeys(firsts)}
        return np.array([rows[first] for first in firsts], dtype=np.int64).take(self.home)


def _begins(held: tuple[tuple[tuple[int, int], ...], ...], cut: Cut) -> IntArray:
    """Return the first of every run of positions whose stages are of the same kinds, and the last position.

    Spans get shorter along a run, and exchanges are the same: a step is no longer for the others.
    """
    kinds = [tuple(int(cut.runs[stage]) for stage, _ in pairs) for pairs in held]
    changes = [r for r in range(len(kinds)) if r == 0 or kinds[r] != kinds[r - 1]]
    return np.array(sorted({*changes, len(kinds) - 1}), dtype=np.int64)


def devices_of(lane: Spread) -> int:
    """Return the devices of a position."""
    return lane[0] * lane[1] * lane[5]


def choice_of(
    lane: Spread,
    *,
    replicas: int,
    samples: int = 1,
    recompute: int = 0,
    zero: int = 0,
    bucket_bytes: float = 0.0,
) -> StageChoice:
    """Return what is chosen for stages on the first devices."""
    return StageChoice(
        tensor=lane[0], context=lane[1], expert=lane[2], sequence_parallel=bool(lane[3]),
        context_exchange=EXCHANGE_NAMES[lane[4]], replicas=replicas, microbatch_size=samples,
        recompute=RECOMPUTE[recompute], zero=zero, bucket_bytes=bucket_bytes,
    )  # fmt: skip
