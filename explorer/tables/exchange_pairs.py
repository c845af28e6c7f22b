"""Exchanges of gradients and weights between the steps of plans, alone and beside the work that hides them.

Between the last gradient of a stage and its next forward lie

    r + max(0, (K - 1) r - B)    reduction: the last of K buckets, and what the last backward does not hide
    + U + G                      update, and gather of the updated weights (ZeRO 1 and 2)

A position reduces its chunks from the last to the first, each while it runs the backwards of those before,
then updates them in the same order. With ZeRO 2 and 3 each microbatch is reduced by itself, with ZeRO 3
gathered before and during each forward and backward, over the same links: a microbatch takes that long at
least.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from explorer.base.caching import Hashed, remembered
from explorer.schedules import Schedule
from explorer.schedules.pipelines import stages_by_turn
from explorer.schedules.placements import Grid
from explorer.tables.cost_rows import Rows
from explorer.tables.kind_costs import Exchange
from explorer.tasks.skeleton import FloatArray, IntArray

Held = tuple[tuple[tuple[int, int], ...], ...]
"""(stage, copy) pairs at positions."""
GATHERS = {"round": 2, "backward": 1, "weight": 0}
"""Gathers of ZeRO 3 between two weight gradients of a stage, by `Schedule.apart`."""
Shared = tuple[tuple[int, FloatArray], ...]
"""(stage, (N,) seconds) in which it reduces parameters that it shares with later stages, once."""


class Seconds(NamedTuple):
    """(S, N) seconds of stages for one microbatch."""

    forward: FloatArray
    backward: FloatArray
    input_grad: FloatArray
    weight_grad: FloatArray
    comm: FloatArray | None = None
    """Collectives inside the lane, of a forward and a backward; None where no schedule hides them."""

    def take(self, some: IntArray) -> Seconds:
        """Return those of some plans."""
        comm = None if self.comm is None else self.comm[:, some]
        forward, backward = self.forward[:, some], self.backward[:, some]
        return Seconds(forward, backward, self.input_grad[:, some], self.weight_grad[:, some], comm)

    def work(self, apart: str, held: Held) -> FloatArray:
        """Return the (P, N) seconds of work of positions between two weight gradients of one stage."""
        if apart == "weight":
            of_stage = self.weight_grad
        else:
            of_stage = self.backward if apart == "backward" else self.forward + self.backward
        return summed_at(held, of_stage)


def summed_at(held: Held, values: FloatArray) -> FloatArray:
    """Return the (P, N) sums of (S, N) values over the stages at each position, which all have as many."""
    first, *others = stages_by_turn(held)
    found = np.array(values[first])
    for stages in others:
        found += values[stages]
    return found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swaps:
    """Exchanges of U distinct choices of devices, ZeRO and buckets."""

    lower: FloatArray
    """(P, U): seconds after the last gradient that are sure."""
    guess: FloatArray
    """(P, U): the likely ones; the same array where they are no others."""
    beside: FloatArray
    """(U,): seconds of the longest exchange that one forward or backward is to hide."""
    earlier: FloatArray | None
    """(P, U): seconds of the buckets that the last backward of a position hides; None if there are none."""
    each: FloatArray
    """(U,): seconds of all exchanges of one microbatch, on the position that has most."""
    chunk: FloatArray
    """(U,): seconds of the longest reduction of one of several chunks."""
    zero: IntArray
    """(U,): ZeRO level."""
    store: Rows
    """Rows of `Exchange`."""
    rows: IntArray
    """(U,): rows of the store."""
    shared: Shared
    """What stages reduce of parameters that they share with later ones."""

    @staticmethod
    def of(
        schedule: Schedule,
        grid: Grid,
        held: Held,
        store: Rows,
        rows: IntArray,
        zero: IntArray,
        ends: list[tuple[int, int]],
        shared_s: FloatArray,
        unbucketed: FloatArray,
    ) -> Swaps:
        """Work out what does not depend on the seconds of stages.

        Args:
            schedule: the schedule of the plans.
            grid: positions, chunks and copies.
            held: stages at the positions that are looked at.
            store: rows of `Exchange`, by stage.
            rows: the row of each swap.
            zero: ZeRO level of each.
            ends: (place of its position among those, stage) that share parameters with a later stage.
            shared_s: (pairs, U) seconds in which these are reduced.
            unbucketed: whether gradients are reduced at once.
        """
        own, local, inner = _renumbered(held)
        exchange = Exchange(*store.of(rows, own[:, None]))
        last = np.maximum(exchange.last, exchange.expert_last)
        guess, lower = after_seconds(inner, exchange, last, None, sure=grid.copies == 1)
        for (place, stage), seconds in zip(ends, shared_s, strict=False):
            rest = exchange.update[local[stage]] + exchange.gather[local[stage]]
            np.maximum(guess[place], seconds + rest, out=guess[place])
            np.maximum(lower[place], seconds * unbucketed + rest, out=lower[place])
        reduced = np.where(zero >= 2, exchange.last + exchange.earlier, 0.0)
        sent = reduced + GATHERS[schedule.apart] * exchange.fetch
        sent *= grid.copies  # every copy's microbatches are reduced on all of them
        busy = summed_at(inner, sent)
        for (place, _), seconds in zip(ends, shared_s, strict=False):
            np.maximum(busy[place], seconds * (zero >= 2), out=busy[place])
        each = busy.max(axis=0)
        apart = exchange.inside.any(axis=0) | exchange.expert_earlier.any(axis=0)
        slows = exchange.slowdown * (exchange.fetch + sent + exchange.earlier) + exchange.first + exchange.end
        apart |= slows.any(axis=0)
        first = [pairs[0][0] for pairs in inner]
        same = np.array_equal(guess, lower)
        return Swaps(
            lower=lower, guess=lower if same else guess, each=each, zero=zero, store=store, rows=rows,
            beside=np.where(apart, np.inf, exchange.fetch.max(axis=0)),
            earlier=exchange.earlier[first] if exchange.earlier.any() else None,
            chunk=last.max(axis=0) * (grid.chunks > 1),
            shared=tuple((stage, seconds) for (_, stage), seconds in zip(ends, shared_s, strict=False)),
        )  # fmt: skip

    def exchange(self, some: IntArray, stages: Sequence[int]) -> Exchange:
        """Return the (stages, n) exchanges of some of them."""
        return Exchange(*self.store.of(self.rows[some], np.array(stages)[:, None]))


def after_seconds(
    held: Held, exchange: Exchange, last: FloatArray, ready: FloatArray | None, *, sure: bool
) -> tuple[FloatArray, FloatArray]:
    """Return (P, N) seconds from the last gradient of a position to its next forward: guess and bound.

    Args:
        held: stages at every position.
        exchange: the exchanges.
        last: (S, N) seconds of the reduction of each stage after its last gradient.
        ready: (S, N) seconds of the last backwards of each stage, after which the next one reduces; None if
            that hides all reductions but the last.
        sure: whether the first stage reduces as its own position says; False for several copies.
    """
    guess = np.zeros((len(held), last.shape[1]))
    lower = np.zeros_like(guess)
    for positions, stages in _by_count(held):
        first = stages[:, 0]
        own, updates = last[first], _summed(exchange.update, stages)
        longest = own
        reduced, behind = own, np.zeros_like(own)
        for before, stage in pairwise(stages.T):
            if ready is not None:
                reduced, behind = reduced + last[stage], behind + ready[before]
                longest = np.maximum(longest, reduced - behind)
        guess[positions] = longest + updates + _summed(exchange.gather, stages)
        alone = np.maximum(own + exchange.update[first], updates) + exchange.gather[first]
        lower[positions] = alone if sure else updates
    return guess, lower


@remembered(1024)
def _renumbered(held: Held) -> tuple[IntArray, dict[int, int], Held]:
    """Return the stages at some positions, the place of each, and the positions with those places."""
    own = sorted({stage for pairs in held for stage, _ in pairs})
    local = {stage: k for k, stage in enumerate(own)}
    inner = tuple(tuple((local[stage], copy) for stage, copy in pairs) for pairs in held)
    return np.array(own, dtype=np.int64), local, Hashed(inner)


@remembered(1024)
def _by_count(held: Held) -> list[tuple[list[int], IntArray]]:
    """Return positions with equally many different stages, and these, as (positions, stages)."""
    groups: dict[int, tuple[list[int], list[list[int]]]] = {}
    for position, pairs in enumerate(held):
        stages = list(dict.fromkeys(stage for stage, _ in pairs))
        positions, rows = groups.setdefault(len(stages), ([], []))
        positions.append(position)
        rows.append(stages)
    return [(positions, np.array(rows, dtype=np.int64)) for positions, rows in groups.values()]


def _summed(values: FloatArray, stages: IntArray) -> FloatArray:
    """Return the (P, N) sums of (S, N) values over (P, K) stages."""
    found: FloatArray = values[stages[:, 0]]
    for column in stages.T[1:]:
        found += values[column]
    return found


class Pairs:
    """Plans each with its own seconds of stages and exchanges."""

    def __init__(
        self,
        schedule: Schedule,
        held: Held,
        home: IntArray,
        seconds: Seconds,
        exchange: Exchange,
        zero: IntArray,
        m: FloatArray,
        shared: Shared = (),
    ) -> None:
        """Take the arrays of N plans.

        Args:
            schedule: their schedule.
            held: stages at every position.
            home: (S,) position of every stage.
            seconds: of stages.
            exchange: of stages.
            zero: (N,) ZeRO levels.
            m: (N,) microbatches.
            shared: what stages reduce of parameters that they share.
        """
        self.schedule, self.held, self.home, self.seconds = schedule, held, home, seconds
        self.exchange, self.zero, self.m, self.shared = exchange, zero, m, shared
        self.stages = [[stage for stage, _ in pairs] for pairs in held]
        chunks = len({stage for stage, _ in held[0]})
        grid = Grid(positions=len(held), chunks=chunks, copies=len({copy for _, copy in held[0]}))
        self.run = np.where(schedule.stays(grid, m), m, 1.0)
        """(N,): microbatches for which a stage exchanges once."""

    def after(self) -> FloatArray:
        """Return the likely (P, N) seconds after the last gradient of each position."""
        exchange, backward = self.exchange, self.seconds.backward
        last = exchange.last + np.maximum(0.0, exchange.earlier - backward)
        experts = exchange.expert_last + np.maximum(0.0, exchange.expert_earlier - backward)
        rounds = self.m / np.maximum(1, self.m // len(self.held))
        return after_seconds(self.held, exchange, np.maximum(last, experts), rounds * backward, sure=True)[0]

    def with_exchanges(self) -> Seconds:
        """Return the seconds of stages, or of the exchanges that are to be hidden behind them if longer."""
        fetch, inside = self.exchange.fetch / self.run, self.exchange.inside / self.run
        work, ends = self._slowed(), self._ends()
        forward, backward, input_grad = (np.maximum(part + inside, fetch) for part in work[:3])
        longer = Seconds(forward + ends[0], backward + ends[1], input_grad, work.weight_grad)
        if work.comm is not None:  # what was added waits for exchanges: other work may run meanwhile
            computing = work.forward + work.backward - work.comm
            longer = longer._replace(comm=longer.forward + longer.backward - computing)
        sent = np.where(self.zero >= 2, (self.exchange.last + self.exchange.earlier) / self.run, 0.0)
        sent += GATHERS[self.schedule.apart] * fetch
        sent *= len({copy for _, copy in self.held[0]})
        busy = self._summed(sent)
        for stage, seconds in self.shared:
            position = self.home[stage]
            np.maximum(busy[position], seconds * (self.zero >= 2) / self.run, out=busy[position])
        more = np.maximum(0.0, busy - longer.work(self.schedule.apart, self.held))[self.home]
        more /= len(self.held[0])
        return longer._replace(backward=longer.backward + more, weight_grad=longer.weight_grad + more)

    def surely_slowed(self) -> tuple[Seconds, IntArray]:
        """Return the seconds of stages beside gathers of their weights, which slow every action that gathers
        by itself (ZeRO 3), and the numbers of the plans of which some do.
        """
        work, gathers = self.seconds, (self.zero >= 3) & (self.run == 1)
        behind = self.exchange.fetch * gathers
        parts = (work.forward, work.backward, work.input_grad)
        slowed = [part + self.exchange.slowdown * np.minimum(behind, part) for part in parts]
        some = np.flatnonzero((self.exchange.slowdown * behind).any(axis=0))
        return Seconds(slowed[0], slowed[1], slowed[2], work.weight_grad, work.comm), some

    def _slowed(self) -> Seconds:
        """Return the seconds of stages beside exchanges, which slow them (`pricing.exchanges_beside`)."""
        work, exchange = self.seconds, self.exchange
        fetch = exchange.fetch / self.run
        every = exchange.last + exchange.earlier + exchange.expert_last + exchange.expert_earlier
        bucketed = (exchange.earlier + exchange.expert_earlier) > 0
        reduced = every * np.where(self.zero >= 2, 1.0 / self.run, bucketed / self.m)
        behind = fetch, fetch + reduced, fetch, reduced
        parts = (work.forward, work.backward, work.input_grad, work.weight_grad)
        pairs = zip(parts, behind, strict=True)
        slowed = [part + exchange.slowdown * np.minimum(other, part) for part, other in pairs]
        return Seconds(slowed[0], slowed[1], slowed[2], slowed[3], work.comm)

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the seconds of exchanges that a forward and a backward wait for besides those that the step
        shows once.
        """
        exchange, blocks = self.exchange, 1.0 / self.m
        bucket = exchange.last + exchange.expert_last
        # of the gathers a step shows one block's: about what those within blocks take
        first = exchange.first * (1.0 - blocks / 2)
        return first, np.maximum(0.0, exchange.end - blocks * bucket)

    def channels(self, *, alike: bool = True) -> FloatArray:
        """Return the (N,) seconds that exchanges of microbatches take one after the other.

        Every action exchanges by itself, or once for all of them where positions stay with a stage
        (`Schedule.stays`). The gradients of every copy's microbatches are reduced on all copies.

        Args:
            alike: whether devices lie alike everywhere, so that copies exchange no faster than if all were at
                the first position.
        """
        copies = len({copy for _, copy in self.held[0]})
        if not self.schedule.flush or (copies > 1 and not alike):
            return np.zeros(len(self.m))
        exchange, m, apart = self.exchange, self.m / copies, self.run == 1
        times = np.where(self.zero >= 2, self.m / self.run, 0.0)
        reduced = times * self._summed(exchange.last + exchange.earlier)
        gathered, tail = np.where(apart, 2 * m, 0.0) * self._summed(exchange.fetch), np.zeros(reduced.shape)
        if copies == 1:
            first = [stages[0] for stages in self.stages]
            gathered += exchange.last[first]
            tail += exchange.update[first] + exchange.gather[first]
        return np.asarray((np.maximum(reduced, gathered) + tail).max(axis=0))

    def _summed(self, values: FloatArray) -> FloatArray:
        """Return the (P, N) sums over the stages at each position."""
        return summed_at(self.held, values)
