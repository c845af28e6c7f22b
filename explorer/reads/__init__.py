"""Read rules: which version of the weights each action reads, what that keeps, and how the weights are made.

One file per rule, found by its decorator. It registers a function from the `ReadRule` that an order names
(with its numbers) to a `Reading`, which the count of versions, the prediction of memory and the real ranks
ask. The emulation that judges the ranks does not: it replays the definition in words of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from explorer.actions import ReadRule
from explorer.base.caching import remembered
from explorer.base.errors import InputError
from explorer.base.registry import Registry, Spec, unregistered

__all__ = ["READS", "Read", "ReadSpec", "Reading", "no_numbers", "optimizer_problem", "reading_of"]


class Read(NamedTuple):
    """One read, as an order gives it; or many of one op, each number an array over them."""

    op: str
    """F, B, I or W."""
    step: Any
    """Step of the microbatch."""
    made: Any
    """Versions that the stage has made by then; 0 is the initial one."""
    forward: Any
    """Version that the forward of the microbatch read; `made` for the forward itself."""
    first: Any
    """Version that the first stage's forward of the microbatch read; `made` if it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A read rule with its numbers filled in."""

    version: Callable[[Read], Any]
    """Version that an action reads, or those of many actions; in arithmetic that serves both."""
    newest: bool = False
    """Whether that is always the newest one."""
    buffers: int = 1
    """Versions that always have a place, whether or not they are still read."""
    horizon: Callable[[int, str], int] | None = None
    """For rules that make the weights they read: (stage, op) -> updates to look ahead."""
    make: Callable[[Any, Any, float, int], Any] | None = None
    """`(weights, direction, learning rate, horizon)` -> the weights that are read, by tensor or number;
    `direction` is what one update takes away, over the learning rate. None reads a version as it is."""

    def copies(self, stage: int) -> int:
        """Return how many copies of the weights a stage keeps besides its versions: 1 if it makes them."""
        return int(self.horizon is not None and any(self.horizon(stage, op) for op in "FB"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadSpec(Spec):
    """A registered read rule; its numbers stand in the `ReadRule` of an order, so that it has no options."""

    function: Callable[[ReadRule], Reading] = unregistered
    """`function(rule)`."""


READS: Registry[ReadSpec] = Registry("read rule", "explorer.reads")


def reading_of(rule: ReadRule) -> Reading:
    """Return the reading that an order's rule names.

    Raises:
        InputError: an unknown rule.
    """
    return _made(rule.name, rule.parameter, rule.horizons)


@remembered(64)
def _made(name: str, parameter: int, horizons: tuple[tuple[int, int], ...]) -> Reading:
    rule = ReadRule(name=name, parameter=parameter, horizons=horizons)
    return READS.get(name).function(rule)


def optimizer_problem(rule: ReadRule, optimizer: str) -> str:
    """Return why an optimizer cannot serve a read rule; empty if it can.

    One without updates (`none`) can: the weights stay where they are.
    """
    if reading_of(rule).make is None or optimizer != "sgd":
        return ""
    return (
        f"weights read by the rule {rule} are predicted from the optimizer's momentum, which {optimizer} does"
        " not keep; allowed: momentum, adam, adamw"
    )


def no_numbers(rule: ReadRule) -> None:
    """Refuse numbers that a rule does not use.

    Raises:
        InputError: it was given some.
    """
    if rule.parameter or rule.horizons:
        raise InputError(f"read rule {rule}", key="read_rule", found=str(rule), allowed=rule.name)
