"""Batches of pipelines as arrays: what a schedule's own `lower`, `estimate` and `in_flight` are asked of.

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

from explorer.schedules.placements import Grid, Placement

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

ROUNDING = 1 - 1e-12
"""Factor that keeps an exact bound below what the simulator adds up in another order."""


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
    after_s: FloatArray
    """(P, N): seconds from the last gradient of a position to its first forward of the next step: what is
    left of reductions, updates, gathers."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the schedule, with their defaults."""

    @property
    def size(self) -> int:
        """N, the number of pipelines."""
        return len(self.microbatches)

    @cached_property
    def once_s(self) -> FloatArray:
        """(S, N): F + B."""
        return self.forward_s + self.backward_s

    @cached_property
    def held(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """The (stage, copy) pairs at every position, by stage."""
        return self.placement.held(self.grid)

    def work_s(self, of_stage: FloatArray) -> FloatArray:
        """Return the (P, N) seconds of a step on each position, given those of one microbatch by stage.

        Each copy runs its part of the microbatches on each of its stages.
        """
        found = np.zeros((self.grid.positions, self.size))
        for position, held in enumerate(self.held):
            for stage, _ in held:
                found[position] += of_stage[stage]
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
"""Function that returns (N,) seconds of a step."""
Moments = Callable[[Placement, Grid, FloatArray], tuple[InFlight, ...]]
"""Function from placement, grid and (N,) microbatches to the moments at which memory may peak."""


def longest(*paths: FloatArray) -> FloatArray:
    """Return the (N,) longest of some paths, each of (N,) seconds or of more along a first axis."""
    found = np.max(paths[0], axis=0) if paths[0].ndim > 1 else paths[0]
    for path in paths[1:]:
        found = np.maximum(found, np.max(path, axis=0) if path.ndim > 1 else path)
    return np.asarray(found)


def busiest(of: Pipelines) -> FloatArray:
    """Return the (N,) seconds of work of the busiest position: a bound for any order, flush or not."""
    return longest(of.work_s(of.once_s)) * ROUNDING


def one_of_each(placement: Placement, grid: Grid, microbatches: FloatArray) -> tuple[InFlight, ...]:
    """Return what every order holds: with one copy, a microbatch of each stage before its first backward.

    With several copies a position has at least one microbatch of some stage; nothing is said of which.
    """
    held = placement.held(grid)
    saved = np.zeros((grid.positions, len(held[0]), len(microbatches)))
    if grid.copies == 1:
        saved += 1.0
    return (InFlight(saved, again=len(held[0]) - 1 if grid.copies == 1 else None),)
