"""Batches of pipelines as arrays: what a schedule's own `lower`, `estimate` and `in_flight` are asked of.

*Spans* are the seconds from the first forward of a position in a step to its last gradient, if the step
begins with it: what exchanges and updates take before its next forward comes on top, and the step takes as
long as the longest of the positions (`Schedule.lower_s`).

All N pipelines of a batch have one grid (positions, chunks, copies) and one schedule; seconds of stages and
transfers, and microbatches, differ. Arrays are stage by stage, (S, N), so that the N values of a stage lie
together, and a few thousand of them stay in cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from explorer.base.caching import Hashed, remembered
from explorer.schedules.placements import Grid, Placement

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class Pipelines:
    """N pipelines of one grid, with S stages at P positions; the copies of a stage are equal."""

    placement: Placement
    """Rule by which the stages lie at positions."""
    grid: Grid
    """Positions, chunks and copies."""
    microbatches: FloatArray
    """(N,): microbatches m of one step, over all copies; whole numbers."""
    forward_s: FloatArray
    """(S, N): F, seconds of a forward of one microbatch."""
    backward_s: FloatArray
    """(S, N): B, seconds of a whole backward; less than I + W where both at once hide more."""
    input_grad_s: FloatArray
    """(S, N): I, seconds of the input gradient, including what it recomputes."""
    weight_grad_s: FloatArray
    """(S, N): W, seconds of the weight gradient."""
    transfer_s: FloatArray
    """(S - 1, N): x, seconds of one microbatch's tensors from stage s to s + 1, and of their gradients back;
    0 where both are at one position."""
    comm_s: FloatArray | None = None
    """(S, N): the part of F + B that is collectives inside a lane, which overlapped actions hide
    (`Schedule.hides`); None for none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the schedule, with their defaults."""

    @property
    def size(self) -> int:
        """N, the number of pipelines."""
        return len(self.microbatches)

    @cached_property
    def longest_transfer_s(self) -> FloatArray:
        """(N,): the longest x; 0 of a single stage."""
        return np.asarray(self.transfer_s.max(axis=0, initial=0.0))

    @cached_property
    def once_s(self) -> FloatArray:
        """(S, N): F + B."""
        return self.forward_s + self.backward_s

    @cached_property
    def held(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The (stage, copy) pairs at every position, by stage."""
        return held_pairs(self.placement, self.grid)

    def work_s(self, of_stage: FloatArray) -> FloatArray:
        """Return the (P, N) seconds of a step on each position, given those of one microbatch by stage.

        Each copy runs its part of the microbatches on each of its stages.
        """
        first, *others = stages_by_turn(self.held)
        found = np.array(of_stage[first])
        for stages in others:
            found += of_stage[stages]
        found *= self.microbatches / self.grid.copies
        return found


class InFlight(NamedTuple):
    """What positions hold of their microbatches at one moment of a step at which memory may peak.

    K is the number of (stage, copy) at a position, in the order of `Placement.held`.
    """

    saved: FloatArray
    """(P, K, N): microbatches whose tensors wait for the backward."""
    waiting: FloatArray | None = None
    """(P, K, N): microbatches that wait for their weight gradient only; None for none."""
    again: int | None = None
    """Which of the K runs its backward, and holds what it recomputes; None for none."""
    versions: FloatArray | None = None
    """(P, N): whole versions of the weights besides the newest; None for none."""
    sure: bool = True
    """Whether every position does come to hold as much, so that the bytes are a lower bound of its peak."""


OfPipelines = Callable[[Pipelines], FloatArray]
"""Function that returns the (P, N) spans of positions."""
Guess = Callable[[Pipelines, FloatArray], FloatArray]
"""Function that returns guesses of the (P, N) spans, given those that are sure, which it may change."""
Times = Callable[[Pipelines], FloatArray | float]
"""Function that returns how often in a step a position waits for its updates."""
Moments = Callable[[Placement, Grid, FloatArray, IntArray], tuple[InFlight, ...]]
"""Function from placement, grid, (N,) microbatches and the positions that are asked, which are the P of its
answer, to the moments at which memory may peak."""


Stays = Callable[[Grid, FloatArray], BoolArray]
"""Function from a grid and (N,) microbatches to (N,) whether every position always stays with a stage."""


Paired = Callable[[Grid, FloatArray], FloatArray]
"""Function from a grid and (N,) microbatches to how many of each copy's stages run beside others, at most."""


def held_pairs(placement: Placement, grid: Grid) -> tuple[tuple[tuple[int, int], ...], ...]:
    """Return `Placement.held`, found once."""
    return _held(placement, grid.positions, grid.chunks, grid.copies)


@remembered(1024)
def _held(
    placement: Placement, positions: int, chunks: int, copies: int
) -> Hashed[tuple[tuple[int, int], ...]]:
    return Hashed(placement.held(Grid(positions=positions, chunks=chunks, copies=copies)))


@remembered(1024)
def stages_by_turn(held: tuple[tuple[tuple[int, int], ...], ...]) -> tuple[slice | IntArray, ...]:
    """Return the first stage of every position, then the second, and so on: positions have as many each.

    Where they follow one another they are a slice, of which arrays need no copy.

    >>> stages_by_turn((((0, 0), (3, 0)), ((1, 0), (2, 0))))
    (slice(0, 2, 1), slice(3, 1, -1))
    """
    return tuple(
        _as_slice(turn) for turn in zip(*([stage for stage, _ in pairs] for pairs in held), strict=True)
    )


def _as_slice(stages: tuple[int, ...]) -> slice | IntArray:
    step = -1 if len(stages) > 1 and stages[1] < stages[0] else 1
    stop = stages[0] + step * len(stages)
    if stages != tuple(range(stages[0], stop, step)):
        return np.array(stages, dtype=np.int64)
    return slice(stages[0], stop if stop >= 0 else None, step)


def busy(of: Pipelines) -> FloatArray:
    """Return the (P, N) seconds of work of positions: spans that bound every order, flush or not."""
    return of.work_s(of.once_s)


def with_path(spans: FloatArray, path: FloatArray, position: int = 0) -> FloatArray:
    """Return spans of which that of a position is at least as long as a path of (N,) seconds."""
    np.maximum(spans[position], path, out=spans[position])
    return spans


def every_step(_of: Pipelines) -> float:
    """Return that positions wait for their updates once a step."""
    return 1.0


def every_microbatch(of: Pipelines) -> FloatArray:
    """Return that positions wait for an update after every backward."""
    return of.microbatches


def never(_of: Pipelines) -> float:
    """Return that positions go on with the next step while the last one is applied."""
    return 0.0


def all_paired(grid: Grid, microbatches: FloatArray) -> FloatArray:
    """Return that every microbatch of a stage may run beside another."""
    return microbatches / grid.copies


def never_stays(_grid: Grid, microbatches: FloatArray) -> BoolArray:
    """Return that positions change from stage to stage, or have one only."""
    return np.zeros(len(microbatches), dtype=bool)


def chunk_by_chunk(grid: Grid, microbatches: FloatArray) -> BoolArray:
    """Return that positions run all microbatches of a stage before the next, if there are several of both."""
    return (microbatches > 1) & (grid.chunks > 1)


def one_of_each(
    placement: Placement, grid: Grid, microbatches: FloatArray, at: IntArray
) -> tuple[InFlight, ...]:
    """Return what every order holds: with one copy, a microbatch of each stage before its first backward.

    With several copies a position has at least one microbatch of some stage; nothing is said of which.
    """
    count = len(placement.held(grid)[0])
    saved = np.full((len(at), count, len(microbatches)), float(grid.copies == 1))
    return (InFlight(saved, again=count - 1 if grid.copies == 1 else None),)
