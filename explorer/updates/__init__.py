"""Update rules: what the holders of a shard exchange, when, and how gradients become weights.

One file per rule, found by its decorator. It registers a function from the rule's options to an `UpdateRule`,
which everything else reads: lowering (what is exchanged, how often, and which update waits for it), pricing
(bytes sent and kept), the real ranks and the emulation that checks them (the arithmetic). A strategy chooses
rules per parameter group (`JobStrategy.updates`); parameters that no choice covers follow `plain`.

The arithmetic works on numbers, arrays and tensors alike and changes none of them in place; torch is not
imported here. An option for the number of updates from one exchange to the next is always called ``period``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from explorer.base.caching import remembered
from explorer.base.registry import Registry, Spec, unregistered

__all__ = [
    "GRADIENTS", "PLAIN", "UPDATES", "WEIGHTS", "Chosen", "Kept", "Partners", "Update", "UpdateRule",
    "chosen", "own", "received", "received_or_own", "rule_of",
]  # fmt: skip

GRADIENTS, WEIGHTS = "gradients", "weights"
"""What holders exchange; they take its mean, weighted by the samples that each worked on."""

Step = Callable[[Any, Any, Any, Any], tuple[Any, Any]]
"""`(weights, own, received, state) -> (gradient, state)`, see `UpdateRule.gradient`."""


Partners = tuple[tuple[tuple[int, ...], ...], ...]
"""Groups of workers, by number, that exchange with one another, for every exchange of a round."""


class Chosen(NamedTuple):
    """A rule with its options, as skeletons and run specifications carry it."""

    rule: str = "plain"
    """A name in `UPDATES`."""
    options: tuple[tuple[str, Any], ...] = ()
    """Values of all its options."""


PLAIN = Chosen()


class Kept(NamedTuple):
    """Copies that a rule keeps of what is exchanged, besides weights, gradients and optimizer states."""

    what: str
    """What is copied: `GRADIENTS`, which count as gradients, or `WEIGHTS`, which count as optimizer state."""
    copies: float
    """Number of copies."""


def own(weights: Any, own: Any, received: Any, state: Any) -> tuple[Any, Any]:
    """Return the worker's own mean gradient."""
    del weights, received
    return own, state


def received(weights: Any, own: Any, received: Any, state: Any) -> tuple[Any, Any]:
    """Return what was received; None, which updates nothing, if nothing has arrived yet."""
    del weights, own
    return received, state


def received_or_own(weights: Any, own: Any, received: Any, state: Any) -> tuple[Any, Any]:
    """Return what was received, or the worker's own mean gradient at an update without an exchange."""
    del weights
    return own if received is None else received, state


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRule:
    """A rule with its options filled in."""

    exchanges: str = GRADIENTS
    """What is exchanged: `GRADIENTS`, before the update that applies them, or `WEIGHTS`, after the update
    that made them.
    """
    period: int = 1
    """Updates from one exchange to the next."""
    delay: int = 0
    """Updates between the one for which gradients were made and the one that applies them, which hides their
    exchange behind the work in between; 0 makes the update wait.
    """
    keeps: tuple[Kept, ...] = ()
    """Memory that the rule itself needs."""
    most_zero: int = 3
    """Highest ZeRO level it works with."""
    partners: Callable[[int], Partners] | None = None
    """Function from the number of workers to the partners of each exchange of weights; None if all exchange
    together.
    """
    gradient: Step = received_or_own
    """Function that returns what the optimizer is given at an update, by parameter: `(weights, own, received,
    state)` -> gradient and state. `own` is the mean gradient over the worker's own samples, None if they were
    sent away; `received` the mean over all holders, None without an exchange; `state` what was returned last,
    None at first. A gradient of None updates nothing.
    """
    average: Step = received
    """Function called after an exchange of weights: `(weights, None, mean, state)` -> new weights and
    state.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Update(Spec):
    """A registered update rule."""

    trivial: tuple[tuple[str, Any], ...] = ()
    """Options at which it is plain data parallelism."""
    trivial_workers: int = 0
    """Number of workers at which it is, under those options; 0 for any."""
    function: Callable[..., UpdateRule] = unregistered
    """`function(**options)`."""


UPDATES: Registry[Update] = Registry("update rule", "explorer.updates")


def chosen(rule: str, options: tuple[tuple[str, Any], ...] = ()) -> Chosen:
    """Return a rule with all its options, defaults filled in and values checked.

    >>> chosen("plain") == PLAIN
    True

    Raises:
        InputError: an unknown rule or option, or a value that the rule refuses.
    """
    found = Chosen(rule, tuple(UPDATES.get(rule).read_options(dict(options)).items()))
    rule_of(found)
    return found


def rule_of(choice: Chosen) -> UpdateRule:
    """Return the rule of a choice."""
    return _made(choice.rule, choice.options)


@remembered(256)
def _made(rule: str, options: tuple[tuple[str, Any], ...]) -> UpdateRule:
    return UPDATES.get(rule).function(**dict(options))
