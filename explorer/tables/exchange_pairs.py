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

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from explorer.schedules import Schedule
from explorer.schedules.pipelines import Pipelines
from explorer.schedules.placements import Grid
from explorer.tables.kind_costs import Exchange, Rows
from explorer.tasks.skeleton import FloatArray, IntArray

Held = tuple[tuple[tuple[int, int], ...], ...]
"""(stage, copy) pairs at every position."""
SharedEnds = tuple[tuple[int, int, FloatArray, FloatArray], ...]
"""(position, stage, seconds of the reduction of what it shares with a later stage, those that are sure)."""


class Seconds(NamedTuple):
    """(S, N) seconds of stages for one microbatch."""

    forward: FloatArray
    backward: FloatArray
    input_grad: FloatArray
    weight_grad: FloatArray

    def work(self, apart: str, held: Held) -> FloatArray:
        """Return the (P, N) seconds of work of positions between two weight gradients of one stage."""
        if apart == "weight":
            of_stage = self.weight_grad
        else:
            of_stage = self.backward if apart == "backward" else self.forward + self.backward
        return np.array([of_stage[[stage for stage, _ in pairs]].sum(axis=0) for pairs in held])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Swaps:
    """Exchanges of U distinct choices of devices, ZeRO and buckets."""

    lower: FloatArray
    """(P, U): seconds after the last gradient that are sure."""
    guess: FloatArray
    """(P, U): the likely ones; the same array where they are no others."""
    beside: FloatArray
    """(U,): seconds of the longest exchange that one forward or backward is to hide."""
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
    shared: SharedEnds
    """Reductions of parameters that stages share."""

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
            held: stages at every position.
            store: rows of `Exchange`, by stage.
            rows: the row of each swap.
            zero: ZeRO level of each.
            ends: (position, stage) that share parameters with a later stage.
            shared_s: (pairs, U) seconds in which these are reduced.
            unbucketed: whether gradients are reduced at once.
        """
        made = Swaps(
            lower=np.zeros(0), guess=np.zeros(0), beside=np.zeros(0), each=np.zeros(0), chunk=np.zeros(0),
            zero=zero, store=store, rows=rows,
            shared=tuple(
                (position, stage, seconds, seconds * unbucketed)
                for (position, stage), seconds in zip(ends, shared_s, strict=False)
                if seconds.any()
            ),
        )  # fmt: skip
        every = np.arange(len(rows))
        exchange = made.exchange(every)
        last = np.maximum(exchange.last, exchange.expert_last)
        guess, lower = after_seconds(held, exchange, last, None, sure=grid.copies == 1)
        add_shared(guess, lower, exchange, made.shared_ends(every))
        reduced = np.where(zero >= 2, exchange.last + exchange.earlier, 0.0)
        gathers = {"round": 2, "backward": 1, "weight": 0}[schedule.apart]
        sent = [[stage for stage, _ in pairs] for pairs in held]
        each = np.array([(reduced + gathers * exchange.fetch)[own].sum(axis=0) for own in sent]).max(axis=0)
        beside = (np.maximum(exchange.earlier, exchange.expert_earlier) + exchange.fetch).max(axis=0)
        beside = np.where(exchange.inside.any(axis=0), np.inf, beside)
        same = np.array_equal(guess, lower)
        return Swaps(
            lower=lower, guess=lower if same else guess, beside=beside, each=each,
            chunk=last.max(axis=0) * (grid.chunks > 1), zero=zero, store=store, rows=rows, shared=made.shared,
        )  # fmt: skip

    def exchange(self, some: IntArray) -> Exchange:
        """Return the (S, n) exchanges of some of them."""
        width = self.store.columns
        return Exchange(*self.store.of(self.rows[some], np.arange(width)[:, None]))

    def shared_ends(self, some: IntArray) -> SharedEnds:
        """Return the reductions of shared parameters of some of them."""
        return tuple((position, stage, a[some], b[some]) for position, stage, a, b in self.shared)


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
    for position, pairs in enumerate(held):
        stages = list(dict.fromkeys(stage for stage, _ in pairs))
        first, updates = stages[0], exchange.update[stages].sum(axis=0)
        longest, reduced = last[first], last[first]
        behind = np.zeros(last.shape[1])
        for before, stage in pairwise(stages):
            if ready is not None:
                reduced, behind = reduced + last[stage], behind + ready[before]
                longest = np.maximum(longest, reduced - behind)
        guess[position] = longest + updates + exchange.gather[stages].sum(axis=0)
        own = np.maximum(last[first] + exchange.update[first], updates) + exchange.gather[first]
        lower[position] = own if sure else updates
    return guess, lower


def add_shared(guess: FloatArray, lower: FloatArray, exchange: Exchange, shared: SharedEnds) -> None:
    """Add the reduction of parameters that stages at different positions share, beside their own."""
    for position, stage, seconds, sure in shared:
        rest = exchange.update[stage] + exchange.gather[stage]
        np.maximum(guess[position], seconds + rest, out=guess[position])
        np.maximum(lower[position], sure + rest, out=lower[position])


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
        shared: SharedEnds,
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
            shared: reductions of parameters that stages share.
        """
        self.schedule, self.held, self.home = schedule, held, home
        inside = exchange.inside
        forward, backward, input_grad = (part + inside for part in seconds[:3])
        self.seconds = Seconds(forward, backward, input_grad, seconds.weight_grad)
        self.exchange, self.zero, self.m, self.shared = exchange, zero, m, shared
        self.copies = len(held[0]) > 1 and len({copy for _, copy in held[0]}) > 1

    def steps(
        self, pipelines: Callable[[Seconds, FloatArray], Pipelines], transfers: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (N,) seconds of a step: guess and bound.

        Args:
            pipelines: function from seconds of stages and of transfers.
            transfers: (2, S - 1, N) seconds: alone, and where those of all replicas share links.
        """
        exchange, backward = self.exchange, self.seconds.backward
        last = exchange.last + np.maximum(0.0, exchange.earlier - backward)
        experts = exchange.expert_last + np.maximum(0.0, exchange.expert_earlier - backward)
        rounds = self.m / np.maximum(1, self.m // len(self.held))
        guess_after, after = after_seconds(
            self.held, exchange, np.maximum(last, experts), rounds * backward, sure=not self.copies
        )
        add_shared(guess_after, after, exchange, self.shared)
        lower = self.schedule.lower_s(pipelines(self.seconds, transfers[0]), after)
        np.maximum(lower, self._channels(), out=lower)
        guess = self.schedule.estimate_s(pipelines(self._with_exchanges(), transfers[1]), guess_after)
        return np.maximum(guess, lower), lower

    def _with_exchanges(self) -> Seconds:
        """Return the seconds of stages, or of the exchanges that are to be hidden behind them if longer."""
        fetch, work = self.exchange.fetch, self.seconds
        forward, backward, input_grad = (np.maximum(part, fetch) for part in work[:3])
        longer = Seconds(forward, backward, input_grad, work.weight_grad)
        gathers = {"round": 2, "backward": 1, "weight": 0}[self.schedule.apart]
        sent = np.where(self.zero >= 2, self.exchange.last + self.exchange.earlier, 0.0) + gathers * fetch
        all_sent = np.array([sent[[stage for stage, _ in pairs]].sum(axis=0) for pairs in self.held])
        more = np.maximum(0.0, all_sent - longer.work(self.schedule.apart, self.held))[self.home]
        more /= len(self.held[0])
        return longer._replace(backward=longer.backward + more, weight_grad=longer.weight_grad + more)

    def _channels(self) -> FloatArray:
        """Return the (N,) seconds that exchanges of microbatches take one after the other.

        With several chunks only in rounds of 1F1B, which never stay with one chunk: see `tasks.runs`.
        """
        chunks = len(self.held[0])
        rounds = self.schedule.name == "interleaved_1f1b"
        if self.copies or not self.schedule.flush or not (chunks == 1 or rounds):
            return np.zeros(len(self.m))
        exchange, m = self.exchange, self.m
        found = np.zeros(len(m))
        for pairs in self.held:
            own = [stage for stage, _ in pairs]
            reduced = np.where(self.zero >= 2, m, 0.0) * (exchange.last + exchange.earlier)[own].sum(axis=0)
            gathered = 2 * m * exchange.fetch[own].sum(axis=0) + exchange.last[own[0]]
            tail = exchange.update[own[0]] + exchange.gather[own[0]]
            np.maximum(found, np.maximum(reduced, gathered) + tail, out=found)
        return np.where((chunks == 1) | (m // len(self.held) >= 2), found, 0.0)
