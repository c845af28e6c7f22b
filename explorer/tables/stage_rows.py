"""Rows of stages: what the stages of one cut cost at their positions, which plans of all schedules share.

A row has a number for every stage. It is made once for what its numbers depend on, so that the many plans of
a space, and the many schedules that place stages alike, share few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from explorer.schedules.pipelines import held_pairs
from explorer.schedules.placements import Grid, Placement
from explorer.tables.coded_rows import CodedRows, Codes
from explorer.tables.cost_rows import Rows
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct
from explorer.tables.kind_costs import Exchange, KindCosts
from explorer.tables.plan_channels import PlanChannels
from explorer.tables.plan_ports import PlanPorts
from explorer.tables.run_kinds import Cut
from explorer.tables.spreads import Spread, devices_of
from explorer.tasks.skeleton import FloatArray, IntArray

_SecondsKey = tuple[Spread, int, int, int, tuple[float, ...]]


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
        self.held = held_pairs(placement, grid)
        self.count = placement.stages(grid)
        homes = [
            [placement.position(n, copy, grid) for n in range(self.count)] for copy in range(grid.copies)
        ]
        self.homes = np.array(homes)
        """(copies, S): position of every copy of each stage."""
        self.home = self.homes[0]
        self.period = costs.table.period
        self.spreads, self.sizes, self.buckets = Codes(), Codes(), Codes()
        """Codes of devices, of microbatch sizes and of sizes of buckets."""
        self.seconds = Rows(5, self.count, costs.held)
        self.transfer = Rows(3, max(1, self.count - 1), costs.held)
        self.exchange = Rows(len(Exchange._fields), self.count, costs.held)
        self.shared = Rows(1, max(1, len(cut.shared)), costs.held)
        """Seconds in which stages reduce the parameters that they share, pair by pair."""
        self._own_rows, self._sent_rows, self._swap_rows, self._shared_rows = map(CodedRows, (3, 2, 3, 2))
        self._channels = PlanChannels(costs, placement, grid)
        self.ports = PlanPorts(costs, placement, grid, cut)
        self._firsts_of: dict[int, tuple[list[int], IntArray]] = {}
        self._ends_of: dict[int, tuple[list[tuple[int, int] | None], IntArray]] = {}
        self._crowds_of: dict[Spread, FloatArray] = {}

    # ---- asked -----------------------------------------------------------------------------------------

    def of_cores(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[IntArray, IntArray]:
        """Return the (U,) rows of seconds and of transfers of cores."""
        samples, again = columns.microbatch_size[core.first], columns.recompute[core.first]
        place = lanes.place[core.first]
        lane, size = self.spreads.of(names)[place], self.sizes.of_array(samples)

        def own(new: list[int]) -> list[int]:
            keys = [self._seconds_key(names[place[n]], int(samples[n]), int(again[n])) for n in new]
            return self.seconds.rows(keys, self._seconds)

        def sent(new: list[int]) -> list[int]:
            return self.transfer.rows([(names[place[n]], int(samples[n])) for n in new], self._transfers)

        return self._own_rows.rows((lane, size, again), own), self._sent_rows.rows((lane, size), sent)

    def of_swaps(
        self, names: list[Spread], place: IntArray, zero: IntArray, bucket_bytes: FloatArray
    ) -> tuple[IntArray, IntArray]:
        """Return the (U,) rows of exchanges and of what stages share, of swaps of the `names` at `place`."""

        def make(new: list[int]) -> list[int]:
            keys = [(names[place[n]], int(zero[n]), float(bucket_bytes[n])) for n in new]
            return self.exchange.rows(keys, self._exchanges)

        def make_shared(new: list[int]) -> list[int]:
            return self.shared.rows([(names[place[n]], int(zero[n])) for n in new], self._shared_seconds)

        codes = self.spreads.of(names)[place], zero, self.buckets.of_array(bucket_bytes)
        return self._swap_rows.rows(codes, make), self._shared_rows.rows(codes[:2], make_shared)

    # ---- made ------------------------------------------------------------------------------------------

    def _by_position(self, size: int, row: Callable[[int], int]) -> IntArray:
        """Return the (S,) rows of stages, given that of the first rank of a position of so many devices."""
        firsts, place = self._firsts(size)
        return np.asarray(np.array([row(first) for first in firsts], dtype=np.int64)[place[0]])

    def _firsts(self, size: int) -> tuple[list[int], IntArray]:
        """Return `_found_firsts`, made once."""
        if size not in self._firsts_of:
            self._firsts_of[size] = self._found_firsts(size)
        return self._firsts_of[size]

    def _found_firsts(self, size: int) -> tuple[list[int], IntArray]:
        """Return the different first ranks of positions of so many devices, moved to the first devices where
        links look alike, and (copies, S) places of stages among them.
        """
        if not size or (self.period and size % self.period == 0):
            return [0], np.zeros(self.homes.shape, dtype=np.int64)
        firsts = [position * size for position in range(self.grid.positions)]
        firsts = [first % self.period if self.period else first for first in firsts]
        different = list(dict.fromkeys(firsts))
        return different, np.array([different.index(first) for first in firsts], dtype=np.int64)[self.homes]

    def _seconds_key(self, lane: Spread, samples: int, recompute: int) -> _SecondsKey:
        """Return what seconds depend on: of replicas only the distance of positions, if anything, and how
        long they wait for the slowest, by the first ranks of positions.
        """
        size = devices_of(lane) % self.period if self.period else devices_of(lane)
        firsts, copies = self._firsts(size)[0], self.grid.copies
        factors = tuple([self.costs.stage_factor(lane, copies, first) for first in firsts])
        return _one_replica(lane), size, samples, recompute, factors

    def _seconds(self, keys: Sequence[_SecondsKey]) -> FloatArray:
        """Return (5, S, keys) seconds of stages, of several copies what none is quicker than."""
        alike = all(len(self._firsts(size)[0]) == 1 for _, size, *_ in keys)
        return _least([self._of_copy(keys, copy) for copy in range(1 if alike else self.grid.copies)])

    def _of_copy(self, keys: Sequence[_SecondsKey], copy: int) -> FloatArray:
        """Return the (5, S, keys) seconds of one copy of stages."""
        rows, waits = [], []
        for lane, size, samples, recompute, factors in keys:
            firsts, place = self._firsts(size)
            row = [self.costs.seconds_row(lane, samples, recompute, first) for first in firsts]
            rows.append(np.array(row, dtype=np.int64)[place[copy]])
            waits.append(np.array(factors)[place[copy]])
        found = self.costs.seconds.of(np.array(rows).T, self.cut.runs[:, None])
        return np.asarray(found * np.array(waits).T)

    def _transfers(self, keys: Sequence[tuple[Spread, int]]) -> FloatArray:
        """Return (3, S - 1, keys) seconds of transfers: what each takes alone, what where those of all
        replicas share links, and, beside the first, those of the busiest channel for one microbatch.
        """
        costs, numbers, crowds = self.costs, [], []
        for lane, samples in keys:
            alike = _one_replica(lane)
            ends, place = self._ends(devices_of(lane))
            rows = [costs.transfer_row(alike, samples, *pair) if pair else 0 for pair in ends]
            numbers.append(np.array(rows, dtype=np.int64)[place])
            if lane not in self._crowds_of:
                row = lane[0] * lane[1]
                found = [costs.crowd(row, *pair, lane[5]) if pair else 0.0 for pair in ends]
                self._crowds_of[lane] = np.array(found)[place]
            crowds.append(self._crowds_of[lane])
        pairs = self.cut.pairs if len(self.cut.pairs) else np.zeros(1, dtype=np.int64)
        crowded = np.array(crowds).T
        both = costs.transfer.of(np.array(numbers).T, pairs[:, None]) * (crowded > 0)
        alone, kept = both.min(axis=0), np.zeros(both.shape[1:])
        kept[0] = self._channels.seconds([lane for lane, _ in keys], alone)
        return np.array([alone, both.max(axis=0) * crowded, kept])

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

    def _exchanges(self, keys: Sequence[tuple[Spread, int, float]]) -> FloatArray:
        """Return (quantities, S, keys) seconds of exchanges."""
        # copies hold the same weights at several positions: as if all of them were at the first
        copies, row, rows = self.grid.copies, self.costs.exchange_row, []
        for lane, zero, bucket_bytes in keys:
            size = devices_of(lane) if copies == 1 else 0
            held = (*lane[:5], lane[5] * copies)
            rows.append(self._by_position(size, partial(row, held, zero, bucket_bytes)))
        return self.costs.exchange.of(np.array(rows).T, self.cut.runs[:, None])

    def _shared_seconds(self, keys: Sequence[tuple[Spread, int]]) -> FloatArray:
        """Return (1, groups of stages, keys) seconds of what stages share."""
        found = np.zeros((1, max(1, len(self.cut.shared)), len(keys)))
        for k, stages in enumerate(self.cut.shared if self.grid.copies == 1 else ()):
            cuts = tuple(self.cut.bounds[stage] for stage in stages[1:])
            homes = self.home[list(stages)].tolist()
            for n, (lane, zero) in enumerate(keys):
                size = devices_of(lane)
                found[0, k, n] = self.costs.shared_s(lane, cuts, tuple([r * size for r in homes]), zero)
        return found


def _least(copies: list[FloatArray]) -> FloatArray:
    """Return the (5, ...) seconds that no copy of a stage is quicker than, also where work hides collectives:
    a copy takes the longer of both, and so no less than half of its seconds.
    """
    if len(copies) == 1:
        return copies[0]
    found = np.minimum.reduce(copies)
    most = np.maximum.reduce([copy[4] for copy in copies])
    found[4] = np.minimum(most, np.maximum((found[0] + found[1]) / 2, found[4]))
    return np.asarray(found)


def _one_replica(lane: Spread) -> Spread:
    """Return devices of which only one replica is looked at, unless experts are spread over all."""
    return lane if lane[2] > 1 else (*lane[:5], 1)
