"""PipeDream's dynamic program over states, machines and levels of interconnect, under its own cost model.

A stage with the layers of states i+1..j on m machines of one level takes

    t = (C + 4 (m - 1) P / (BW m)) / m        seconds per minibatch,

C its seconds (of the whole stage below this level), P its parameter bytes, BW the level's bandwidth. A
pipeline takes as long as its slowest stage; if transfers count, also 2 a / (BW m) for the bytes a that a
later stage reads and sends, m being its machines:

    A(j, m) = min( t(0..j, m),
                   min over k < j, m' of max( A(k, m - m'), t(k+1..j, m'), 2 a_k/(BW m'), 2 a_j/(BW m') ) )

Level after level, innermost first; the next level's C is A of all machines of this one. Narayanan et al.
2019, section 3.1, with two habits of the published optimizer kept: a plan uses every machine, and the
all-reduce of a stage that is its level's whole pipeline is divided by the machines of the level inside.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from explorer.search._antichains import FloatArray, States


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanLevel:
    """One level of interconnect."""

    machines: int
    """Machines of this level, each of them all machines of the level inside."""
    bandwidth_bytes_per_s: float
    """Bytes/s between any two of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A stage under the published cost model."""

    before: int
    """State that ends before the stage; -1 if there is none."""
    last: int
    """State with which it ends."""
    machines: int
    """Machines of its level that replicate it."""
    inner: tuple[Cut, ...] = ()
    """Its own pipeline over the level inside; () at the innermost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Choices of the published cost model, and what it counts."""

    counted: bool = True
    """Whether transfers between stages take time."""
    straight: bool = False
    """Whether every stage has exactly one machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimalPlan:
    """An optimal plan under the published cost model."""

    seconds: float
    """Seconds per minibatch in steady state."""
    cuts: tuple[Cut, ...]
    """Stages of the outermost level."""


def stage_seconds(
    seconds: FloatArray, parameter_bytes: FloatArray, machines: int, bandwidth: float
) -> FloatArray:
    """Return the seconds per minibatch of stages on some machines; arrays of one shape."""
    return (seconds + 4 * (machines - 1) * parameter_bytes / (bandwidth * machines)) / machines


def dense_size(states: States, levels: tuple[PlanLevel, ...]) -> int:
    """Count the numbers that `plan_dense` keeps at once."""
    return states.count**2 * (max(level.machines for level in levels) + len(levels))


def plan_dense(states: States, levels: tuple[PlanLevel, ...], choice: Choice) -> Iterator[OptimalPlan | None]:
    """Yield None while working, then the optimum; any number of levels, memory as `dense_size` says."""
    tables = [_innermost(states)]
    for i, level in enumerate(levels):
        inside = levels[i - 1].machines if i else 1
        problem = _Level(states, level, inside, tables[-1], choice)
        if i + 1 == len(levels):
            best = yield from _finish(problem.row(0))
            seconds = float(best[-1, -1])
            cuts = yield from _trace(states, levels[: i + 1], tables, choice, 0, states.count - 1)
            yield OptimalPlan(seconds=seconds, cuts=cuts)
            return
        table = np.full_like(tables[-1], np.inf)
        for start in range(states.count):
            best = yield from _finish(problem.row(start))
            table[start] = best[-1]
        tables.append(table)


def _finish(work: Iterator[FloatArray | None]) -> Generator[None, None, FloatArray]:
    """Pass on the Nones of a generator and return its last value."""
    for item in work:
        if item is not None:
            return item
        yield None
    raise RuntimeError("a generator ended without its result")


def _innermost(states: States) -> FloatArray:
    """Return (n + 1, n): seconds of the layers after state i - 1 up to state j; infinite if not nested."""
    count = states.count
    table = np.full((count, count), np.inf)
    table[0] = states.seconds
    nested = nesting(states)[:-1]  # no stage begins after the last state
    table[1:] = np.where(nested, states.seconds[None, :] - states.seconds[:-1, None], np.inf)
    return table


def nesting(states: States) -> npt.NDArray[np.bool_]:
    """Return (n, n): whether state i lies strictly before state j."""
    return np.stack([states.within(j) for j in range(states.count)], axis=1)


class _Level:
    """One level's dynamic program; `table[i, j]` is a stage's seconds one level further in."""

    def __init__(
        self, states: States, level: PlanLevel, inside: int, table: FloatArray, choice: Choice
    ) -> None:
        self.machines, self.choice = level.machines, choice
        bandwidth = level.bandwidth_bytes_per_s
        held = np.concatenate(([0.0], states.parameter_bytes[:-1]))
        parameters = states.parameter_bytes[None, :] - held[:, None]
        most = 1 if choice.straight else level.machines
        # a stage that is the whole pipeline of its level
        self.alone = np.full((level.machines, *table.shape), np.inf)
        for m in range(1, most + 1):
            self.alone[m - 1] = stage_seconds(table, parameters / inside, m, bandwidth)
        # the last of several stages, with the transfers for which it waits
        self.last = np.full((2 if choice.straight else max(2, level.machines), *table.shape), np.inf)
        for m in range(1, len(self.last)):
            self.last[m] = stage_seconds(table, parameters, m, bandwidth)
            if choice.counted:
                moved = 2.0 * states.output_bytes / (bandwidth * m)
                sent = np.append(moved[:-1], 0.0)  # the last layer sends nothing
                received = np.concatenate(([0.0], moved[:-1]))
                self.last[m] = np.maximum(np.maximum(self.last[m], received[:, None]), sent[None, :])

    def row(self, start: int) -> Iterator[FloatArray | None]:
        """Yield None while working, then (machines, n): least seconds from state `start`, by last state."""
        best = self.alone[:, start].copy()
        for m in range(2, self.machines + 1):
            for used in range(1, min(m, len(self.last))):
                # stages before the last end with states start..n-2: row k + 1 of `last` begins after state k
                before = best[m - used - 1, start:-1]
                if start + 1 < best.shape[1] and np.isfinite(before).any():
                    found = np.maximum(before[:, None], self.last[used][start + 1 :, start + 1 :]).min(axis=0)
                    np.minimum(best[m - 1, start + 1 :], found, out=best[m - 1, start + 1 :])
                yield None
        yield best


def _trace(
    states: States,
    levels: tuple[PlanLevel, ...],
    tables: list[FloatArray],
    choice: Choice,
    start: int,
    end: int,
) -> Generator[None, None, tuple[Cut, ...]]:
    """Return the stages of levels[-1] for the layers after state start - 1 up to state end."""
    if not levels:
        return ()
    level, depth = levels[-1], len(levels) - 1
    inside = levels[depth - 1].machines if depth else 1
    problem = _Level(states, level, inside, tables[depth], choice)
    best = yield from _finish(problem.row(start))
    found: list[Cut] = []
    m, j = level.machines, end
    while True:
        before, used = _last_stage(problem, best, start, m, j)
        inner = yield from _trace(states, levels[:-1], tables, choice, before + 1, j)
        found.append(Cut(before=before, last=j, machines=used, inner=inner))
        if before < start:
            return tuple(reversed(found))
        m, j = m - used, before


def _last_stage(problem: _Level, best: FloatArray, start: int, m: int, j: int) -> tuple[int, int]:
    """Return (state before it, machines) of the last stage of the best plan ending with j on m machines."""
    value = best[m - 1, j]
    if problem.alone[m - 1, start, j] == value:
        return start - 1, m
    for used in range(1, min(m, len(problem.last))):
        found = np.maximum(best[m - used - 1, start:-1], problem.last[used][start + 1 :, j])
        k = int(np.argmin(found))
        if found[k] == value:
            return start + k, used
    raise RuntimeError("a plan that was found cannot be traced")
