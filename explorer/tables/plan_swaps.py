"""Exchanges of weights and gradients for distinct *swaps* of plans: devices, ZeRO level and buckets."""

from __future__ import annotations

import numpy as np

from explorer.tables.coded_rows import CodedRows, Codes
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct
from explorer.tables.exchange_pairs import Swaps
from explorer.tables.kind_costs import Exchange, Rows
from explorer.tables.plan_shape import PlanShape, Spread, choice_of, devices_of
from explorer.tasks.skeleton import FloatArray


class PlanSwaps:
    """Swaps of plans of one shape; keeps the exchanges of stages that it was asked for."""

    def __init__(self, shape: PlanShape) -> None:
        self.shape = shape
        self._exchange = Rows(len(Exchange._fields), shape.stages)
        self._shared = Rows(1, max(1, len(shape.cut.shared)))
        self._buckets = Codes()
        self._swap_rows, self._shared_rows = CodedRows(3), CodedRows(2)

    def of(
        self,
        columns: DegreesColumns,
        names: list[Spread],
        lanes: Distinct,
        swap: Distinct,
        bucket_bytes: FloatArray,
    ) -> Swaps:
        """Return the exchanges of distinct swaps."""
        place, zero = lanes.place[swap.first], columns.zero[swap.first]
        sizes = bucket_bytes[swap.first]

        def make(n: int) -> int:
            return self._exchange.row((names[place[n]], int(zero[n]), float(sizes[n])), self._exchanges)

        codes = self.shape.spreads.of(names)[place], zero, self._buckets.of_array(sizes)
        rows = self._swap_rows.rows(codes, make)

        def make_shared(n: int) -> int:
            return self._shared.row((names[place[n]], int(zero[n])), self._shared_seconds)

        shared = self._shared_rows.rows(codes[:2], make_shared)
        begins = self.shape.begins.tolist()
        held = tuple(self.shape.held[position] for position in self.shape.begins)
        shared_at = [(begins.index(self.shape.home[stages[0]]), stages) for stages in self.shape.cut.shared]
        return Swaps.of(
            self.shape.schedule, self.shape.grid, held,
            self._exchange, rows, zero, [(place, stages[0]) for place, stages in shared_at],
            self._shared.of(shared, np.arange(max(1, len(self.shape.cut.shared)))[:, None])[0],
            (sizes == 0) & (len(self.shape.cut.shared) == 1),
        )  # fmt: skip

    def _exchanges(self, lane: Spread, zero: int, bucket_bytes: float) -> FloatArray:
        # copies hold the same weights at several positions: as if all of them were at the first
        copies = self.shape.grid.copies
        choice = choice_of(lane, zero=zero, bucket_bytes=bucket_bytes, replicas=lane[5] * copies)
        size = devices_of(lane) if copies == 1 else 0
        rows = self.shape.by_position(size, lambda first: self.shape.costs.exchange_row(choice.at(first)))
        return self.shape.costs.exchange.of(rows, self.shape.cut.runs)

    def _shared_seconds(self, lane: Spread, zero: int) -> FloatArray:
        """Return the seconds in which stages reduce the parameters they share, pair by pair."""
        found = np.zeros((1, max(1, len(self.shape.cut.shared))))
        choice, size = choice_of(lane, replicas=lane[5]), devices_of(lane)
        for k, stages in enumerate(self.shape.cut.shared):
            ranks = tuple(int(self.shape.home[stage]) * size for stage in stages)
            cuts = tuple(self.shape.cut.bounds[stage] for stage in stages[1:])
            if self.shape.grid.copies == 1:
                found[0, k] = self.shape.costs.shared_s(choice, cuts, ranks, zero)
        return found
