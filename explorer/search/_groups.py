"""Groups of a block looked at closely: their points, with guesses and bounds of time and memory.

The points of a group differ in ZeRO level, buckets of gradients and, where replicas lie on devices of
different speed, in how samples are dealt out. `explorer.tables.Estimator` answers all points of many groups
at once; points with samples dealt out by speed it does not know, so these have a guess by the speeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from explorer.search._blocks import Block, cut_bounds
from explorer.search._by_speed import least_by_speed, least_if_even, speed_up
from explorer.search._devices import on_devices
from explorer.search._rates import Rates
from explorer.search.problem import Problem, respecting
from explorer.strategies.degrees import EXCHANGES, USUAL_BUCKET_BYTES, ZERO_LEVELS, Degrees
from explorer.strategies.shares import shared_by_speed
from explorer.strategy import Strategy
from explorer.tables import DegreesColumns, Estimates, Estimator

IntArray = npt.NDArray[np.int64]
Family = tuple[int, Degrees, str, int]
"""Number of the order of devices, layout, schedule, and group of their block."""
PREFER = 1e-6
"""Share by which each ZeRO level, and buckets, count as slower, all else equal."""
HOPELESS = 1e100
"""What a missing byte counts for where nothing fits: such points come after all others."""
MANY_ROWS, MANY_TASKS = 3_000_000, 100_000
"""Devices of all stages together, and forwards of all stages, that make a point count as twice as bad."""
TIGHT = 2.0
"""Factor by which points that seem not to fit, but may, count as slower."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One strategy of the space, not yet built."""

    block: Block
    """Its block."""
    group: int
    """Its group."""
    zero: int
    """ZeRO level."""
    bucket_bytes: float
    """Size of the buckets of gradients; 0 for one reduction."""
    by_speed: bool
    """Whether replicas on slower devices take fewer samples of a microbatch."""
    step_s: float
    """Guess of its step time, in seconds."""
    guess: float
    """Guess of its objective, for the order of points."""
    bound: float
    """Bound of its objective."""
    seems_to_fit: bool
    """Whether its guess of memory fits; its bound does."""
    bounds: tuple[int, ...] = ()
    """First layers of its stages, and the number of layers; () if they are even."""

    @property
    def promise(self) -> float:
        """Its guess as if it surely fitted."""
        return self.guess if self.seems_to_fit else self.guess / TIGHT

    @property
    def degrees(self) -> Degrees:
        """Its degrees."""
        return self.block.degrees(self.group).changed(zero=self.zero, bucket_bytes=self.bucket_bytes)

    @property
    def family(self) -> Family:
        """Block and group, whose points are alike but for exchanges of gradients and weights."""
        block = self.block
        return block.number, block.costs.layout, block.schedule.name, self.group

    @property
    def label(self) -> str:
        """Short name; states the devices if they are not the first ones in order."""
        degrees = self.degrees
        words = ", samples by speed" * self.by_speed + ", uneven stages" * bool(self.bounds)
        return degrees.label + on_devices(self.block.order[: degrees.devices]) + words

    def strategy(self, problem: Problem) -> Strategy | None:
        """Return the strategy, cut differently if needed to respect pins and bans; None if no cut does."""
        graph, cluster, job, degrees = problem.graph, problem.needed_cluster, problem.job, self.degrees
        cuts = (self.bounds or cut_bounds(problem, degrees.stage_count))[1:-1]
        found = degrees.build(graph, cluster, job, devices=self.block.order, cuts=cuts)
        if self.by_speed:
            found = found.with_job(shared_by_speed(graph, cluster, job.precision, found.job))
        return respecting(problem, found)


def points_of(problem: Problem, block: Block, groups: Sequence[int]) -> list[Point]:
    """Return the points of some groups whose bounds fit the devices."""
    rows = [row for group in groups for row in _rows(problem, block, group)]
    if not rows:
        return []
    of_group, zero, buckets = np.array(rows, dtype=np.int64).T
    columns = _columns(block, of_group, zero, buckets)
    found = block.costs.estimator.of(columns)
    used = np.asarray(columns.stages * columns.replicas * columns.context * columns.tensor)
    rates = Rates(problem, block.order)
    may, seems = _fits(problem, found)
    guess = rates.least(found.step_s, found.memory_bytes, used)
    lower_s = found.step_lower_s
    if (there := np.flatnonzero(may)).size:  # ports take as long as all else
        lower_s[there] = np.maximum(lower_s[there], block.costs.estimator.on_ports(columns.take(there)))
    guess = np.maximum(guess, rates.least(lower_s, found.memory_lower_bytes, used))
    bound = np.maximum(rates.least(lower_s, found.memory_lower_bytes, used), block.lower[of_group])
    if problem.rules:
        bound = block.lower[of_group]  # pins may want another cut
    if block.hopeless and not may.any():
        may[int(found.over_lower_bytes.argmin())] = True
        guess, bound = HOPELESS * found.over_lower_bytes, np.full(len(guess), np.inf)
    points = []
    even = np.array([least_if_even(problem, block, group) for group in of_group])
    guess, bound = np.maximum(guess, even), np.maximum(bound, even)
    shares = {} if block.hopeless else {group: speed_up(problem, block, group) for group in groups}
    bounds = {group: least_by_speed(problem, block, group) for group, share in shares.items() if share}
    for row in np.flatnonzero(may).tolist():
        level, bucketed, group = int(zero[row]), int(buckets[row]), int(of_group[row])
        later = (1.0 if seems[row] else TIGHT) * (1 + PREFER * (level + bucketed))
        point = Point(
            block=block, group=group, zero=level, bucket_bytes=USUAL_BUCKET_BYTES * bucketed, by_speed=False,
            step_s=float(found.step_s[row]), guess=float(guess[row]) * later, bound=float(bound[row]),
            seems_to_fit=bool(seems[row]),
        )  # fmt: skip
        points.append(point)
        if share := shares.get(group, 0.0):
            lower = bounds[group]
            step_s, value = point.step_s * share, max(point.guess * share, lower)
            points.append(replace(point, by_speed=True, step_s=step_s, guess=value, bound=lower))
    return points


def points_cut_at(
    problem: Problem, block: Block, group: int, zero: int, bounds: tuple[int, ...], estimator: Estimator
) -> tuple[list[Point], float]:
    """Return the points of a group with given stages, and the bytes that the one that needs least lacks.

    Args:
        problem: the search problem.
        block: a block.
        group: a group of it.
        zero: ZeRO level.
        bounds: first layers of the stages, and the number of layers.
        estimator: estimates of plans on its devices.
    """
    rows = [row for row in _rows(problem, block, group) if row[1] == zero]
    of_group, levels, buckets = np.array(rows, dtype=np.int64).T
    columns = _columns(block, of_group, levels, buckets)
    found = estimator.of(columns, bounds)
    used = np.asarray(columns.stages * columns.replicas * columns.context * columns.tensor)
    rates = Rates(problem, block.order)
    guess = rates.least(found.step_s, found.memory_bytes, used)
    bound = rates.least(found.step_lower_s, found.memory_lower_bytes, used)
    may, seems = _fits(problem, found)
    points = [
        Point(
            block=block, group=group, zero=zero, bucket_bytes=USUAL_BUCKET_BYTES * int(buckets[row]),
            by_speed=False, step_s=float(found.step_s[row]), bound=float(bound[row]), bounds=bounds,
            guess=float(guess[row]), seems_to_fit=True,
        )
        for row in np.flatnonzero(may & seems).tolist()
    ]  # fmt: skip
    over = float(found.over_bytes.min())
    if problem.memory_limit_bytes:
        over = max(over, float(found.memory_bytes.min()) - problem.memory_limit_bytes)
    return points, over


def _rows(problem: Problem, block: Block, group: int) -> list[tuple[int, int, int]]:
    """Return (group, ZeRO level, whether there are buckets) of its points."""
    replicas = int(block.grids[group, 1])
    training = problem.job.training
    levels = ZERO_LEVELS if replicas > 1 and training else (0,)
    shared = replicas * (block.schedule.placement.copies or 1) > 1 and training
    return [(group, *choice) for choice in product(levels, (0, 1) if shared else (0,))]


def _columns(block: Block, groups: IntArray, zero: IntArray, buckets: IntArray) -> DegreesColumns:
    layout = block.costs.layout
    p, d, v, size, recompute = block.grids[groups].T
    same = np.ones(len(groups), dtype=np.int64)
    return DegreesColumns(
        tensor=same * layout.tensor, stages=p, replicas=d, context=same * layout.context,
        expert=same * layout.expert, chunks=v, microbatch_size=size, recompute=recompute, zero=zero,
        sequence_parallel=same * layout.sequence_parallel > 0,
        context_exchange=same * list(EXCHANGES).index(layout.context_exchange),
        bucket_bytes=np.where(buckets, USUAL_BUCKET_BYTES, 0.0), schedule=same * 0,
        schedules=((block.schedule.name, block.options),),
    )  # fmt: skip


def _fits(problem: Problem, found: Estimates) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Tell which points may fit, and which seem to."""
    every = np.ones(len(found.step_s), dtype=bool)
    if problem.rules:
        return every, every
    may, seems = found.over_lower_bytes <= 0, found.over_bytes <= 0
    if limit := problem.memory_limit_bytes:
        may, seems = may & (found.memory_lower_bytes <= limit), seems & (found.memory_bytes <= limit)
    if (longest := problem.longest_step_s) < math.inf:
        may, seems = may & (found.step_lower_s <= longest), seems & (found.step_s <= longest)
    return may, seems


def slowness(problem: Problem, point: Point) -> float:
    """Return the share by which a point counts as worse since it takes long to simulate."""
    p, d, v, size, _ = point.block.grids[point.group].tolist()
    tasks = problem.job.global_batch // (size * d) * p * v
    rows = p * d * v * point.block.costs.row
    return float(rows / MANY_ROWS + tasks / MANY_TASKS)
