"""Frames: all sizes of a pipeline that a schedule may be laid over, for as many devices and rows.

A frame does not depend on the layout, only on how many devices a replica takes of a position, so that
layouts and orders of devices share it. Which sizes a schedule takes is told by its own placement and needs;
what its first position holds by its `in_flight`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from explorer.schedules.needs import Size
from explorer.schedules.spec import Schedule
from explorer.search._even_stages import LEADING, EvenStages, IntArray, Laid, Sums
from explorer.search.exhaustive import divisors
from explorer.search.problem import Problem
from explorer.strategies.degrees import Degrees

BoolArray = npt.NDArray[np.bool_]
FloatArray = npt.NDArray[np.float64]
USUAL, INTERLEAVED = Degrees(stages=2).schedule, Degrees(stages=2, chunks=2).schedule
"""Schedules of degrees that name none: with one chunk a position, and with several."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """Pipelines of one schedule by size: G grids, and N rows of a grid and a microbatch size."""

    positions: IntArray
    """(G,)."""
    replicas: IntArray
    """(G,)."""
    chunks: IntArray
    """(G,)."""
    laid: tuple[Laid, ...]
    """What each grid makes of the model."""
    grid: IntArray
    """(N,): grid of each row."""
    size: IntArray
    """(N,): samples of a microbatch per replica."""
    count: IntArray
    """(N,): microbatches of a step."""
    stays: BoolArray
    """(N,): whether positions stay with a stage for several microbatches (`Schedule.stays`)."""
    paired: FloatArray
    """(N,): microbatches of a stage that run beside others at most (`Schedule.paired`)."""
    held: tuple[Sums, ...]
    """At each position of `LEADING`, N sums of microbatches that it holds by kind of run; () if not sure."""

    @cached_property
    def paths(self) -> tuple[Sums, Sums, IntArray, IntArray]:
        """The paths of all grids: seconds at a position, seconds before it, first path and number by grid."""
        at, before = (Sums.joined(part) for part in zip(*(item[:2] for item in self.laid), strict=True))
        numbers = np.array([len(item.at.starts) for item in self.laid])
        return at, before, np.cumsum(numbers) - numbers, numbers

    @cached_property
    def fills(self) -> tuple[Sums, FloatArray]:
        """Of all paths: seconds before it, whichever copy's it is, and the number of these stages."""
        near = [float(number) for item in self.laid for number in item.near]
        return Sums.joined(item.fill for item in self.laid), np.array(near)

    @cached_property
    def leading(self) -> tuple[Sums, ...]:
        """At each position of `LEADING`, the stages of each grid."""
        at = zip(*(item.leading for item in self.laid), strict=True)
        return tuple(Sums.made([(kinds, (1.0,) * len(kinds)) for kinds in part]) for part in at)

    def __len__(self) -> int:
        return len(self.grid)


class Frames:
    """Frames of one problem; keeps them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.stages = problem, EvenStages.of(problem.graph)
        self._batch = problem.job.global_batch
        self._divisors = np.array(divisors(self._batch), dtype=np.int64)
        self._frames: dict[tuple[str, int, int], Frame] = {}
        self._grids: dict[int, list[tuple[int, int]]] = {}
        self._allowed: dict[tuple[str, int, int], BoolArray] = {}
        self._saved: dict[tuple[str, int, int], npt.NDArray[np.float64]] = {}

    def replicas(self, most: int) -> int:
        """Return the most replicas, up to `most`, that divide the batch; 1 where none do."""
        return int(self._divisors[bisect_right(self._divisors.tolist(), max(1, most)) - 1])

    def even_grids(self, devices: int, row: int) -> list[tuple[int, int]]:
        """Return all (positions, replicas) on so many devices, of which each replica takes `row` of a
        position.
        """
        rows = devices // row
        if rows not in self._grids:
            most = min(rows, self.stages.most)
            self._grids[rows] = [(p, self.replicas(rows // p)) for p in range(1, most + 1)]
        return self._grids[rows]

    def of(self, schedule: Schedule, devices: int, row: int) -> Frame:
        """Return the frame of a schedule.

        Args:
            schedule: the schedule.
            devices: devices there are.
            row: devices that each replica takes of a position.
        """
        key = schedule.name, devices, row
        if key not in self._frames:
            self._frames[key] = self._make(schedule, devices // row)
        return self._frames[key]

    def _make(self, schedule: Schedule, rows: int) -> Frame:
        grids = [
            (p, self.replicas(rows // p), v)
            for p in range(1, min(rows, self.stages.most) + 1)
            for v in self._chunks(schedule, p)
        ]
        parts, stays, paired = [], [np.zeros(0, dtype=bool)], [np.zeros(0)]
        held: list[list[tuple[tuple[int, ...], list[float]]]] = [[] for _ in LEADING]
        for number, (p, d, v) in enumerate(grids):
            share = self._batch // d
            allowed = self._count_allowed(schedule, p, v)[
                np.searchsorted(self._divisors, self._counts(share))
            ]
            counts = self._counts(share)[allowed]
            parts.append(np.array([np.full(len(counts), number), share // counts, counts]))
            of = schedule.placement.grid(p, v), counts.astype(float)
            stays.append(schedule.stays(*of))
            paired.append(schedule.paired(*of))
            if self._sure(schedule):
                some = self._in_flight(schedule, p, v)[:, :, np.searchsorted(self._divisors, counts)]
                every = self.stages.laid(schedule.placement, p, v).leading
                for at, kinds, saved in zip(held, every, some, strict=True):
                    at += [(kinds, column) for column in saved.T.tolist()]
        columns = np.array(grids, dtype=np.int64).reshape(-1, 3).T
        rows_of = np.concatenate([np.zeros((3, 0)), *parts], axis=1).astype(np.int64)
        return Frame(
            positions=columns[0], replicas=columns[1], chunks=columns[2],
            laid=tuple(self.stages.laid(schedule.placement, p, v) for p, _, v in grids),
            grid=rows_of[0], size=rows_of[1], count=rows_of[2], stays=np.concatenate(stays),
            paired=np.concatenate(paired), held=tuple(Sums.made(at) for at in held if at),
        )  # fmt: skip

    def _counts(self, share: int) -> IntArray:
        """Return the numbers of microbatches into which a replica's samples can be cut, the most first."""
        return self._divisors[share % self._divisors == 0][::-1] if share else self._divisors[:0]

    def _sure(self, schedule: Schedule) -> bool:
        """Tell whether it is known what the first position holds."""
        return schedule.placement.copies > 0 and self.problem.job.training and not self.problem.rules

    def _chunks(self, schedule: Schedule, positions: int) -> list[int]:
        """Return the numbers of chunks that so many positions may have."""
        placement, needs, most = schedule.placement, schedule.needs, self.stages.most // positions
        asked = bool(self.problem.schedule)
        if positions == 1 and not asked:
            return [1] if schedule.name == USUAL else []  # one position has one order
        found = range(1, most + 1) if placement.several and positions > 1 else [placement.chunks or 1]
        if schedule.name == INTERLEAVED and not asked:
            found = range(2, most + 1)  # with one chunk it is the usual one
        return [
            v
            for v in found
            if v <= most
            and (placement.copies or 1) <= positions  # copies of a stage are on devices of their own
            and v % needs.chunk_multiple == 0
            and v <= (needs.most_chunks or v)
            and (positions * v) % needs.stage_multiple == 0
        ]

    def _count_allowed(self, schedule: Schedule, positions: int, chunks: int) -> BoolArray:
        """Tell which divisors of the batch the schedule can order as numbers of microbatches."""
        key = schedule.name, positions, chunks
        if key not in self._allowed:
            self._allowed[key] = allowed_counts(schedule, positions, chunks, self._divisors)
        return self._allowed[key]

    def _in_flight(self, schedule: Schedule, positions: int, chunks: int) -> npt.NDArray[np.float64]:
        """Return the (LEADING, stages, divisors) microbatches that these positions hold at least."""
        key = schedule.name, positions, chunks
        if key not in self._saved:
            placement = schedule.placement
            grid, counts = placement.grid(positions, chunks), self._divisors.astype(float)
            at = np.minimum(LEADING, positions - 1)
            moments = schedule.in_flight(placement, grid, counts, at)
            sure = np.array([moment.saved for moment in moments if moment.sure])
            # of several moments the one that holds most: a bound as each of them is
            most = sure.sum(axis=2).argmax(axis=0)
            self._saved[key] = np.take_along_axis(sure, most[None, :, None], axis=0)[0]
        return self._saved[key]


def allowed_counts(schedule: Schedule, positions: int, chunks: int, counts: IntArray) -> BoolArray:
    """Tell which numbers of microbatches a schedule can order on its own placement of so many positions.

    Args:
        schedule: the schedule.
        positions: pipeline positions.
        chunks: stages of one copy at a position.
        counts: (N,) microbatches of a step, over all copies.
    """
    needs, placement = schedule.needs, schedule.placement
    grid = placement.grid(positions, chunks)
    if needs.copies and grid.copies not in needs.copies:
        return np.zeros(len(counts), dtype=bool)
    found: BoolArray = counts % grid.copies == 0
    if needs.multiple is not None:
        size = Size(positions=positions, chunks=chunks, microbatches=1)
        for i, count in enumerate(counts.tolist()):
            each = count // grid.copies
            found[i] &= each > 0 and each % needs.multiple.of(replace(size, microbatches=each)) == 0
    if needs.least is not None and found.any():
        shape = placement.shape(grid, 1)
        for i in np.flatnonzero(found).tolist():
            microbatches = (int(counts[i]),) * shape.stages
            least = needs.least.of(replace(shape, microbatches=microbatches))
            found[i] = all(n >= at_least for n, at_least in zip(microbatches, least, strict=True))
    return found
