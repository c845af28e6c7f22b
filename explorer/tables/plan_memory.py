"""Bytes of the fullest device of plans, and those that some device lacks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.cluster.memory_room import memory_room
from explorer.schedules.pipelines import InFlight
from explorer.schedules.spec import ROUNDING
from explorer.tables.degrees_columns import DegreesColumns
from explorer.tables.distinct import Distinct, distinct
from explorer.tables.kind_costs import Memory
from explorer.tables.plan_shape import CHUNK, PlanShape
from explorer.tables.spreads import Spread, devices_of
from explorer.tasks.skeleton import FloatArray, IntArray

FIRST_IN_FLIGHT, IN_FLIGHT = Memory._fields.index("saved"), ("saved", "again", "waiting")
VERSION = Memory._fields.index("version")


class Levels(NamedTuple):
    """Bytes in flight of N cores, arrays (P, N): the same for every ZeRO level."""

    guess: FloatArray
    """Most at any moment."""
    lower: FloatArray
    """Most at a moment that is sure to come."""
    stays: npt.NDArray[np.bool_]
    """(1, N): whether positions stay with a stage (`Schedule.stays`)."""
    further: tuple[FloatArray, FloatArray] | None
    """At the moment at which there are further versions of the weights, and how many; None for none."""

    def take(self, cores: IntArray) -> Levels:
        """Return those of some cores."""
        further = None if self.further is None else (self.further[0][:, cores], self.further[1][:, cores])
        return Levels(self.guess[:, cores], self.lower[:, cores], self.stays[:, cores], further)

    @staticmethod
    def joined(parts: list[Levels]) -> Levels:
        """Return those of all cores."""
        guess, lower = (
            np.concatenate(arrays, axis=1) for arrays in zip(*(p[:2] for p in parts), strict=True)
        )
        stays = np.concatenate([part.stays for part in parts], axis=1)
        every = [part.further for part in parts if part.further is not None]
        further = None
        if every:
            own, versions = (np.concatenate(arrays, axis=1) for arrays in zip(*every, strict=True))
            further = own, versions
        return Levels(guess, lower, stays, further)


class PlanMemory:
    """Memory of plans of one shape; looks only at positions of which one is fullest."""

    def __init__(self, shape: PlanShape) -> None:
        self.shape = shape
        self._waits = True
        self._fullest = self._fullest_positions()
        stages = np.array([[stage for stage, _ in shape.held[position]] for position in self._fullest])
        self._runs = shape.cut.runs[stages][:, :, None]
        """Kinds of the runs at the positions that are looked at."""

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
        place = core.place[kept.first]
        base_row = np.empty(core.size, dtype=np.int64)  # any ZeRO level: it does not matter in flight
        base_row[place] = rows
        m = self.shape.job.global_batch / (columns.microbatch_size * columns.replicas)[core.first]
        level = Levels.joined([self._levels(base_row[some], m[some]) for some in _chunks(core.size)])
        capacity, reserved = self._room(names, lane)
        found = np.zeros((4, kept.size))
        for some in _chunks(kept.size):
            room = (capacity[:, some], reserved[:, some]) if capacity.ndim == 2 else (capacity, reserved)
            of = level.take(place[some])
            found[:, some] = self._peaks(rows[some], of, *room)
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
        self._waits = any(moment.waiting is not None for moment in moments)
        for moment in moments:
            for part in (moment.saved, moment.waiting, moment.versions):
                if part is not None:
                    falls[1:] &= (np.diff(part, axis=0) <= 0).all(axis=tuple(range(1, part.ndim)))
        falls[self.shape.begins] = False
        return every[~falls]

    def _levels(self, rows: IntArray, m: FloatArray) -> Levels:
        """Return what U cores have in flight when memory peaks."""
        schedule, grid, at = self.shape.schedule, self.shape.grid, self._fullest
        stays = schedule.stays(grid, m)
        guess, lower = np.zeros((2, len(at), len(m)))
        further: tuple[FloatArray, FloatArray] | None = None
        if self.shape.job.training:
            parts = IN_FLIGHT if self._waits else IN_FLIGHT[:-1]
            found = self.shape.costs.memory.of(
                rows, self._runs, slice(FIRST_IN_FLIGHT, FIRST_IN_FLIGHT + len(parts))
            )
            for moment in schedule.in_flight(schedule.placement, grid, m, at):
                level = _level(moment, found)
                np.maximum(guess, level, out=guess)
                if moment.sure:
                    np.maximum(lower, level, out=lower)
                if moment.versions is not None:
                    further = level, np.asarray(moment.versions)
        return Levels(guess, lower, np.broadcast_to(stays, (1, len(m))), further)

    def _peaks(
        self, rows: IntArray, level: Levels, capacity: FloatArray, reserved: FloatArray
    ) -> tuple[FloatArray, ...]:
        costs, stays = self.shape.costs, level.stays.any()
        found = costs.memory.of(rows, self._runs, slice(0, 3 if stays else 2))
        buffers = found[1].max(axis=1)
        if stays:
            buffers = np.where(level.stays[0], found[2].max(axis=1), buffers)
        base = found[0].sum(axis=1) + buffers
        guess, lower = base + level.guess, base + level.lower
        if level.further is not None:
            own, versions = level.further
            version = costs.memory.of(rows, self._runs, slice(VERSION, VERSION + 1))[0].sum(axis=1)
            np.maximum(guess, base + own + versions * version, out=guess)
        guess, lower = guess + reserved, (lower + reserved) * ROUNDING
        over = (guess - capacity).max(axis=0), (lower - capacity).max(axis=0)
        return guess.max(axis=0), lower.max(axis=0), *over

    def _room(self, names: list[Spread], lane: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return (P, ...) bytes that the first replica's devices at a position take, and those reserved."""
        cluster, order = self.shape.costs.table.cluster, self.shape.costs.table.devices
        if len(cluster.device_kinds) == 1:
            kind = cluster.device_kinds[0]
            return np.array(memory_room(kind).limit_bytes), np.array(kind.reserved_bytes)
        found = np.zeros((2, self.shape.grid.positions, len(names)))
        for n, name in enumerate(names):
            for r in range(self.shape.grid.positions):
                first = r * devices_of(name)
                kinds = [cluster.kind_of(device) for device in order[first : first + name[0] * name[1]]]
                found[0, r, n] = min(memory_room(k).limit_bytes for k in kinds)
                found[1, r, n] = max(k.reserved_bytes for k in kinds)
        return found[0][:, lane], found[1][:, lane]


def _level(moment: InFlight, memory: FloatArray) -> FloatArray:
    """Return the (P, N) bytes in flight at a moment, given the parts `IN_FLIGHT` of `Memory`."""
    level = (moment.saved * memory[0]).sum(axis=1)
    if moment.waiting is not None:
        level += (moment.waiting * memory[2]).sum(axis=1)
    if moment.again is not None:
        level += memory[1][:, moment.again]
    return np.asarray(level)


def _chunks(size: int) -> list[slice]:
    return [slice(first, first + CHUNK) for first in range(0, size, CHUNK)]
