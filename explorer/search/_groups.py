"""One group of a block looked at closely: its strategies with a guess and bounds of time and memory each.

The strategies of a group differ in ZeRO level, buckets of gradients and, where replicas lie on devices of
different speed, in how samples are dealt out. They share their stages, so these are costed once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.costs.collectives import collective_seconds
from explorer.costs.compute import update_seconds
from explorer.search._blocks import Block, ahead_of, cut_bounds
from explorer.search._devices import on_devices
from explorer.search._layout_costs import LayoutCosts, StageSeconds
from explorer.search._rates import Rates, room_of
from explorer.search._stage_seconds import Evenly, guess_s, least_s
from explorer.search.problem import Problem, respecting
from explorer.strategies.degrees import USUAL_BUCKET_BYTES, ZERO_LEVELS, Degrees
from explorer.strategies.shares import shared_by_speed
from explorer.strategy import Strategy

FloatArray = npt.NDArray[np.float64]
ROUNDING = 1 - 1e-9
"""Factor that keeps an exact bound below what the simulator adds up in another order."""
PREFER = 1e-6
"""Share by which each ZeRO level counts as slower, all else equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One strategy of the space, not yet built."""

    degrees: Degrees
    """Its degrees."""
    block: Block
    """Its block."""
    family: tuple[int, int]
    """Its block and group, whose points are alike but for exchanges of gradients and weights."""
    by_speed: bool = False
    """Whether replicas on slower devices take fewer samples of a microbatch."""
    guess: float
    """Guess of its objective; infinite if it seems not to fit."""
    step_guess_s: float
    """Guess of its step time, in seconds."""
    step_s: float
    """Bound of its step time, in seconds."""
    peak_bytes: float
    """Bound of its peak memory."""

    @property
    def label(self) -> str:
        """Short name; states the devices if they are not the first ones in order."""
        shared = ", samples by speed" if self.by_speed else ""
        return self.degrees.label + on_devices(self.block.order[: self.degrees.devices]) + shared

    def strategy(self, problem: Problem) -> Strategy | None:
        """Return the strategy, cut differently if needed to respect pins and bans; None if no cut does."""
        graph, cluster, job = problem.graph, problem.needed_cluster, problem.job
        cuts = cut_bounds(problem, self.degrees.stage_count)[1:-1]
        found = self.degrees.build(graph, cluster, job, devices=self.block.order, cuts=cuts)
        if self.by_speed:
            found = found.with_job(shared_by_speed(graph, cluster, job.precision, found.job))
        return respecting(problem, found)


class _Sync(NamedTuple):
    """Seconds of the first stage after its last backward, on one ZeRO level."""

    reduce_s: float
    """Of all its gradients."""
    last_s: float
    """Of its last bucket of gradients, or of all without buckets."""
    gather_s: float
    """Of its weights, block by block at level 3."""
    update_s: float
    blocks: int = 1
    """Parts in which weights are gathered."""


def points_of(problem: Problem, block: Block, group: int) -> list[Point]:
    """Return the strategies of a group that its schedule can order and whose bounds fit the devices."""
    degrees = block.degrees(group)
    count = problem.job.global_batch // degrees.microbatch_samples
    if block.schedule.needs.least and block.schedule.unmet_even(degrees.stages, count, degrees.chunks):
        return []
    if block.schedule.unmet_even(degrees.stages, count, degrees.chunks) if _choosy(block) else False:
        return []
    return _Group(problem, block, group, degrees, count).points()


def _choosy(block: Block) -> bool:
    needs = block.schedule.needs
    return bool(needs.multiple or needs.copies not in ((), (1,)) or needs.stage_multiple > 1)


class _Group:
    """The stages of a group, costed."""

    def __init__(self, problem: Problem, block: Block, group: int, degrees: Degrees, count: int) -> None:
        self.problem, self.block, self.degrees = problem, block, degrees
        self.costs: LayoutCosts = block.costs
        self.family = id(block), group
        self.job = problem.job
        self.bounds = cut_bounds(problem, degrees.stage_count)
        self.even = Evenly(homes=np.array(degrees.homes), positions=degrees.stages, count=count)
        self.spans = list(zip(self.bounds, self.bounds[1:], strict=False))
        self.paths = self._paths()
        self.first = self.costs.bytes_of(*self.spans[0], degrees.recompute)
        self.rates = Rates(problem, block.order)
        self.pass_s, self.traffic_s = self._transfers()

    def points(self) -> list[Point]:
        """Return all points whose bounds fit the devices."""
        found = []
        for zero in self._levels():
            peak, over = self._peak(zero, everything=True)
            if over > 0:
                continue
            for buckets in (0.0, USUAL_BUCKET_BYTES) if self._replicated() else (0.0,):
                sync = self._sync(zero, buckets)
                found += [
                    self._point(zero, buckets, peak, sync, by_speed=by_speed)
                    for by_speed in ((False, True) if self._uneven() else (False,))
                ]
        return found

    def _levels(self) -> tuple[int, ...]:
        return ZERO_LEVELS if self.degrees.replicas > 1 and self.job.training else (0,)

    def _replicated(self) -> bool:
        return self.job.training and self.degrees.replicas * self.even.copies > 1

    def _point(self, zero: int, buckets: float, peak: float, sync: _Sync, *, by_speed: bool) -> Point:
        after_s = 0.0 if buckets else sync.reduce_s + sync.update_s
        schedule, training = self.block.schedule, self.job.training
        plain = self.costs.layout
        sure = plain.context == 1 and plain.expert == 1 and not by_speed and self.even.copies == 1
        certain = after_s if sure else 0.0
        least = max(
            least_s(schedule, self.even, times, training=training, after_s=certain) for times in self.paths
        )
        guesses = [
            guess_s(schedule, self.even, times, training=training, transfer_s=self.pass_s)
            for times in self.paths
        ]
        guess = len(guesses) / sum(1 / item for item in guesses) if by_speed else max(guesses)
        guess = max(guess, self.traffic_s)
        guess = self._with_exchange(guess, zero, sync)
        if by_speed or self.problem.rules:
            least = 0.0
        used = np.array([self.degrees.devices])
        guessed = self.rates.least(np.array([guess]), np.array([peak]), used)
        return Point(
            degrees=self.degrees.changed(zero=zero, bucket_bytes=buckets),
            block=self.block,
            family=self.family,
            by_speed=by_speed,
            step_guess_s=guess,
            guess=float(guessed[0]) * (1 + PREFER * (zero + bool(buckets))),
            step_s=least * ROUNDING,
            peak_bytes=self._peak(zero, everything=False)[0] * ROUNDING,
        )

    def _with_exchange(self, guess: float, zero: int, sync: _Sync) -> float:
        """Return a guess with the reductions and gathers that no work hides, and the updates.

        Level 3 gathers weights for every forward and backward, and from level 2 on every backward reduces
        what it made: whichever takes longer, that or the work, hides the other.
        """
        stages = self.even.stages * self.even.copies / self.even.positions
        own = 2 * sync.gather_s * (zero == 3) + sync.reduce_s * (zero > 1)
        once = float(self.paths[0].backward[0])
        shown = sync.last_s + max(0.0, sync.reduce_s - once if sync.last_s < sync.reduce_s else 0.0)
        late = sync.gather_s if zero < 3 else 2 * sync.gather_s / sync.blocks
        return max(guess, own * self.even.count * stages) + shown + late + sync.update_s * stages

    # ---- seconds ------------------------------------------------------------------------------------

    def _paths(self) -> list[StageSeconds]:
        """Return the stages' seconds along each different path that microbatches of a replica take."""
        recompute, size = self.degrees.recompute, self.degrees.microbatch_size
        bounds = np.array(self.bounds)
        if len(self.costs.places) == 1:
            return [self.costs.seconds(bounds, recompute, size, 0)]
        rows = self.costs.row_places[: self.even.positions * self.degrees.replicas]
        paths = np.unique(rows.reshape(self.even.positions, -1).T, axis=0)
        parts = {int(n): self.costs.seconds(bounds, recompute, size, int(n)) for n in np.unique(paths)}
        found = []
        for path in paths:
            at = path[self.even.homes[:, 0]].tolist()
            arrays = [
                np.array([getattr(parts[place], field)[s] for s, place in enumerate(at)])
                for field in StageSeconds._fields
            ]
            found.append(StageSeconds(*arrays))
        return found

    def _uneven(self) -> bool:
        """Tell whether replicas differ in speed, and have samples to deal out."""
        if self.degrees.microbatch_size == 1 or len(self.paths) == 1 or self.problem.rules:
            return False
        return len(self.costs.cluster.device_kinds) > 1

    def _transfers(self) -> tuple[float, float]:
        """Return the seconds of one transfer, and of all of a step if nothing else held them up."""
        d, even = self.degrees, self.even
        if d.stages == 1:
            return 0.0, 0.0
        inner = self.bounds[1:-1]
        size = float(self.costs.crossing_bytes[inner].mean()) * d.microbatch_size
        alone, together = self.block.passes(d.stages, d.position_devices)
        ways = 1 + self.job.training
        one = alone[0] + alone[1] * size
        return one, ways / 2 * even.count * (even.stages / d.stages) * (together[0] + together[1] * size)

    def _sync(self, zero: int, buckets: float) -> _Sync:
        """Return the seconds of the first stage's reduction, gather and update, with no other traffic."""
        if not self.job.training:
            return _Sync(0.0, 0.0, 0.0, 0.0)
        held, d, cluster = self.first, self.degrees, self.costs.cluster
        row = d.tensor  # devices along the sequence hold the same weights
        devices = self.block.order[: d.position_devices : row]
        elements = held.gradients / self.costs.gradient_width / (d.replicas if zero else 1)
        kind = cluster.kind_of(devices[0])
        update = update_seconds(
            kind, elements=elements, optimizer=self.job.optimizer, precision=self.job.precision
        )
        if len(devices) == 1:
            return _Sync(0.0, 0.0, 0.0, update)

        def seconds(op: str, size: float, parts: int) -> float:
            return parts * collective_seconds(cluster, op, devices, size / parts, concurrent=row)

        parts = math.ceil(held.gradients / buckets) if buckets else 1
        reduce_s = seconds("reduce_scatter" if zero else "all_reduce", held.gradients, max(1, parts))
        blocks = self.costs.units_of(*self.spans[0]) if zero == 3 else 1
        gather_s = seconds("all_gather", held.weights, blocks) if zero else 0.0
        return _Sync(reduce_s, reduce_s / max(1, parts), gather_s, update, blocks)

    # ---- bytes --------------------------------------------------------------------------------------

    def _peak(self, zero: int, *, everything: bool) -> tuple[float, float]:
        """Return the bytes of the fullest device at least, and by how much that is too much."""
        if self.problem.rules:
            return 0.0, 0.0
        found = [(0.0, -math.inf)]
        for position in sorted({0, self.even.positions - 1}):
            device = self.block.order[position * self.degrees.position_devices]
            kind = self.costs.cluster.kind_of(device)
            held = self._held(position, zero, everything=everything) + kind.reserved_bytes
            found.append((held, held - room_of(self.problem, kind) / ROUNDING))
        return max(peak for peak, _ in found), max(over for _, over in found)

    def _held(self, position: int, zero: int, *, everything: bool) -> float:
        d = self.degrees
        stages = np.flatnonzero((self.even.homes == position).any(axis=1)).tolist()
        holders = d.replicas * self.even.copies
        own = [self.costs.bytes_of(*self.spans[s], d.recompute, zero, holders) for s in stages]
        states = sum(item.weights + item.gradients + item.optimizer for item in own)
        if not self.job.training:
            return states
        found = ahead_of(self.block.schedule, d.stages, len(own), np.array([self.even.count]))
        ahead = [int(item[0]) for item in found]
        if position:
            ahead = [1] + [0] * (len(own) - 1)
            if self.block.schedule.name in ("1f1b", "interleaved_1f1b", "gpipe"):
                ahead = [0] * (len(own) - 1) + [1]
        held = states + d.microbatch_size * sum(
            item.activations * n for item, n in zip(own, ahead, strict=True)
        )
        if everything:
            held += max(item.buffers + item.buffers_per_sample * d.microbatch_size for item in own)
        return held
