"""Frames: all sizes of a pipeline that a schedule may be laid over, for as many devices and rows.

A frame does not depend on the layout, only on how many devices a replica takes of a position, so that
layouts and orders of devices share it. Which sizes a schedule takes is told by its own placement and needs;
what its first position holds by its `in_flight`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.schedules.needs import Size
from explorer.schedules.placements import Grid
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

    @cached_property
    def chains(self) -> BoolArray:
        """(G,): whether a microbatch goes from each stage of a grid to the next, never in two at once."""
        return np.array([item.chain for item in self.laid], dtype=bool)

    def __len__(self) -> int:
        return len(self.grid)


class _Ordered(NamedTuple):
    """What a schedule makes of a grid, for every divisor of the batch as a number of microbatches."""

    allowed: BoolArray
    """(divisors,): whether it can order so many."""
    stays: BoolArray
    """(divisors,): as `Frame.stays`."""
    paired: FloatArray
    """(divisors,): as `Frame.paired`."""
    saved: FloatArray
    """(LEADING, stages of the position, divisors): microbatches that these positions hold at least; empty if
    not sure.
    """


class Frames:
    """Frames of one problem; keeps them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.stages = problem, EvenStages.of(problem.graph)
        self._batch = problem.job.global_batch
        self._divisors = np.array(divisors(self._batch), dtype=np.int64)
        self._frames: dict[tuple[str, int, int], Frame] = {}
        self._grids: dict[int, list[tuple[int, int]]] = {}
        self._orders: dict[tuple[str, int, int], _Ordered] = {}

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
        columns = np.array(grids, dtype=np.int64).reshape(-1, 3).T
        orders = [self._ordered(schedule, p, v) for p, _, v in grids]
        share = self._batch // columns[1]
        shape = len(grids), len(self._divisors)
        allowed = np.array([item.allowed for item in orders], dtype=bool).reshape(shape)
        allowed &= (share[:, None] % self._divisors == 0) & (share > 0)[:, None]
        grid, at = np.nonzero(allowed[:, ::-1])
        at = len(self._divisors) - 1 - at  # the most microbatches of a grid come first
        count = self._divisors[at]
        laid = tuple(self.stages.laid(schedule.placement, p, v) for p, _, v in grids)
        return Frame(
            positions=columns[0], replicas=columns[1], chunks=columns[2], laid=laid,
            grid=grid, size=share[grid] // count, count=count,
            stays=np.array([item.stays for item in orders], dtype=bool).reshape(shape)[grid, at],
            paired=np.array([item.paired for item in orders]).reshape(shape)[grid, at],
            held=_held(orders, laid, grid, at) if self._sure(schedule) and len(grid) else (),
        )  # fmt: skip

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

    def _ordered(self, schedule: Schedule, positions: int, chunks: int) -> _Ordered:
        """Return what a schedule makes of so many positions, for every divisor of the batch; keep it."""
        key = schedule.name, positions, chunks
        if key not in self._orders:
            counts, grid = self._divisors.astype(float), schedule.placement.grid(positions, chunks)
            allowed = allowed_counts(schedule, positions, chunks, self._divisors)
            sure = self._sure(schedule) and allowed.any()
            self._orders[key] = _Ordered(
                allowed=allowed, stays=schedule.stays(grid, counts), paired=schedule.paired(grid, counts),
                saved=self._in_flight(schedule, grid, counts) if sure else np.zeros((0, 0, 0)),
            )  # fmt: skip
        return self._orders[key]

    def _in_flight(self, schedule: Schedule, grid: Grid, counts: FloatArray) -> FloatArray:
        """Return the (LEADING, stages, divisors) microbatches that these positions hold at least."""
        at = np.minimum(LEADING, grid.positions - 1)
        moments = schedule.in_flight(schedule.placement, grid, counts, at)
        sure = np.array([moment.saved for moment in moments if moment.sure])
        # of several moments the one that holds most: a bound as each of them is
        most = sure.sum(axis=2).argmax(axis=0)
        found: FloatArray = np.take_along_axis(sure, most[None, :, None], axis=0)[0]
        return found


def _held(orders: Sequence[_Ordered], laid: Sequence[Laid], grid: IntArray, at: IntArray) -> tuple[Sums, ...]:
    """Return `Frame.held` of (N,) rows with these grids and numbers of microbatches, by place of divisor."""
    numbers = np.bincount(grid, minlength=len(orders))
    ends = np.cumsum(numbers)
    found = []
    for place in range(len(LEADING)):
        sizes, kinds, times = [], [], []
        for g in np.flatnonzero(numbers).tolist():
            mine = laid[g].leading[place]
            sizes.append(np.full(numbers[g], len(mine)))
            kinds.append(np.tile(mine, numbers[g]))
            times.append(orders[g].saved[place][:, at[ends[g] - numbers[g] : ends[g]]].T.ravel())
        terms = np.concatenate(sizes)
        found.append(Sums(np.cumsum(terms) - terms, np.concatenate(kinds), np.concatenate(times)))
    return tuple(found)


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
