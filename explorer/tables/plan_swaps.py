"""Exchanges of weights and gradients for distinct *swaps* of plans: devices, ZeRO level and buckets."""

from __future__ import annotations

import numpy as np

from explorer.base.caching import Hashed
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct
from explorer.tables.exchange_pairs import Swaps
from explorer.tables.plan_shape import PlanShape
from explorer.tables.spreads import Spread
from explorer.tasks.skeleton import FloatArray


class PlanSwaps:
    """Swaps of plans of one shape."""

    def __init__(self, shape: PlanShape) -> None:
        self.shape = shape
        begins = shape.begins.tolist()
        self._held = Hashed(shape.held[position] for position in begins)
        self._ends = [(begins.index(shape.home[stages[0]]), stages[0]) for stages in shape.cut.shared]
        """(place among the positions looked at, stage) of those that share parameters with a later one."""

    def of(
        self,
        columns: DegreesColumns,
        names: list[Spread],
        lanes: Distinct,
        swap: Distinct,
        bucket_bytes: FloatArray,
    ) -> Swaps:
        """Return the exchanges of distinct swaps."""
        zero, sizes, shared = columns.zero[swap.first], bucket_bytes[swap.first], self.shape.cut.shared
        stored = self.shape.rows
        rows, together = stored.of_swaps(names, lanes.place[swap.first], zero, sizes)
        return Swaps.of(
            self.shape.schedule, self.shape.grid, self._held, stored.exchange, rows, zero, self._ends,
            stored.shared.of(together, np.arange(max(1, len(shared)))[:, None])[0],
            (sizes == 0) & (len(shared) == 1),
        )  # fmt: skip
