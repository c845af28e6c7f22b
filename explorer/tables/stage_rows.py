"""Rows of stages: what the stages of one cut cost at their positions, which plans of all schedules share.

A row has a number for every stage. It is made once for what its numbers depend on, so that the many plans of
a space, and the many schedules that place stages alike, share few of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from explorer.schedules.placements import Grid, Placement
from explorer.tables.coded_rows import CodedRows, Codes
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct
from explorer.tables.kind_costs import Exchange, KindCosts, Rows
from explorer.tables.plan_channels import PlanChannels
from explorer.tables.run_kinds import Cut
from explorer.tables.spreads import Spread, choice_of, devices_of
from explorer.tasks.skeleton import FloatArray, IntArray


class StageRows:
    """Rows of the stages of one cut on one grid; keeps what it was asked for."""

    def __init__(self, costs: KindCosts, placement: Placement, grid: Grid, cut: Cut) -> None:
        """Start without rows.

        Args:
            costs: of all kinds of runs that the stages are of.
            placement: where the stages lie.
            grid: positions, chunks and copies.
            cut: the stages.
        """
        self.costs, self.grid, self.cut = costs, grid, cut
        self.held = placement.held(grid)
        self.count = placement.stages(grid)
        self.home = np.array([placement.position(stage, 0, grid) for stage in range(self.count)])
        self.period = costs.table.period
        self.spreads, self.sizes, self.buckets = Codes(), Codes(), Codes()
        """Codes of devices, of microbatch sizes and of sizes of buckets."""
        self.seconds, self.transfer = Rows(5, self.count), Rows(3, max(1, self.count - 1))
        self.exchange = Rows(len(Exchange._fields), self.count)
        self.shared = Rows(1, max(1, len(cut.shared)))
        """Seconds in which stages reduce the parameters that they share, pair by pair."""
        self._own_rows, self._sent_rows, self._swap_rows, self._shared_rows = map(CodedRows, (3, 2, 3, 2))
        self._channels = PlanChannels(costs, placement, grid)
        self._ends_of: dict[int, tuple[list[tuple[int, int] | None], IntArray]] = {}

    @property
    def held_bytes(self) -> int:
        """Bytes of all rows."""
        return sum(rows.held_bytes for rows in (self.seconds, self.transfer, self.exchange, self.shared))

    # ---- asked -----------------------------------------------------------------------------------------

    def of_cores(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[IntArray, IntArray]:
        """Return the (U,) rows of seconds and of transfers of cores."""
        samples, again = columns.microbatch_size[core.first], columns.recompute[core.first]
        place = lanes.place[core.first]
        lane, size = self.spreads.of(names)[place], self.sizes.of_array(samples)

        def own(n: int) -> int:
            return self._seconds_row(names[place[n]], int(samples[n]), int(again[n]))

        def sent(n: int) -> int:
            return self.transfer.row((names[place[n]], int(samples[n])), self._transfers)

        return self._own_rows.rows((lane, size, again), own), self._sent_rows.rows((lane, size), sent)

    def of_swaps(
        self, names: list[Spread], place: IntArray, zero: IntArray, bucket_bytes: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Return the (U,) rows of exchanges and of what stages share, of swaps of the `names` at `place`."""

        def make(n: int) -> int:
            return self.exchange.row((names[place[n]], int(zero[n]), float(bucket_bytes[n])), self._exchanges)

        def make_shared(n: int) -> int:
            return self.shared.row((names[place[n]], int(zero[n])), self._shared_seconds)

        codes = self.spreads.of(names)[place], zero, self.buckets.of_array(bucket_bytes)
        return self._swap_rows.rows(codes, make), self._shared_rows.rows(codes[:2], make_shared)

    # ---- made ------------------------------------------------------------------------------------------

    def _by_position(self, size: int, row: Callable[[int], int]) -> IntArray:
        """Return the (S,) rows of stages, given that of the first rank of a position of so many devices."""
        if not size or (self.period and size % self.period == 0):
            return np.full(self.count, row(0), dtype=np.int64)
        firsts = [position * size for position in range(self.grid.positions)]
        firsts = [first % self.period if self.period else first for first in firsts]
        rows = {first: row(first) for first in dict.fromkeys(firsts)}
        return np.array([rows[first] for first in firsts], dtype=np.int64).take(self.home)

    def _seconds_row(self, lane: Spread, samples: int, recompute: int) -> int:
        """Return the row of seconds; of replicas only the distance of positions matters, if anything."""
        size = devices_of(lane) % self.period if self.period else devices_of(lane)
        alike = lane if lane[2] > 1 else (*lane[:5], 1)
        return self.seconds.row((alike, size, samples, recompute), self._stage_seconds)

    def _stage_seconds(self, lane: Spread, size: int, samples: int, recompute: int) -> FloatArray:
        choice = choice_of(lane, samples=samples, recompute=recompute, replicas=lane[5] if lane[2] > 1 else 1)
        rows = self._by_position(size, lambda first: self.costs.seconds_row(choice.at(first)))
        return self.costs.seconds.of(rows, self.cut.runs)

    def _transfers(self, lane: Spread, samples: int) -> FloatArray:
        """Return (3, S - 1) seconds of transfers: what each takes alone, what where those of all replicas
        share links, and, beside the first, those of the busiest channel for one microbatch.
        """
        choice = choice_of(lane, samples=samples, replicas=lane[5] if lane[2] > 1 else 1)
        ends, place = self._ends(devices_of(lane))
        costs, row = self.costs, choice.row_devices
        numbers = np.array([costs.transfer_row(choice, *pair) if pair else 0 for pair in ends])[place]
        crowds = np.array([costs.crowd(row, *pair, lane[5]) if pair else 0.0 for pair in ends])[place]
        pairs = self.cut.pairs if len(self.cut.pairs) else np.zeros(1, dtype=np.int64)
        both = costs.transfer.of(numbers, pairs) * (crowds > 0)
        alone, kept = both.min(axis=0), np.zeros(both.shape[1])
        kept[0] = self._channels.seconds(lane, alone)
        return np.array([alone, both.max(axis=0) * crowds, kept])

    def _ends(self, size: int) -> tuple[list[tuple[int, int] | None], IntArray]:
        """Return the different (first rank that sends, that receives) of transfers between positions of so
        many devices, moved together to the first devices where links look alike; None for those on the same
        devices; and per transfer its place among them.
        """
        if size not in self._ends_of:
            home, period = self.home * size, self.period
            a, b = home[:-1], home[1:]
            back = np.minimum(a, b) // period * period if period else np.zeros_like(a)
            ends: dict[tuple[int, int] | None, int] = {}
            pairs = zip((a - back).tolist(), (b - back).tolist(), strict=True)
            place = [ends.setdefault(None if x == y else (x, y), len(ends)) for x, y in pairs]
            if not place:
                place = [ends.setdefault(None, 0)]
            self._ends_of[size] = list(ends), np.array(place, dtype=np.int64)
        return self._ends_of[size]

    def _exchanges(self, lane: Spread, zero: int, bucket_bytes: float) -> FloatArray:
        # copies hold the same weights at several positions: as if all of them were at the first
        copies = self.grid.copies
        choice = choice_of(lane, zero=zero, bucket_bytes=bucket_bytes, replicas=lane[5] * copies)
        size = devices_of(lane) if copies == 1 else 0
        rows = self._by_position(size, lambda first: self.costs.exchange_row(choice.at(first)))
        return self.costs.exchange.of(rows, self.cut.runs)

    def _shared_seconds(self, lane: Spread, zero: int) -> FloatArray:
        found = np.zeros((1, max(1, len(self.cut.shared))))
        choice, size = choice_of(lane, replicas=lane[5]), devices_of(lane)
        for k, stages in enumerate(self.cut.shared):
            ranks = tuple(int(self.home[stage]) * size for stage in stages)
            cuts = tuple(self.cut.bounds[stage] for stage in stages[1:])
            if self.grid.copies == 1:
                found[0, k] = self.costs.shared_s(choice, cuts, ranks, zero)
        return found
