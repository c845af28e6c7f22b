"""Specification of a schedule, which strategies, pickers, searchers and tests ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from explorer.actions import Dispatch, Order, Shape
from explorer.base.registry import Spec, unregistered
from explorer.schedules.needs import NO_NEEDS, Needs, Unmet
from explorer.schedules.pipelines import (
    FloatArray,
    Guess,
    Moments,
    OfPipelines,
    Paired,
    Pipelines,
    Stays,
    Times,
    all_paired,
    busy,
    every_step,
    never_stays,
    one_of_each,
)
from explorer.schedules.placements import ANY, Placement

ROUNDING = 1 - 1e-12
"""Factor that keeps an exact bound below what the simulator adds up in another order."""
Quantity = Literal["seconds", "transfers", "memory"]
"""What a schedule reads of a shape besides its sizes: seconds per stage (`forward_s`, `input_grad_s`,
`weight_grad_s`), seconds per edge (`transfer_s`), or `activation_bytes` and `memory_cap_bytes`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The even pipeline that closed forms describe: equal stages, one device per position, updates free."""

    p: int
    """Pipeline positions."""
    m: int
    """Microbatches of one step, over all copies."""
    chunks: int = 1
    """Stages of one copy at each position."""
    forward_s: float = 1.0
    """F: seconds of a forward of one stage and microbatch."""
    input_grad_s: float = 1.0
    """I: seconds of the input gradient."""
    weight_grad_s: float = 0.0
    """W: seconds of the weight gradient."""
    transfer_s: float = 0.0
    """Seconds of a transfer between two positions, which overlaps with all work."""

    @property
    def backward_s(self) -> float:
        """B = I + W: seconds of a whole backward."""
        return self.input_grad_s + self.weight_grad_s

    @property
    def round_s(self) -> float:
        """F + B: seconds of one stage's work on one microbatch."""
        return self.forward_s + self.backward_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm:
    """A formula for the makespan in seconds of one step from idle, with default options."""

    makespan: Callable[[Pipeline], float | None]
    """The formula; None for a pipeline that it does not cover."""
    kind: Literal["exact", "lower"] = "exact"
    """Whether the makespan equals the formula, or is never below it."""
    transfers: bool = False
    """Whether it counts the seconds of transfers; if not, it covers only pipelines where they are free."""

    def of(self, pipeline: Pipeline) -> float | None:
        """Return the makespan of a pipeline in seconds; None if the formula does not cover it."""
        return None if pipeline.transfer_s and not self.transfers else self.makespan(pipeline)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Spec):
    """A registered schedule: a pure function from a `Shape` to an `Order`, or to a `Dispatch`."""

    placement: Placement = ANY
    """Placement it wants for the stages, as flags and pickers build it."""
    needs: Needs = NO_NEEDS
    """Its needs of a shape."""
    reads: tuple[Quantity, ...] = ()
    """What it reads besides the sizes of a shape."""
    flush: bool = True
    """Whether every step ends with all gradients applied before the next one starts."""
    closed_form: ClosedForm | None = None
    """Makespan of an even pipeline."""
    lower: OfPipelines = busy
    """Spans of a training step that are never too long, for many uneven pipelines; by default the work of
    each position, which bounds every order."""
    estimate: Guess | None = None
    """Best guesses of these spans; None to take `lower`, where that is nearly always met."""
    updates: Times = every_step
    """How often in a step a position waits for its updates."""
    apart: Literal["round", "backward", "weight"] = "round"
    """What a stage does between two of its weight gradients, for longest: a forward and a backward, a
    backward, or a weight gradient."""
    split: bool = True
    """Whether weight gradients may run apart from input gradients. False promises that every backward is
    whole, so that bounds may count on it."""
    hides: bool = False
    """Whether it overlaps actions, so that one's work hides the other's collectives: a position may take less
    than its work."""
    paired: Paired = all_paired
    """Where it does: the most microbatches of a stage that run beside others."""
    in_flight: Moments = one_of_each
    """Moments at which memory may peak; by default what every order holds."""
    stays: Stays = never_stays
    """Whether every position has several stages and always runs several actions of one before the next, so
    that ZeRO 2 and 3 exchange once for all of them, and hold weights and gradients whole (`tasks.runs`)."""
    torch_name: str = ""
    """Its name in `torch.distributed.pipelining`; empty if it has none."""
    literal: bool = False
    """Whether its options spell the order out, so that it makes none by default."""
    variant_of: str = ""
    """Schedule whose order it makes of a chain under default options: those who try every schedule take that
    one; empty if it is like no other."""
    costly: bool = False
    """Whether one order may take seconds: those who try every schedule leave it out, unless it is asked for
    by name."""
    for_dags: bool = False
    """Whether it is made for stages that branch and join; on a chain it is like others."""
    dispatch: bool = False
    """Whether it makes a `Dispatch` (see `make_dispatch`) instead of an order."""
    under: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    """Function from its options to the fields of this spec that depend on them: a schedule that changes the
    order of another takes the stages where that one wants them. None if none do."""
    function: Callable[..., Order | Dispatch] = unregistered
    """`function(shape, steps=..., **options)`."""

    @property
    def tried(self) -> bool:
        """Whether those who try every schedule take it: it makes an order of its own at once."""
        return not (self.literal or self.dispatch or self.variant_of or self.costly)

    def with_options(self, options: Mapping[str, Any]) -> Schedule:
        """Return the schedule as it is under some options.

        Raises:
            InputError: an option that it does not know or take.
        """
        return self if self.under is None else replace(self, **self.under(self.read_options(options)))

    def lower_s(self, of: Pipelines, after_s: FloatArray) -> FloatArray:
        """Return (N,) seconds that a training step of each of many pipelines takes at least.

        Args:
            of: the pipelines.
            after_s: (P, N) seconds from the last gradient of a position to its first forward of the next
                step: what is left of reductions, updates, gathers.
        """
        return np.asarray((self.lower(of) + self.updates(of) * after_s).max(axis=0)) * ROUNDING

    def estimate_s(self, of: Pipelines, after_s: FloatArray) -> FloatArray:
        """Return (N,) best guesses of the seconds; the arguments are those of `lower_s`."""
        spans = self.guessed(of, self.lower(of))
        return np.asarray((spans + self.updates(of) * after_s).max(axis=0))

    def guessed(self, of: Pipelines, lower: FloatArray) -> FloatArray:
        """Return the best guesses of spans, given those that are sure."""
        return lower if self.estimate is None else self.estimate(of, lower)

    def unmet(self, shape: Shape) -> tuple[Unmet, ...]:
        """Return everything that a shape lacks for this schedule; () if it can order it."""
        return self.needs.unmet(shape, self.placement, self.name)

    def unmet_even(self, positions: int, microbatches: int, chunks: int | None = None) -> tuple[Unmet, ...]:
        """Return what is missing if its own placement is laid over so many positions; () if nothing is."""
        return self.unmet(self.placement.shape(self.placement.grid(positions, chunks), microbatches))

    def flushes(self, options: Mapping[str, Any]) -> bool:
        """Tell whether it flushes under these options (a literal order says so itself)."""
        return self.flush and bool(self.read_options(options).get("flush", True))
