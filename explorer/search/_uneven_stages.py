"""Uneven stages of a group of a block: its best partition by the cost tables, and the points that have it.

Only for lines, one stage a position with whole backwards, of models that are chains. Even stages balance
FLOPs; these balance seconds on the devices they lie on, leave later stages shorter where few microbatches
go around, and take layers from positions that could not hold them. They are no members of the even space:
their bounds do not count for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from itertools import pairwise, product

import numpy as np

from explorer.schedules.pipelines import Pipelines
from explorer.schedules.placements import LINE
from explorer.schedules.spec import ROUNDING
from explorer.search._blocks import Block, FloatArray, IntArray, cut_bounds
from explorer.search._devices import DeviceOrder
from explorer.search._frames import BoolArray
from explorer.search._groups import Point, points_cut_at
from explorer.search._partition import Partition, best_partition, least_of_partitions
from explorer.search._rates import Rates, room_of
from explorer.search.problem import Problem
from explorer.strategies.cuts import units
from explorer.strategies.degrees import USUAL_BUCKET_BYTES, ZERO_LEVELS
from explorer.tables import Estimator, StageChoice
from explorer.tables.borders import is_chain

MOST_UNITS = 160
"""Units of the largest model of which all runs are looked at."""
LEAST_GAIN = 1e-9
"""Share of the step by which a moved unit has to shorten it."""
MOST_MOVED = 4
"""Boundaries that are moved together."""
TRIES = 2
"""Partitions that are looked for at a ZeRO level: if the first lacks memory, all positions hold less in the
next."""


class UnevenStages:
    """Best uneven stages of the groups of one problem.

    Args:
        problem: the search problem.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        bounds = [0, *(stop for _, stop in units(problem.graph))]
        self.bounds: IntArray = np.array(bounds)
        self._chain = len(bounds) <= MOST_UNITS + 1 and is_chain(problem.graph, bounds)
        self._estimators: dict[DeviceOrder, Estimator] = {}
        """Of their own: every partition has runs of its own, which the others' tables need not have."""

    def points(self, block: Block, group: int, limit: float) -> list[Point]:
        """Return the points of a group with the best uneven stages, where these may be better than a limit.

        Args:
            block: a block.
            group: a group of it.
            limit: objective that they must be able to be better than.
        """
        p, d, _, _, _ = block.grids[group].tolist()
        if p == 1 or not self._chain or self.problem.rules or not is_line(block):
            return []
        rates, used = Rates(self.problem, block.order), np.array([p * d * block.costs.row])

        def worth(least_s: float) -> bool:
            least = rates.least(np.array([least_s * ROUNDING]), np.zeros(1), used)
            return float(least[0]) < limit

        line = Line(self.problem, block, group, self.bounds)
        if not worth(line.least_s):
            return []
        found: list[Point] = []
        even = tuple(cut_bounds(self.problem, p))
        for zero in ZERO_LEVELS if d > 1 else (0,):
            lacking = 0.0
            for _ in range(TRIES):
                best = line.partition(zero, lacking)
                if best is None or not worth(best.least_s):
                    break
                moved = line.moved(best.bounds, zero, lacking)
                bounds = tuple(self.bounds[list(moved)].tolist())
                points, over = points_cut_at(self.problem, block, group, zero, bounds, self._estimator(block))
                if over <= 0:
                    found += [item for item in points if item.bound < limit and bounds != even]
                    break
                lacking += over
        return found

    def _estimator(self, block: Block) -> Estimator:
        if block.order not in self._estimators:
            problem, table = self.problem, block.costs.table
            found = Estimator(problem.graph, problem.needed_cluster, problem.job, table=table)
            self._estimators[block.order] = found
        return self._estimators[block.order]


def is_line(block: Block) -> bool:
    """Tell whether a block's schedule has one stage a position and whole backwards, in training."""
    schedule = block.schedule
    if schedule.split or schedule.hides or not schedule.flush or not block.costs.job.training:
        return False
    return schedule.placement == LINE


class Line:
    """Costs of all runs of units at the positions of a group.

    Args:
        problem: the search problem.
        block: a block of a line.
        group: a group of it.
        bounds: first layers of all units, and the number of layers.
    """

    def __init__(self, problem: Problem, block: Block, group: int, bounds: IntArray) -> None:
        self.problem, self.block, self.table = problem, block, block.costs.table
        degrees = block.degrees(group)
        self.positions, self.count = degrees.stages, problem.job.global_batch // degrees.microbatch_samples
        self._bounds, self._choice, self._replicas = bounds, StageChoice.of(degrees), degrees.replicas
        self._from, self._to = np.triu_indices(len(bounds), 1)
        self._firsts = [position * degrees.position_devices for position in range(self.positions)]
        self._again = int(block.grids[group, 4])

    @property
    def least_s(self) -> float:
        """Seconds that no partition is below; 0 where they depend on which position has which layers."""
        costs = self.block.costs
        if len(costs.places) > 1:
            return 0.0
        work = costs.seconds(self._choice.microbatch_size, 0).once[[costs.stages.whole], self._again]
        return float(least_of_partitions(work, np.array([self.count]), np.array([self.positions]))[0])

    def partition(self, zero: int, lacking_bytes: float) -> Partition | None:
        """Return the best partition that fits.

        Args:
            zero: ZeRO level.
            lacking_bytes: bytes that positions have to hold less than there is room for.
        """
        after = self._at_places(lambda first: self._after_s(first, zero))
        return best_partition(
            self._once_s, self._crossing_s, self.count, after_s=after, fits=self._fits(zero, lacking_bytes)
        )

    def moved(self, bounds: tuple[int, ...], zero: int, lacking_bytes: float) -> tuple[int, ...]:
        """Move single units over boundaries while that shortens what the schedule says of its own order.

        Cycles of microbatches under way are in that, and not in the bound.

        Args:
            bounds: first unit of each stage, and the number of units.
            zero: ZeRO level.
            lacking_bytes: as `partition`.
        """
        after, fits = (
            self._at_places(lambda first: self._after_s(first, zero)),
            self._fits(zero, lacking_bytes),
        )
        steps = _steps(self.positions)
        best, least = np.array(bounds), np.inf
        while True:
            tried = best + steps
            tried = tried[(np.diff(tried, axis=1) > 0).all(axis=1)]
            found = self._guess_s(tried, after, fits)
            if not found.min() < least * (1 - LEAST_GAIN):
                return tuple(best.tolist())
            best, least = tried[found.argmin()], float(found.min())

    def _guess_s(self, bounds: IntArray, after: list[FloatArray], fits: list[BoolArray]) -> FloatArray:
        """Return the (N,) seconds of a step of (N, positions + 1) partitions; infinite if they do not fit."""
        schedule, runs = self.block.schedule, list(zip(bounds.T[:-1], bounds.T[1:], strict=True))
        parts = np.array([part[:, i, k] for part, (i, k) in zip(self._parts_s, runs, strict=True)])
        sent = [crossing[k] / 2 for crossing, (_, k) in zip(self._crossing_s, runs, strict=False)]
        of = Pipelines(
            placement=schedule.placement, grid=schedule.placement.grid(self.positions),
            microbatches=np.full(len(bounds), float(self.count)), forward_s=parts[:, 0],
            backward_s=parts[:, 1], input_grad_s=parts[:, 2], weight_grad_s=parts[:, 3],
            transfer_s=np.array(sent), options=schedule.read_options(dict(self.block.options)),
        )  # fmt: skip
        behind = np.array([item[i, k] for item, (i, k) in zip(after, runs, strict=True)])
        may = np.array([item[i, k] for item, (i, k) in zip(fits, runs, strict=True)]).all(axis=0)
        spans = schedule.guessed(of, schedule.lower(of))
        return np.where(may, (spans + behind).max(axis=0), np.inf)

    def _at_places(self, make: Callable[[int], FloatArray]) -> list[FloatArray]:
        """Return something of every position, made once where rows of devices are alike."""
        known: dict[int, FloatArray] = {}
        found = []
        for first in self._firsts:
            number = self.table.columns_number(self._choice.at(first))
            if number not in known:
                known[number] = make(first)
            found.append(known[number])
        return found

    @cached_property
    def _parts_s(self) -> list[FloatArray]:
        """Seconds of F, B, I and W by position."""
        return self._at_places(self._seconds)

    @cached_property
    def _once_s(self) -> list[FloatArray]:
        known = {id(part): part[0] + part[1] for part in self._parts_s}
        return [known[id(part)] for part in self._parts_s]

    def _seconds(self, first: int) -> FloatArray:
        times = self.table.seconds(self._choice.at(first), *self._runs)
        gradient = times.input_grad_s + times.recompute_s
        whole = gradient + times.weight_grad_s - times.behind_weight_s
        return np.array([*map(self._spread, (times.forward_s, whole, gradient, times.weight_grad_s))])

    def _after_s(self, first: int, zero: int) -> FloatArray:
        """Return the seconds of updates, gathers and the last bucket of gradients, which nothing hides."""
        choice = replace(self._choice.at(first), zero=zero, bucket_bytes=USUAL_BUCKET_BYTES)
        found = self.table.exchange(choice, *self._runs)
        return self._spread(found.update_s + found.reduce_s + (found.gather_s if zero < 3 else 0.0))

    @cached_property
    def _crossing_s(self) -> list[FloatArray]:
        """Seconds of one microbatch's tensors there and back, by position and cut."""
        found, known = [], dict[tuple[int, int], FloatArray]()
        cuts, period = self._bounds[1:-1], self.table.period
        for pair in pairwise(self._firsts):
            back = pair[0] // period * period if period else 0
            moved = pair[0] - back, pair[1] - back
            if moved not in known:
                ends = self._choice.at(pair[0]), self._choice.at(pair[1])
                there, back_s = (
                    self.table.crossings.transfer(*ends, cuts, backward=backward)
                    for backward in (False, True)
                )
                known[moved] = np.array([0.0, *(there + back_s), 0.0])
            found.append(known[moved])
        return found

    def _fits(self, zero: int, lacking_bytes: float) -> list[BoolArray]:
        """Tell per position which units it can hold with the microbatches that are sure to be in flight."""
        schedule, cluster = self.block.schedule, self.table.cluster
        held = self.table.memory(replace(self._choice, zero=zero), *self._runs)
        states = self._spread(held.weight_bytes + held.gradient_bytes + held.optimizer_bytes)
        saved = self._spread(held.activation_bytes_per_sample * self._choice.microbatch_size)
        grid = schedule.placement.grid(self.positions)
        count, every = np.array([float(self.count)]), np.arange(self.positions)
        moments = schedule.in_flight(schedule.placement, grid, count, every)
        ahead = np.max([moment.saved[:, 0, 0] for moment in moments if moment.sure], axis=0)
        found = []
        for first, waiting in zip(self._firsts, ahead.tolist(), strict=True):
            kind = cluster.kind_of(self.table.devices[first])
            room = room_of(self.problem, kind) - kind.reserved_bytes - lacking_bytes
            found.append(states + waiting * saved <= room)
        return found

    @property
    def _runs(self) -> tuple[IntArray, IntArray]:
        return self._bounds[self._from], self._bounds[self._to]

    def _spread(self, values: FloatArray) -> FloatArray:
        found = np.zeros((len(self._bounds), len(self._bounds)))
        found[self._from, self._to] = values
        return found


@cache
def _steps(positions: int) -> IntArray:
    """Return moves of one boundary, or of some next to each other, by one unit; the first moves none."""
    found = [np.zeros(positions + 1, dtype=np.int64)]
    for first, number, way in product(range(1, positions), range(1, MOST_MOVED + 1), (1, -1)):
        if first + number <= positions:
            move = np.zeros(positions + 1, dtype=np.int64)
            move[first : first + number] = way
            found.append(move)
    return np.array(found)
