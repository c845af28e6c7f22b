"""Sweeps: several passes over the samples of a step, counted as batches of their own.

Sweep k of step t in an order of S sweeps is batch t S + k. Its microbatches and samples are numbered on from
the batch before, so that versions, updates, gradients and messages need no second index; only the data are
those of the step. What a sweep reads of its neighbours was made `lag` batches before; in the first sweeps of
a step, where nothing was, boundaries hold a first guess: fixed values, and gradients of zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from explorer.actions import Action
from explorer.tasks.program import Program

if TYPE_CHECKING:
    import torch

Interval = tuple[int, int]
"""Samples [low, high), counted on over batches."""


@dataclass(frozen=True)
class Sweeps:
    """The batches of a program."""

    program: Program
    """The program."""

    @cached_property
    def count(self) -> int:
        """Sweeps of a step."""
        return 1 + max((action.sweep for action in self.program.actions), default=0)

    @cached_property
    def lag(self) -> tuple[int, ...]:
        """Per sweep: how many batches back the neighbours' values come from."""
        given = self.program.order.lag
        return tuple(given[k] if k < len(given) else 0 for k in range(self.count))

    @cached_property
    def batch_samples(self) -> int:
        """Samples of a batch."""
        section = self.program.skeleton.sections[0]
        return self.program.shape.microbatches[section.stage] * section.microbatch_samples

    @property
    def batches(self) -> int:
        """Batches of the program."""
        return self.program.order.steps * self.count

    def number(self, stage: int, microbatch: int, sweep: int) -> int:
        """Return the number of a microbatch of a stage in a sweep."""
        if self.count == 1:
            return microbatch
        each = self.program.shape.microbatches[stage]
        step, within = divmod(microbatch, each)
        return (step * self.count + sweep) * each + within

    def numbered(self, actions: Sequence[Action]) -> Sequence[Action]:
        """Return the actions with the numbers of their batches and no sweeps."""
        if self.count == 1:
            return actions
        return [
            a._replace(first_microbatch=self.number(a.stage, a.first_microbatch, a.sweep), sweep=0)
            for a in actions
        ]

    def sweep_of(self, sample: int) -> int:
        """Return the sweep of a sample."""
        return sample // self.batch_samples % self.count

    def source(self, interval: Interval) -> Interval | None:
        """Return the samples whose boundary values are read for some samples; None for the first guess."""
        sweep = self.sweep_of(interval[0])
        lag = self.lag[sweep]
        if lag > sweep:
            return None
        return interval[0] - lag * self.batch_samples, interval[1] - lag * self.batch_samples

    def is_read(self, interval: Interval) -> bool:
        """Tell whether a later sweep, or the same, reads what the neighbours make for some samples."""
        sweep = self.sweep_of(interval[0])
        return any(reader - lag == sweep for reader, lag in enumerate(self.lag))

    def rows(self, data: torch.Tensor) -> torch.Tensor:
        """Return the data of all batches, given those of all steps."""
        if self.count == 1:
            return data
        steps = data.view(self.program.order.steps, 1, self.batch_samples, *data.shape[1:])
        return steps.expand(-1, self.count, -1, *data.shape[1:]).reshape(-1, *data.shape[1:])


def first_guess(like: torch.Tensor) -> torch.Tensor:
    """Return what a boundary of the shape (samples, ...) holds before anything was computed: any fixed
    values that differ from place to place do, the same for every sample.
    """
    import torch

    places = torch.arange(like[0].numel(), dtype=like.dtype, device=like.device)
    return torch.cos(places).view(1, *like.shape[1:]).expand_as(like).clone()
