"""The 1F1B clock: one virtual time for every action, so that any placement is free of deadlock.

Give each F and B a tick such that (1) an action's tick is later than those of all it waits for, and
(2) stage s alternates, F of microbatch j + ahead[s] just before B of microbatch j. Then every lane that
runs its actions by tick, whatever stages, copies and replicas it holds, agrees with one global order,
and one global order cannot deadlock. With one stage per lane the result is 1F1B; with both directions
of a pipeline on each lane it is Chimera.

    four stages of a chain, one size          tick of  F(s, n) = 2n - d - 1      d = stages after s
    d = 3:  F F F F B F B ...                          B(s, n) = 2n + d          ahead = d
    d = 0:        F B F B F B ...

Stages with other microbatch sizes count in samples (S, the least common grid), edges s -> c with
g = gcd(S_s, S_c), and replicas that take turns count R microbatches as one round:

    tick B(s, n) = 2 (n+1) S_s + offset_s            tick F(s, n) = tick B(s, n - ahead_s) - 1
    B after B:   offset_s >= offset_c + 2 (S_c - g) + 1
    F after F:   2 ahead_s S_s >= 2 ahead_c S_c + 2 (S_s - g) + offset_s - offset_c + 1
    no stall:    (ahead_s + R_s) S_s >= in_flight_s = R_s S_s + max_c in_flight_c + (S_c - g) + (S_s - g)

The last line counts what stage s must have under way to be given gradients at its own pace: what its
replicas hold, what the consumer has under way, what waits to fill a consumer's microbatch (S_c - g) and
what waits in a microbatch of its own for the consumer's turn (S_s - g), in whole microbatches. On a chain
of equal sizes it is PipeDream's NOAM, ceil(replicas from s on / replicas of s) for each replica of s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from explorer.actions import ALL_OPS, BACKWARD, FORWARD, OP_CODE, Actions, IntArray, Place, Shape
from explorer.schedules._common import numbers_of, per_copy, turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Ticks of forwards and backwards, by stage and position in the copy's own sequence."""

    samples: tuple[int, ...]
    """Per stage: its microbatch in units of the common grid."""
    ahead: tuple[int, ...]
    """Per stage: forwards that are done before the first forward-backward pair (warm-up)."""
    offset: tuple[int, ...]
    """Per stage: tick of its backwards over twice the samples done."""

    def times_ahead(self, times: int) -> Clock:
        """Return the clock of so many times the forwards ahead."""
        return replace(self, ahead=tuple(times * ahead for ahead in self.ahead))

    def forward(self, stage: int, position: int) -> int:
        """Return the tick of a forward."""
        return self.backward(stage, position - self.ahead[stage]) - 1

    def backward(self, stage: int, position: int) -> int:
        """Return the tick of a backward."""
        return 2 * (position + 1) * self.samples[stage] + self.offset[stage]


def clock_of(shape: Shape) -> Clock:
    """Compute the clock of a stage DAG, from its sinks up."""
    grid = math.lcm(*shape.microbatches)
    samples = [grid // count for count in shape.microbatches]
    readers: list[list[int]] = [[] for _ in samples]
    for source, target in shape.edges:
        readers[source].append(target)
    ahead, offset, in_flight = [0] * len(samples), [0] * len(samples), [0] * len(samples)
    for s in reversed(range(len(samples))):
        size, in_turn = samples[s], turns(shape, s)
        gap = {c: math.gcd(size, samples[c]) for c in readers[s]}
        offset[s] = max((offset[c] + 2 * (samples[c] - gap[c]) + 1 for c in readers[s]), default=0)
        behind = max((in_flight[c] + samples[c] + size - 2 * gap[c] for c in readers[s]), default=0)
        in_flight[s] = in_turn * size + size * -(-behind // size)
        # Half-samples by which forwards must lead, from "no stall" and from "F after F".
        lead = [2 * (in_flight[s] - in_turn * size)] + [
            2 * ahead[c] * samples[c] + 2 * (size - gap[c]) + offset[s] - offset[c] + 1 for c in readers[s]
        ]
        ahead[s] = in_turn * -(-max(lead) // (2 * size * in_turn))
    return Clock(samples=tuple(samples), ahead=tuple(ahead), offset=tuple(offset))


class Ticked(NamedTuple):
    """Actions and their ticks."""

    ticks: IntArray
    actions: Actions


def ticked(shape: Shape, clock: Clock, place: Place, step: int, *, flush: bool, sweep: int = 0) -> Ticked:
    """List the forwards and backwards of a place in one step with their ticks.

    Positions count on over steps, or start again in every step if it ends in a flush.
    """
    stage, copy = place.stage, place.copy
    count = per_copy(shape, stage)
    # Number of the microbatch at position 0 of this copy's sequence in this step.
    base = step * shape.microbatches[stage] + copy * count - (0 if flush else step * count)
    numbers = numbers_of(shape, place, step)
    # Ticks of consecutive microbatches lie equally far apart.
    apart = 2 * clock.samples[stage] * (numbers - base)
    starts = [(FORWARD, clock.forward(stage, 0))]
    if shape.training:
        starts.append((BACKWARD, clock.backward(stage, 0)))
    return Ticked(
        np.concatenate([start + apart for _, start in starts]),
        Actions.spread(
            np.repeat([OP_CODE[op] for op, _ in starts], len(numbers)),
            stage,
            np.tile(numbers, len(starts)),
            copy=copy,
            sweep=sweep,
        ),
    )


def by_tick(parts: Iterable[Ticked]) -> Actions:
    """Sort actions by tick; at equal ticks (never of one stage) backwards come first, then the lower
    stage.
    """
    listed = list(parts)
    if not listed:
        return Actions.of(())
    columns = Actions.joined([part.actions for part in listed]).columns
    ticks = np.concatenate([part.ticks for part in listed])
    order = np.argsort(ticks, kind="stable")
    if (np.diff(ticks[order]) == 0).any():
        op, *rest = columns
        order = np.lexsort((*rest[::-1], RANK[op], ticks))
    return Actions(columns[:, order])


RANK = np.argsort(np.argsort(np.array(ALL_OPS)))
"""Ops in the order of their names."""


def one_step(shape: Shape, clock: Clock, places: Iterable[Place], step: int, sweep: int = 0) -> Actions:
    """List the forwards and backwards of a lane in one step of a flush schedule."""
    return by_tick(ticked(shape, clock, place, step, flush=True, sweep=sweep) for place in places)
