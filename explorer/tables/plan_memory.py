"""Bytes of the fullest device of plans, and those that some device lacks."""

from __future__ import annotations

import numpy as np

from explorer.schedules.pipelines import InFlight
from explorer.schedules.spec import ROUNDING
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct, distinct
from explorer.tables.kind_costs import Memory
from explorer.tables.plan_shape import CHUNK, PlanShape
from explorer.tables.spreads import Spread, devices_of
from explorer.tasks.skeleton import FloatArray, IntArray


class PlanMemory:
    """Memory of plans of one shape; looks only at positions of which one is fullest."""

    def __init__(self, shape: PlanShape) -> None:
        self.shape = shape
        self._memory_parts = len(Memory._fields)
        self._fullest = self._fullest_positions()

    def of(
        self, columns: DegreesColumns, names: list[Spread], lanes: Distinct, core: Distinct
    ) -> tuple[FloatArray, ...]:
        """Return (N,) bytes of the fullest device, guess and bound, and those that some device lacks."""
        kept = distinct(core.place, columns.zero)
        lane, samples = lanes.place[kept.first], columns.microbatch_size[kept.first]
        again, zero = columns.recompute[kept.first], columns.zero[kept.first]
        costs, copies = self.shape.costs, self.shape.grid.copies
        spreads = [(*name[:5], name[5] * copies) for name in names]

        def make(new: list[int]) -> list[int]:
            parts = (array[new].tolist() for array in (samples, again, zero))
            of = zip((spreads[place] for place in lane[new].tolist()), *parts, strict=True)
            return [costs.memory_row(*each) for each in of]

        codes = costs.spreads.of(names)[lane], costs.sizes.of_array(samples), again, zero
        rows = costs.memory_rows(copies).rows(codes, make)
        make(costs.memory.unfilled(rows))
        m = self.shape.job.global_batch / (columns.microbatch_size * columns.replicas)[kept.first]
        capacity, reserved = self._room(names, lanes.place[kept.first])
        found = np.zeros((4, kept.size))
        for first in range(0, kept.size, CHUNK):
            some = slice(first, first + CHUNK)
            room = (capacity[:, some], reserved[:, some]) if capacity.ndim == 2 else (capacity, reserved)
            found[:, some] = self._peaks(rows[some], m[some], *room)
        return tuple(part[kept.place] for part in found)

    def _fullest_positions(self) -> IntArray:
        """Return the positions of which one is fullest: where those after the first of a run hold no more.

        Tried for some numbers of microbatches; of a mixed cluster all positions are looked at.
        """
        every = np.arange(self.shape.grid.positions)
        if len(self.shape.costs.table.cluster.device_kinds) > 1 or not self.shape.job.training:
            return every
        m = np.array([1.0, 2.0, 3.0, 8.0, 64.0]) * self.shape.grid.positions * self.shape.grid.copies
        falls = np.ones(len(every), dtype=bool)
        moments = self.shape.schedule.in_flight(self.shape.schedule.placement, self.shape.grid, m, every)
        if all(moment.waiting is None and moment.versions is None for moment in moments):
            self._memory_parts = Memory._fields.index("waiting")
        for moment in moments:
            for part in (moment.saved, moment.waiting, moment.versions):
                if part is not None:
                    falls[1:] &= (np.diff(part, axis=0) <= 0).all(axis=tuple(range(1, part.ndim)))
        falls[self.shape.begins] = False
        return every[~falls]

    def _peaks(
        self, rows: IntArray, m: FloatArray, capacity: FloatArray, reserved: FloatArray
    ) -> tuple[FloatArray, ...]:
        at = self._fullest
        stages = np.array([[stage for stage, _ in self.shape.held[position]] for position in at])
        # what waits for weight gradients, and versions, are the last: few schedules need them
        found = self.shape.costs.memory.of(rows, self.shape.cut.runs[stages][:, :, None], self._memory_parts)
        memory = Memory(*found, *[found[0]] * (len(Memory._fields) - len(found)))
        buffers = memory.buffers.max(axis=1)
        if (stays := self.shape.schedule.stays(self.shape.grid, m)).any():
            buffers = np.where(stays, memory.run_buffers.max(axis=1), buffers)
        base = memory.held.sum(axis=1) + buffers
        moments: tuple[InFlight, ...] = ()
        if self.shape.job.training:
            moments = self.shape.schedule.in_flight(self.shape.schedule.placement, self.shape.grid, m, at)
        guess, lower = base.copy(), base.copy()
        for moment in moments:
            level = base + _level(moment, memory)
            np.maximum(guess, level, out=guess)
            if moment.sure:
                np.maximum(lower, level, out=lower)
            if moment.versions is not None:
                np.maximum(guess, level + moment.versions * memory.version.sum(axis=1), out=guess)
        guess, lower = guess + reserved, (lower + reserved) * ROUNDING
        over = (guess - capacity).max(axis=0), (lower - capacity).max(axis=0)
        return guess.max(axis=0), lower.max(axis=0), *over

    def _room(self, names: list[Spread], lane: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (P, ...) bytes of the first replica's smallest device at a position, and those reserved."""
        cluster, order = self.shape.costs.table.cluster, self.shape.costs.table.devices
        if len(cluster.device_kinds) == 1:
            kind = cluster.device_kinds[0]
            return np.array(kind.memory_bytes), np.array(kind.reserved_bytes)
        found = np.zeros((2, self.shape.grid.positions, len(names)))
        for n, name in enumerate(names):
            for r in range(self.shape.grid.positions):
                first = r * devices_of(name)
                kinds = [cluster.kind_of(device) for device in order[first : first + name[0] * name[1]]]
                found[:, r, n] = min(k.memory_bytes for k in kinds), max(k.reserved_bytes for k in kinds)
        return found[0][:, lane], found[1][:, lane]


def _level(moment: InFlight, memory: Memory) -> FloatArray:
    """Return the (P, N) bytes in flight at a moment."""
    level = (moment.saved * memory.saved).sum(axis=1)
    if moment.waiting is not None:
        level += (moment.waiting * memory.waiting).sum(axis=1)
    if moment.again is not None:
        level += memory.again[:, moment.again]
    return np.asarray(level)
